//! What a turn has said and done so far, and what becomes of it at the end.

use std::time::Duration;

use nexus_core::{
    AppliedEffort, BackendId, CancelToken, EventSink, FinishReason, ModelId, Outbox, ProcessReport,
    Provenance, Recorder, ResumeHandle, TurnError, TurnEvent, TurnResult, turn::Started,
};
use serde_json::Value;

use super::{Failure, Watch};

/// How long a sink that is not ready may hold up the return of a cancelled turn.
const CANCELLED_FLUSH: Duration = Duration::from_millis(250);

/// The events on their way, and the record kept of them.
#[derive(Debug)]
pub(crate) struct TurnLog {
    pub(crate) outbox: Outbox,
    pub(crate) recorder: Recorder,
    pub(crate) provenance: Provenance,
    /// Model calls that the vendor has shown so far.
    pub(crate) model_calls: u32,
    /// Where the conversation can be taken up again.
    pub(crate) resume: Option<ResumeHandle>,
    /// What is known of the last process, if there was one.
    pub(crate) process: Option<ProcessReport>,
    has_started: bool,
}

impl TurnLog {
    /// Nothing has happened.
    pub(crate) fn new(backend: BackendId, model: Option<ModelId>, effort: Option<AppliedEffort>) -> Self {
        let mut provenance = Provenance::new(backend);
        provenance.model = model;
        provenance.effort = effort;
        Self {
            outbox: Outbox::new(),
            recorder: Recorder::new(),
            provenance,
            model_calls: 0,
            resume: None,
            process: None,
            has_started: false,
        }
    }

    /// Records an event and sends it on its way.
    pub(crate) fn event(&mut self, event: impl Into<TurnEvent>) {
        self.start();
        let event = event.into();
        self.recorder.observe(&event);
        self.outbox.push(event);
    }

    /// Says that the turn was taken up, once, before any other event.
    pub(crate) fn start(&mut self) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let started = Started::new(self.provenance.backend.clone())
            .with_model(self.provenance.model.clone())
            .with_effort(self.provenance.effort)
            .with_version(self.provenance.version.clone());
        self.outbox.push(started);
    }

    /// Hands the rest of the events over. A sink that is not ready delays neither a cancelled turn nor the
    /// deadline; what it did not take is in the result.
    pub(crate) async fn flush(
        &mut self,
        events: &mut dyn EventSink,
        cancel: &CancelToken,
        watch: &Watch,
        is_cancelled: bool,
    ) {
        self.start();
        let patience = async {
            if is_cancelled {
                tokio::time::sleep(CANCELLED_FLUSH).await;
                return;
            }
            match watch.remaining() {
                Some(left) => tokio::time::sleep(left.max(CANCELLED_FLUSH)).await,
                None => std::future::pending().await,
            }
        };
        let cancelled_meanwhile = async {
            cancel.cancelled().await;
            tokio::time::sleep(CANCELLED_FLUSH).await;
        };
        tokio::select! {
            biased;
            () = self.outbox.flush(events) => {}
            () = patience => {}
            () = cancelled_meanwhile => {}
        }
    }

    /// The turn ended well.
    pub(crate) fn into_result(
        mut self,
        finish: FinishReason,
        output: Option<Value>,
        keeps_session: bool,
    ) -> TurnResult {
        self.recorder.resume = self.resume.filter(|_| keeps_session);
        let mut result = self.recorder.into_result(finish, self.provenance);
        result.output = output;
        let span = tracing::Span::current();
        if let Some(model) = &result.provenance.model {
            span.record("gen_ai.response.model", tracing::field::display(model));
        }
        if let Some(tokens) = result.usage.input_tokens {
            span.record("gen_ai.usage.input_tokens", tokens);
        }
        if let Some(tokens) = result.usage.all_output_tokens() {
            span.record("gen_ai.usage.output_tokens", tokens);
        }
        result
    }

    /// The turn failed.
    pub(crate) fn into_error(mut self, failure: Failure, keeps_session: bool) -> TurnError {
        tracing::Span::current().record("error.type", tracing::field::debug(failure.kind));
        self.recorder.resume = self.resume.filter(|_| keeps_session);
        let backend = self.provenance.backend.clone();
        self.recorder.provenance = Some(self.provenance);
        let error = failure.into_error(backend).with_partial(self.recorder.into_partial());
        match self.process {
            Some(process) => error.with_process(process),
            None => error,
        }
    }
}
