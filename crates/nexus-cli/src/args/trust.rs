//! The command line of `nexus trust`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Text below the options of `nexus trust`.
pub(super) const TRUST_HELP: &str = "\
A nexus.yaml names programs, commands and addresses. In a folder that you did not trust, `nexus run` and other commands reject it, and show them.
Trust applies to the present content of the file: after a change, the commands reject it again. A program in the same folder can change without that.
The commands task, debate, broker, mcp and acp never use the file of the current folder, but that of --config or of the home.";

#[derive(Debug, ClapArgs)]
pub(crate) struct TrustArgs {
    /// Folder of the nexus.yaml. Default: the current folder
    pub(crate) folder: Option<PathBuf>,
    /// List the trusted configurations
    #[arg(long, conflicts_with_all = ["folder", "remove"])]
    pub(crate) list: bool,
    /// Stop trusting the configuration of the folder
    #[arg(long)]
    pub(crate) remove: bool,
}
