//! Tools for files from `FileTools`, called by a model on a native backend. The model lists, searches, reads and changes
//! files. A call outside the scope is denied. So is a change of a file that the model has not read.
//!
//!     cargo run --example file_tools
//!     cargo run --example file_tools -- --config my-nexus.yaml
//!
//! With a configuration of your own, the work-kind `coder` runs it: `codex-sub-token`, `grok-sub-token` or any `responses`
//! backend.

mod stage;

use std::{fs, path::Path, sync::Arc, time::Duration};

use nexus::{
    Brief, FileTools, Limits, ParticipantScope, Session, TurnHost, TurnRequest,
    scope::{ContentHash, DecisionOutcome},
};
use nexus_testkit::sim::{Dialect, Reply, Scenario, ToolCall};
use serde_json::{Value, json};
use stage::{AnyError, Stage, show_turn_with};

/// Program of the shop before the turn.
const PRICES: &str = "\
PRICES = {'tea': 450, 'coffee': 900}

def price(article, pieces):
    return PRICES[article] + pieces

def refund(article, pieces):
    return -(PRICES[article] + pieces)
";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let about = "Runs a turn with the ready tools for files.";
    let stage = Stage::open_native(about, Dialect::Responses, part())?;
    let router = stage.router(&format!(
        "groups: {{ local: [shop-model] }}\n\
         backends: {{ shop-model: {{ kind: responses, base_url: \"{}\" }} }}\n\
         types: {{ coder: {{ tier: execution, phase: implement, group: local, model: {{ exact: any }} }} }}\n",
        stage.model_url(),
    ))?;
    let project = project(&stage.workspace("shop")?)?;

    // The agent may read everything except `.env`, and may change only `src`.
    let brief = Brief::new(&project)
        .tool("*_file*".parse()?)
        .reading(".")
        .writing("src")
        .do_not_touch("**/.env".parse()?);
    let scope = ParticipantScope::assemble(&brief, None, None)?;
    let tools = FileTools::new(scope.files()).toolbox();
    let session = Session::mint("coder", scope, Arc::new(tools));

    let request = TurnRequest::new(
        "Two pieces cost more than twice the price of one, or less. Find out why and mend it.",
    )
    .with_system(
        "You mend small programs. Look before you change anything, and change no more than is needed.",
    )
    .with_limits(Limits::new().with_deadline(Duration::from_secs(300)).with_tool_calls(20));
    let host = TurnHost::new().with_session(Arc::clone(&session));
    let result = show_turn_with(&router, "coder", request, host).await?;

    println!("\n{} tool calls; effects: {:?}.", result.tool_calls.len(), result.effects);
    for decision in session.decisions() {
        if let DecisionOutcome::Denied(denial) = &decision.outcome {
            println!("Denied: {denial}");
        }
    }
    println!("On disk, in src/prices.py:\n{}", fs::read_to_string(project.join("src/prices.py"))?);
    Ok(())
}

/// Creates a small project with a secret file.
fn project(folder: &Path) -> Result<std::path::PathBuf, AnyError> {
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/prices.py"), PRICES)?;
    fs::write(folder.join("README.md"), "# Shop\n\nPrices are in cents.\n")?;
    fs::write(folder.join(".env"), "TILL_KEY=0000\n")?;
    Ok(folder.canonicalize()?)
}

/// What the simulated model says and does.
fn part() -> Scenario {
    let pace = Duration::from_millis(15);
    let call = |tool: &str, arguments: Value| ToolCall::function(tool, arguments);
    let hash = ContentHash::of(PRICES).short();
    let edit = |old: &str, new: &str, all: bool| {
        let arguments = json!({
            "path": "src/prices.py", "expected_hash": hash, "old_text": old, "new_text": new, "replace_all": all,
        });
        call("edit_file", arguments)
    };
    Scenario::new([
        Reply::text("What is there?\n").and_call(call("list_files", json!({}))).paced(6, pace),
        Reply::text("Where are the prices, and is there a key I should know?\n")
            .and_call(call("search_files", json!({ "pattern": "PRICES|KEY" })))
            .and_call(call("read_file", json!({ "path": ".env" })))
            .paced(6, pace),
        Reply::text("The key is not for me. The program, then.\n")
            .and_call(call("read_file", json!({ "path": "src/prices.py" })))
            .paced(6, pace),
        Reply::text("It adds where it should multiply.\n")
            .and_call(edit("PRICES[article] + pieces", "PRICES[article] * pieces", false))
            .paced(6, pace),
        Reply::text("Both places have it, and both are wrong.\n")
            .and_call(edit("PRICES[article] + pieces", "PRICES[article] * pieces", true))
            .paced(6, pace),
        Reply::text("Prices are multiplied now, in price and in refund.").paced(6, pace),
    ])
}
