//! One line of YAML moves a task with tools of the program's own over the vendors' real programs and over models that
//! Nexus asks itself: the same tools are asked the same, and the session decides the same.
//!
//! `.ci/deep` runs this where there is no network but loopback; `real/clis/install` names the programs.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use nexus::{
    Brief, BuildContext, Decision, Effects, EventEnvelope, Limits, ParticipantScope, Router, Session, Tool,
    Toolbox, TurnHost, TurnRequest,
};
use nexus_testkit::{
    real,
    sim::{Dialect, Reply, Scenario, Sim, ToolCall},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Weigh {
    /// The parcel, as it stands on its label.
    parcel: String,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    path: String,
    text: String,
}

/// What each model says and does; `call` is how the program in between is asked for a tool.
fn part(call: impl Fn(&str, Value) -> ToolCall) -> Scenario {
    let weigh = |parcel: &str| call("weigh", json!({ "parcel": parcel }));
    let note = |path: &str| call("note", json!({ "path": path, "text": "12 kg" }));
    Scenario::new([
        Reply::call(weigh("blue")),
        Reply::call(weigh("green")),
        Reply::call(note("../outside.txt")),
        Reply::call(note("book/weights.txt")),
        Reply::text("Both parcels together weigh 12 kg."),
    ])
    .per_conversation()
}

/// What each model says and does with the ready tools for files.
fn part_with_files(call: &dyn Fn(&str, Value) -> ToolCall) -> Scenario {
    let hash = nexus::scope::ContentHash::of(PAGE).short();
    let edit = json!({ "path": "book/page", "expected_hash": hash, "old_text": "seven", "new_text": "7" });
    Scenario::new([
        Reply::call(call("list_files", json!({}))),
        Reply::call(call("search_files", json!({ "pattern": "(five|seven) kg" }))),
        Reply::call(call("read_file", json!({ "path": "book/page", "offset": 2 }))),
        Reply::call(call("write_file", json!({ "path": "book/new/page", "content": "12 kg\n" }))),
        Reply::call(call("edit_file", edit.clone())),
        Reply::call(call("edit_file", edit)),
        Reply::call(call("delete_file", json!({ "path": "book/old" }))),
        Reply::call(call("read_file", json!({ "path": "../outside.txt" }))),
        Reply::text("The book is in order."),
    ])
    .per_conversation()
}

/// A page of the book, before the turn.
const PAGE: &str = "blue: five kg\ngreen: seven kg\n";

struct World {
    anthropic: Sim,
    openai: Sim,
    xai: Sim,
    native: Sim,
    folder: tempfile::TempDir,
}

impl World {
    fn open(part: impl Fn(&dyn Fn(&str, Value) -> ToolCall) -> Scenario) -> Self {
        let inside = || part(&|name, arguments| ToolCall::mcp("nexus", name, arguments));
        Self {
            anthropic: Sim::start(Dialect::Anthropic, inside()).unwrap(),
            openai: Sim::start(Dialect::Responses, inside()).unwrap(),
            xai: Sim::start(Dialect::Xai, inside()).unwrap(),
            native: Sim::start(
                Dialect::Responses,
                part(&|name, arguments| ToolCall::function(name, arguments)),
            )
            .unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// The whole configuration; `group` is the one word that differs.
    fn yaml(&self, group: &str) -> String {
        let [claude, codex, grok] =
            ["NEXUS_REAL_CLAUDE", "NEXUS_REAL_CODEX", "NEXUS_REAL_GROK"].map(real::last);
        format!(
            "groups: {{ a: [claude-cli], b: [codex-cli], c: [grok-cli], d: [codex-sub-token], e: [house] }}
backends:
  claude-cli: {{ executable: {claude:?}, billing: metered, credential: {{ env: TOKEN }}, base_url: {:?} }}
  codex-cli:  {{ executable: {codex:?}, billing: metered, credential: {{ env: TOKEN }}, base_url: {:?} }}
  grok-cli:   {{ executable: {grok:?}, billing: metered, credential: {{ env: TOKEN }}, base_url: {:?} }}
  codex-sub-token: {{ base_url: {:?}, credential: {{ env: PLAN_TOKEN, account: a }} }}
  house:      {{ kind: responses, base_url: {:?} }}
models: {{ strong: {{ a: claude-sonnet-5, b: gpt-5.5, c: grok-4.6, d: gpt-5.5, e: any }} }}
types:
  porter: {{ tier: execution, phase: weigh, group: {group}, model: strong }}
",
            self.anthropic.root_url(),
            self.openai.base_url(),
            self.xai.base_url(),
            self.native.base_url(),
            self.native.base_url(),
        )
    }

    fn router(&self, group: &str) -> Router {
        let environment = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("HOME".to_owned(), self.folder.path().display().to_string()),
            ("TOKEN".to_owned(), "sk-simulated".to_owned()),
            ("PLAN_TOKEN".to_owned(), "simulated".to_owned()),
        ]);
        let context = BuildContext::in_home(self.folder.path().join("nexus")).with_environment(environment);
        Router::from_str(&self.yaml(group), nexus::registry(), context).unwrap()
    }
}

/// The tools, each of which writes down that it was asked.
fn tools(asked: &Arc<Mutex<Vec<String>>>) -> Toolbox {
    let (weighed, noted) = (Arc::clone(asked), Arc::clone(asked));
    Toolbox::new()
        .with(
            Tool::new("weigh", "Weighs a parcel, in kg.", move |Weigh { parcel }| {
                weighed.lock().unwrap().push(format!("weigh {parcel}"));
                async move { if parcel == "blue" { 5 } else { 7 } }
            })
            .read_only(),
        )
        .with(
            Tool::new("note", "Writes into the book.", move |Note { path, text }| {
                noted.lock().unwrap().push(format!("note {text}"));
                async move { std::fs::write(path, text).map_err(|error| error.to_string()) }
            })
            .writing("/path")
            .with_effects(Effects::Wrote),
        )
}

/// The program: it knows a work-kind, a task, its tools and a scope, and no vendor.
async fn program(router: &Router, depot: &Path) -> (String, Vec<String>, Vec<Decision>) {
    let asked = Arc::default();
    let brief = Brief::new(depot).tool("*".parse().unwrap()).writing("book");
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    let session = Session::mint("porter", scope, Arc::new(tools(&asked)));
    let request = TurnRequest::new("Weigh the blue and the green parcel, and note the sum in the book.")
        .with_limits(Limits::new().with_deadline(Duration::from_secs(120)));
    let host = TurnHost::new().with_session(Arc::clone(&session));
    let result = router.run_turn("porter", request, host, &mut |_: EventEnvelope| {}).await.unwrap();
    assert_eq!(result.text.trim(), "Both parcels together weigh 12 kg.");
    assert_eq!(result.effects, Effects::Wrote);
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    (result.provenance.backend.to_string(), asked, session.decisions())
}

#[tokio::test]
#[ignore = "needs the real CLIs; run by .ci/deep"]
async fn one_line_moves_a_task_with_tools_over_real_programs_and_models() {
    let world = World::open(|call| part(call));
    let mut first: Option<Vec<Decision>> = None;
    let groups = [
        ("a", "claude-cli"),
        ("b", "codex-cli"),
        ("c", "grok-cli"),
        ("d", "codex-sub-token"),
        ("e", "house"),
    ];
    for (group, backend) in groups {
        let depot = world.folder.path().canonicalize().unwrap().join(group);
        std::fs::create_dir_all(depot.join("book")).unwrap();
        let (ran, asked, decisions) = program(&world.router(group), &depot).await;
        assert_eq!(ran, backend);
        assert_eq!(asked, ["weigh blue", "weigh green", "note 12 kg"], "{backend}");
        assert_eq!(std::fs::read_to_string(depot.join("book/weights.txt")).unwrap(), "12 kg", "{backend}");
        assert!(!world.folder.path().join("outside.txt").exists(), "{backend}");
        assert_eq!(decisions.len(), 4, "{backend}: {decisions:#?}");
        assert_eq!(*first.get_or_insert_with(|| decisions.clone()), decisions, "{backend}");
    }
}

#[tokio::test]
#[ignore = "needs the real CLIs; run by .ci/deep"]
async fn the_ready_tools_for_files_do_the_same_over_real_programs_and_models() {
    use nexus::{FileTools, TurnEvent};

    let world = World::open(part_with_files);
    std::fs::write(world.folder.path().join("outside.txt"), "secret").unwrap();
    let mut first: Option<(Vec<Decision>, Vec<String>)> = None;
    for group in ["a", "b", "c", "d", "e"] {
        let depot = world.folder.path().canonicalize().unwrap().join(group);
        std::fs::create_dir_all(depot.join("book")).unwrap();
        std::fs::write(depot.join("book/page"), PAGE).unwrap();
        std::fs::write(depot.join("book/old"), "").unwrap();
        let brief = Brief::new(&depot).tool("*_file*".parse().unwrap()).writing("book");
        let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
        let tools = FileTools::new(scope.files()).toolbox();
        let session = Session::mint("porter", scope, Arc::new(tools));
        let request = TurnRequest::new("Put the book in order.")
            .with_limits(Limits::new().with_deadline(Duration::from_secs(120)));
        let host = TurnHost::new().with_session(Arc::clone(&session));
        let mut answers = Vec::new();
        let mut note = |event: EventEnvelope| {
            if let TurnEvent::ToolCallFinished(finished) = event.event {
                answers.push(format!("{:?}", finished.output));
            }
        };
        let result = world.router(group).run_turn("porter", request, host, &mut note).await.unwrap();
        let backend = result.provenance.backend.to_string();
        assert_eq!(result.text.trim(), "The book is in order.", "{backend}");
        let read = |path: &str| std::fs::read_to_string(depot.join(path));
        assert_eq!(read("book/page").unwrap(), "blue: five kg\ngreen: 7 kg\n", "{backend}");
        assert_eq!(read("book/new/page").unwrap(), "12 kg\n", "{backend}");
        assert!(read("book/old").is_err(), "{backend}");
        let decisions = session.decisions();
        assert_eq!(decisions.len(), 8, "{backend}: {decisions:#?}");
        assert_eq!(answers.len(), 8, "{backend}: {answers:#?}");
        let seen = (decisions, answers);
        assert_eq!(*first.get_or_insert_with(|| seen.clone()), seen, "{backend}");
    }
}
