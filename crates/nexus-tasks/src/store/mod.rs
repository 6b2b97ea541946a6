//! The folders of tasks: their contents, and functions that read and write them.
//!
//! | file | holds |
//! | --- | --- |
//! | `status.json` | the authoritative state: [`TaskState`](crate::TaskState) and [`TaskData`] |
//! | `events.jsonl` | the log, for people ([`TaskLogEvent`]); no decision depends on it |
//! | `steps/N.json` | the record of attempt N ([`StepRecord`](crate::StepRecord)); counts once the status has left that attempt |
//! | `turns.jsonl` | every turn of every agent |
//! | `probes/N.json` | every probe that was run |
//! | `.tree/` | the task's repository |
//! | `base/` | the files with which the task began |
//! | `work/`, `checks/` | folders in which agents, tests and probes work |
//! | `.step` | empty; a process that runs a step locks it |
//! | `.follow-ups` | empty; a process that does the follow-ups of a completion locks it |
//!
//! Files are owner-only, and are replaced as a whole. If another program changed a file so that it is invalid, the call fails with an error
//! that names the file, and writes nothing.

mod data;
mod git;
mod log;
mod task;
mod tasks;

pub use self::{
    data::{FollowUp, QueueEntry, SettledStep, StepIntent, TaskData},
    log::TaskLogEvent,
    task::{Task, TaskId, TaskSnapshot},
    tasks::{TaskListing, TaskStore},
};
pub(crate) use self::{
    log::is_landing,
    tasks::{IndexedTasks, TaskDetails},
};
