//! Three vendors review one change at once, each through its own lens. A seat that fails casts no vote; it
//! never counts as an approval. Only vendors that answered count towards the minimum.
//!
//!     cargo run --example panel_review

mod stage;

use std::time::Duration;

use nexus::{Limits, OutputSchema, Seat, SeatEvent, TurnEvent, TurnHost, TurnRequest, Vote};
use nexus_testkit::sim::{Fault, Reply, Scenario};
use serde_json::json;
use stage::{AnyError, Cast, Stage};

const ROUTES: &str = "\
groups: { anthropic: [claude-cli], openai: [codex-cli], xai: [grok-cli] }
backends:
  codex-cli: { billing: plan, credential: { env: OPENAI_TOKEN } }
  grok-cli:  { billing: plan, credential: { env: XAI_TOKEN } }
models: { strong: { anthropic: opus, openai: gpt-5.5, xai: grok-4.6 } }
types:
  reviewer: { tier: operations, phase: review, panel: review }
panels:
  review:
    - { group: anthropic, model: strong, effort: high, lens: boundary-inputs }
    - { group: openai,    model: strong, effort: high, lens: hidden-contracts }
    - { group: xai,       model: strong, effort: high, lens: boundary-inputs }
lenses:
  boundary-inputs: Probe negatives, zero, empty and capped inputs.
  hidden-contracts: Find behaviour that the description does not name.
";

const CHANGE: &str = "\
-fn mean(values: &[f64]) -> f64 { values.iter().sum::<f64>() / values.len() as f64 }
+fn mean(values: &[f64]) -> Option<f64> {
+    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
+}";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let review = |verdict: &str, finding: &str| {
        Scenario::new([Reply::json(&json!({ "verdict": verdict, "findings": [finding] }))
            .paced(8, Duration::from_millis(20))])
    };
    let cast = Cast {
        claude: review("approve", "The empty slice no longer gives NaN."),
        codex: review("reject", "Callers that compared the mean with NaN change their meaning."),
        grok: Scenario::new([Reply::fault(Fault::status(400))]),
    };
    let stage = Stage::open("Lets a panel of three vendors review one change.", cast)?;
    let router = stage.router(ROUTES)?;

    let schema = OutputSchema::new(json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["verdict", "findings"],
        "properties": {
            "verdict": { "enum": ["approve", "reject"] },
            "findings": { "type": "array", "items": { "type": "string" } },
        },
    }))?;
    let request = TurnRequest::new(format!("Review this change:\n\n{CHANGE}"))
        .with_output(schema)
        .with_limits(Limits::new().with_deadline(Duration::from_secs(300)));
    println!("{CHANGE}\n");
    let mut events = |event: SeatEvent| {
        if let TurnEvent::Started(started) = &event.event.event {
            println!("seat {}: {} reads", event.seat, started.backend);
        }
    };
    let ask = |_: &Seat| (request.clone(), TurnHost::new());
    let panel = router.run_panel(&router.panel("reviewer")?, ask, &mut events).await;

    println!();
    for seat in &panel.seats {
        match seat.vote() {
            Vote::Answer(result) => {
                let output = result.output.as_ref().map(ToString::to_string).unwrap_or_default();
                println!("{}: {output}", seat.seat);
            }
            Vote::None(reason) => println!("{}: no vote: {reason}", seat.seat),
        }
    }
    println!("\n{} seats, {} vendors answered", panel.seats.len(), panel.spread().len());
    match panel.shortfall() {
        Some(shortfall) => println!("The panel does not count: {shortfall}"),
        None => println!("The panel asks for {} vendors: it counts", panel.min_vendors),
    }
    Ok(())
}
