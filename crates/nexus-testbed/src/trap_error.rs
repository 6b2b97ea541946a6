//! Faults of a trap.

/// A trap cannot be used: the place and the description of the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct TrapError {
    /// The trap and the place in it: a path, followed by the key of `trap.yaml`.
    pub place: String,
    /// Problem, with advice.
    pub problem: String,
}

impl TrapError {
    pub(crate) fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into() }
    }
}
