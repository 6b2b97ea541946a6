//! Events and record of a running turn, and the result or error made from them.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use serde_json::Value;

use super::{
    Failure, ModelCall, Outbox, Recorder, RetryCause, ToolSpan, TurnSpan, Watch, redaction::Redaction,
    sleep_until, turn_trace::TurnTrace,
};
use crate::{
    AppliedEffort, BackendId, CallId, CancelToken, ErrorKind, EventSink, FinishReason, ModelId,
    ProcessReport, Provenance, ResumeHandle, TurnError, TurnEvent, TurnResult, redact::Redactor,
    turn::Started,
};

/// Longest delay of a cancelled turn by a sink that is not ready.
const CANCELLED_FLUSH: Duration = Duration::from_millis(250);

/// Warning about a finished message that differs from its deltas.
const OTHER_TEXT: &str = "the text of a finished message differs from its deltas; the finished text counts";

/// The events of a turn, queued for the sink, and their record.
///
/// Every event passes through [`TurnLog::event`], so that the shown events and the returned result agree. A backend writes
/// all other data into the fields.
///
/// All output leaves through this type, so it removes the secrets of the turn from events, result, error and spans. The
/// redactor from [`TurnLog::redact_with`] knows these secrets.
#[derive(Debug)]
pub struct TurnLog {
    /// Events that the sink has not taken yet.
    pub outbox: Outbox,
    /// Record built from the events.
    pub recorder: Recorder,
    /// Backend that runs the turn. The first event contains the model and the version, if they are known by then.
    pub provenance: Provenance,
    /// Number of model calls so far that the backend made or the vendor reported.
    pub model_calls: u32,
    /// Resume handle of the conversation.
    pub resume: Option<ResumeHandle>,
    /// Report on the last process, if the backend started one.
    pub process: Option<ProcessReport>,
    /// Reason for repeating the present request to the model, until the model answers.
    pub retry_cause: RetryCause,
    has_started: bool,
    redaction: Redaction,
    /// Spans below the turn's span. `None` if no subscriber listens. Boxed, because few turns have it.
    trace: Option<Box<TurnTrace>>,
}

