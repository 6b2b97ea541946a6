//! The command line of `nexus uninstall`.

use clap::Args as ClapArgs;

#[derive(Clone, Copy, Debug, ClapArgs)]
pub(crate) struct UninstallArgs {
    /// Also remove Nexus's home: the configuration, logins, tasks and conversations. A login in the system's keyring stays until
    /// `nexus logout`
    #[arg(long)]
    pub(crate) home: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}
