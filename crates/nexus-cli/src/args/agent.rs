//! The command line of `nexus agent`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List the agents of the Agent Client Protocol that a backend can name, with the enforcer of each access level
    List,
    /// Show one agent: how it is started and installed, what it reaches, and an entry for nexus.yaml
    Show {
        /// Name of the agent
        #[arg(value_name = "AGENT")]
        name: String,
    },
    /// Add an agent of your own: a row in the home of Nexus. Installs nothing and starts nothing
    Add(AgentAddArgs),
    /// Run an installed agent against a simulated model on this machine, and record what it can do and what encloses it
    #[cfg(feature = "judge")]
    Judge(AgentJudgeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AgentAddArgs {
    /// Name of the agent: its id in the registry, or any name with --command
    #[arg(value_name = "AGENT")]
    pub(crate) name: String,
    /// File of an agent registry, such as registry.json of the Agent Client Protocol
    #[arg(long, value_name = "FILE", required_unless_present = "command", conflicts_with = "command")]
    pub(crate) registry: Option<PathBuf>,
    /// Program and arguments that start an agent without a registry
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Name or absolute path of the installed program, if it differs from that of the registry
    #[arg(long, value_name = "PROGRAM", requires = "registry")]
    pub(crate) program: Option<String>,
    /// Replace a row of yours, or an agent of Nexus
    #[arg(long)]
    pub(crate) force: bool,
}

#[cfg(feature = "judge")]
#[derive(Debug, Args)]
pub(crate) struct AgentJudgeArgs {
    /// Name of the agent
    #[arg(value_name = "AGENT")]
    pub(crate) name: String,
    /// Path of the agent's program. Default: the program that its row names, found on the PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,
    /// Print the result, and record nothing
    #[arg(long)]
    pub(crate) no_record: bool,
}
