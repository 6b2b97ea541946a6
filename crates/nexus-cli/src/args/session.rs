//! The command line of `nexus session`.

use clap::Subcommand;
use nexus_broker::SessionKey;

/// Text below the options of `nexus session`.
pub(super) const SESSION_HELP: &str = "A session is a conversation of one agent: agent:NAME:CONTEXT. A \
message without a context goes to agent:NAME:main.";

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions, by agent
    List,
    /// Print a session: each message with its number
    Show {
        /// The session
        session: SessionKey,
    },
    /// Fork a session at a message. Nothing is copied
    Fork {
        /// The session
        session: SessionKey,
        /// Key of the new session
        new_session: SessionKey,
        /// The last message of the fork, counted from 1. Default: the last one
        #[arg(long, value_name = "N")]
        at: Option<u64>,
    },
    /// Print a session as JSON lines, one for each message
    Export {
        /// The session
        session: SessionKey,
    },
    /// Find messages that contain all of the words, else some of them
    Search {
        /// Words to search for
        #[arg(required = true)]
        words: Vec<String>,
        /// Maximum number of results, up to 50
        #[arg(long, value_name = "N", default_value_t = 10)]
        limit: usize,
    },
}
