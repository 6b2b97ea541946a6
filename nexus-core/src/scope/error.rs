//! Errors of assembling a scope.

use std::path::PathBuf;

use super::PathRule;

/// Reason why a scope cannot be assembled: the fault, its position, and advice.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// The root cannot be used.
    #[error("the root {root:?} {problem}")]
    Root {
        /// The root.
        root: PathBuf,
        /// The fault.
        problem: String,
    },
    /// A path cannot be used.
    #[error("{place}, {path:?}, {problem}")]
    Path {
        /// Its position, such as "write path 3 of the brief".
        place: String,
        /// The path.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// A rule for protected paths cannot be enforced.
    #[error("the do-not-touch rule {rule:?} cannot be enforced: {problem}")]
    Rule {
        /// The rule.
        rule: PathRule,
        /// The fault.
        problem: String,
    },
    /// Two slices overlap.
    #[error("the slices {first:?} and {second:?} both have {path:?}; give it to one of them")]
    Overlap {
        /// Name of one slice.
        first: String,
        /// Name of the other slice.
        second: String,
        /// Path that both slices contain.
        path: PathBuf,
    },
    /// An unrestricted scope has no write paths to slice.
    #[error("an unrestricted scope has no write paths to slice; assemble one from a brief")]
    Unrestricted,
}
