//! Who may do what in a turn: scopes, sessions, and the one gate that every call of a caller's tool passes.
//!
//! A [`ParticipantScope`] is put together from explicit inputs and says which tools and which paths a participant
//! has. A [`Session`] holds one participant to it: whatever carries a call, a loop of our own or a vendor's program,
//! the call passes [`Session::authorize`], and one that is out of scope never reaches the tool. How a call travels is
//! left to the backends.

mod arguments;
mod decision;
mod denial;
mod ledger;
mod participant;
mod path_argument;
mod permit;
mod session;
mod token;
mod tool_pattern;
mod turn_session;

pub use decision::{Decision, Verdict};
pub use denial::Denial;
pub use participant::ParticipantScope;
pub use path_argument::{PathAccess, PathArgument, PathDenial};
pub use permit::Permit;
pub use session::Session;
pub use token::SessionToken;
pub use tool_pattern::{InvalidPattern, ToolPattern};
pub use turn_session::TurnSession;
