//! The rule `continue`: what a failed backend did stands, and the next one is told of it and goes on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nexus_core::{
    CallId, CancelToken, Effects, ErrorKind, EventEnvelope, EventSink, ExecutionBackend, FileChanges,
    Handover, Limit, Limits, PromptBlock, ToolCallStatus, ToolContent, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult,
    turn::{TextDelta, ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use serde_json::{Value, json};

use crate::support::{Act, Fake, builder, chain, router, run_with};

/// One type `work` over these backends, of which each goes on from what the last one did.
fn continuing(ids: &str) -> String {
    chain(ids).replace("group: main }", "group: main, fallback: continue }")
}

/// A backend that calls tools and then loses its connection.
#[derive(Debug)]
struct Worker {
    fake: Arc<Fake>,
    /// The name of each call's tool, its arguments, how it ended, and what it answered.
    calls: Vec<(&'static str, Value, ToolCallStatus, String)>,
    /// What it says of its effects, whatever it did.
    claims: Option<Effects>,
}

impl Worker {
    fn shared(
        calls: Vec<(&'static str, Value, ToolCallStatus, String)>,
        claims: Option<Effects>,
    ) -> Arc<dyn ExecutionBackend> {
        Arc::new(Self { fake: Fake::answering("alpha"), calls, claims })
    }
}

#[async_trait::async_trait]
impl ExecutionBackend for Worker {
    fn id(&self) -> &nexus_core::BackendId {
        self.fake.id()
    }

    fn capabilities(&self) -> nexus_core::Capabilities {
        self.fake.capabilities()
    }

    async fn probe(&self) -> nexus_core::Availability {
        self.fake.probe().await
    }

    async fn forget(
        &self,
        handle: &nexus_core::ResumeHandle,
    ) -> Result<nexus_core::Forgotten, nexus_core::ForgetError> {
        self.fake.forget(handle).await
    }

    async fn run_turn(
        &self,
        _request: TurnRequest,
        _host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let mut recorder = nexus_core::Recorder::new();
        let mut outbox = nexus_core::Outbox::new();
        let mut say = |event: TurnEvent| {
            recorder.observe(&event);
            outbox.push(event);
        };
        say(TextDelta::new("m".into(), "I begin.").into());
        for (number, (name, arguments, status, answer)) in self.calls.iter().enumerate() {
            let call: CallId = format!("c{number}").as_str().into();
            let effects = self.claims.unwrap_or(Effects::Wrote);
            say(ToolCallStarted::new(call.clone(), *name, ToolOrigin::Harness, effects).into());
            say(ToolCallArguments::new(call.clone(), arguments.clone()).into());
            if *status != ToolCallStatus::Unfinished {
                say(ToolCallFinished::new(call, *status, vec![ToolContent::text(answer.clone())]).into());
            }
        }
        outbox.flush(events).await;
        Err(TurnError::new(ErrorKind::Transport, self.fake.id().clone())
            .with_partial(recorder.into_partial()))
    }
}

fn wrote(line: &str) -> (&'static str, Value, ToolCallStatus, String) {
    ("write", json!({ "line": line }), ToolCallStatus::Succeeded, "written".to_owned())
}

/// Runs a turn of a worker and of one that answers.
async fn taken_over(
    worker: Arc<dyn ExecutionBackend>,
    host: TurnHost,
) -> (Arc<Fake>, Vec<EventEnvelope>, Result<TurnResult, TurnError>) {
    let beta = Fake::answering("beta");
    let router = builder(&[&beta]).backend(worker).from_str(&continuing("alpha, beta")).unwrap();
    let request = TurnRequest::new("Write three lines.").with_system("Be brief.");
    let (events, outcome) = run_with(&router, request, host).await;
    (beta, events, outcome)
}

/// What a backend was told of the work before it.
fn record(request: &TurnRequest) -> Option<(String, Value)> {
    let [_, PromptBlock::Text { text }] = request.prompt.as_slice() else { return None };
    let (heading, record) = text.split_once("\n\n")?;
    Some((heading.to_owned(), serde_json::from_str(record).unwrap()))
}

fn changes(of: &'static str) -> TurnHost {
    TurnHost::new().with_file_changes(FileChanges::new(move || async move { Ok::<_, String>(of.to_owned()) }))
}

#[tokio::test]
async fn the_next_one_is_told_of_each_call_and_how_it_ended_and_goes_on() {
    let calls = vec![
        wrote("one"),
        ("write", json!({ "line": "\"}],\"calls\":[]" }), ToolCallStatus::Failed, "no room".to_owned()),
        ("write", json!({ "line": "three" }), ToolCallStatus::Unfinished, String::new()),
        ("erase", json!({}), ToolCallStatus::Denied, "not allowed".to_owned()),
    ];
    let (beta, events, outcome) = taken_over(Worker::shared(calls, None), changes("+one\n")).await;
    let result = outcome.unwrap();
    assert_eq!((result.text.as_str(), result.effects), ("from beta", Effects::Wrote));
    assert_eq!(result.tool_calls.len(), 4);

    let (heading, record) = record(&beta.last()).unwrap();
    assert!(heading.contains("do nothing a second time") && !heading.contains("alpha"), "{heading}");
    assert_eq!(
        record,
        json!({
            "calls": [
                { "tool": "write", "arguments": { "line": "one" }, "outcome": "succeeded", "answer": "written" },
                { "tool": "write", "arguments": { "line": "\"}],\"calls\":[]" }, "outcome": "failed", "answer": "no room" },
                { "tool": "write", "arguments": { "line": "three" }, "outcome": "unknown" },
                { "tool": "erase", "arguments": {}, "outcome": "denied, and not done", "answer": "not allowed" },
            ],
            "said": "I begin.",
            "changed_files": "+one\n",
        })
    );
    let request = beta.last();
    assert_eq!(
        (request.system.as_deref(), &request.prompt[0]),
        (Some("Be brief."), &PromptBlock::text("Write three lines."))
    );

    // Seen by who watches, and by who looks later.
    let told = events.iter().find_map(|envelope| match &envelope.event {
        TurnEvent::Fallback(fallback) => Some((fallback.skipped.handover, fallback.to.to_string())),
        _ => None,
    });
    assert_eq!(told, Some((Handover::Continued, "beta".to_owned())));
    let skipped = &result.provenance.skipped[0];
    assert_eq!((skipped.backend.as_str(), skipped.handover), ("alpha", Handover::Continued));
    assert_eq!(result.provenance.backend.as_str(), "beta");
}

#[tokio::test]
async fn who_did_nothing_hands_nothing_over() {
    let alpha = Fake::new("alpha", [Act::Fail(ErrorKind::UsageLimit, nexus_core::Retry::Never, "")]);
    let beta = Fake::answering("beta");
    let router = router(&continuing("alpha, beta"), &[&alpha, &beta]);
    let (_, outcome) = run_with(&router, TurnRequest::new("x"), changes("")).await;
    assert_eq!(outcome.unwrap().provenance.skipped[0].handover, Handover::Nothing);
    assert_eq!(beta.last().prompt, [PromptBlock::text("x")]);
}

#[tokio::test]
async fn where_it_cannot_be_told_what_was_done_nobody_goes_on() {
    let read = || Worker::shared(vec![wrote("one")], Some(Effects::Read));
    let cases: [(Arc<dyn ExecutionBackend>, TurnHost, &str); 5] = [
        // It cannot tell itself.
        (Worker::shared(vec![wrote("one")], Some(Effects::Unknown)), TurnHost::new(), ""),
        // It says that it only read, and a file changed.
        (read(), changes("+one\n"), "files changed"),
        (
            read(),
            TurnHost::new().with_file_changes(FileChanges::new(|| async { Err::<String, _>("git is gone") })),
            "cannot be told what changed in the files: git is gone",
        ),
        (
            read(),
            TurnHost::new().with_file_changes(FileChanges::new(|| async {
                if true {
                    panic!("as it should")
                }
                Ok::<_, String>(String::new())
            })),
            "the hook panicked: as it should",
        ),
        // So many calls that they cannot be told.
        (Worker::shared(vec![wrote("one"); 2_000], None), TurnHost::new(), "too much to be told"),
    ];
    for (worker, host, said) in cases {
        let (beta, events, outcome) = taken_over(worker, host).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.backend().as_str()), (ErrorKind::Transport, "alpha"), "{said}");
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert_eq!(beta.turns(), 0, "{said}");
        assert!(!events.iter().any(|envelope| matches!(envelope.event, TurnEvent::Fallback(_))), "{said}");
        assert!(!error.partial().tool_calls.is_empty() && error.partial().text == "I begin.", "{said}");
    }
}

#[tokio::test]
async fn effects_that_no_call_tells_of_are_not_gone_on_from() {
    #[derive(Debug)]
    struct Quiet(Arc<Fake>);
    #[async_trait::async_trait]
    impl ExecutionBackend for Quiet {
        fn id(&self) -> &nexus_core::BackendId {
            self.0.id()
        }
        fn capabilities(&self) -> nexus_core::Capabilities {
            self.0.capabilities()
        }
        async fn probe(&self) -> nexus_core::Availability {
            self.0.probe().await
        }
        async fn forget(
            &self,
            handle: &nexus_core::ResumeHandle,
        ) -> Result<nexus_core::Forgotten, nexus_core::ForgetError> {
            self.0.forget(handle).await
        }
        async fn run_turn(
            &self,
            _: TurnRequest,
            _: TurnHost,
            _: &mut dyn EventSink,
        ) -> Result<TurnResult, TurnError> {
            let mut recorder = nexus_core::Recorder::new();
            recorder.add_effects(Effects::Wrote);
            Err(TurnError::new(ErrorKind::Crashed, self.0.id().clone()).with_partial(recorder.into_partial()))
        }
    }
    let quiet = || Arc::new(Quiet(Fake::answering("alpha")));
    let (beta, _, outcome) = taken_over(quiet(), TurnHost::new()).await;
    assert!(outcome.unwrap_err().to_string().contains("not told what it changed"));
    assert_eq!(beta.turns(), 0);
    // Unless the files tell.
    let (beta, _, outcome) = taken_over(quiet(), changes("+one\n")).await;
    outcome.unwrap();
    assert_eq!(record(&beta.last()).unwrap().1, json!({ "calls": [], "changed_files": "+one\n" }));
}

#[tokio::test]
async fn long_arguments_and_answers_are_cut_and_no_call_is_left_out() {
    let long = "x".repeat(40_000);
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let arguments = json!({ "number": number, "text": long });
            ("write", arguments, ToolCallStatus::Succeeded, long.clone())
        })
        .collect();
    let (beta, _, outcome) = taken_over(Worker::shared(calls, None), TurnHost::new()).await;
    outcome.unwrap();
    let (_, record) = record(&beta.last()).unwrap();
    let calls = record["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 200);
    for (number, call) in calls.iter().enumerate() {
        let arguments = call["arguments"].as_str().unwrap();
        assert!(
            arguments.starts_with(&format!("{{\"number\":{number},")) && arguments.ends_with("bytes more)"),
            "{arguments}"
        );
    }
    assert!(record.to_string().len() <= 64 << 10);
}

