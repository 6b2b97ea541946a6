//! The command line of `nexus status`.

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "Exit codes: 0 no problem (also without any login or configuration); 1 a login has \
ended or cannot be read, no backend of the configuration can start, or a named login does not exist; 2 the \
configuration cannot be read.")]
pub(crate) struct StatusArgs {
    /// Logins that must exist, for scripts: `nexus status LOGIN && ...`
    #[cfg(feature = "login")]
    #[arg(value_parser = super::login_word::LoginWord, value_name = "LOGIN")]
    pub(crate) logins: Vec<nexus::OwnLogin>,
}
