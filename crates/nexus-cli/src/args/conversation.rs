//! The command line of `nexus conversation`.

use clap::Subcommand;
use nexus::ConversationName;

#[derive(Debug, Subcommand)]
pub(crate) enum ConversationCommand {
    /// List the conversations, by name
    List,
    /// Print a conversation: each message with its number, who answered, and what is not stored
    Show {
        /// The conversation
        name: ConversationName,
    },
    /// Give a conversation, up to one of its messages, a further name. Nothing is copied
    Fork {
        /// The conversation
        name: ConversationName,
        /// The new name
        new_name: ConversationName,
        /// The last message of the fork, counted from 1. Default: the last one
        #[arg(long, value_name = "N")]
        at: Option<u64>,
    },
    /// Delete a conversation, what no other one shares with it, and what its backend keeps of it
    Delete {
        /// The conversation
        name: ConversationName,
    },
}
