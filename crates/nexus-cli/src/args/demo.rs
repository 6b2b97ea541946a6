//! The command line of `nexus demo`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args as ClapArgs, Subcommand};

/// Address of the simulated vendors, unless the command line names another. Source: our own choice of a port that no known
/// service uses.
pub(crate) const DEMO_ADDRESS: &str = "127.0.0.1:7462";

/// Text below the options of `nexus demo`.
pub(super) const DEMO_HELP: &str = "\
The demo runs this program's own commands on two simulated vendors, and prints each command line before it runs. It needs no
login and no network, and never changes your own configuration.

Exit codes: 0 done, 1 a command failed or git is missing, 2 bad command line.";

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DemoArgs {
    #[command(subcommand)]
    pub(crate) command: Option<DemoCommand>,
    #[command(flatten)]
    pub(crate) task: DemoTaskArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Run one turn
    Turn(DemoHomeArgs),
    /// Take a goal to reviewed work: agents plan a change, make it and review it. The default
    Task(DemoTaskArgs),
    /// Serve the two simulated vendors on this machine until Ctrl-C, and print a configuration for them
    Server(DemoServerArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DemoHomeArgs {
    /// Nexus home of the demo. Default: demo in $NEXUS_HOME (~/.nexus)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DemoTaskArgs {
    #[command(flatten)]
    pub(crate) home: DemoHomeArgs,
    /// Let the simulated agent make a mistake that the tests do not find, and watch the reviewers reject it
    #[arg(long)]
    pub(crate) wrong: bool,
    /// Git repository in which a new file is made, in a work tree. The change is never landed
    #[arg(long, value_name = "PATH")]
    pub(crate) repo: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DemoServerArgs {
    /// Address on this machine. Port 0 means any free port
    #[arg(long, value_name = "ADDRESS", default_value = DEMO_ADDRESS)]
    pub(crate) listen: SocketAddr,
}
