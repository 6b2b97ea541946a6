//! Services over workspaces: the jobs of this process, the locks of all processes, and waiting for both.

mod jobs;
mod work_jobs;

pub use self::{
    jobs::{Job, JobFault, Jobs},
    work_jobs::{LockedWork, MAX_CALL_WAIT, WorkJob, WorkJobs, WorkResult, call_wait, lock_file},
};
