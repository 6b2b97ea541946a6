//! The command line of `nexus agent`.

use clap::Subcommand;

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
}
