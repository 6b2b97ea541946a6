//! The command line of `nexus acp`.

use std::time::Duration;

use clap::Args as ClapArgs;

use super::{run::Access, time_with_unit};

/// Text below the options of `nexus acp`.
pub(crate) const HELP: &str = "\
An editor starts it and speaks to it over standard input and output. Zed, in settings.json:
    \"agent_servers\": { \"Nexus\": { \"type\": \"custom\", \"command\": \"nexus\", \"args\": [\"acp\"] } }

The configuration is read again for each prompt. A configuration in the folder that the editor has open is never used: it could name \
programs to run, and another person may have written it. Errors are reported on standard error and in the answers.";

#[derive(Debug, ClapArgs)]
pub(crate) struct AcpArgs {
    /// Type that a new session starts with; the client can choose another. Default: the first type without a panel
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Option<String>,
    /// Tools that a turn may use. A new session starts with this level, and no client can raise it
    #[arg(long, value_enum, default_value_t = Access::WorkspaceWrite)]
    pub(crate) access: Access,
    /// Longest time without progress that a tool call of the editor's MCP servers may take, such as 90s or 1h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time_with_unit)]
    pub(crate) tool_call_limit: Duration,
}
