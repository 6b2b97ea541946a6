//! Record of the connections of one or more runs: bytes and refused hosts.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::hosts::AllowedHosts;
use super::target::{RelayTarget, TargetHost};

/// Maximum number of refused hosts in a record.
const MAX_REFUSED: usize = 100;

/// Record of connections. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct NetworkRecord(Arc<RecordedTraffic>);

#[derive(Debug, Default)]
struct RecordedTraffic {
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    connections: AtomicU64,
    refused: Mutex<Vec<RefusedConnection>>,
}

/// Connection that was refused. A record has each only once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedConnection {
    /// Name or address of the host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Reason of the refusal.
    pub reason: RefusalReason,
    /// Entry of the list of allowed hosts that would allow it. `None` if no entry would.
    pub entry: Option<String>,
}

/// Reason why a connection was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// No entry covers the host and the port.
    NotListed,
    /// The name resolves to an address that does not belong to the public Internet, or to a network of this machine's interfaces.
    /// No entry names the address.
    NotPublic(IpAddr),
    /// The client named another server in its TLS handshake or in its `Host` header than the one it connected to.
    OtherName {
        /// The host that it connected to.
        connected_to: String,
    },
    /// The client's TLS handshake has another name in encrypted form (ECH), or pretends to.
    HiddenName,
    /// The client named no server, neither in a TLS handshake nor in a `Host` header, or the name could not be read.
    NoName,
}

impl NetworkRecord {
    /// Returns the bytes that programs sent.
    #[must_use]
    pub fn sent_bytes(&self) -> u64 {
        self.0.sent_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes that programs received.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.0.received_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of connections to servers.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Returns the first 100 refused connections, without repetitions.
    #[must_use]
    pub fn refused(&self) -> Vec<RefusedConnection> {
        self.0.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.0.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.0.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn connected(&self) {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a refused connection to `target`, the server that the client asked for.
    pub(super) fn refuse(
        &self,
        hosts: &AllowedHosts,
        target: &RelayTarget,
        reason: RefusalReason,
    ) -> RefusedConnection {
        let entry = match &reason {
            // A client that names an allowed server has to connect to that one.
            RefusalReason::OtherName { .. } if hosts.allows(target) => None,
            RefusalReason::NotListed | RefusalReason::OtherName { .. } => Some(entry_for(target)),
            RefusalReason::NotPublic(address) => {
                Some(entry_for(&RelayTarget { host: TargetHost::Address(*address), port: target.port }))
            }
            RefusalReason::HiddenName | RefusalReason::NoName => None,
        };
        let refused = RefusedConnection { host: target.host.to_string(), port: target.port, reason, entry };
        let mut all = self.0.refused.lock().unwrap_or_else(PoisonError::into_inner);
        // Programs repeat refused connections, so log and store each only once.
        if all.len() < MAX_REFUSED && !all.contains(&refused) {
            tracing::debug!(%refused, "a program in the sandbox was refused a connection");
            all.push(refused.clone());
        }
        refused
    }
}

/// Returns the entry that allows a target, without the ports that an entry has by default.
fn entry_for(target: &RelayTarget) -> String {
    match target.port {
        80 | 443 => target.host.to_string(),
        _ => target.to_string(),
    }
}

impl fmt::Display for RefusedConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, reason, .. } = self;
        match reason {
            RefusalReason::NotListed => {
                write!(formatter, "{host}:{port} is not in the list of allowed hosts")
            }
            RefusalReason::NotPublic(address) => {
                write!(
                    formatter,
                    "{host}:{port} has the address {address}, which is not public or is in a network of this machine"
                )
            }
            RefusalReason::OtherName { connected_to } => {
                write!(formatter, "a connection to {connected_to}:{port} named the server {host}")
            }
            RefusalReason::HiddenName => write!(
                formatter,
                "a connection to {host}:{port} hides a server name (ECH), which cannot be checked: switch ECH off in the client, also \
                 its GREASE"
            ),
            RefusalReason::NoName => write!(
                formatter,
                "a connection to {host}:{port} named no server, neither in a TLS handshake nor in a Host header"
            ),
        }
    }
}
