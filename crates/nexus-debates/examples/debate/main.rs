//! A debate on a question. A model frames it. Panelists of two vendors take positions independently, from different sources, and answer the
//! best case against them. The record contains every word.
//!
//!     cargo run -p nexus-turn-debates --example debate
//!     cargo run -p nexus-turn-debates --example debate -- --config nexus.yaml

mod model;
#[path = "../../../../examples/stage/mod.rs"]
mod stage;

use nexus_debates::{
    DebateAdvanceRequest, DebateCreateRequest, DebateResultRequest, Debates, DebatesOptions, SourceDraft,
    debate_report,
};
use nexus_tasks::{Tasks, TasksOptions};
use nexus_testkit::sim::{Dialect, Scenario, Sim};
use stage::{AnyError, Stage};

/// Two vendors behind one simulated server. The panel has a seat of each.
const ROUTES: &str = "\
groups: { north: [north-model], south: [south-model] }
backends:
  north-model: { kind: responses, vendor: north, base_url: URL, model: simulated }
  south-model: { kind: responses, vendor: south, base_url: URL, model: simulated }
types:
  framer:   { group: north }
  panelist: { panel: debate }
  arbiter:  { group: south }
panels:
  debate: [{ group: north }, { group: south }]
";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let about = "Has a panel judge a question, from claims to a record of every word.";
    let stage = Stage::open_native(about, Dialect::Responses, Scenario::text(""))?;
    let model = Sim::builder(Dialect::Responses, Scenario::text("")).answered_by(model::reply).start()?;
    let router = stage.router(&ROUTES.replace("URL", &model.base_url()))?;
    let home = stage.workspace("home")?;
    let tasks = Tasks::new(router.clone(), TasksOptions::in_home(&home));
    let debates = Debates::new(router, tasks, DebatesOptions::in_home(&home));

    let source = |name: &str, text: &str| SourceDraft {
        name: name.to_owned(),
        text: Some(text.to_owned()),
        path: None,
    };
    let request = DebateCreateRequest {
        question: "Shall the cache be written through?".to_owned(),
        sources: vec![
            source("crashes", "Of 12 crashes, 9 lost writes that had returned.\n"),
            source("latency", "A write takes 0.2 ms, and 1.4 ms where it waits for the disk.\n"),
        ],
        ..DebateCreateRequest::default()
    };
    let created = debates.create(request).await?;
    println!("question  {}\ndebate    {}", created.question, created.debate_id);
    let id = created.debate_id;
    loop {
        let request = DebateAdvanceRequest { debate_id: id.clone(), wait_s: None };
        let view = debates.advance(request).await?;
        if view.running {
            continue;
        }
        println!(
            "next      {}{}",
            view.status,
            view.round.map(|round| format!(" {round}")).unwrap_or_default()
        );
        if view.status == "done" {
            break;
        }
    }
    let result = debates.result(DebateResultRequest { debate_id: id.clone(), offset: 0 }).await?;
    for standing in &result.claims {
        println!("claim     {}: {} ({})", standing.claim, standing.outcome.in_words(), standing.in_words());
    }
    println!("record    {} bytes, every argument word for word", result.bytes);
    let page = debate_report(&debates.store().open(&id)?)?;
    println!("report    {} bytes of HTML, as `nexus debate report` writes it", page.len());
    debates.shutdown().await;
    Ok(())
}
