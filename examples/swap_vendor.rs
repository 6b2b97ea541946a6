//! The same task on two vendors: one line of the configuration differs, and the Rust code is the same.
//!
//!     cargo run --example swap_vendor

mod stage;

use std::time::Duration;

use nexus::{Limits, ToolAccess, TurnRequest};
use nexus_testkit::sim::{Reply, Scenario, ToolCall};
use stage::{AnyError, Cast, Stage, show_turn};

const COMMON: &str = "\
groups: { anthropic: [claude-cli], openai: [codex-cli], xai: [grok-cli] }
backends:
  codex-cli: { billing: plan, credential: { env: OPENAI_TOKEN } }
  grok-cli:  { billing: plan, credential: { env: XAI_TOKEN } }
models: { strong: { anthropic: opus, openai: gpt-5.5, xai: grok-4.6 } }
types:
";

const LINES: [&str; 2] = [
    "  executor: { tier: execution, phase: implement, group: anthropic, model: strong }\n",
    "  executor: { tier: execution, phase: implement, group: openai,    model: strong }\n",
];

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let cast = Cast { claude: part("Claude"), codex: part("Codex"), grok: part("Grok") };
    let stage = Stage::open("Runs the same task on two vendors, one line of configuration apart.", cast)?;
    for (round, line) in LINES.iter().enumerate() {
        println!("--- {}", line.trim());
        let router = stage.router(&format!("{COMMON}{line}"))?;
        let workspace = stage.workspace(&format!("round-{round}"))?;
        let request = TurnRequest::new("Write the one word that best names you into name.txt.")
            .with_tool_access(ToolAccess::WorkspaceWrite)
            .in_directory(&workspace)
            .with_limits(Limits::new().with_deadline(Duration::from_secs(300)));
        let result = show_turn(&router, "executor", request).await?;
        let name = std::fs::read_to_string(workspace.join("name.txt"))?;
        println!("read back from disk: {:?}, written by {}\n", name.trim(), result.provenance.backend);
    }
    Ok(())
}

fn part(name: &str) -> Scenario {
    Scenario::new([
        Reply::call(ToolCall::write_file("name.txt", format!("{name}\n"))),
        Reply::text("It is written.").paced(3, Duration::from_millis(20)),
    ])
}
