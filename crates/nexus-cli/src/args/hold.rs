//! The command line of `nexus hold`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum HoldCommand {
    /// List the suspended backends: until when, and what the vendor said
    List,
    /// Let turns ask a suspended backend again at once
    Release {
        /// The backends
        #[arg(required_unless_present = "all", value_name = "BACKEND")]
        backends: Vec<String>,
        /// All suspended backends
        #[arg(long, conflicts_with = "backends")]
        all: bool,
    },
}
