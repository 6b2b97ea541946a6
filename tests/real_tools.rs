//! One line of YAML moves a task with tools of the program's own over the vendors' real programs and over models that
//! Nexus asks itself: the same tools are asked the same, and the session decides the same.
//!
//! `.ci/run` runs this where there is no network but loopback; `real-clis/install` names the programs.

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

struct World {
    anthropic: Sim,
    openai: Sim,
    xai: Sim,
    native: Sim,
    folder: tempfile::TempDir,
}

impl World {
    fn open() -> Self {
        let inside = || part(|name, arguments| ToolCall::mcp("nexus", name, arguments));
        Self {
            anthropic: Sim::start(Dialect::Anthropic, inside()).unwrap(),
            openai: Sim::start(Dialect::Responses, inside()).unwrap(),
            xai: Sim::start(Dialect::Xai, inside()).unwrap(),
            native: Sim::start(
                Dialect::Responses,
                part(|name, arguments| ToolCall::function(name, arguments)),
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
#[ignore = "needs the real CLIs; run by .ci/run"]
async fn one_line_moves_a_task_with_tools_over_real_programs_and_models() {
    let world = World::open();
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
