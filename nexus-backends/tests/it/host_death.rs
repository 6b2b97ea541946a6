//! The host is killed in mid-tool, with nobody left to clean up: the kernel ends the processes, and the next start removes what they
//! left.
//!
//! The host is this very program, started again with a variable that says which CLI to run.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use nexus_core::{
    BackendId, BuildContext, ExecutionBackend, ExecutionBackendExt as _, ToolAccess, TurnRequest,
};
use nexus_testkit::{
    child_test,
    sim::{Dialect, Scenario, Sim, ToolCall},
};
use serde_json::{Map, Value, json};

/// One CLI, and how it is pointed at a simulator.
struct Subject {
    kind: &'static str,
    variable: &'static str,
    dialect: Dialect,
    model: &'static str,
}

static SUBJECTS: [Subject; 3] = [
    Subject {
        kind: "claude-cli",
        variable: "NEXUS_REAL_CLAUDE",
        dialect: Dialect::Anthropic,
        model: "claude-sonnet-5",
    },
    Subject {
        kind: "codex-cli",
        variable: "NEXUS_REAL_CODEX",
        dialect: Dialect::Responses,
        model: "gpt-5.5",
    },
    Subject { kind: "grok-cli", variable: "NEXUS_REAL_GROK", dialect: Dialect::Xai, model: "grok-4.6" },
];

/// Tells the program that it is the host: which subject, where, and whom to ask.
const HOST: &str = "NEXUS_TEST_HOST";

fn backend(subject: &Subject, program: &Path, home: &Path, base_url: &str) -> Arc<dyn ExecutionBackend> {
    let settings: Map<String, Value> = Map::from_iter([
        ("executable".to_owned(), json!(program)),
        ("billing".to_owned(), json!("metered")),
        ("credential".to_owned(), json!({ "env": "TOKEN" })),
        ("base_url".to_owned(), json!(base_url)),
    ]);
    let environment = BTreeMap::from([
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("HOME".to_owned(), home.display().to_string()),
        ("TOKEN".to_owned(), "sk-simulated".to_owned()),
    ]);
    let context =
        BuildContext::in_home(home.join("nexus")).with_base_directory(home).with_environment(environment);
    let registry = nexus_backends::registry();
    registry.kind(subject.kind).unwrap().build(BackendId::new(subject.kind), &settings, &context).unwrap()
}

fn request(subject: &Subject, workspace: &Path) -> TurnRequest {
    TurnRequest::new("Run it.")
        .with_model(subject.model)
        .with_tool_access(ToolAccess::Unrestricted)
        .in_directory(workspace)
}

/// Plays the host that the test below kills.
#[tokio::test]
async fn host() {
    let Ok(told) = std::env::var(HOST) else { return };
    let told: Value = serde_json::from_str(&told).unwrap();
    let text = |key: &str| told[key].as_str().unwrap().to_owned();
    let subject = SUBJECTS.iter().find(|subject| subject.variable == text("variable")).unwrap();
    let home = PathBuf::from(text("home"));
    let backend = backend(subject, Path::new(&text("program")), &home, &text("base_url"));
    let outcome = backend.run_text(request(subject, &home.join("work"))).await;
    panic!("the turn was to run until the host is killed: {outcome:?}");
}

/// The processes that carry the marker of a run of `home`, by the runs that its registry names, zombies counted.
fn marked(runs: &[String]) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment);
        if runs.iter().any(|run| environment.split('\0').any(|entry| entry == format!("NEXUS_RUN={run}"))) {
            found.push((pid, fs::read_to_string(entry.path().join("comm")).unwrap_or_default()));
        }
    }
    found
}

fn runs_of(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join("nexus/runs")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned())).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} never came to be");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLIs; run by .ci/deep"]
async fn what_a_killed_host_leaves_is_gone_after_the_next_start() {
    let programs = |subject: &'static Subject| {
        let programs = nexus_testkit::real::programs(subject.variable);
        assert!(!programs.is_empty(), "{} names no program", subject.variable);
        programs.into_iter().map(move |program| (subject, program))
    };
    for (subject, program) in SUBJECTS.iter().flat_map(programs) {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        fs::create_dir(home.join("work")).unwrap();
        let stubborn = "trap '' TERM HUP; touch started; sleep 300";
        let scenario = Scenario::tool_then_text(ToolCall::shell(stubborn), "done");
        let sim = Sim::start(subject.dialect, scenario).unwrap();
        let base_url = if subject.kind == "claude-cli" { sim.root_url() } else { sim.base_url() };
        let told =
            json!({ "variable": subject.variable, "program": program, "home": home, "base_url": base_url });
        let mut host = child_test::command(self::host)
            .env(HOST, told.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the tool", || home.join("work/started").exists());
        let runs = runs_of(home);
        assert!(
            !marked(&runs).is_empty(),
            "{}: the scan finds nothing while the turn runs",
            subject.variable
        );

        host.kill().unwrap();
        host.wait().unwrap();
        // Nobody sweeps yet: a namespace of processes, which there is where this runs, dies with its host.
        wait_until(subject.variable, || marked(&runs).is_empty());
        assert_ne!(runs_of(home), [] as [String; 0], "{}: swept before anybody did", subject.variable);
        // A turn that needs no model: the program is asked, and whatever is left is swept first.
        sim.set_scenario(Scenario::text("swept"));
        let backend = backend(subject, &program, home, &base_url);
        let result = backend.run_text(TurnRequest::new("Go on.").with_model(subject.model)).await;
        assert_eq!(
            result.unwrap_or_else(|error| panic!("{}: {error:#?}", subject.variable)).text.trim(),
            "swept"
        );
        wait_until(subject.variable, || marked(&runs).is_empty());
        assert_eq!(runs_of(home), [] as [String; 0], "{}", subject.variable);
        let left: Vec<_> = fs::read_dir(home.join("nexus/tmp")).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{}: {left:?}", subject.variable);
    }
}
