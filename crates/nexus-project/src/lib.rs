//! Plans and knowledge of a project, in files that people and agents share, and the tools to work with them.

mod branch;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
pub mod file;
mod folder;
pub mod harness;
pub mod hook;
pub mod hub;
pub mod role;
mod schema;
pub mod skill;
pub mod state;
mod time;
pub mod tools;
mod working_folder;

pub use error::{ProjectError, ProjectErrorKind};
pub use folder::{InitReport, ProjectFolder};
pub use schema::schemas;
pub use time::Time;
pub use tools::{ProjectTools, ToolPrefix};
pub use working_folder::{WorkingFolderReport, create_working_folder};
