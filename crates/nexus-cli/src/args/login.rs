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
    /// Plan to log in to
    #[arg(value_parser = LoginWord, value_name = "LOGIN")]
    pub(crate) login: OwnLogin,
    /// Log in with a code that you enter on any device
    #[arg(long, conflicts_with = "browser")]
    device: bool,
    /// Log in with a browser that is redirected to a port of this machine
    #[arg(long)]
    browser: bool,
    /// Never start a browser; print the address only
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Storage of the login. Default: that of the current login, else a file
    #[arg(long, value_enum, value_name = "PLACE")]
    pub(crate) store: Option<StoreChoice>,
    /// Give up after this many seconds. Default: the issuer's limit
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Log in at this issuer in place of the vendor's: https, or http on this machine
    #[arg(long, value_name = "URL", value_parser = issuer_url)]
    pub(crate) issuer: Option<String>,
    /// OAuth client id of this program at the issuer
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Register this program again, if the vendor registers it for each person. Use it for another account or another
    /// workspace than before
    #[arg(long)]
    pub(crate) new_registration: bool,
    /// Port that the browser is redirected to; 0 means any free port. May be repeated: the first free port is used
    #[arg(long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<u16>,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

/// Network options for requests to the issuer.
#[derive(Debug, ClapArgs)]
pub(crate) struct NetworkArgs {
    /// Reach the issuer through the proxy in HTTPS_PROXY and related variables
    #[arg(long)]
    inherit_proxy: bool,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Revokes the login at the issuer if the issuer supports it, and always removes the \
login from this machine. Exit codes: 0 logged out, 1 the login could not be removed.")]
pub(crate) struct LogoutArgs {
    /// Plan to log out of
    #[arg(value_parser = LoginWord, value_name = "LOGIN", required_unless_present = "all", conflicts_with = "all")]
    login: Option<OwnLogin>,
    /// Log out of every plan
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

/// Storage of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreChoice {
    /// Owner-only file in $NEXUS_HOME/auth
    File,
    /// Keyring of the system
    Keyring,
}

/// Sign-in method that the flags select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Browser, selected by `--browser`.
    Browser,
    /// Device code, selected by `--device`.
    Device,
    /// No flag: the method that suits the vendor and the environment.
    Suitable,
}

impl LoginArgs {
    /// Returns the sign-in method that the flags select.
    pub(crate) fn method(&self) -> Method {
        match (self.browser, self.device) {
            (true, _) => Method::Browser,
            (_, true) => Method::Device,
            _ => Method::Suitable,
        }
    }
}

impl NetworkArgs {
    /// Converts the options to the library's type.
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
