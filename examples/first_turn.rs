//! One turn of work, on whichever vendor `nexus.yaml` names: the model thinks, writes a file, runs a command,
//! and says what it did.
//!
//!     cargo run --example first_turn
//!     cargo run --example first_turn -- --real

mod stage;

use std::time::Duration;

use nexus::{Limits, ToolAccess, TurnRequest};
use nexus_testkit::sim::{Reply, Scenario, ToolCall};
use stage::{AnyError, Cast, Stage, show_turn};

const ROUTES: &str = "\
groups:
  anthropic: [claude-cli]
  openai:    [codex-cli]
  xai:       [grok-cli]
backends:
  codex-cli: { billing: plan, credential: { env: OPENAI_TOKEN } }
  grok-cli:  { billing: plan, credential: { env: XAI_TOKEN } }
models:
  strong: { anthropic: opus, openai: gpt-5.5, xai: grok-4.6 }
types:
  executor: { tier: execution, phase: implement, group: anthropic, model: strong, effort: high }
";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let stage = Stage::open("Runs one turn of work on the vendor that nexus.yaml names.", Cast::all(part()))?;
    let router = stage.router(ROUTES)?;
    println!("{ROUTES}\n{}", router.explain("executor")?);

    let workspace = stage.workspace("work")?;
    let request = TurnRequest::new(
        "Write a haiku about the borrow checker into haiku.txt, count its lines with `wc -l`, and show it to me.",
    )
    .with_tool_access(ToolAccess::WorkspaceWrite)
    .in_directory(&workspace)
    .with_limits(Limits::new().with_deadline(Duration::from_secs(300)));
    let result = show_turn(&router, "executor", request).await?;

    println!("\nOn disk, in haiku.txt:\n{}", std::fs::read_to_string(workspace.join("haiku.txt"))?);
    println!("The turn may have changed something: {:?}.", result.effects);
    Ok(())
}

/// What the simulated model says and does.
fn part() -> Scenario {
    let haiku = "One owner at once;\nlent, the value comes back home\nbefore the scope ends.\n";
    let pace = Duration::from_millis(25);
    Scenario::new([
        Reply::thinking("Five, seven, five. The value is lent and comes home.")
            .and_text("I will write the haiku first.\n")
            .and_call(ToolCall::write_file("haiku.txt", haiku))
            .paced(6, pace),
        Reply::call(ToolCall::shell("wc -l haiku.txt")).paced(6, pace),
        Reply::text(format!("It is in haiku.txt, three lines long:\n\n{haiku}")).paced(6, pace),
    ])
}
