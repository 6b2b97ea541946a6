//! A chain of three vendors, whose first has used up its plan: the next takes over, the first is held until
//! its own reset time, and the result names each backend that declined, with its reason.
//!
//!     cargo run --example fallback

mod stage;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nexus::{Limits, TurnRequest};
use nexus_testkit::sim::{Fault, Reply, Scenario};
use stage::{AnyError, Cast, Stage, show_turn};

const ROUTES: &str = "\
groups: { anyone: [claude-cli, codex-cli, grok-cli] }
backends:
  codex-cli: { billing: plan, credential: { env: OPENAI_TOKEN } }
  grok-cli:  { billing: plan, credential: { env: XAI_TOKEN } }
types:
  writer: { tier: execution, phase: write, group: anyone }
";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let cast = Cast {
        claude: Scenario::new([Reply::fault(Fault::usage_limit(now + 3600))]),
        codex: Scenario::new([Reply::text("A saturated sponge takes no more water; another one does.")
            .paced(4, Duration::from_millis(20))]),
        grok: Scenario::text("I was not needed."),
    };
    let stage = Stage::open("Falls back along a chain of vendors.", cast)?;
    let router = stage.router(ROUTES)?;

    for round in ["first", "second"] {
        println!("--- the {round} turn");
        println!("{}", router.explain("writer")?);
        let request = TurnRequest::new("Say in one sentence what a fallback is like.")
            .with_limits(Limits::new().with_deadline(Duration::from_secs(300)));
        let result = show_turn(&router, "writer", request).await?;
        println!("answered by {}", result.provenance.backend);
        for skipped in &result.provenance.skipped {
            println!("  passed over {}: {}", skipped.backend, skipped.reason);
        }
        println!();
    }
    Ok(())
}
