//! A folder in which a piece of work lies: its `status.json` is the single truth about it.
//!
//! | file | holds |
//! | --- | --- |
//! | `status.json` | state, parent, links, labels and the caller's data; replaced as a whole |
//! | `events.jsonl` | what happened, one event on a line; only ever appended to |
//! | `.lock` | nothing; whoever writes holds a lock on it |
//! | `.status.json.*.new` | the next status, while it is being written |
//!
//! [`Workspaces`] are the folders of one place, each named by its [`WorkspaceId`]; a [`Workspace`] is one of them. There
//! is no database and no daemon: what every thread and every process knows is what the files say. Which agents work in
//! them is a matter of [`agent`].
//!
//! # What holds
//!
//! - **Readers** need no lock, wait for nobody, and see a whole status: the old one or the new one.
//! - **Writers**, threads and processes alike, take turns: [`Workspace::update`] reads, changes and writes under one lock
//!   of the operating system, so that no change is lost. A process that dies lets go of it.
//! - **Events** are numbered from 1 without a gap, whoever appends them.
//! - **After a crash** there is nothing to repair: open the workspace and read. A status that was never finished is
//!   ignored, and removed when the workspace is opened. The end of an event that was cut off is reported
//!   ([`EventLog::torn_tail`]) and stays; the next event starts on a line of its own.
//! - **Loss of power**: when a call that writes returns, its content is flushed to the disk, and on Unix its folder too.
//!
//! The lock is as good as that of the file system: on a network file system ask its manual. What others than this
//! module write into the files is answered with an error, never with a panic.
//!
//! # Blocking
//!
//! Every call reads or writes files, and a writer may wait for another: in async code, call it by the runtime's
//! `spawn_blocking`.
//!
//! ```
//! use nexus_workspace::{NewWorkspace, WorkspaceState, Workspaces};
//! use serde_json::json;
//!
//! # let place = tempfile::tempdir()?;
//! # let place = place.path();
//! let workspaces = Workspaces::below(place);
//! let task = workspaces.create(NewWorkspace::new().with_label("issue", "12").with_data(json!({ "rounds": 0 })))?;
//! let step = workspaces.create(NewWorkspace::new().with_parent(task.id().clone()))?;
//!
//! step.update(|status| status.enter(WorkspaceState::Running))?;
//! step.append("turn_started", json!({ "backend": "alpha" }))?;
//! task.update(|status| status.data["rounds"] = json!(1))?;
//!
//! let children = workspaces.children(task.id())?;
//! assert_eq!(children.entries[0].status.state, WorkspaceState::Running);
//! assert_eq!(task.status()?.generation(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod agent;
mod error;
mod event;
mod event_log;
mod file;
mod id;
mod lock;
mod new_workspace;
mod state;
mod status;
mod status_file;
mod time;
mod workspace;
mod workspaces;

pub use agent::{AgentType, AgentTypeError, AgentTypes};
pub use error::{WorkspaceError, WorkspaceErrorKind};
pub use event::WorkspaceEvent;
pub use event_log::{EventLog, TornLine};
pub use id::{InvalidWorkspaceId, WorkspaceId};
pub use new_workspace::NewWorkspace;
pub use state::WorkspaceState;
pub use status::WorkspaceStatus;
pub use workspace::Workspace;
pub use workspaces::{WorkspaceEntry, WorkspaceList, Workspaces};
