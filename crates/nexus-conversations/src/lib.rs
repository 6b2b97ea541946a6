//! Named conversations: stored on disk, forked by reference, continued on any vendor.
//!
//! A [`ResumeHandle`](nexus_core::ResumeHandle) resumes a conversation on the backend that created it, for as long as
//! that backend has it. A named conversation adds a transcript that belongs to no vendor: if the handle cannot be
//! used, the next model gets the transcript as text ([`Conversation::seed`]), and the turn reports the missing parts
//! ([`NotCarried`]).
//!
//! | to | see |
//! | --- | --- |
//! | run a turn of a conversation | [`Conversations::hold`], [`HeldConversation::run_turn`] |
//! | choose the reaction to a lost vendor's handle | [`WhenLost`], [`Continuity`] |
//! | read one, and list, fork or delete them | [`Conversations`] |
//! | free disk space | [`Conversations::sweep`] |
//! | show one to a model without this store | [`Conversation::seed`] |
//!
//! **Stored** are prompts with their pictures, messages of models, tool calls with arguments and answers, and the
//! vendor's last handle with the items ([`nexus_core::item`]) of a native backend. These items contain the reasoning that
//! the wire needs back, sealed or as text. **Not stored**: other thinking, system text, messages of sub-agents, and
//! secrets that the session's [redactor](nexus_core::Session::redactor) knows. A credential that is lent to a backend is
//! removed from all output of its turn, but this redactor does not know it: a caller whose prompts may contain it adds it
//! to the redactor.
//! ```no_run
//! use nexus_conversations::{ConversationOptions, Conversations};
//! # use nexus_core::{EventEnvelope, TurnHost, TurnRequest};
//! # async fn example(router: nexus_router::Router) -> Result<(), Box<dyn std::error::Error>> {
//!
//! let conversations = Conversations::in_home("/home/me/.nexus");
//! let mut held = conversations.hold(&"review".parse()?)?;
//! let request = TurnRequest::new("And what of the second file?");
//! let mut events = |event: EventEnvelope| println!("{:?}", event.event);
//! let turn = held
//!     .run_turn(&router, "reviewer", request, TurnHost::new(), ConversationOptions::new(), &mut events)
//!     .await?;
//! println!("{}", turn.outcome?.text);
//! turn.stored?;
//! # Ok(())
//! # }
//! ```

mod continuity;
mod conversation;
mod conversation_end;
mod conversation_error;
mod conversation_log;
mod ends;
mod forks;
mod held;
#[cfg(test)]
mod kill_tests;
mod log_line;
mod log_reader;
mod log_record;
mod log_turns;
mod name;
mod name_file;
mod not_carried;
mod now_ms;
mod seed;
mod step;
mod store;
mod store_files;
mod stored_turns;
mod sweep;
mod turn_file;
mod turn_made;
mod version_one;

pub use continuity::{Continuity, ConversationOptions, ConversationOutcome, WhenLost};
pub use conversation::{Conversation, ConversationMessage, ConversationTurn};
pub use conversation_error::{ConversationError, ConversationErrorKind};
pub use held::HeldConversation;
pub use name::ConversationName;
pub use not_carried::NotCarried;
pub use seed::{DEFAULT_SEED_BYTES, Seed};
pub use store::{ConversationList, ConversationSummary, Conversations};
pub use sweep::ConversationSweep;
pub use turn_made::TurnOrder;
