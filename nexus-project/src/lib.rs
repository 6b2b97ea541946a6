//! What a project plans and knows, in files that people and agents share, and the tools to work with them.

pub mod artifact;
mod error;

pub use error::{ProjectError, ProjectErrorKind};
