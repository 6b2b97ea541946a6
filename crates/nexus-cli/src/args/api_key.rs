//! The command line of `nexus key`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Keep a key under a name, in place of the one before
    ///
    /// It is read from standard input, or asked for where that is a terminal. It is never an argument: every process of
    /// the machine can read those.
    Set {
        /// The name that the configuration uses: `credential: { keyring: NAME }`
        name: String,
    },
    /// Name the keys that are kept, never what is in them
    List,
    /// Remove the key of a name
    Remove {
        /// The name
        name: String,
    },
}
