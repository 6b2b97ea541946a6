//! The reference backend with something wrong.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, Capabilities, EventEnvelope, EventSink, ExecutionBackend, ForgetError,
    Forgotten, ModelId, ResumeHandle, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
};
use nexus_testkit::conformance::{
    Setting, Stage, StageError, Subject, Timing, Witness, reference::ReferenceSubject,
};
use tokio::sync::mpsc;

pub(crate) type Outcome = Result<TurnResult, TurnError>;

/// What is wrong. Each field changes one thing on its way; most rows set one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wrong {
    pub(crate) setting: Option<fn(&mut Setting)>,
    pub(crate) request: Option<fn(&mut TurnRequest)>,
    pub(crate) host: Option<fn(TurnHost) -> TurnHost>,
    pub(crate) event: Option<fn(TurnEvent) -> Vec<TurnEvent>>,
    pub(crate) envelope: Option<fn(&mut EventEnvelope)>,
    pub(crate) outcome: Option<fn(&mut Outcome, &Setting)>,
    pub(crate) capabilities: Option<fn(&mut Capabilities, u32)>,
    pub(crate) beside: Option<fn(&TurnRequest, &Setting) -> Option<std::process::Child>>,
    pub(crate) life: Life,
    pub(crate) denies_credential: bool,
    pub(crate) forgetting: Forgetting,
}

/// How a conversation is forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Forgetting {
    /// As it should.
    #[default]
    Right,
    /// It is said to be deleted, and stays.
    SaidOnly,
    /// It is said to be deleted, whether it was there or not.
    AlwaysDeleted,
    /// All conversations are deleted, whatever works in them.
    Everything,
    /// What the handle says is taken for a path.
    AnyPath,
}

/// How the turn lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    /// As it should.
    #[default]
    Right,
    /// It goes on when it is dropped.
    OutlivesTheDrop,
    /// It begins anew when it is dropped.
    BeginsAnewWhenDropped,
    /// It runs the whole turn once more.
    TriesTheTurnTwice,
    /// A probe runs a turn.
    ProbeAsksTheModel,
}

#[derive(Debug)]
pub(crate) struct WrongSubject {
    pub(crate) wrong: Wrong,
    /// Whether its turn is never over.
    pub(crate) hangs: bool,
}

#[async_trait]
impl Subject for WrongSubject {
    fn name(&self) -> &str {
        "wrong"
    }

    async fn stage(&self, mut setting: Setting) -> Result<Stage, StageError> {
        if let Some(change) = self.wrong.setting {
            change(&mut setting);
        }
        let stage = ReferenceSubject.stage(setting.clone()).await?;
        let witness: Arc<dyn Witness> = Arc::clone(&stage.witness);
        let backend = WrongBackend {
            inner: Arc::clone(&stage.backend),
            wrong: self.wrong,
            setting,
            asked: AtomicU32::new(0),
        };
        Ok(Stage::new(Arc::new(backend), witness).keeping(stage))
    }

    fn model(&self) -> Option<ModelId> {
        ReferenceSubject.model()
    }

    fn is_lent_credential(&self) -> bool {
        !self.wrong.denies_credential
    }

    fn timing(&self) -> Timing {
        let timing = ReferenceSubject.timing();
        if self.hangs { Timing { bound: Duration::from_secs(8), ..timing } } else { timing }
    }
}

#[derive(Debug)]
struct WrongBackend {
    inner: Arc<dyn ExecutionBackend>,
    wrong: Wrong,
    setting: Setting,
    asked: AtomicU32,
}

#[async_trait]
impl ExecutionBackend for WrongBackend {
    fn id(&self) -> &BackendId {
        self.inner.id()
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.inner.capabilities();
        if let Some(change) = self.wrong.capabilities {
            change(&mut capabilities, self.asked.fetch_add(1, Ordering::Relaxed));
        }
        capabilities
    }

