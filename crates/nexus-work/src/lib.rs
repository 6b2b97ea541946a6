//! Folders for pieces of work. The `status.json` of a folder is the only authority on its work.
//!
//! | file | content |
//! | --- | --- |
//! | `status.json` | kind, state, parent, links, labels and the caller's data; replaced in one step |
//! | `events.jsonl` | one event per line; append-only |
//! | `.lock` | empty; writers lock it |
//! | `.status.json.*.new` | the next status, while it is being written |
//!
//! [`Workspaces`] are the folders below one folder, each named by its [`WorkspaceId`]; a [`Workspace`] is one of them. There
//! is no database and no daemon: all threads and processes read the same files. [`agent`] describes the agents that work in
//! them.
//!
//! # Guarantees
//!
//! - **Readers** need no lock and never wait. They see a whole status: the old one or the new one.
//! - **Writers**, threads and processes, take turns: [`Workspace::update`] reads, changes and writes under one lock of the
//!   operating system, so that no change is lost. The system releases the lock of a process that dies.
//! - **Events** are numbered from 1 without a gap, even if several processes append.
//! - **Links** have two sides: [`Workspace::link`] and [`Workspaces::create`] change both workspaces. A reader finds one
//!   side without the other only between these writes, and after a crash until one of the two is opened.
//! - **After a crash** nothing needs a repair: open the workspace and read. An unfinished status is ignored, and removed
//!   when the workspace is opened. A partial event at the end is reported ([`EventLog::torn_tail`]) and stays; the next
//!   event starts on a new line.
//! - **Loss of power**: when a writing call returns, its content is flushed to the disk, and on Unix its folder too.
//!
//! The lock is as reliable as that of the file system: for a network file system, see its manual. Invalid content from other
//! programs leads to an error, never to a panic.
//!
//! # Waiting
//!
//! [`Workspace::wait_for_change`] and [`Workspace::wait_until`] wait for writes by other threads or processes. They do not
//! poll if the system reports changes.
//!
//! # Journal
//!
//! The services of a home record each change in its [`Journal`](nexus_files::Journal), by [`Workspaces::with_journal`]. A
//! `JournalWatch` (feature `service`) waits for the entries, so that a view of many workspaces waits on one file.
//!
//! # Blocking
//!
//! Every call reads or writes files, and a writer may wait for another: in async code, call it inside `spawn_blocking`.
//!
//! ```
//! use nexus_work::{NewWorkspace, WorkspaceState, Workspaces};
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//!
//! /// What the owner of these workspaces knows about each.
//! #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
//! #[serde(rename_all = "snake_case")]
//! enum TaskState {
//!     Framing,
//!     Active { step: u32 },
//!     Complete,
//! }
//!
//! impl WorkspaceState for TaskState {
//!     const KIND: &'static str = "task";
//!
//!     fn is_final(&self) -> bool {
//!         *self == Self::Complete
//!     }
//! }
//!
//! # let place = tempfile::tempdir()?;
//! # let place = place.path();
//! let workspaces = Workspaces::below(place);
//! let task = workspaces.create(NewWorkspace::new(TaskState::Framing).with_label("issue", "12"))?;
//! let part = workspaces.create(NewWorkspace::new(TaskState::Framing).with_parent(task.id().clone()))?;
//!
//! part.update(|status| status.state = TaskState::Active { step: 1 })?;
//! part.append("turn_started", json!({ "backend": "alpha" }))?;
//! task.update(|status| status.state = TaskState::Complete)?;
//!
//! let children = workspaces.children(task.id())?;
//! assert_eq!(children.entries[0].status.state, TaskState::Active { step: 1 });
//! assert!(task.status()?.is_final());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod agent;
mod answer_words;
#[cfg(feature = "service")]
mod assignment;
mod error;
mod event;
mod event_log;
mod file;
mod id;
#[cfg(feature = "service")]
mod journal_watch;
mod links;
mod lock;
mod new_workspace;
#[cfg(feature = "report")]
pub mod report;
#[cfg(feature = "service")]
mod service;
mod settings;
mod state;
mod status;
mod status_file;
#[cfg(feature = "service")]
mod wait;
#[cfg(feature = "service")]
mod watch;
mod workspace;
mod workspaces;

pub use agent::{AgentType, AgentTypeError, AgentTypes};
#[cfg(feature = "service")]
pub use assignment::{
    AgentFailure, AgentRecord, AgentReport, AgentRoute, AgentTurn, AgentTurnPurpose, Assignment, DraftError,
    DraftFault, Faults, LoggedTurn, MOST_REFUSED_SUBMISSIONS, PageRequest, Quote, ResetWait, TextPage,
    WorkBudget, bounded_answer, run_agent, shown,
};
pub use error::{WorkspaceError, WorkspaceErrorKind};
pub use event::WorkspaceEvent;
pub use event_log::{EventLog, TornLine};
pub use id::{InvalidWorkspaceId, WorkspaceId};
#[cfg(feature = "service")]
pub use journal_watch::JournalWatch;
pub use new_workspace::NewWorkspace;
#[cfg(feature = "service")]
pub use service::{
    FollowUpTask, IndexedList, Job, JobFault, Jobs, LockedWork, MAX_CALL_WAIT, ShownWork, TaskStarter,
    TypeBindings, WorkData, WorkJob, WorkJobs, WorkListing, WorkResult, WorkSnapshot, WorkWatch, call_wait,
    check_labels, check_text, lock_file,
};
pub use state::WorkspaceState;
pub use status::WorkspaceStatus;
pub use workspace::Workspace;
pub use workspaces::{WorkspaceEntry, WorkspaceList, Workspaces};
