//! Common parts of services over workspaces: jobs of this process, locks between processes, and waiting for both.

mod arguments;
mod documents;
mod indexed;
mod jobs;
mod task_starter;
mod type_bindings;
mod work_jobs;
mod work_watch;

pub use self::{
    arguments::{check_labels, check_text},
    documents::{WorkData, WorkListing, WorkSnapshot},
    indexed::{IndexedList, ShownWork},
    jobs::{Job, JobFault, Jobs},
    task_starter::{FollowUpTask, TaskStarter},
    type_bindings::TypeBindings,
    work_jobs::{LockedWork, MAX_CALL_WAIT, WorkJob, WorkJobs, WorkResult, call_wait, lock_file},
    work_watch::WorkWatch,
};
