//! A work-kind is a backend like any other: it keeps the promises of the seam, alone and after a fallback.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, BeforeRetry, BuildContext, Capabilities, Effects, ErrorKind, EventSink,
    ExecutionBackend, ForgetError, Forgotten, ModelId, Outbox, Recorder, Registry, ResumeHandle, TurnError,
    TurnHost, TurnRequest, TurnResult,
    turn::{Started, TextDelta},
};
use nexus_router::{RoutedBackend, Router};
use nexus_testkit::{
    conformance::{
        CASES, Finding, Outcome, Setting, Stage, StageError, Subject, Timing, reference::ReferenceSubject,
        run, run_case,
    },
    effort,
};

#[tokio::test]
async fn alone() {
    if !effort::is_deep() {
        return;
    }
    let report = run(&Routed { first: First::Itself }, |_| true).await.unwrap();
    assert!(report.is_conformant(), "{report}");
}

/// Where the reference backend cannot run either, the chain has run out, which only a router can say. Those
/// cases are held by `alone`; every other holds here too.
#[test]
fn after_a_fallback() {
    holds_but_for_what_only_a_router_says(&Routed { first: First::Broken });
}

#[test]
fn after_a_backend_that_wrote_and_was_put_back() {
    if !effort::is_deep() {
        return;
    }
    holds_but_for_what_only_a_router_says(&Routed { first: First::BrokenAfterWrite });
}

fn holds_but_for_what_only_a_router_says(subject: &Routed) {
    // Most cases wait for a limit to pass. A runtime for each, or one that works would be in the way of those that wait.
    const AT_ONCE: usize = 8;
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                while let Some(case) = CASES.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = runtime.block_on(run_case(subject, case.name)).expect("a stage");
                    outcomes.lock().unwrap().push((case.name, outcome));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    let ran_out = |finding: &Finding| finding.to_string().contains("only a router is Exhausted");
    for (case, outcome) in &outcomes {
        if let Outcome::Failed(finding) = outcome {
            assert!(ran_out(finding), "{case}: {finding}");
        }
    }
    let held = outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Passed).count();
    assert!(held * 4 > outcomes.len() * 3, "only {held} of {} cases held", outcomes.len());
}

/// The reference backend behind a router, which may have to get past a broken one first.
#[derive(Debug)]
struct Routed {
    first: First,
}

/// The backend at the head of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Itself,
    Broken,
    /// It may have written, and the host puts that back.
    BrokenAfterWrite,
}

#[async_trait]
impl Subject for Routed {
    fn name(&self) -> &str {
        match self.first {
            First::Itself => "reference behind a router",
            First::Broken => "reference after a fallback",
            First::BrokenAfterWrite => "reference after what was put back",
        }
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        let mut stage = ReferenceSubject.stage(setting).await?;
        let id = stage.backend.id().clone();
        let broken = Broken {
            id: BackendId::new("broken"),
            capabilities: stage.backend.capabilities(),
            wrote: self.first == First::BrokenAfterWrite,
        };
        let chain = if self.first == First::Itself { id.to_string() } else { format!("broken, {id}") };
        let rule = if self.first == First::BrokenAfterWrite { "restore" } else { "before-writes" };
        // The suite wants the error and the provenance of a turn to name its backend. A router names the one
        // that ran, so that the type bears the same name here.
        let text = format!(
            "groups: {{ main: [{chain}] }}\ntypes: {{ {id}: {{ group: main, fallback: {rule} }} }}\n"
        );
        let router = Router::builder(Registry::new(), BuildContext::in_home("home"))
            .backend(Arc::clone(&stage.backend))
            .backend(Arc::new(broken))
            .from_str(&text)
            .map_err(StageError::new)?;
        let routed = router.backend(id.as_str()).map_err(StageError::new)?;
        stage.backend = Arc::new(PuttingBack(routed));
        Ok(stage)
    }

    fn model(&self) -> Option<ModelId> {
        ReferenceSubject.model()
    }

    fn timing(&self) -> Timing {
        ReferenceSubject.timing()
    }

    fn cannot_stage(&self, case: &str) -> Option<String> {
        let because = match case {
            _ if self.first == First::Itself => return None,
            case if COUNTS_WORDS.contains(&case) => "it counts words that were taken back",
            "a_token_cancelled_before_the_start_spends_nothing"
            | "input_is_refused_at_once_where_it_cannot_be_delivered" => "it ends with the first of the two",
            "a_token_stops_a_turn_whose_sink_is_never_ready" => "the first of the two waits for its sink",
            _ => return None,
        };
        Some(because.to_owned())
    }
}

/// Cases that wait for the model's words, and would count those of the broken one.
const COUNTS_WORDS: [&str; 2] = [
    "a_token_stops_a_turn_while_the_model_speaks",
    "dropping_the_turn_while_the_model_speaks_stops_its_processes",
];

/// A backend whose hosts can put things back.
#[derive(Debug)]
struct PuttingBack(RoutedBackend);

#[async_trait]
impl ExecutionBackend for PuttingBack {
    fn id(&self) -> &BackendId {
        self.0.id()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn probe(&self) -> Availability {
        self.0.probe().await
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        self.0.forget(handle).await
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let hook = BeforeRetry::new(|_| async {
            tokio::task::yield_now().await;
            Ok::<(), String>(())
        });
        self.0.run_turn(request, host.with_before_retry(hook), events).await
    }
}

/// Says half a sentence under a name that others use too, and loses its connection.
#[derive(Debug)]
struct Broken {
    id: BackendId,
    capabilities: Capabilities,
    wrote: bool,
}

#[async_trait]
impl ExecutionBackend for Broken {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.id.clone() })
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let (mut outbox, mut recorder) = (Outbox::new(), Recorder::new());
        let said = [
            Started::new(self.id.clone()).into(),
            TextDelta::new("message-1".into(), "This is only half a").into(),
            TextDelta::new("m1".into(), "This too").into(),
        ];
        for event in said {
            recorder.observe(&event);
            outbox.push(event);
        }
        if self.wrote {
            recorder.add_effects(Effects::Wrote);
        }
        // Of a deadline half is left to the other backend, where a sink takes nothing.
        let patience = async {
            match request.limits.deadline {
                Some(deadline) => tokio::time::sleep(deadline / 2).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = outbox.flush(events) => {}
            () = patience => {}
            () = host.cancel.cancelled() => {}
        }
        Err(TurnError::new(ErrorKind::Transport, self.id.clone()).with_partial(recorder.into_partial()))
    }
}
