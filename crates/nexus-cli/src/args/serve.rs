//! The command line of `nexus serve` and `nexus service`.

use std::{net::SocketAddr, num::NonZeroUsize};

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

/// Text below the options of `nexus serve`.
pub(super) const SERVE_HELP: &str = "\
It runs queued tasks, the agents and triggers of the section `broker`, and the tools of `nexus mcp spawn` and `nexus mcp debate` over HTTP on this \
machine. The section `serve` of nexus.yaml configures it. A part that another program of this home already runs starts when that program ends. \
After a restart, everything continues.\n\
The first Ctrl-C or SIGTERM drains: no further step begins, and running steps and turns finish. The second one stops them; they are repeated at the \
next start.\n\
Exit codes: 0 drained, or with --until-idle no queued task can run; 1 it could not start; 2 bad command line or configuration; 130 or 143 stopped.";

/// Text below the options of `nexus service`.
pub(super) const SERVICE_HELP: &str = "\
It manages a unit of systemd for your user: `nexus-serve.service` or `nexus-worker.service`, in ~/.config/systemd/user. The unit contains no secret. \
A unit starts with your session; `loginctl enable-linger` starts it with the machine.";

#[derive(Debug, ClapArgs)]
pub(crate) struct ServeArgs {
    /// Maximum number of tasks at the same time; waiting tasks do not count. Default: as configured, else 2
    #[arg(long, value_name = "N")]
    pub(crate) tasks: Option<NonZeroUsize>,
    /// Accept signed trigger requests at this address, such as 127.0.0.1:8791
    #[arg(long, value_name = "ADDRESS", conflicts_with = "until_idle")]
    pub(crate) webhooks: Option<SocketAddr>,
    /// Run only queued tasks, and end when none of them can run
    #[arg(long)]
    pub(crate) until_idle: bool,
    /// Runs without a terminal, for a command that has started it
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write the unit, and start it now and with each session
    Install {
        /// Program of the unit
        #[arg(value_enum, default_value_t = ServiceProgram::Serve)]
        program: ServiceProgram,
        /// Only write the unit, and print the commands that start it
        #[arg(long)]
        no_start: bool,
        /// Further arguments of the program, after `--`
        #[arg(last = true, value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// Show the units and whether they run
    Status,
    /// Stop the unit and remove it
    Uninstall {
        /// Program of the unit
        #[arg(value_enum, default_value_t = ServiceProgram::Serve)]
        program: ServiceProgram,
    },
}

/// Program that a unit runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServiceProgram {
    /// `nexus serve`
    Serve,
    /// `nexus worker`
    Worker,
}

impl ServiceProgram {
    /// All programs.
    pub(crate) const ALL: [Self; 2] = [Self::Serve, Self::Worker];

    /// Returns the name of the command.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Worker => "worker",
        }
    }
}
