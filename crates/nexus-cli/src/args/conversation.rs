//! The command line of `nexus conversation`.

use clap::Subcommand;
use nexus::ConversationName;

#[derive(Debug, Subcommand)]
pub(crate) enum ConversationCommand {
    /// List the conversations, by name
    List,
    /// Print a conversation: each message with its number and backend, and a note on what was not stored
    Show {
        /// The conversation
        name: ConversationName,
    },
    /// Fork a conversation at a message under a new name. Nothing is copied
    Fork {
        /// The conversation
        name: ConversationName,
        /// The new name
        new_name: ConversationName,
        /// Last message that the fork contains, counted from 1. Default: the newest message of the conversation
        #[arg(long, value_name = "N")]
        at: Option<u64>,
    },
    /// Delete a conversation: its unshared messages, and the copy that its backend stores
    Delete {
        /// The conversation
        name: ConversationName,
    },
}
