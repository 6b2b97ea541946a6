//! What is looked at before anything of a request's body is: where it was sent to, by whom, and in which shape.

use std::net::{IpAddr, SocketAddr};

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, ORIGIN},
    http::request::Parts,
};

use crate::{token::HttpToken, wire};

/// Where everything is served.
pub(crate) const PATH: &str = "/mcp";
/// Largest body of a request, in bytes. Source: our own bound; arguments of a call are written by a model.
pub(super) const MAX_BODY_BYTES: usize = 4 << 20;

/// Names the client's MCP session.
pub(crate) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// Names the revision of the protocol that a client speaks.
pub(super) const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Repeats the method of the message. Source: the MCP specification, 2026-07-28.
pub(super) const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");

/// Why a request is turned away. It says nothing about the server that a stranger could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// It was sent to another name than the server's own, as by a page whose name was bent to this machine.
    Misdirected,
    /// A web page of another origin sent it.
    ForeignOrigin,
    /// It bears no token, or not this server's.
    Unauthenticated,
    /// There is nothing at this path.
    NotFound,
    /// The path knows no such method.
    Method,
    /// The client takes neither kind of answer.
    NotAcceptable,
    /// The body is not said to be JSON.
    MediaType,
    /// The head names a revision that is not spoken.
    Revision,
    /// The body is longer than any that is read.
    TooLarge,
    /// The body did not come, or not in time.
    Unread,
    /// There are as many connections as are taken.
    Busy,
}

impl Rejection {
    /// The status, and what is said about it.
    pub(super) fn status(self) -> (StatusCode, &'static str) {
        match self {
            Self::Misdirected => (StatusCode::FORBIDDEN, "the request names another host"),
            Self::ForeignOrigin => (StatusCode::FORBIDDEN, "the request comes from another origin"),
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "the request bears no token of this server"),
            Self::NotFound => (StatusCode::NOT_FOUND, "there is nothing here: the server is at /mcp"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "messages are sent with POST"),
            Self::NotAcceptable => {
                (StatusCode::NOT_ACCEPTABLE, "accept application/json and text/event-stream")
            }
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"),
            Self::Revision => (StatusCode::BAD_REQUEST, "this revision of the protocol is not spoken"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the message is larger than 4 MiB"),
            Self::Unread => (StatusCode::BAD_REQUEST, "the body did not come whole, or not in time"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many connections are open: try again"),
        }
    }

    /// Whether what the request still sends is not read.
    pub(super) fn ends_connection(self) -> bool {
        !matches!(self, Self::Method | Self::Revision)
    }
}

/// What a request wants, by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// To bring a message. Whether its answer may be a stream.
    Message {
        /// It accepts one.
        streams: bool,
    },
    /// To end an MCP session.
    End,
}

/// Judges the heads of requests.
#[derive(Debug)]
pub(super) struct HeadGuard {
    pub(super) token: HttpToken,
    pub(super) address: SocketAddr,
    /// Names of this machine that requests may be sent to, beside addresses and `localhost`.
    pub(super) hosts: Vec<String>,
}

