//! What a turn has said and done so far, and what becomes of it at the end.

use nexus_core::{
    AppliedEffort, BackendId, FinishReason, ModelId, Outbox, ProcessReport, Provenance, Recorder,
    ResumeHandle, TurnError, TurnEvent, TurnResult, turn::Started,
};
use serde_json::Value;

use super::conversation::{Failure, Step};

/// The events on their way, and the record kept of them.
#[derive(Debug)]
pub(super) struct TurnLog {
    pub(super) outbox: Outbox,
    pub(super) recorder: Recorder,
    pub(super) provenance: Provenance,
    /// Model calls that the vendor has shown so far.
    pub(super) model_calls: u32,
    /// What the processes before this one of the turn used: each counts its own.
    before: Before,
    /// Where the conversation can be taken up again.
    pub(super) resume: Option<ResumeHandle>,
    /// What is known of the last process.
    pub(super) process: Option<ProcessReport>,
    has_started: bool,
}

/// What earlier processes of a turn used.
#[derive(Debug, Default)]
struct Before {
    model_calls: u32,
    usd: f64,
}

impl TurnLog {
    /// Nothing has happened.
    pub(super) fn new(backend: BackendId, model: Option<ModelId>, effort: Option<AppliedEffort>) -> Self {
        let mut provenance = Provenance::new(backend);
        provenance.model = model;
        provenance.effort = effort;
        Self {
            outbox: Outbox::new(),
            recorder: Recorder::new(),
            provenance,
            model_calls: 0,
            before: Before::default(),
            resume: None,
            process: None,
            has_started: false,
        }
    }

    /// Another process of the turn begins to count from zero.
    pub(super) fn begin_process(&mut self) {
        let usd = self.recorder.cost.map_or(0.0, |cost| cost.usd.0);
        self.before = Before { model_calls: self.model_calls, usd };
    }

    /// Takes a step's news out of it; its writes and its verdict stay.
    pub(super) fn absorb(&mut self, step: &mut Step) {
        if let Some(model) = step.model.take() {
            self.provenance.model = Some(model);
        }
        if let Some(effort) = step.effort.take() {
            self.provenance.effort = Some(effort);
        }
        if let Some(version) = step.version.take() {
            self.provenance.version = Some(version);
        }
        if let Some(usage) = step.usage.take() {
            self.recorder.set_usage(usage);
        }
        if let Some(mut cost) = step.cost.take() {
            cost.usd.0 += self.before.usd;
            self.recorder.cost = Some(cost);
        }
        if let Some(resume) = step.resume.take() {
            self.resume = Some(resume);
        }
        if let Some(calls) = step.model_calls.take() {
            self.model_calls = self.before.model_calls + calls;
        }
        for event in step.events.drain(..) {
            self.event(event);
        }
    }

    /// Records an event and sends it on its way.
    pub(super) fn event(&mut self, event: impl Into<TurnEvent>) {
        self.start();
        let event = event.into();
        self.recorder.observe(&event);
        self.outbox.push(event);
    }

    /// Says that the turn was taken up, once, before any other event.
    pub(super) fn start(&mut self) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let started = Started::new(self.provenance.backend.clone())
            .with_model(self.provenance.model.clone())
            .with_effort(self.provenance.effort)
            .with_version(self.provenance.version.clone());
        self.outbox.push(started);
    }

    /// The turn ended well.
    pub(super) fn into_result(
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
    pub(super) fn into_error(mut self, failure: Failure, keeps_session: bool) -> TurnError {
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
