//! A task from goal to reviewed work. One model frames the goal, another does the work in a tree of its own. Models of two
//! vendors review it, with probes on the old and the new code. Then the commit lands in the project's branch.
//!
//!     cargo run -p nexus-turn-tasks --example task
//!     cargo run -p nexus-turn-tasks --example task -- --config nexus.yaml
//!
//! It needs git. Tests and probes run in the sandbox if bubblewrap is installed.

mod model;
#[path = "../../../../examples/stage/mod.rs"]
mod stage;

use std::fs;

use nexus::process::sandbox::Sandbox;
use nexus_tasks::{
    SandboxKind, TaskCreateRequest, TaskLandRequest, TaskLogRequest, TaskOrchestrateRequest,
    TaskResultRequest, TaskRunTurnRequest, Tasks, TasksOptions, task_report,
};
use nexus_testkit::sim::{Dialect, Scenario, Sim};
use stage::{AnyError, Stage};

/// Two vendors behind one simulated server. `executor` and a seat of the panel are one line each.
const ROUTES: &str = "\
groups: { north: [north-model], south: [south-model] }
backends:
  north-model: { kind: responses, vendor: north, base_url: URL, model: simulated }
  south-model: { kind: responses, vendor: south, base_url: URL, model: simulated }
types:
  orchestrator: { tier: operations, phase: orchestrate, group: north }
  executor:     { tier: execution,  phase: implement,   group: south }
  reviewer:     { tier: operations, phase: review,      panel: review }
panels:
  review:
    - { group: north, lens: boundary-inputs }
    - { group: south, lens: hidden-contracts }
lenses:
  boundary-inputs: Probe negatives, zero, empty and capped inputs.
  hidden-contracts: Find behaviour that the criteria do not name.
";

const GOAL: &str = "`sh sum.sh A B` prints the sum of the absolute values. It is to print the sum: `sh sum.sh -1 -2` prints -3.";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let about = "Walks a goal to reviewed work, from a brief to a commit in the project's branch.";
    let stage = Stage::open_native(about, Dialect::Responses, Scenario::text(""))?;
    let model = Sim::builder(Dialect::Responses, Scenario::text("")).answered_by(model::reply).start()?;
    let router = stage.router(&ROUTES.replace("URL", &model.base_url()))?;

    let project = stage.workspace("sums")?.canonicalize()?;
    model::begin(&project)?;
    let mut options = TasksOptions::in_home(stage.workspace("home")?);
    if let Err(problem) = Sandbox::new().check().await {
        println!("Tests and probes run without a sandbox here: {problem}\n");
        options.settings.sandbox.kind = SandboxKind::None;
    }
    let tasks = Tasks::new(router, options);

    let request = TaskCreateRequest {
        goal: GOAL.to_owned(),
        project: project.clone(),
        test_command: Some(vec!["sh".to_owned(), "test.sh".to_owned()]),
        ..TaskCreateRequest::default()
    };
    let created = tasks.create_below(request, std::slice::from_ref(&project)).await?;
    let task_id = created.task_id;
    println!("goal      {GOAL}\ntask      {task_id}");
    println!("tests     {}", created.baseline.map_or("", |tests| tests.outcome.as_str()));

    let framing = TaskOrchestrateRequest { task_id: task_id.clone(), ..TaskOrchestrateRequest::default() };
    let framed = tasks.orchestrate(framing).await?;
    if framed.task.status != "active" {
        let why = framed.task.reason.into_iter().chain(framed.task.error).chain(framed.task.questions);
        return Err(format!("{}: {}", framed.task.status, why.collect::<Vec<_>>().join("; ")).into());
    }
    for entry in &framed.task.plan {
        println!("plan      {}. {}: {}", entry.entry + 1, entry.agent_type, entry.outcome);
    }

    let step = TaskRunTurnRequest { task_id: task_id.clone(), ..TaskRunTurnRequest::default() };
    let turn = tasks.run_turn(step).await?;
    for attempt in turn.step.iter().flat_map(|step| &step.attempts) {
        for claim in attempt.units.iter().flat_map(|unit| &unit.claims) {
            println!("claim     {claim}");
        }
        for vote in &attempt.votes {
            println!("vote      {} ({}): {}", vote.seat, vote.vendor, vote.decision);
        }
        println!("attempt   {}", attempt.end);
    }

    let result =
        tasks.result(TaskResultRequest { task_id: task_id.clone(), ..TaskResultRequest::default() }).await?;
    for criterion in &result.criteria {
        println!("criterion {}: {} ({})", criterion.id, criterion.judgement, criterion.evidence.join(", "));
    }
    let log = tasks.log(TaskLogRequest { task_id: task_id.clone(), offset: 0 }).await?;
    println!("log       {} events", log.events.len());
    let page = task_report(&tasks.store().open(&task_id)?)?;
    println!("report    {} bytes of HTML, as `nexus task report` writes it", page.len());
    let landing = tasks.land(TaskLandRequest::new(task_id)).await?;
    println!("landed    {:?}, {}", landing.outcome, landing.branch.or(landing.obstacle).unwrap_or_default());
    println!("sum.sh    {}", fs::read_to_string(project.join("sum.sh"))?.trim());
    tasks.shutdown().await;
    Ok(())
}
