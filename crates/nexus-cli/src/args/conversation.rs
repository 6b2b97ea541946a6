//! The command line of `nexus conversation`.

use clap::Subcommand;
use nexus::ConversationName;

#[derive(Debug, Subcommand)]
pub(crate) enum ConversationCommand {
    /// List the conversations, by name
    List {
        /// Print JSON, one line for each conversation
        #[arg(long)]
        json: bool,
    },
    /// Print a conversation: each message with its number, who answered, and what is not stored
    Show {
        /// The conversation
        name: ConversationName,
        /// Print JSON
        #[arg(long)]
        json: bool,
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
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a conversation, what no other one shares with it, and what its backend keeps of it
    Delete {
        /// The conversation
        name: ConversationName,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl ConversationCommand {
    /// Whether the answer is wanted as JSON.
    pub(crate) fn wants_json(&self) -> bool {
        let (Self::List { json }
        | Self::Show { json, .. }
        | Self::Fork { json, .. }
        | Self::Delete { json, .. }) = self;
        *json
    }
}