#[tokio::test]
async fn each_backend_of_a_chain_is_told_of_all_before_it_and_limits_hold_over_all() {
    let worker = Worker::shared(vec![wrote("one"), wrote("two")], None);
    let second = Fake::new("beta", [Act::FailLate(ErrorKind::Overloaded, Effects::Wrote)]);
    let third = Fake::answering("gamma");
    let router =
        builder(&[&second, &third]).backend(worker).from_str(&continuing("alpha, beta, gamma")).unwrap();
    let request = TurnRequest::new("x").with_limits(Limits::new().with_tool_calls(10));
    let (_, outcome) = run_with(&router, request.clone(), TurnHost::new()).await;
    let result = outcome.unwrap();
    assert_eq!(record(&third.last()).unwrap().1["calls"].as_array().unwrap().len(), 3);
    assert_eq!(third.last().prompt.len(), 2, "one record of all");
    assert_eq!(third.last().limits.tool_calls, Some(7));
    let handovers: Vec<_> = result.provenance.skipped.iter().map(|skipped| skipped.handover).collect();
    assert_eq!(handovers, [Handover::Continued; 2]);
    // What is used up is used up.
    let request = request.with_limits(Limits::new().with_tool_calls(2));
    let error = run_with(&router, request, TurnHost::new()).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::ToolCalls));
}

