//! Evidence that one agent of an attempt may cite.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::evidence::{EvidenceId, StepEvidence};

/// Evidence that one agent of an attempt may cite: the evidence at its start, and its own runs and changes. Clones share it.
///
/// Agents that work at the same time do not see each other's runs. Their tests still share one sequence of numbers, so that each id names
/// a single run.
#[derive(Clone, Debug)]
pub(super) struct AgentEvidence {
    before: Arc<StepEvidence>,
    numbers: TestNumbers,
    own: Arc<Mutex<OwnEvidence>>,
}

/// The numbers of an attempt's tests. Clones share the sequence.
#[derive(Clone, Debug)]
pub(super) struct TestNumbers(Arc<Mutex<u32>>);

/// Evidence of the agent's own tests and probes, and of the lines that it changed.
#[derive(Debug, Default)]
struct OwnEvidence {
    runs: StepEvidence,
    /// Lines that it had changed at the last check.
    lines: StepEvidence,
}

impl TestNumbers {
    /// Continues the numbers of earlier runs.
    pub(super) fn after(before: &StepEvidence) -> Self {
        Self(Arc::new(Mutex::new(before.last_test())))
    }

    fn next(&self) -> u32 {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = last.saturating_add(1);
        *last
    }
}

impl AgentEvidence {
    pub(super) fn new(before: StepEvidence, numbers: TestNumbers) -> Self {
        Self { before: Arc::new(before), numbers, own: Arc::default() }
    }

    pub(super) fn add_test(&self) -> EvidenceId {
        let number = self.numbers.next();
        self.own().runs.add_numbered_test(number)
    }

    pub(super) fn add_probe(&self, number: u32) -> EvidenceId {
        self.own().runs.add_probe(number)
    }

    /// Replaces the agent's changed lines by the lines that this patch changes.
    pub(super) fn set_patch(&self, patch: &[u8]) {
        let mut lines = StepEvidence::new();
        lines.add_patch(patch);
        self.own().lines = lines;
    }

    /// Returns all evidence that the agent may cite.
    pub(super) fn all(&self) -> StepEvidence {
        let mut all = (*self.before).clone();
        let own = self.own();
        all.add_all(&own.runs);
        all.add_all(&own.lines);
        all
    }

    /// Returns the evidence of the agent's own runs.
    pub(super) fn runs(&self) -> StepEvidence {
        self.own().runs.clone()
    }

    /// Drops the agent's runs and changes, because another backend repeats the agent's part.
    pub(super) fn take_back(&self) {
        *self.own() = OwnEvidence::default();
    }

    fn own(&self) -> MutexGuard<'_, OwnEvidence> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
