//! The programs whose hooks are known: what differs among them is data, in `harnesses.json`.

mod install;
mod program;
mod splice;
mod wire;

pub use install::InstallReport;
pub use program::Harness;
