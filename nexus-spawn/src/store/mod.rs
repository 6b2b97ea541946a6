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
//!
//! Files are their owner's alone, and replaced as a whole. What somebody else wrote into them is an error that names the file;
//! nothing is written then.

mod data;
mod file;
mod git;
mod hold;
mod log;
mod task;
mod tasks;

pub use self::{
    data::{SettledStep, StepIntent, TaskData},
    hold::StepHold,
    log::{LoggedTurn, TaskLogEvent},
    task::{Task, TaskId, TaskSnapshot},
    tasks::{TaskListing, TaskStore},
};
pub(crate) use self::{
    file::{make_folder, open_lock, read_private, replace_private},
    task::{damaged, unusable},
};
