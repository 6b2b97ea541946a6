//! Services over workspaces: the jobs of this process, the locks of all processes, and waiting for both.

mod documents;
mod jobs;
mod work_jobs;

pub use self::{
    documents::{WorkData, WorkListing, WorkSnapshot},
    jobs::{Job, JobFault, Jobs},
    work_jobs::{LockedWork, MAX_CALL_WAIT, WorkJob, WorkJobs, WorkResult, call_wait, lock_file},
};
