//! What turns spend is recorded in one place, and stays within the budgets of the configuration.

use std::{path::Path, process::Command, sync::Arc, time::SystemTime};

use nexus_core::{
    Cost, CostSource, ErrorKind, FinishReason, Limit, Retry, TurnError, TurnHost, TurnRequest, TurnResult,
    Usage, Usd,
};
use nexus_router::{
    Router,
    spending::{FileSpendingBook, SpendingLine, WorkLabel},
};
use nexus_testkit::scripted::ScriptedBackend;

use super::support::{Act, builder, fake, scripted};

/// A backend whose turns cost an amount that it reports.
fn costing(id: &str, usd: f64) -> ScriptedBackend {
    scripted(id, move |turn| {
        Box::pin(async move {
            let mut usage = Usage::new();
            (usage.input_tokens, usage.output_tokens) = (Some(100), Some(10));
            turn.log.recorder.set_usage(usage);
            turn.log.recorder.cost = Some(Cost { usd: Usd(usd), source: CostSource::Reported });
            turn.say("done");
            Ok((FinishReason::Stop, None))
        })
    })
}

fn book(home: &Path) -> FileSpendingBook {
    FileSpendingBook::in_folder(home.join("spending"))
}

fn lines(home: &Path) -> Vec<SpendingLine> {
    book(home).lines_since(SystemTime::UNIX_EPOCH).unwrap()
}

fn router(home: &Path, usd: f64, budgets: &str) -> Router {
    let text = format!(
        "groups: {{ one: [alpha], both: [alpha, beta] }}\ntypes: {{ writer: {{ group: one }}, any: {{ group: both }} }}\n{budgets}"
    );
    let backends = [costing("alpha", usd), costing("beta", 0.01)].map(Arc::new);
    builder(&backends.each_ref()).spending_book(Arc::new(book(home))).from_str(&text).unwrap()
}

async fn turn(router: &Router, kind: &str) -> Result<TurnResult, TurnError> {
    router.run_text(kind, TurnRequest::new("x")).await
}

#[tokio::test]
async fn every_attempt_at_a_backend_leaves_a_line_with_the_work_it_belongs_to() {
    let home = tempfile::tempdir().unwrap();
    let failing = fake("alpha", [Act::Fail(ErrorKind::Transport, Retry::Never, "")]);
    let router = builder(&[&failing, &Arc::new(costing("beta", 0.5))])
        .spending_book(Arc::new(book(home.path())))
        .from_str("groups: { both: [alpha, beta] }\ntypes: { any: { group: both, model: { exact: m } } }\n")
        .unwrap();
    let of_task = router.snapshot().labelled(WorkLabel::Task, "t1").labelled(WorkLabel::Agent, "clerk");
    turn(&of_task, "any").await.unwrap();
    let request = TurnRequest::new("x").with_label("nexus.type", "seated");
    router.run_on(&"beta".into(), request, TurnHost::new(), &mut nexus_core::NullSink).await.unwrap();
    let lines = lines(home.path());
    let shown = lines.iter().map(|line| {
        let SpendingLine { turn, outcome, usd, .. } = line;
        (turn.backend.as_str(), turn.kind.as_str(), outcome.as_str(), turn.task.as_deref(), *usd)
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            ("alpha", "any", "transport", Some("t1"), None),
            ("beta", "any", "ok", Some("t1"), Some(0.5)),
            ("beta", "seated", "ok", None, Some(0.5)),
        ]
    );
    assert_eq!(lines[1].turn.agent.as_deref(), Some("clerk"));
    assert_eq!(lines[1].turn.model.as_ref().map(nexus_core::ModelId::as_str), Some("m"));
    assert_eq!(lines[1].turn.vendor.as_ref().map(nexus_core::VendorId::as_str), Some("beta"));
}

#[tokio::test]
async fn a_used_up_budget_starts_no_turn_and_names_itself_and_the_time() {
    let home = tempfile::tempdir().unwrap();
    let router = router(home.path(), 0.6, "budgets:\n  all-day: { per: day, usd: 1 }\n");
    turn(&router, "writer").await.unwrap();
    let error = turn(&router, "writer").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Budget));
    assert!(matches!(error.retry(), Retry::At(at) if at > SystemTime::now()), "{error:?}");
    let message = error.to_string();
    for part in [
        "budgets.all-day (line 4 of the configuration)",
        "$1.00 in a day",
        "$0.6000 are spent",
        "begins again at",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(lines(home.path()).len(), 1);
}

#[tokio::test]
async fn a_backend_without_budget_passes_the_turn_to_the_next_one() {
    let home = tempfile::tempdir().unwrap();
    let router = router(home.path(), 0.6, "budgets: { alpha: { per: month, usd: 1, backend: alpha } }\n");
    for expected in ["alpha", "beta"] {
        let result = turn(&router, "any").await.unwrap();
        assert_eq!(result.provenance.backend.as_str(), expected);
    }
    let result = turn(&router, "any").await.unwrap();
    let skipped = &result.provenance.skipped[0];
    assert_eq!(skipped.kind, Some(ErrorKind::LimitReached(Limit::Budget)));
    assert!(skipped.reason.contains("budgets.alpha") && skipped.until.is_some(), "{skipped:?}");
}

