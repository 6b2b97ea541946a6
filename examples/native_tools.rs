//! Tools made of typed closures, called by a model that Nexus asks itself: several rounds of calls, two of them
//! at once, then the answer through a tool of its own.
//!
//!     cargo run --example native_tools
//!     cargo run --example native_tools -- --config my-nexus.yaml
//!
//! With a configuration of your own, the work-kind `executor` runs it: `codex-sub-token`, `grok-sub-token` or
//! any `responses` backend.

mod stage;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use nexus::{Json, Limits, Submission, Tool, Toolbox, TurnHost, TurnRequest};
use nexus_testkit::sim::{Dialect, Reply, Scenario, ToolCall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use stage::{AnyError, Stage, show_turn_with};

/// Arguments of the tool `stock`.
#[derive(Deserialize, JsonSchema)]
struct Look {
    /// The article, as the catalogue spells it.
    article: String,
}

/// What the stock list answers.
#[derive(Clone, Serialize)]
struct Stock {
    article: String,
    pieces: u32,
    cents_each: u64,
}

/// The answer that the model hands in.
#[derive(Debug, Deserialize, JsonSchema)]
struct Report {
    /// Value of all articles in stock, in cents.
    total_cents: u64,
    /// One sentence for the owner of the shop.
    remark: String,
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let stage = Stage::open_native(
        "Runs a turn whose tools are closures of this program.",
        Dialect::Responses,
        part(),
    )?;
    let router = stage.router(&format!(
        "groups: {{ local: [shop-model] }}\n\
         backends: {{ shop-model: {{ kind: responses, base_url: \"{}\" }} }}\n\
         types: {{ executor: {{ tier: execution, phase: implement, group: local, model: {{ exact: any }} }} }}\n",
        stage.model_url(),
    ))?;

    let report = Submission::new();
    let request = TurnRequest::new("What is our stock of tea and coffee worth? Hand the report in.")
        .with_system("You keep the books of a small shop. Look every article up; never guess.")
        .with_limits(Limits::new().with_deadline(Duration::from_secs(120)).with_tool_calls(10));
    let host = TurnHost::new().with_tools(Arc::new(tools(&report)));
    let result = show_turn_with(&router, "executor", request, host).await?;

    println!("\n{} tool calls; effects: {:?}.", result.tool_calls.len(), result.effects);
    let report = report.take().ok_or("no report was handed in")?;
    println!("The report: {} cents. {}", report.total_cents, report.remark);
    Ok(())
}

fn tools(report: &Submission<Report>) -> Toolbox {
    let stock = BTreeMap::from([("tea", (12, 450)), ("coffee", (7, 900))]);
    Toolbox::new()
        .with(
            Tool::new("stock", "Looks an article up in the stock list.", move |Look { article }: Look| {
                let found = stock.get(article.as_str()).copied();
                async move {
                    // Simulate a slow lookup. Calls of one reply run concurrently, so they wait only once.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    let (pieces, cents_each) = found.ok_or_else(|| format!("we do not sell {article}"))?;
                    Ok::<_, String>(Json(Stock { article, pieces, cents_each }))
                }
            })
            .read_only(),
        )
        // Its first valid call ends the turn.
        .with(Tool::submit("hand_in", "Hands the report in. Call it once, at the end.", report))
}

/// What the simulated model says and does.
fn part() -> Scenario {
    let look = |article: &str| ToolCall::function("stock", json!({ "article": article }));
    let report = json!({ "total_cents": 11_700, "remark": "Reorder coffee before the weekend." });
    let pace = Duration::from_millis(25);
    Scenario::new([
        Reply::thinking("I need both articles, and can look them up together.")
            .and_text("Let me look at the shelves.\n")
            .and_call(look("tea"))
            .and_call(look("cofee"))
            .paced(6, pace),
        Reply::text("One name was misspelt; once more.\n").and_call(look("coffee")).paced(6, pace),
        Reply::call(ToolCall::function("hand_in", report)).paced(6, pace),
    ])
}
