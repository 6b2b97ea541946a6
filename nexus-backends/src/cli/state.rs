//! State of one turn across all its processes.

use std::time::{Duration, SystemTime};

use nexus_core::{
    AppliedEffort, BackendId, CancelToken, ErrorKind, Limit, TurnEvent, TurnRequest,
    harness::{AnswerCheck, Failure, Overrun, Renewal, TurnLog, TurnSpan, Watch},
};

use super::contract::USUAL_LIFETIME;
use super::stats::ProcessStats;
use crate::auth::Lease;

/// State of one turn across all its processes.
pub(super) struct TurnState {
    pub(super) cancel: CancelToken,
    pub(super) watch: Watch,
    pub(super) log: TurnLog,
    pub(super) stats: ProcessStats,
    pub(super) overrun: Overrun,
    pub(super) answer: AnswerCheck,
    pub(super) renewal: Renewal,
    /// Credential of the last process, if the vendor rejected it. Its files are erased.
    pub(super) refused: Option<Lease>,
    /// Location of the credential whose expiry replaces the turn's deadline; `None` if the request's deadline applies.
    ended_by: Option<String>,
}

impl TurnState {
    /// Creates the state of a turn that begins now.
    pub(super) fn new(
        backend: &BackendId,
        request: &TurnRequest,
        effort: Option<AppliedEffort>,
        cancel: CancelToken,
        span: &TurnSpan,
        stats: ProcessStats,
    ) -> Self {
        let mut log = TurnLog::new(backend.clone(), request.model.clone(), effort).in_span(span);
        log.infer_model_calls();
        Self {
            cancel,
            watch: Watch::new(&request.limits),
            log,
            stats,
            overrun: Overrun::default(),
            answer: AnswerCheck::new(request.output.clone()),
            renewal: Renewal::default(),
            refused: None,
            ended_by: None,
        }
    }

    /// Moves the deadline before the expiry of the process's credential, because a running CLI cannot get another one.
    /// Emits a warning if this is earlier than the request's deadline.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unauthenticated`] if the credential has expired.
    pub(super) fn end_with(&mut self, lease: &Lease) -> Result<(), Failure> {
        let now = SystemTime::now();
        let Some(last_use) = lease.last_use(now) else { return Ok(()) };
        let place = lease.place();
        let left = last_use.duration_since(now).unwrap_or_default();
        if left.is_zero() {
            return Err(Failure::new(
                ErrorKind::Unauthenticated,
                format!("the credential in {place} has ended"),
            ));
        }
        let asked_for = self.watch.remaining().unwrap_or(USUAL_LIFETIME);
        if self.watch.shorten(left) {
            if left < asked_for {
                let left = in_words(left);
                let text = format!(
                    "the credential in {place} is valid for another {left}; the turn must end by then"
                );
                self.log.event(TurnEvent::warning(text));
            }
            self.ended_by = Some(place);
        }
        Ok(())
    }

    /// Restores the request's deadline, because the credential that limited the turn is no longer used.
    pub(super) fn end_as_asked(&mut self) {
        self.watch.restore_deadline();
        self.ended_by = None;
    }

    /// Returns the failure of a turn that ran out of time. `kind` is the result of [`Watch::ran_out`].
    pub(super) fn out_of_time(&self, kind: ErrorKind) -> Failure {
        let mut failure = self.log.out_of_time(kind, &self.watch);
        if let (ErrorKind::LimitReached(Limit::Deadline), Some(place), Some(message)) =
            (failure.kind, &self.ended_by, &mut failure.message)
        {
            message.push_str(&format!(", because the credential in {place} ends"));
        }
        failure
    }
}

/// Formats a duration: in seconds below two minutes, otherwise in whole minutes.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}
