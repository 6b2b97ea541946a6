//! Triggers of type `file`: fire when files were written and have been quiet. [`FileSchedule`](super::FileSchedule) has the
//! rules.

mod change;
mod scan;
mod settle;
mod system;
mod watch;

pub(super) use scan::FileScan;
pub(super) use watch::FileWatch;
