//! The command line of `nexus models`.

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Exit codes: 0 at least one backend gave its list; 1 none did, or the named one did not; 2 the \
                        configuration cannot be read."
)]
pub(crate) struct ModelsArgs {
    /// Backend of the configuration. Default: all that can list models
    #[arg(value_name = "BACKEND")]
    pub(crate) backend: Option<String>,
    /// List the providers that `provider:` of a backend can name, with the wire, the variable of the key and the evidence
    #[arg(long, conflicts_with = "backend")]
    pub(crate) providers: bool,
}
