//! Check of the first bytes that a client sends to a server which an entry allows by its name.
//!
//! One address of the Internet often serves many names. So the client must name the allowed one, in its TLS handshake or in the
//! `Host` header. Other protocols name no server: they pass at the ports that an entry has for them, but not at 80 and 443.
//!
//! In an encrypted connection, no further name can be seen. A client can name the allowed server in its handshake, and another
//! one of the same operator in its encrypted request, if that operator accepts it. A handshake message with an encrypted name
//! (ECH) is refused, also one that only pretends to have it (GREASE), since the two look the same.

use super::client_hello::{self, ClientHello};
use super::git_request::{self, GitRequest};
use super::http_head::{self, HttpHead, MAX_HEAD_BYTES};
use super::target::{RelayTarget, TargetHost};

/// Maximum size of the bytes before the end of a TLS handshake message. Early data of a client may precede its second one.
const MAX_HELLO_BYTES: usize = 2 * MAX_HEAD_BYTES;

/// Decision about the first bytes of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GateDecision {
    /// More bytes are needed.
    Incomplete,
    /// The connection is passed on, with these bytes in place of the judged ones.
    Pass(Vec<u8>),
    /// The first `bytes` bytes, which name the allowed server in a TLS handshake, are passed on. The server's answer decides
    /// about the rest.
    PassHello { bytes: usize },
    /// The client hides a name from the check.
    HiddenName,
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
    // Another protocol may begin with the same byte, for example a length. At the ports of the web it is TLS.
    let may_be_tls =
        is_web_port(target) || bytes.get(1).is_none_or(|major| *major == client_hello::MAJOR_VERSION);
    if bytes[0] == client_hello::HANDSHAKE && may_be_tls {
        return of_hello(client_hello::read(bytes), target, name, bytes);
    }
    if !is_web_port(target) {
        match git_request::read(bytes) {
            GitRequest::Other => {}
            GitRequest::Incomplete => return GateDecision::Incomplete,
            GitRequest::Complete(Some(server)) if server == *target => {
                return GateDecision::Pass(bytes.to_owned());
            }
            GitRequest::Complete(Some(server)) => return GateDecision::OtherServer(server),
            GitRequest::Complete(None) => return GateDecision::NoServer,
        }
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
        HttpHead::NotHttp if !is_web_port(target) => GateDecision::Pass(bytes.to_owned()),
        HttpHead::NotHttp | HttpHead::Malformed => GateDecision::NoServer,
    }
}

/// Judges the bytes of a client after the server asked it for a second handshake message, which could name another server.
pub(super) fn judge_second(target: &RelayTarget, bytes: &[u8]) -> GateDecision {
    match &target.host {
        TargetHost::Name(_) if bytes.is_empty() => GateDecision::Incomplete,
        TargetHost::Name(name) => of_hello(client_hello::read_second(bytes), target, name, bytes),
        _ => GateDecision::Pass(bytes.to_owned()),
    }
}

fn of_hello(hello: ClientHello, target: &RelayTarget, name: &str, bytes: &[u8]) -> GateDecision {
    match hello {
        ClientHello::Incomplete if bytes.len() <= MAX_HELLO_BYTES => GateDecision::Incomplete,
        ClientHello::Complete { name: Some(named), bytes } if named == name => {
            GateDecision::PassHello { bytes }
        }
        ClientHello::Complete { name: Some(named), .. } => match TargetHost::named(&named) {
            Some(host) => GateDecision::OtherServer(RelayTarget { host, port: target.port }),
            None => GateDecision::NoServer,
        },
        ClientHello::Hidden => GateDecision::HiddenName,
        _ => GateDecision::NoServer,
    }
}

fn is_web_port(target: &RelayTarget) -> bool {
    matches!(target.port, 80 | 443)
}

/// Returns true if the port of a `Host` header is that of the connection. Some clients leave out a port that they should send.
fn is_port_of(header: &Option<String>, named: &RelayTarget, target: &RelayTarget) -> bool {
    named.port == target.port || header.as_deref().is_some_and(|header| !header.contains(':'))
}

#[cfg(test)]
mod tests;
