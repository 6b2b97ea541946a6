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
        /// Key of the session, as `nexus session list` prints it
        session: SessionKey,
    },
    /// Fork a session at a message. Nothing is copied
    Fork {
        /// Key of the session, as `nexus session list` prints it
        session: SessionKey,
        /// Key of the new session
        new_session: SessionKey,
        /// Last message that the fork contains, counted from 1. Default: the newest message of the session
        #[arg(long, value_name = "N")]
        at: Option<u64>,
    },
    /// Print a session as JSON lines, one for each message
    Export {
        /// Key of the session, as `nexus session list` prints it
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
