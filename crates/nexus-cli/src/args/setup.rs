//! The command line of `nexus setup`.

use clap::Args as ClapArgs;

/// Text below the options of `nexus setup`.
pub(super) const SETUP_HELP: &str = "\
Setup looks for programs, logins, keys, local model servers, git and the sandbox. It probes each backend, runs one turn of each \
vendor's program on a simulated vendor on this machine, and writes nexus.yaml in the home, or the file of --config. A file that \
exists is only added to.

At a terminal, setup offers the command of each fix, runs it after yes, and checks again. Otherwise it prints the commands.

`nexus init` and `nexus onboard` create a workspace for agents of the broker, and write no nexus.yaml.

Exit codes: 0 the file is there and a turn would start, 1 something is missing or was not written, 2 bad command line or \
configuration.";

#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct SetupArgs {
    /// Write the file without a question. Runs no command of a fix
    #[arg(long)]
    pub(crate) yes: bool,
}
