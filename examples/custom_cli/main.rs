//! A CLI of your own: a program that speaks JSON lines becomes a backend. Only `smalltalk.rs` is specific to it. The driver
//! handles limits, cancellation, the process tree and the check of the answer.
//!
//!     cargo run --example custom_cli
//!
//! The CLI is this program itself under another name, with a model that follows a script (`program.rs`).

mod program;
mod smalltalk;
#[path = "../stage/mod.rs"]
mod stage;

use std::sync::Arc;

use nexus::{BuildContext, OutputSchema, Router, ToolAccess, TurnRequest, cli::CliBackend};
use nexus_testkit::{
    fake_cli::{self, FakeCli, FakeScript},
    sim::{Reply, Scenario, ToolCall},
};
use smalltalk::Smalltalk;
use stage::{AnyError, show_turn};

const ROUTES: &str = "\
groups: { talkers: [smalltalk] }
types:
  talker: { tier: execution, phase: talk, group: talkers }
";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    fake_cli::run_if_named(program::NAME, || Box::new(program::Program::default()));
    println!("No login needed: the CLI is this very program, with a scripted model behind it.\n");
    let script = Scenario::new([
        Reply::call(ToolCall::shell("echo 'nice weather' | tr a-z A-Z")),
        Reply::text("Nice weather, is it not?"),
        Reply::text("Seven degrees."),
        Reply::text("{ \"degrees\": 7 }"),
        Reply::status(429),
    ]);
    let fake = FakeCli::install_as(program::NAME, &FakeScript::imitate(script))?;
    let scratch = tempfile::tempdir()?;
    let context = BuildContext::in_home(scratch.path().join("nexus"))
        .with_environment(BuildContext::from_process().environment);
    let cli = Smalltalk { program: fake.executable().to_owned(), environment: context.environment.clone() };
    let backend = CliBackend::new(program::NAME.into(), cli, &context.home);
    let router = Router::builder(nexus::registry(), context).backend(Arc::new(backend)).from_str(ROUTES)?;

    let talk = TurnRequest::new("Talk about the weather.").with_tool_access(ToolAccess::Unrestricted);
    show_turn(&router, "talker", talk).await?;

    println!("\nAn answer that does not fit its schema is asked for again, in the same process:");
    let schema = serde_json::json!({ "type": "object", "required": ["degrees"] });
    let typed = TurnRequest::new("How cold is it?").with_output(OutputSchema::new(schema)?);
    let result = show_turn(&router, "talker", typed).await?;
    println!("{}", result.output.unwrap_or_default());

    println!("\nAn error has a kind, and says when to try again:");
    if let Err(error) = show_turn(&router, "talker", TurnRequest::new("And now?")).await {
        println!("{:?}, {:?}", error.kind(), error.retry());
    }
    Ok(())
}
