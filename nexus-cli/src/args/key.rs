//! The command line of `nexus key`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Keep a key under a name. It is read from standard input, or asked for where that is a terminal; it is never an
    /// argument, since every process can read those
    Set {
        /// The name that the configuration uses: `credential: { keyring: NAME }`
        name: String,
    },
    /// Remove the key of a name
    Remove {
        /// The name
        name: String,
    },
}
