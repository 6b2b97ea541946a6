//! Network of a sandbox: named hosts alone, through a relay that checks each connection.
//!
//! The sandbox has a network namespace with a loopback interface and nothing else. A relay outside accepts connections at some
//! of its addresses:
//!
//! | inside | leads to |
//! | --- | --- |
//! | `127.0.8.2`, `127.0.8.3`, … | one allowed name each; `/etc/hosts` maps the name |
//! | an address of the list itself | that address |
//! | `localhost`, at the ports of the list | this machine's loopback interface |
//! | `http://127.0.8.1:3128` | a proxy, which `HTTP_PROXY` and `HTTPS_PROXY` name; it also reaches the names below a wildcard |
//!
//! For each connection, the relay resolves the name itself. It refuses addresses that do not belong to the public Internet, and those
//! in the networks of this machine's interfaces, unless an entry names them, and connects to the address that it checked. It compares the name in the TLS handshake or the
//! `Host` header. No resolver can be reached, and UDP leads nowhere.
//!
//! The relay does **not** prevent the following:
//!
//! - An allowed host can pass data on to any other host.
//! - In an encrypted connection, a request can name another server of the same operator.
//! - A public address that a router or a cloud maps to this machine is not known as its own.
//! - Copying and checking bytes takes time of the host, outside of the sandbox's limits: at most one thread for each run.
//! - The relay tells the server of a plain HTTP connection to close it after one request, so an upgrade to a WebSocket is
//!   not possible. A server that ignores this may get a second request, with another name.

mod addresses;
mod client_hello;
mod connection;
mod gate;
mod git_request;
mod hosts;
mod http_head;
#[cfg(target_os = "linux")]
mod netlink;
pub(in crate::sandbox) mod opener;
mod own_networks;
mod plan;
mod record;
pub(in crate::sandbox) mod relay;
mod server_answer;
mod target;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use hosts::{AllowedHost, AllowedHostError, AllowedHosts};
pub use opener::{open_if_asked, open_network, set_network_opener};
pub use record::{NetworkRecord, RefusalReason, RefusedConnection};

use opener::NetworkOpener;
use plan::NetworkPlan;

/// Network of the programs in a [`Sandbox`](super::Sandbox): the hosts that they may reach. Clones share one
/// [record](Self::record). Each run has at most 24 connections at the same time; further ones wait.
#[derive(Clone, Debug)]
pub struct SandboxNetwork {
    pub(super) hosts: AllowedHosts,
    opener: Option<NetworkOpener>,
    record: NetworkRecord,
    resolved: Vec<(String, SocketAddr)>,
}

impl SandboxNetwork {
    /// Creates a network with these hosts. This program opens it, so its `main` has to call [`open_if_asked`] first.
    #[must_use]
    pub fn new(hosts: AllowedHosts) -> Self {
        let opener = NetworkOpener::this_program();
        Self { hosts, opener, record: NetworkRecord::default(), resolved: Vec::new() }
    }

    /// Sets the program that opens the network: it calls [`open_network`] with its last argument, after `argument`.
    #[must_use]
    pub fn opened_by(mut self, program: impl Into<PathBuf>, argument: impl Into<OsString>) -> Self {
        self.opener = Some(NetworkOpener::new(program.into(), argument.into()));
        self
    }

    /// Uses an address for a name in place of the system's resolver. The address is checked like any other.
    #[must_use]
    pub fn resolve(mut self, name: impl Into<String>, address: SocketAddr) -> Self {
        self.resolved.push((name.into(), address));
        self
    }

    /// Returns true if a program is known that can open the network.
    #[must_use]
    pub fn can_open(&self) -> bool {
        self.opener.is_some()
    }

    /// Returns the allowed hosts.
    #[must_use]
    pub fn hosts(&self) -> &AllowedHosts {
        &self.hosts
    }

    /// Returns the record of all runs with this network.
    #[must_use]
    pub fn record(&self) -> &NetworkRecord {
        &self.record
    }

    /// Returns the same network with an empty record.
    #[must_use]
    pub fn with_new_record(&self) -> Self {
        Self { record: NetworkRecord::default(), ..self.clone() }
    }

    pub(super) fn opener(&self) -> Option<&NetworkOpener> {
        self.opener.as_ref()
    }

    /// Returns the lines of `/etc/hosts` for the names.
    pub(super) fn host_lines(&self) -> String {
        NetworkPlan::new(&self.hosts).host_lines()
    }

    /// Returns the variables that lead programs to the proxy.
    pub(super) fn variables() -> [(&'static str, String); 7] {
        NetworkPlan::variables()
    }
}