impl TurnLog {
    /// Creates an empty log of a turn of `backend`. Times of its events count from now.
    pub fn new(backend: BackendId, model: Option<ModelId>, effort: Option<AppliedEffort>) -> Self {
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
            retry_cause: RetryCause::default(),
            has_started: false,
            redaction: Redaction::default(),
            trace: None,
        }
    }

    /// Creates the spans of model calls and tool calls below `span`, and records the end of the turn in `span`.
    #[must_use]
    pub fn in_span(mut self, span: &TurnSpan) -> Self {
        self.trace = (!span.span.is_disabled()).then(|| Box::new(TurnTrace::new(span.clone())));
        self
    }

    /// Removes all present and later secrets of `redactor` from the output of the turn. Use the turn's own redactor,
    /// [`Session::redactor`](crate::Session::redactor), which also checks the arguments of calls.
    pub fn redact_with(&mut self, redactor: Redactor) {
        self.redaction = Redaction::new(redactor);
    }

    /// Infers model calls from events, for a vendor's loop. A model call begins when tool calls are answered, when a reply
    /// begins without a recorded request, or when a call is repeated.
    pub fn infer_model_calls(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.infer_model_calls();
        }
    }

    /// Returns the spans, updated with the answering model, if a subscriber listens.
    #[inline]
    fn trace(&mut self) -> Option<&mut TurnTrace> {
        let trace = self.trace.as_mut()?;
        // Backends fill the public `provenance` at any time, so redact it before a span copies it.
        self.redaction.provenance(&mut self.provenance);
        trace.model(self.provenance.model.as_ref());
        Some(trace)
    }

    /// Starts a model call in the trace. It ends with a message that has its usage or stop reason, with
    /// [`TurnLog::model_call_ended`], or with the next model call.
    pub fn model_asked(&mut self) {
        if let Some(trace) = self.trace() {
            trace.model_asked();
        }
    }

    /// Ends a model call in the trace whose end no message reports.
    pub fn model_call_ended(&mut self, call: &ModelCall) {
        // Return before the clone, which is useless without a subscriber.
        if self.trace.is_none() {
            return;
        }
        let mut call = call.clone();
        call.finish.iter_mut().for_each(|finish| self.redaction.finish(finish));
        if let Some(trace) = self.trace() {
            trace.model_call_ended(&call);
        }
    }

    /// Records in the trace that a model call failed.
    pub fn model_failed(&mut self, kind: ErrorKind) {
        if let Some(trace) = &mut self.trace {
            trace.model_failed(kind);
        }
    }

    /// Records the vendor's name of the conversation in the trace.
    pub fn name_conversation(&mut self, id: &str) {
        if let Some(trace) = &mut self.trace {
            trace.conversation(&self.redaction.name(id));
        }
    }

    /// Returns the span of a started tool call, as parent for the tool's own spans.
    pub fn tool_span(&self, call: &CallId) -> ToolSpan {
        ToolSpan(self.trace.as_ref().and_then(|trace| trace.tool(call)).cloned())
    }

    /// Records an event and puts it into the outbox. Never waits.
    pub fn event(&mut self, event: impl Into<TurnEvent>) {
        self.start();
        let mut event = event.into();
        if self.redaction.holds() {
            // Withheld text belongs in front of the end of its message, so that the deltas add up to the finished text.
            for held in self.redaction.before(&event) {
                self.record(held);
            }
        }
        if self.redaction.apply(&mut event) {
            // Compare before `observe`, which replaces the deltas by the finished text.
            let is_other = matches!(&event, TurnEvent::MessageEnded(ended) if self.recorder.differs(ended));
            self.observe(&event);
            self.outbox.push(event);
            if is_other {
                self.record(TurnEvent::warning(OTHER_TEXT));
            }
        }
    }

    /// Records an event from which secrets were already removed.
    #[inline]
    fn observe(&mut self, event: &TurnEvent) {
        self.recorder.observe(event);
        self.retry_cause.observe(event);
        if let Some(trace) = self.trace() {
            trace.observe(event);
        }
    }

    #[cold]
    fn record(&mut self, held: TurnEvent) {
        self.observe(&held);
        self.outbox.push(held);
    }

    /// Records text that was withheld as the possible beginning of a secret, because no more text will follow.
    fn record_held(&mut self) {
        for held in self.redaction.release(None) {
            self.record(held);
        }
    }

    /// Reports the start of the turn once, before any other event. [`TurnLog::event`] and [`TurnLog::flush`] call it.
    pub fn start(&mut self) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        self.redaction.provenance(&mut self.provenance);
        let started = Started::new(self.provenance.backend.clone())
            .with_model(self.provenance.model.clone())
            .with_effort(self.provenance.effort)
            .with_version(self.provenance.version.clone());
        // Bypass `event`, which calls `start` itself. The recorder needs no start event.
        self.outbox.push(started);
    }

    /// Returns the failure of a turn that ran out of time. `kind` is the result of [`Watch::ran_out`]. If a request to the
    /// model was being repeated, the failure has the kind and message of the earlier failure and the time of the next
    /// attempt.
    pub fn out_of_time(&self, kind: ErrorKind, watch: &Watch) -> Failure {
        let failure = Failure::out_of_time(kind, watch.elapsed());
        self.retry_cause.explain(failure)
    }

    /// Waits for `future`. Meanwhile sends events to the sink and enforces cancellation and time limits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled), or the result of [`Watch::ran_out`]. The future is dropped.
    pub async fn wait_for<T>(
        &mut self,
        future: impl Future<Output = T>,
        watch: &Watch,
        cancel: &CancelToken,
        events: &mut dyn EventSink,
    ) -> Result<T, Failure> {
        let mut future = pin!(future);
        let mut cancelled = pin!(cancel.cancelled());
        let mut alarm = pin!(sleep_until(watch.next()));
        poll_fn(|context| {
            // Poll cancellation first: a cancelled turn must not continue with a result that arrives at the
            // same time.
            if cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Failure::cancelled()));
            }
            // Poll the future before the alarm, so that a result that arrives together with the limit counts.
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            // Loop, because a new alarm wakes this task only after its first poll.
            while alarm.as_mut().poll(context).is_ready() {
                if let Some(kind) = watch.ran_out() {
                    return Poll::Ready(Err(self.out_of_time(kind, watch)));
                }
                alarm.set(sleep_until(watch.next()));
            }
            // If the sink is slow, the events stay in the outbox, and the sink wakes this task.
            let _ = self.outbox.poll_flush(events, context);
            Poll::Pending
        })
        .await
    }

    /// Sends the remaining events at the end of the turn. A slow sink delays a cancelled turn by at most 250 ms. It delays
    /// any other turn until the deadline, or by 250 ms if the deadline has passed. The result contains what the sink did not
    /// take.
    pub async fn flush(
        &mut self,
        events: &mut dyn EventSink,
        cancel: &CancelToken,
        watch: &Watch,
        is_cancelled: bool,
    ) {
        // A turn that fails before its first event still reports its start.
        self.start();
        self.record_held();
        let mut patience = pin!(async {
            if is_cancelled {
                tokio::time::sleep(CANCELLED_FLUSH).await;
                return;
            }
            match watch.remaining() {
                // A turn that failed at its deadline has no time left, but its last events still need a moment.
                Some(left) => tokio::time::sleep(left.max(CANCELLED_FLUSH)).await,
                None => std::future::pending().await,
            }
        });
        // The caller may cancel during the flush, which then has the same bound as that of a cancelled turn.
        let mut cancelled_meanwhile = pin!(async {
            cancel.cancelled().await;
            tokio::time::sleep(CANCELLED_FLUSH).await;
        });
        poll_fn(|context| {
            let is_over = self.outbox.poll_flush(events, context).is_ready()
                || patience.as_mut().poll(context).is_ready()
                || cancelled_meanwhile.as_mut().poll(context).is_ready();
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Returns the result of a successful turn, with the checked `output` if the request has a schema. Includes the resume
    /// handle if `keeps_conversation`.
    pub fn into_result(
        mut self,
        finish: FinishReason,
        output: Option<Value>,
        keeps_conversation: bool,
    ) -> TurnResult {
        self.finish(keeps_conversation);
        let mut result = self.recorder.into_result(finish, self.provenance);
        self.redaction.finish(&mut result.finish);
        result.output = output;
        // The value comes from the model, which may repeat a secret.
        result.output.iter_mut().for_each(|output| self.redaction.value(output));
        if let Some(trace) = &mut self.trace {
            trace.answered(&result);
        }
        result
    }

    /// Returns the error of a failed turn, with everything produced so far. The partial result includes the resume handle if
    /// `keeps_conversation`.
    pub fn into_error(mut self, mut failure: Failure, keeps_conversation: bool) -> TurnError {
        self.finish(keeps_conversation);
        self.redaction.failure(&mut failure);
        if let Some(trace) = &mut self.trace {
            // Close the trace before the lines below consume the record and the provenance.
            trace.failed(failure.kind, &self.provenance, &self.recorder.usage());
        }
        let backend = self.provenance.backend.clone();
        self.recorder.provenance = Some(self.provenance);
        let error = failure.into_error(backend).with_partial(self.recorder.into_partial());
        match self.process {
            Some(mut process) => {
                // The end of the program's standard error may repeat a secret.
                self.redaction.process(&mut process);
                error.with_process(process)
            }
            None => error,
        }
    }

    /// Completes the record at the end of the turn.
    fn finish(&mut self, keeps_conversation: bool) {
        self.record_held();
        self.redaction.provenance(&mut self.provenance);
        self.recorder.resume = self.resume.take().filter(|_| keeps_conversation);
        self.recorder.resume.iter_mut().for_each(|resume| self.redaction.resume(resume));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        EventEnvelope, Limits,
        turn::{MessageEnded, MessageVoided, TextDelta, VoidCause},
    };

    /// The warnings of a turn that had these events.
    fn warnings(events: Vec<TurnEvent>) -> Vec<String> {
        let mut log = TurnLog::new("test".into(), None, None);
        events.into_iter().for_each(|event| log.event(event));
        let mut shown = Vec::new();
        let mut sink = |envelope: EventEnvelope| {
            if let TurnEvent::Warning(warning) = envelope.event {
                shown.push(warning.text);
            }
        };
        let watch = Watch::new(&Limits::new());
        let flush = async { log.flush(&mut sink, &CancelToken::new(), &watch, false).await };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(flush);
        shown
    }

    fn delta(text: &str) -> TurnEvent {
        TextDelta::new("m".into(), text).into()
    }

    fn ended(text: &str) -> TurnEvent {
        MessageEnded::new("m".into(), text).into()
    }

    #[test]
    fn a_finished_message_that_differs_from_its_deltas_warns() {
        for (deltas, text) in [(vec!["Helo"], "Hello"), (vec!["Hel"], "Hello"), (vec!["Hello", "!"], "Hello")]
        {
            let mut events: Vec<TurnEvent> = deltas.iter().map(|text| delta(text)).collect();
            events.push(ended(text));
            let found = warnings(events);
            assert!(matches!(&found[..], [warning] if warning.contains("differs")), "{deltas:?}: {found:?}");
        }
        for events in [
            vec![delta("Hel"), delta("lo"), ended("Hello")],
            vec![ended("Hello")],
            vec![delta("Hel"), MessageVoided::new("m".into(), VoidCause::Retry).into(), ended("Hello")],
        ] {
            assert_eq!(warnings(events.clone()), Vec::<String>::new(), "{events:?}");
        }
    }

    proptest! {
        #[test]
        fn it_warns_once_and_only_of_another_text(text in "[ab]{1,9}", cut in 0_usize..9, end in "[ab]{0,9}") {
            let at = cut.min(text.len());
            let found = warnings(vec![delta(&text[..at]), delta(&text[at..]), ended(&end)]);
            prop_assert_eq!(found.len(), usize::from(text != end));
        }
    }
}