#[tokio::test]
async fn an_unknown_cost_is_reported_where_a_budget_counts_dollars() {
    let home = tempfile::tempdir().unwrap();
    let router = builder(&[&fake("alpha", [Act::Answer("done".to_owned())])])
        .spending_book(Arc::new(book(home.path())))
        .from_str("groups: { one: [alpha] }\ntypes: { writer: { group: one } }\nbudgets: { all: { per: day, usd: 1, tokens: 30 } }\n")
        .unwrap();
    let mut warnings = Vec::new();
    for _ in 0..2 {
        let mut see = |envelope: nexus_core::EventEnvelope| {
            if let nexus_core::TurnEvent::Warning(warning) = envelope.event {
                warnings.push(warning.text);
            }
        };
        router.run_turn("writer", TurnRequest::new("x"), TurnHost::new(), &mut see).await.unwrap();
    }
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("the cost of turns on alpha is unknown"), "{warnings:?}");
    // Each turn uses 15 tokens.
    let error = turn(&router, "writer").await.unwrap_err();
    assert!(error.to_string().contains("allows 30 tokens in a day: 30 are used"), "{error}");
}

/// Variable with the home of a child process, which runs turns until a budget refuses one.
const CHILD_HOME: &str = "NEXUS_TEST_SPENDING_HOME";

/// Variable with the home of a child process that runs two turns.
const CHILD_TURNS: &str = "NEXUS_TEST_SPENDING_TURNS";

const EDGE: &str = "budgets: { all: { per: month, usd: 1 } }\n";

#[tokio::test]
async fn a_child_spends_until_the_budget_is_used_up() {
    let Some(home) = std::env::var_os(CHILD_HOME) else { return };
    let router = router(Path::new(&home), 0.1, EDGE);
    while turn(&router, "writer").await.is_ok() {}
}

#[tokio::test]
async fn processes_at_once_spend_the_last_dollar_once() {
    let home = tempfile::tempdir().unwrap();
    turn(&router(home.path(), 0.1, EDGE), "writer").await.unwrap();
    let program = std::env::current_exe().unwrap();
    let name = "router::spending::a_child_spends_until_the_budget_is_used_up";
    let mut children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = Command::new(&program);
            command.args([name, "--exact"]).env(CHILD_HOME, home.path()).stdout(std::process::Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let lines = lines(home.path());
    // A process may stop while another one has reserved the last part, but never spends more.
    let spent: f64 = lines.iter().filter_map(|line| line.usd).sum();
    assert!(spent <= 1.0 + 1e-9, "{spent} in {} turns", lines.len());
    assert!((7..=10).contains(&lines.len()), "{} turns", lines.len());
}

#[tokio::test]
async fn a_child_runs_two_turns() {
    let Some(home) = std::env::var_os(CHILD_TURNS) else { return };
    let router = router(Path::new(&home), 0.1, "");
    for _ in 0..2 {
        turn(&router, "writer").await.unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_fails_no_turn_and_its_turns_are_recorded_as_lost() {
    let home = tempfile::tempdir().unwrap();
    let router = router(home.path(), 0.1, "");
    // Three lines are larger than the largest file that the child may write.
    for _ in 0..3 {
        turn(&router, "writer").await.unwrap();
    }
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg("trap '' XFSZ; ulimit -f 1; exec \"$0\" router::spending::a_child_runs_two_turns --exact");
    command.arg(std::env::current_exe().unwrap()).env(CHILD_TURNS, home.path());
    let child = command.output().unwrap();
    assert!(child.status.success(), "{child:?}");
    turn(&router, "writer").await.unwrap();
    let outcomes: Vec<_> = lines(home.path()).into_iter().map(|line| line.outcome).collect();
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "ok").count(), 4, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "lost").count(), 2, "{outcomes:?}");
}

#[tokio::test]
async fn a_killed_process_leaves_a_lost_turn_that_the_budget_counts() {
    let home = tempfile::tempdir().unwrap();
    let router = router(home.path(), 0.6, EDGE);
    turn(&router, "writer").await.unwrap();
    let running = home.path().join("spending/running/dead.json");
    let began = serde_json::to_value(&lines(home.path())[0]).unwrap()["time"].clone();
    let turn_of_writer = serde_json::json!({ "backend": "alpha", "type": "writer" });
    let left = serde_json::json!({ "turn": turn_of_writer, "reserved": { "usd": 0.3, "tokens": 10 }, "began": began });
    std::fs::write(&running, left.to_string()).unwrap();
    let error = turn(&router, "writer").await.unwrap_err();
    assert!(error.to_string().contains("$0.9000 are spent"), "{error}");
    let lines = lines(home.path());
    assert_eq!((lines.len(), lines[1].outcome.as_str(), lines[1].usd), (2, "lost", None));
}
