//! Checks of a request before its body is read: its destination, its sender, and its form.

use std::sync::Arc;

use hyper::{HeaderMap, Method, StatusCode, header::HeaderName, http::request::Parts};
use nexus_core::{Session, SessionToken};
use nexus_http::{
    BodyError, ForeignRequest, ServerNames,
    head::{accepts, bearer, is_of_type, only, stated_length},
};

use crate::{token::HttpToken, wire};

/// The only path that the server answers.
pub(crate) const PATH: &str = "/mcp";
/// Largest body of a request, in bytes. Source: our own bound. Models write the arguments of calls, so they
/// are short.
pub(super) const MAX_BODY_BYTES: usize = 4 << 20;

/// Header with the name of the client's MCP session.
pub(crate) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// Header with the protocol revision that a client uses.
pub(super) const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Header that repeats the method of the message. Source: the MCP specification, 2026-07-28.
pub(super) const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");

/// Reason for a rejection. Its message contains nothing that helps an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// The request was sent to a name that is not the server's. A web page does that if its own name was made
    /// to resolve to this machine (DNS rebinding).
    Misdirected,
    /// A web page of another origin sent the request.
    ForeignOrigin,
    /// The request has no token, or not this server's.
    Unauthenticated,
    /// The path does not exist.
    NotFound,
    /// The path does not support the HTTP method.
    Method,
    /// The client accepts neither JSON nor an event stream.
    NotAcceptable,
    /// The request does not declare its body as JSON.
    MediaType,
    /// The head names an unsupported protocol revision.
    Revision,
    /// The body is too long.
    TooLarge,
    /// The body did not arrive completely and in time.
    Unread,
    /// The maximum number of connections is in use.
    Busy,
}

impl Rejection {
    /// Returns the status and its message.
    pub(super) fn status(self) -> (StatusCode, &'static str) {
        match self {
            Self::Misdirected => (StatusCode::FORBIDDEN, "the request names another host"),
            Self::ForeignOrigin => (StatusCode::FORBIDDEN, "the request comes from another origin"),
            Self::Unauthenticated => (
                StatusCode::UNAUTHORIZED,
                "the request has no valid token of this \
                server",
            ),
            Self::NotFound => (StatusCode::NOT_FOUND, "there is nothing here"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "messages are sent with POST"),
            Self::NotAcceptable => {
                (StatusCode::NOT_ACCEPTABLE, "accept application/json and text/event-stream")
            }
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"),
            Self::Revision => (StatusCode::BAD_REQUEST, "this revision of the protocol is not supported"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the message is larger than 4 MiB"),
            Self::Unread => (StatusCode::BAD_REQUEST, "the body was incomplete or too late"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many connections are open: try again"),
        }
    }

    /// Returns true if the rest of the request is not read.
    pub(super) fn ends_connection(self) -> bool {
        !matches!(self, Self::Method | Self::Revision)
    }
}

impl From<ForeignRequest> for Rejection {
    fn from(foreign: ForeignRequest) -> Self {
        match foreign {
            ForeignRequest::Host => Self::Misdirected,
            ForeignRequest::Origin => Self::ForeignOrigin,
        }
    }
}

impl From<BodyError> for Rejection {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::TooLarge,
            BodyError::Incomplete => Self::Unread,
        }
    }
}

/// Check of the token that a request must have.
#[derive(Debug)]
pub(crate) enum TokenCheck {
    /// The token of a server.
    Server(HttpToken),
    /// The token of an open session.
    Session(Arc<Session>),
}

impl TokenCheck {
    fn accepts(&self, borne: &str) -> bool {
        match self {
            Self::Server(token) => token.is(borne.as_bytes()),
            // A session that ended by a submitted answer, or by too many refused submissions, still answers
            // here: the session itself denies the calls.
            Self::Session(session) => {
                session.token().is(&SessionToken::presented(borne))
                    && (!session.is_closed() || session.is_handed_in() || session.is_out_of_submissions())
            }
        }
    }
}

/// Kind of a request, determined from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The request sends a message.
    Message {
        /// True if the client accepts an event stream as the answer.
        streams: bool,
    },
    /// The request ends an MCP session.
    End,
}

/// Checks the heads of requests.
#[derive(Debug)]
pub(super) struct HeadGuard {
    pub(super) token: TokenCheck,
    pub(super) names: ServerNames,
}

impl HeadGuard {
    /// Checks that the request was sent to this server, not by a web page of another origin, and with the
    /// token.
    pub(super) fn identify(&self, head: &Parts) -> Result<(), Rejection> {
        self.names.check(head)?;
        match bearer(&head.headers) {
            Some(token) if self.token.accepts(token) => Ok(()),
            _ => Err(Rejection::Unauthenticated),
        }
    }

    /// Returns the kind of an authorised request.
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
            // A DELETE has no body, so the following checks do not apply to it.
            Method::DELETE => return Ok(Wanted::End),
            Method::POST => {}
            _ => return Err(Rejection::Method),
        }
        if !is_of_type(&head.headers, "application/json") {
            return Err(Rejection::MediaType);
        }
        // Rejected before any byte of the body is read.
        if stated_length(&head.headers).is_some_and(|length| length > MAX_BODY_BYTES as u64) {
            return Err(Rejection::TooLarge);
        }
        let streams = accepts(&head.headers, "text/event-stream");
        if !streams && !accepts(&head.headers, "application/json") {
            return Err(Rejection::NotAcceptable);
        }
        Ok(Wanted::Message { streams })
    }
}

/// Checks that the head's revision is supported, or equals that of the message itself.
pub(super) fn is_spoken_by(headers: &HeaderMap, message_revision: Option<&str>) -> Result<(), Rejection> {
    match only(headers, VERSION_HEADER) {
        None => Ok(()),
        Some(named) if message_revision.is_some_and(|revision| revision == named) => Ok(()),
        Some(named) if wire::is_spoken(named) => Ok(()),
        Some(_) => Err(Rejection::Revision),
    }
}
