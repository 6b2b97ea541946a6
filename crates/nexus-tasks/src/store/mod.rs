//! The folders of tasks: what lies in them, and how it is read and written.
//!
//! | file | holds |
//! | --- | --- |
//! | `status.json` | the truth: [`TaskState`](crate::TaskState), and [`TaskData`] beside it |
//! | `events.jsonl` | what happened, for people ([`TaskLogEvent`]); nothing is decided by it |
//! | `steps/N.json` | what attempt N came to ([`StepRecord`](crate::StepRecord)); counts once the status has left that attempt |
//! | `turns.jsonl` | every turn of every agent |
//! | `probes/N.json` | every probe that was run |
//! | `.tree/` | the task's repository |
//! | `base/` | the files with which the task began |
//! | `work/`, `checks/` | folders in which agents, tests and probes work |
//! | `.step` | nothing; whoever runs a step holds a lock on it |
//! | `.follow-ups` | nothing; whoever does what follows a completion holds a lock on it |
//!
//! Files are their owner's alone, and replaced as a whole. What somebody else wrote into them is an error that names the file;
//! nothing is written then.

mod data;
mod git;
mod log;
mod task;
mod tasks;

pub(crate) use self::tasks::{IndexedTasks, TaskDetails};
pub use self::{
    data::{FollowUp, SettledStep, StepIntent, TaskData},
    log::TaskLogEvent,
    task::{Task, TaskId, TaskSnapshot},
    tasks::{TaskListing, TaskStore},
};
