//! Triggers of type `file`: what was written, once it has been quiet. What follows from what is in [`FileSchedule`](super::FileSchedule).

mod change;
mod scan;
mod settle;
mod system;
mod watch;

pub(super) use scan::FileScan;
pub(super) use watch::FileWatch;
