//! The command line of `nexus status`.

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Exit codes: 0 nothing is broken (nothing at all is not broken); 1 a login is over or cannot be read, no backend of the \
configuration could start, or a login that was named is not there; 2 the configuration cannot be read.")]
pub(crate) struct StatusArgs {
    /// Logins that must exist, for scripts: `nexus status LOGIN && ...`
    #[cfg(feature = "login")]
    #[arg(value_parser = super::login_word::LoginWord, value_name = "LOGIN")]
    pub(crate) logins: Vec<nexus::OwnLogin>,
}
