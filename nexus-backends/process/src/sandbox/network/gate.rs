//! Check of the first bytes that a client sends to a server which an entry allows by its name.
//!
//! One address of the Internet often serves many names. So the client must name the allowed one, in its TLS handshake or in the
//! `Host` header. Other protocols name no server: they pass at the ports that an entry has for them, but not at 80 and 443.
//!
//! In an encrypted connection, no further name can be seen. A client can name the allowed server in its handshake, and another
//! one of the same operator in its encrypted request, if that operator accepts it.

use super::client_hello::{self, ClientHello};
use super::http_head::{self, HttpHead, MAX_HEAD_BYTES};
use super::target::{Target, TargetHost};

/// Decision about the first bytes of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// More bytes are needed.
    Incomplete,
    /// The connection is passed on, with these bytes in place of the judged ones.
    Pass(Vec<u8>),
    /// The client named another server.
    OtherServer(Target),
    /// The client named no server.
    NoServer,
}

/// Judges the first bytes of a connection to `target`.
pub(super) fn judge(target: &Target, bytes: &[u8]) -> Judgement {
    let TargetHost::Name(name) = &target.host else {
        // The entry allows everything at an address.
        return Judgement::Pass(bytes.to_owned());
    };
    if bytes.is_empty() {
        return Judgement::Incomplete;
    }
    if bytes[0] == client_hello::HANDSHAKE {
        return match client_hello::read(bytes) {
            ClientHello::Incomplete if bytes.len() <= MAX_HEAD_BYTES => Judgement::Incomplete,
            ClientHello::Complete(Some(named)) if named == *name => Judgement::Pass(bytes.to_owned()),
            ClientHello::Complete(Some(named)) => match TargetHost::named(&named) {
                Some(host) => Judgement::OtherServer(Target { host, port: target.port }),
                None => Judgement::NoServer,
            },
            _ => Judgement::NoServer,
        };
    }
    match http_head::read(bytes) {
        HttpHead::Incomplete => Judgement::Incomplete,
        HttpHead::Complete(head) => match head.server() {
            Some(server) if server.host == target.host && is_port_of(&head.host, &server, target) => {
                let rest = bytes.get(head.bytes..).unwrap_or_default();
                Judgement::Pass([&head.for_server(), rest].concat())
            }
            Some(server) if server.host != target.host => Judgement::OtherServer(server),
            _ => Judgement::NoServer,
        },
        HttpHead::NotHttp if !matches!(target.port, 80 | 443) => Judgement::Pass(bytes.to_owned()),
        HttpHead::NotHttp | HttpHead::Malformed => Judgement::NoServer,
    }
}

/// Returns true if the port of a `Host` header is that of the connection. Some clients leave out a port that they should send.
fn is_port_of(header: &Option<String>, named: &Target, target: &Target) -> bool {
    named.port == target.port || header.as_deref().is_some_and(|header| !header.contains(':'))
}

#[cfg(test)]
mod tests;
