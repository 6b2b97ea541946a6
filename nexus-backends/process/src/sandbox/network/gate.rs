//! Check of the first bytes that a client sends to a server which an entry allows by its name.
//!
//! One address of the Internet often serves many names. So the client must name the allowed one, in its TLS handshake or in the
//! `Host` header. Other protocols name no server: they pass at the ports that an entry has for them, but not at 80 and 443.
//!
//! In an encrypted connection, no further name can be seen. A client can name the allowed server in its handshake, and another
//! one of the same operator in its encrypted request, if that operator accepts it.

use super::client_hello::{self, ClientHello};
use super::http_head::{self, HttpHead, MAX_HEAD_BYTES};
use super::target::{RelayTarget, TargetHost};

/// Decision about the first bytes of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GateDecision {
    /// More bytes are needed.
    Incomplete,
    /// The connection is passed on, with these bytes in place of the judged ones.
    Pass(Vec<u8>),
    /// The client named another server.
    OtherServer(RelayTarget),
    /// The client named no server.
    NoServer,
}

/// Judges the first bytes of a connection to `target`.
pub(super) fn judge(target: &RelayTarget, bytes: &[u8]) -> GateDecision {
    let TargetHost::Name(name) = &target.host else {
        // The entry allows everything at an address.
        return GateDecision::Pass(bytes.to_owned());
    };
    if bytes.is_empty() {
        return GateDecision::Incomplete;
    }
    if bytes[0] == client_hello::HANDSHAKE {
        return match client_hello::read(bytes) {
            ClientHello::Incomplete if bytes.len() <= MAX_HEAD_BYTES => GateDecision::Incomplete,
            ClientHello::Complete(Some(named)) if named == *name => GateDecision::Pass(bytes.to_owned()),
            ClientHello::Complete(Some(named)) => match TargetHost::named(&named) {
                Some(host) => GateDecision::OtherServer(RelayTarget { host, port: target.port }),
                None => GateDecision::NoServer,
            },
            _ => GateDecision::NoServer,
        };
    }
    match http_head::read(bytes) {
        HttpHead::Incomplete => GateDecision::Incomplete,
        HttpHead::Complete(head) => match head.server() {
            Some(server) if server.host == target.host && is_port_of(&head.host, &server, target) => {
                let rest = bytes.get(head.bytes..).unwrap_or_default();
                GateDecision::Pass([&head.for_server(), rest].concat())
            }
            Some(server) if server.host != target.host => GateDecision::OtherServer(server),
            _ => GateDecision::NoServer,
        },
        HttpHead::NotHttp if !matches!(target.port, 80 | 443) => GateDecision::Pass(bytes.to_owned()),
        HttpHead::NotHttp | HttpHead::Malformed => GateDecision::NoServer,
    }
}

/// Returns true if the port of a `Host` header is that of the connection. Some clients leave out a port that they should send.
fn is_port_of(header: &Option<String>, named: &RelayTarget, target: &RelayTarget) -> bool {
    named.port == target.port || header.as_deref().is_some_and(|header| !header.contains(':'))
}

#[cfg(test)]
mod tests;
