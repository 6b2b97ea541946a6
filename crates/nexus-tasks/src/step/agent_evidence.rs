//! What one agent of an attempt may cite.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::evidence::{EvidenceId, StepEvidence};

/// What one agent of an attempt may cite: what was there when it began, and what it ran and changed itself. Clones share it.
///
/// Agents that work at the same time know nothing of one another's runs; their tests have one sequence of numbers all the same, so
/// that each id names one run.
#[derive(Clone, Debug)]
pub(super) struct AgentEvidence {
    before: Arc<StepEvidence>,
    numbers: TestNumbers,
    own: Arc<Mutex<OwnEvidence>>,
}

/// The numbers of an attempt's tests. Clones share the sequence.
#[derive(Clone, Debug)]
pub(super) struct TestNumbers(Arc<Mutex<u32>>);

/// Evidence of the agent's own runs.
#[derive(Debug, Default)]
struct OwnEvidence {
    runs: StepEvidence,
    /// The lines that it changed, as of when it was last looked at.
    lines: StepEvidence,
}

impl TestNumbers {
    /// Those after what was run before.
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

    /// Puts the lines of this patch in the place of those that were known to be changed.
    pub(super) fn set_patch(&self, patch: &[u8]) {
        let mut lines = StepEvidence::new();
        lines.add_patch(patch);
        self.own().lines = lines;
    }

    /// All that it may cite.
    pub(super) fn all(&self) -> StepEvidence {
        let mut all = (*self.before).clone();
        let own = self.own();
        all.add_all(&own.runs);
        all.add_all(&own.lines);
        all
    }

    /// What it ran.
    pub(super) fn runs(&self) -> StepEvidence {
        self.own().runs.clone()
    }

    /// Forgets what it ran and changed: another backend does its part again.
    pub(super) fn take_back(&self) {
        *self.own() = OwnEvidence::default();
    }

    fn own(&self) -> MutexGuard<'_, OwnEvidence> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
