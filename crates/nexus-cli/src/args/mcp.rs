//! The command line of `nexus mcp`.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use clap::{Args as ClapArgs, Subcommand};

use super::project::ProjectServerArgs;
use crate::mcp::registration;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Serve tasks to another agent: from a goal, step by step, to reviewed commits
    #[command(after_help = registration::HELP)]
    Spawn(McpServerArgs),
    /// Serve debates to another agent: from a question, stage by stage, to the panel's positions and every argument
    #[command(after_help = registration::DEBATE_HELP)]
    Debate(McpServerArgs),
    /// Serve a project's plans and tasks to an agent: eleven tools over the files in .nexus/
    #[command(after_help = registration::PROJECT_HELP)]
    Project(ProjectServerArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct McpServerArgs {
    /// Serve over HTTP at ADDRESS:PORT, or at PORT for this machine only. Work continues after its client disconnects
    #[arg(long, value_name = "ADDRESS", value_parser = http_address)]
    pub(crate) http: Option<SocketAddr>,
    /// Host name that HTTP requests may use, in addition to this machine's addresses and localhost. May be repeated
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) host: Vec<String>,
    /// Serve over standard input and output through the server that runs with --http for this home
    #[arg(long, conflicts_with = "http")]
    pub(crate) attach: bool,
    /// Nexus's home, with tasks, debates, tokens and nexus.yaml. Default: $NEXUS_HOME (~/.nexus)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
}

/// Parses an address and a port. A port alone means loopback.
fn http_address(text: &str) -> Result<SocketAddr, String> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(loopback, port));
    }
    // This name always stands for the loopback address, so it is not looked up.
    if let Some(port) = text.strip_prefix("localhost:").and_then(|port| port.parse().ok()) {
        return Ok(SocketAddr::new(loopback, port));
    }
    text.parse().map_err(|_| "write ADDRESS:PORT or a port, such as 127.0.0.1:7878 or 7878".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_name_is_this_machines_alone() {
        for text in ["7878", "localhost:7878", "127.0.0.1:7878"] {
            assert_eq!(http_address(text), Ok("127.0.0.1:7878".parse().unwrap()), "{text}");
        }
        assert_eq!(http_address("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        for text in ["", "example.org:1", "70000", "127.0.0.1", "http://127.0.0.1:1"] {
            assert!(http_address(text).is_err(), "{text}");
        }
    }
}