impl HeadGuard {
    /// Whether the request was sent to this server, by nobody's web page, with the token.
    pub(super) fn identify(&self, head: &Parts) -> Result<(), Rejection> {
        let host = only(&head.headers, HOST).ok_or(Rejection::Misdirected)?;
        // A request in absolute form names its host twice.
        let named = head.uri.authority().map_or(host, |authority| authority.as_str());
        if !self.is_own(host) || !self.is_own(named) {
            return Err(Rejection::Misdirected);
        }
        if head.headers.contains_key(ORIGIN) {
            let origin = only(&head.headers, ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
            if !origin.is_some_and(|origin| self.is_own(origin)) {
                return Err(Rejection::ForeignOrigin);
            }
        }
        let borne = only(&head.headers, AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token)
        });
        if borne.is_some_and(|token| self.token.is(token.as_bytes())) {
            Ok(())
        } else {
            Err(Rejection::Unauthenticated)
        }
    }

    /// What an identified request wants.
    pub(super) fn wanted(head: &Parts) -> Result<Wanted, Rejection> {
        if head.uri.path() != PATH || head.uri.query().is_some() {
            return Err(Rejection::NotFound);
        }
        if head.headers.contains_key(VERSION_HEADER)
            && only(&head.headers, VERSION_HEADER).is_none_or(|version| version.len() > 32)
        {
            return Err(Rejection::Revision);
        }
        match head.method {
            Method::DELETE => return Ok(Wanted::End),
            Method::POST => {}
            _ => return Err(Rejection::Method),
        }
        let media_type = only(&head.headers, CONTENT_TYPE).and_then(|value| value.split(';').next());
        if !media_type.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
            return Err(Rejection::MediaType);
        }
        let length = only(&head.headers, CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if length.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
            return Err(Rejection::TooLarge);
        }
        let streams = accepts(&head.headers, "text/event-stream");
        if !streams && !accepts(&head.headers, "application/json") {
            return Err(Rejection::NotAcceptable);
        }
        Ok(Wanted::Message { streams })
    }

    /// Whether a host and port are this server's: a name that leads here by somebody else's doing is not. Addresses cannot be
    /// bent to lead elsewhere, so any is taken where the server listens on all.
    fn is_own(&self, host: &str) -> bool {
        if let Ok(address) = host.parse::<SocketAddr>() {
            let listens_here = self.address.ip().is_unspecified() || address.ip() == self.address.ip();
            return address.port() == self.address.port()
                && (listens_here || (address.ip().is_loopback() && self.address.ip().is_loopback()))
                && address.to_string() == host;
        }
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        let is_known = name == "localhost" || self.hosts.iter().any(|known| known == name);
        is_known && name.parse::<IpAddr>().is_err() && port == self.address.port().to_string()
    }
}

/// Whether the head's revision is one that is spoken, or is that of the message itself.
pub(super) fn is_spoken_by(headers: &HeaderMap, message_revision: Option<&str>) -> Result<(), Rejection> {
    match only(headers, VERSION_HEADER) {
        None => Ok(()),
        Some(named) if message_revision.is_some_and(|revision| revision == named) => Ok(()),
        Some(named) if wire::is_spoken(named) => Ok(()),
        Some(_) => Err(Rejection::Revision),
    }
}

/// The value of a header that is there once, as text.
pub(super) fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = values.flat_map(|value| value.split(','));
    kinds.any(|accepted| {
        let accepted = accepted.split(';').next().unwrap_or_default().trim();
        accepted.eq_ignore_ascii_case(kind)
            || accepted == "*/*"
            || accepted.strip_suffix("/*").is_some_and(|group| kind.starts_with(&format!("{group}/")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(address: &str, hosts: &[&str]) -> HeadGuard {
        let folder = std::env::temp_dir().join(format!("nexus-mcp-guard-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&folder).unwrap();
        let token = HttpToken::load_or_create(&folder.join("token")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        HeadGuard { token, address: address.parse().unwrap(), hosts }
    }

    #[test]
    fn on_loopback_only_loopback_names_are_the_server() {
        let guard = guard("127.0.0.1:4000", &[]);
        for host in ["127.0.0.1:4000", "localhost:4000", "[::1]:4000", "127.0.0.2:4000"] {
            assert!(guard.is_own(host), "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:4001",
            "127.0.0.1:04000",
            "127.0.0.1:+4000",
            "0.0.0.0:4000",
            "127.0.0.1.example:4000",
            "LOCALHOST:4000",
            "user@localhost:4000",
            "localhost:4000 ",
            "10.0.0.1:4000",
            "rebound.example:4000",
        ] {
            assert!(!guard.is_own(host), "{host:?}");
        }
    }

    #[test]
    fn on_all_addresses_an_address_or_a_given_name_is_the_server_and_no_other_name() {
        let guard = guard("0.0.0.0:4000", &["box.lan"]);
        for host in ["10.0.0.1:4000", "127.0.0.1:4000", "box.lan:4000", "localhost:4000"] {
            assert!(guard.is_own(host), "{host}");
        }
        for host in ["rebound.example:4000", "10.0.0.1:4001", "box.lan", "box.lan:4001"] {
            assert!(!guard.is_own(host), "{host}");
        }
    }
}
