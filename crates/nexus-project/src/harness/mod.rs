//! The known programs with hooks. Their differences are data in `harnesses.json`.

mod install;
mod json_with_comments;
mod program;
mod settings_file;
mod splice;
mod wire;

pub use install::InstallReport;
pub use program::Harness;
