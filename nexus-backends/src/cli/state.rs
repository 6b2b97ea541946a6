//! What one turn keeps over all of its processes.

use nexus_core::{
    AppliedEffort, BackendId, CancelToken, TurnRequest,
    harness::{AnswerCheck, Overrun, TurnLog, Watch},
};

use super::stats::ProcessStats;

/// What one turn keeps over all of its processes.
pub(super) struct TurnState {
    pub(super) cancel: CancelToken,
    pub(super) watch: Watch,
    pub(super) log: TurnLog,
    pub(super) stats: ProcessStats,
    pub(super) overrun: Overrun,
    pub(super) answer: AnswerCheck,
}

impl TurnState {
    /// The state of a turn that begins now.
    pub(super) fn new(
        backend: &BackendId,
        request: &TurnRequest,
        effort: Option<AppliedEffort>,
        cancel: CancelToken,
    ) -> Self {
        Self {
            cancel,
            watch: Watch::new(&request.limits),
            log: TurnLog::new(backend.clone(), request.model.clone(), effort),
            stats: ProcessStats::default(),
            overrun: Overrun::default(),
            answer: AnswerCheck::new(request.output.clone()),
        }
    }
}
