//! Scopes of participants, and sessions, which decide on every call of a caller's tool.
//!
//! A [`ParticipantScope`] is assembled from explicit inputs and lists the tools and paths of a participant. A
//! [`Session`] enforces it: every call passes [`Session::authorize`], from a native loop or a vendor's program,
//! and a call out of scope never reaches the tool. The backends only transport the calls.
//!
//! The code that runs a turn opens a [`TurnSession`] below the caller's session and passes every call to it
//! unchanged, also calls that can only be denied. The tool runs with a [`Permit`]; otherwise the model reads a
//! [`Denial`], and the call's status is [`ToolCallStatus::Denied`](crate::ToolCallStatus::Denied). If a turn
//! runs on another machine than its caller, its session forwards both the decision and the call to the caller's
//! session: [`RemoteSession`]. So the [`Decision`]s list all calls that reached a session, in order. They are
//! the same for a native loop and an MCP server.

mod arguments;
mod audit_log;
mod brief;
#[cfg(feature = "files")]
mod content_hash;
mod decision;
mod denial;
mod error;
mod file_id;
mod file_opener;
mod files;
#[cfg(unix)]
mod files_by_handle;
mod files_by_name;
#[cfg(unix)]
mod files_folder;
#[cfg(unix)]
mod files_part;
#[cfg(unix)]
mod files_remove;
#[cfg(unix)]
mod files_replace;
#[cfg(feature = "files")]
mod files_search;
mod files_walk;
#[cfg(feature = "files")]
mod line_pattern;
mod participant;
mod path_argument;
mod path_glob;
mod path_identity;
mod path_key;
mod path_policy;
mod path_rule;
mod path_spelling;
mod path_walk;
mod permit;
mod remote_session;
mod rule_set;
mod session;
mod slice;
mod token;
mod tool_pattern;
mod turn_session;

pub use audit_log::SessionMark;
pub use brief::{Brief, Overlay, TurnOverride};
#[cfg(feature = "files")]
pub use content_hash::ContentHash;
pub use decision::{Decision, DecisionOutcome};
pub use denial::Denial;
pub use error::ScopeError;
pub use file_opener::{EntryKind, FolderEntry, WriteMode};
pub use files::{FileError, ScopedFiles};
#[cfg(feature = "files")]
pub(crate) use files_search::lines_of;
#[cfg(feature = "files")]
pub use files_search::{LineMatch, NameGlob, Search, SearchOptions};
pub use files_walk::{Bound, PassedOver, Walk, WalkEntry, WalkOptions};
#[cfg(feature = "files")]
pub use line_pattern::{InvalidLinePattern, LinePattern, PatternStyle};
pub use participant::ParticipantScope;
pub use path_argument::{PathAccess, PathArgument, PathDenial};
pub use path_key::{folded_name, is_dot_git};
pub use path_rule::{InvalidRule, PathRule};
pub use permit::Permit;
pub use remote_session::RemoteSession;
pub use session::{CallPlace, DEFAULT_REFUSED_SUBMISSIONS, Session, SessionBounds};
pub use slice::WriteSlice;
pub use token::SessionToken;
pub use tool_pattern::{InvalidPattern, ToolPattern};
pub use turn_session::TurnSession;
