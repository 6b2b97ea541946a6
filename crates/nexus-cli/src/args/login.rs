//! The command lines of `nexus login` and `nexus logout`.

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, ValueEnum};
use nexus::{OwnLogin, http::Network, logins};

use super::{issuer_url::issuer_url, login_word::LoginWord, seconds};

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A browser is opened only where there is one to see: with a display, and outside of SSH. The address is printed in any \
case. Where a browser's answer could not come back, or the vendor has none, a code is used.

Exit codes: 0 logged in, 1 not logged in, 2 bad command line, 130 cancelled. A login that was there before stays \
until the new one is stored.")]
pub(crate) struct LoginArgs {
    /// Whose plan
    #[arg(value_parser = LoginWord, value_name = "LOGIN")]
    pub(crate) login: OwnLogin,
    /// Log in by a code that is entered on any device
    #[arg(long, conflicts_with = "browser")]
    device: bool,
    /// Log in by a browser whose answer comes back to a port of this machine
    #[arg(long)]
    browser: bool,
    /// Never start a browser; print the address only
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Where the login is kept. Default: where the one before is, else a file
    #[arg(long, value_enum, value_name = "PLACE")]
    pub(crate) store: Option<StoreChoice>,
    /// Give up after this many seconds. Default: what the issuer allows
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Log in at another issuer than the vendor's: by https, or by http at this machine
    #[arg(long, value_name = "URL", value_parser = issuer_url)]
    pub(crate) issuer: Option<String>,
    /// The client that this program is to the issuer
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Register this program anew, where the vendor registers it for each person: for another account, or another
    /// workspace, than before
    #[arg(long)]
    pub(crate) new_registration: bool,
    /// Port that the browser's answer comes back to; 0 is any that is free. May be given more than once: the first
    /// that is free is used
    #[arg(long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<u16>,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

/// How the issuer is reached.
#[derive(Debug, ClapArgs)]
pub(crate) struct NetworkArgs {
    /// Reach the issuer through the proxy that HTTPS_PROXY and its kin name
    #[arg(long)]
    inherit_proxy: bool,
    /// Trust the certificate authorities in this PEM file as well
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The issuer is told where it has a way to be told; the login is removed from this machine in any case. Exit codes: 0 \
nothing is logged in any more, 1 it could not be removed.")]
pub(crate) struct LogoutArgs {
    /// Whose plan
    #[arg(value_parser = LoginWord, value_name = "LOGIN", required_unless_present = "all", conflicts_with = "all")]
    login: Option<OwnLogin>,
    /// Every login
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

/// Where a login is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreChoice {
    /// A file of your own in $NEXUS_HOME/auth
    File,
    /// The keyring of the system
    Keyring,
}

/// How a person signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// By the flag `--browser`.
    Browser,
    /// By the flag `--device`.
    Device,
    /// By whatever suits the vendor and the surroundings.
    Suitable,
}

impl LoginArgs {
    /// What the flags ask for.
    pub(crate) fn method(&self) -> Method {
        match (self.browser, self.device) {
            (true, _) => Method::Browser,
            (_, true) => Method::Device,
            _ => Method::Suitable,
        }
    }
}

impl NetworkArgs {
    /// As the library takes it.
    pub(crate) fn network(&self) -> Network {
        let network = Network::default().with_inherited_proxy(self.inherit_proxy);
        match &self.ca_file {
            Some(file) => network.with_ca_file(file),
            None => network,
        }
    }
}

impl LogoutArgs {
    /// The logins to end.
    pub(crate) fn logins(&self) -> Vec<OwnLogin> {
        self.login.map_or_else(|| logins().collect(), |login| vec![login])
    }
}