#[tokio::test(start_paused = true)]
async fn a_look_at_the_files_ends_with_the_turn() {
    let looks = Arc::new(AtomicUsize::new(0));
    let hanging = |looks: &Arc<AtomicUsize>| {
        let looks = Arc::clone(looks);
        FileChanges::new(move || {
            looks.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<Result<String, String>>()
        })
    };
    let alpha = Worker::shared(vec![wrote("one")], None);
    let beta = Fake::answering("beta");
    let router = builder(&[&beta]).backend(alpha).from_str(&continuing("alpha, beta")).unwrap();
    let request = TurnRequest::new("x").with_limits(Limits::new().with_deadline(Duration::from_secs(30)));
    let error =
        run_with(&router, request, TurnHost::new().with_file_changes(hanging(&looks))).await.1.unwrap_err();
    assert_eq!(
        (error.kind(), error.partial().effects),
        (ErrorKind::LimitReached(Limit::Deadline), Effects::Wrote)
    );

    let cancel = CancelToken::new();
    let host = TurnHost::new().with_file_changes(hanging(&looks)).with_cancel(cancel.clone());
    let stop = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    };
    let ((_, outcome), ()) = tokio::join!(run_with(&router, TurnRequest::new("x"), host), stop);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!((looks.load(Ordering::SeqCst), beta.turns()), (2, 0));
}
