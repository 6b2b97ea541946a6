//! The command line of `nexus key`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Store a key under a name, replacing the previous one
    ///
    /// The key is read from standard input; on a terminal the command prompts for it. It is never an argument, because every
    /// process of the machine can read arguments.
    Set {
        /// Name that the configuration uses: `credential: { keyring: NAME }`
        name: String,
    },
    /// List the names of the stored keys, never their values
    List,
    /// Remove a key
    Remove {
        /// Name of the key
        name: String,
    },
}