    async fn probe(&self) -> Availability {
        if self.wrong.life == Life::ProbeAsksTheModel {
            let mut nobody = |_event: EventEnvelope| {};
            let _ =
                self.inner.run_turn(TurnRequest::new("Are you there?"), TurnHost::new(), &mut nobody).await;
        }
        self.inner.probe().await
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        let sessions = self.setting.home.join("sessions");
        let deleted = Ok(Forgotten::Deleted { files: 1, bytes: 1 });
        match self.wrong.forgetting {
            Forgetting::Right => self.inner.forget(handle).await,
            Forgetting::SaidOnly => deleted,
            Forgetting::AlwaysDeleted => self.inner.forget(handle).await.and(deleted),
            Forgetting::Everything => {
                let _ = std::fs::remove_dir_all(sessions);
                deleted
            }
            Forgetting::AnyPath => {
                let name = handle.state().get("session").and_then(|name| name.as_str()).unwrap_or("none");
                let _ = std::fs::remove_file(sessions.join(name));
                Ok(Forgotten::WasGone)
            }
        }
    }

    async fn run_turn(
        &self,
        mut request: TurnRequest,
        mut host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Outcome {
        if let Some(change) = self.wrong.request {
            change(&mut request);
        }
        if let Some(change) = self.wrong.host {
            host = change(host);
        }
        let _beside = Beside(self.wrong.beside.and_then(|start| start(&request, &self.setting)));
        let mut sink = Meddler { sink: events, wrong: self.wrong, next: 0 };
        let mut outcome = match self.wrong.life {
            Life::OutlivesTheDrop => outliving(Arc::clone(&self.inner), request, host, &mut sink).await,
            Life::BeginsAnewWhenDropped => {
                let mut anew = Anew(Some((Arc::clone(&self.inner), request.clone())));
                let outcome = self.inner.run_turn(request, host, &mut sink).await;
                anew.0 = None;
                outcome
            }
            Life::TriesTheTurnTwice => {
                let mut nobody = |_event: EventEnvelope| {};
                let _ = self.inner.run_turn(request.clone(), TurnHost::new(), &mut nobody).await;
                self.inner.run_turn(request, host, &mut sink).await
            }
            _ => self.inner.run_turn(request, host, &mut sink).await,
        };
        if let Some(change) = self.wrong.outcome {
            change(&mut outcome, &self.setting);
        }
        outcome
    }
}

/// A process that runs beside the turn.
struct Beside(Option<std::process::Child>);

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs the turn on a task of its own, which a drop does not reach.
async fn outliving(
    inner: Arc<dyn ExecutionBackend>,
    request: TurnRequest,
    host: TurnHost,
    sink: &mut Meddler<'_>,
) -> Outcome {
    let (sender, mut events) = mpsc::unbounded_channel();
    let turn = tokio::spawn(async move {
        let mut forward = move |event: EventEnvelope| drop(sender.send(event));
        inner.run_turn(request, host, &mut forward).await
    });
    while let Some(event) = events.recv().await {
        sink.accept(event);
    }
    turn.await.expect("the turn does not panic")
}

/// Begins a turn when it is dropped with one in it.
struct Anew(Option<(Arc<dyn ExecutionBackend>, TurnRequest)>);

impl Drop for Anew {
    fn drop(&mut self) {
        if let Some((backend, request)) = self.0.take() {
            tokio::spawn(async move {
                let mut nobody = |_event: EventEnvelope| {};
                backend.run_turn(request, TurnHost::new(), &mut nobody).await
            });
        }
    }
}

/// Changes events on their way, and numbers them anew.
struct Meddler<'a> {
    sink: &'a mut dyn EventSink,
    wrong: Wrong,
    next: u64,
}

impl EventSink for Meddler<'_> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_ready(context)
    }

    fn accept(&mut self, event: EventEnvelope) {
        let changed = match self.wrong.event {
            Some(change) => change(event.event),
            None => vec![event.event],
        };
        for inner in changed {
            let mut envelope = EventEnvelope::new(self.next, event.elapsed, inner);
            self.next += 1;
            if let Some(change) = self.wrong.envelope {
                change(&mut envelope);
            }
            self.sink.accept(envelope);
        }
    }
}
