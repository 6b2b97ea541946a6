//! Why a scope cannot be put together.

use std::path::PathBuf;

use super::PathRule;

/// Why a scope cannot be put together: what is wrong, where it was written, and what to write instead.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// The root is of no use.
    #[error("the root {root:?} {problem}")]
    Root {
        /// The root.
        root: PathBuf,
        /// The fault.
        problem: String,
    },
    /// A path is of no use.
    #[error("{place}, {path:?}, {problem}")]
    Path {
        /// Its position, such as "write path 3 of the brief".
        place: String,
        /// The path.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// A rule of what must not be touched cannot be kept.
    #[error("the do-not-touch rule {rule:?} cannot be enforced: {problem}")]
    Rule {
        /// The rule.
        rule: PathRule,
        /// The fault.
        problem: String,
    },
    /// Two slices have a place in common.
    #[error("the slices {first:?} and {second:?} both have {path:?}; give it to one of them")]
    Overlap {
        /// One slice.
        first: String,
        /// The other.
        second: String,
        /// The path that both have.
        path: PathBuf,
    },
    /// An unrestricted scope has no write paths to slice.
    #[error("an unrestricted scope has no write paths to slice; assemble one from a brief")]
    Unrestricted,
}
