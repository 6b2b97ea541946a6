//! What is looked at before anything of a request's body is: by whom it was sent, where to, and in which shape.

use hyper::{
    HeaderMap, Method, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, ORIGIN},
    http::request::Parts,
};
use nexus_core::{Session, SessionToken};

use super::address::LoopbackAddress;

/// Largest body of a request, in bytes. Source: our own bound; arguments of a call are written by a model.
pub(super) const MAX_BODY_BYTES: usize = 4 << 20;

/// Names the client's MCP session.
pub(super) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// Names the revision of the protocol that a client speaks.
pub(super) const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Why a request is turned away. It says nothing about the server that a stranger could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It was sent to another name than the server's own, as by a page whose name was bent to this machine.
    Misdirected,
    /// A web page of another origin sent it.
    ForeignOrigin,
    /// It bears no token, or not this session's, or the session is over.
    Unauthenticated,
    /// There is nothing at this path.
    NotFound,
    /// The path knows no such method.
    Method,
    /// The client does not take both kinds of answer.
    NotAcceptable,
    /// The body is not said to be JSON.
    MediaType,
    /// The body is longer than any that is read.
    TooLarge,
    /// The body did not come, or not in time.
    Unread,
    /// More is going on than the server lets in.
    Busy,
}

impl Refusal {
    /// The status, and what is said about it.
    pub(super) fn status(self) -> (StatusCode, &'static str) {
        match self {
            Self::Misdirected => (StatusCode::MISDIRECTED_REQUEST, "not this host"),
            Self::ForeignOrigin => (StatusCode::FORBIDDEN, "not from this origin"),
            Self::Unauthenticated => (StatusCode::UNAUTHORIZED, "not without a token"),
            Self::NotFound => (StatusCode::NOT_FOUND, "not found"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "not with this method"),
            Self::NotAcceptable => {
                (StatusCode::NOT_ACCEPTABLE, "the client must accept application/json and text/event-stream")
            }
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
            Self::Unread => (StatusCode::BAD_REQUEST, "the body did not come"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many requests at once"),
        }
    }

    /// Whether the connection ends with it: whoever has not shown that they may be here has no second try.
    pub(super) fn ends_connection(self) -> bool {
        !matches!(self, Self::NotFound | Self::Method | Self::NotAcceptable | Self::MediaType)
    }
}

/// Looks at who sends a request, and where to. What it bore comes back, to be presented to the session.
pub(super) fn identify(
    head: &Parts,
    address: LoopbackAddress,
    session: &Session,
) -> Result<SessionToken, Refusal> {
    let host = only(&head.headers, HOST).ok_or(Refusal::Misdirected)?;
    let is_own_target = |uri: &Uri| uri.authority().is_none_or(|named| address.is_host(named.as_str()));
    if !address.is_host(host) || !is_own_target(&head.uri) {
        return Err(Refusal::Misdirected);
    }
    if head.headers.contains_key(ORIGIN)
        && !only(&head.headers, ORIGIN).is_some_and(|origin| address.is_origin(origin))
    {
        return Err(Refusal::ForeignOrigin);
    }
    let shown = only(&head.headers, AUTHORIZATION).and_then(bearer).map(SessionToken::presented);
    match shown {
        // After the answer was handed in, or refused too often, the session itself denies what is called.
        Some(token)
            if session.token().is(&token)
                && (!session.is_closed() || session.is_handed_in() || session.is_out_of_submissions()) =>
        {
            Ok(token)
        }
        _ => Err(Refusal::Unauthenticated),
    }
}

/// What a client whose token is right wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// To send a message.
    Message,
    /// To end its MCP session.
    End,
}

/// Looks at what is asked for.
pub(super) fn intent(head: &Parts, address: LoopbackAddress) -> Result<Intent, Refusal> {
    if !head.uri.path_and_query().is_some_and(|path| address.serves(path.as_str())) {
        return Err(Refusal::NotFound);
    }
    match head.method {
        Method::DELETE => return Ok(Intent::End),
        Method::POST => {}
        // Nothing is ever sent unasked, so there is no stream to listen to with GET.
        _ => return Err(Refusal::Method),
    }
    let mut accepted = head.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds: Vec<_> = accepted.by_ref().flat_map(|value| value.split(',')).map(media_type).collect();
    let takes = |kind: &str, family: &str| {
        kinds.iter().any(|taken| [kind, family, "*/*"].iter().any(|one| taken.eq_ignore_ascii_case(one)))
    };
    if !takes("application/json", "application/*") || !takes("text/event-stream", "text/*") {
        return Err(Refusal::NotAcceptable);
    }
    let kind = only(&head.headers, CONTENT_TYPE).map(media_type);
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        return Err(Refusal::MediaType);
    }
    let length = only(&head.headers, CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        return Err(Refusal::TooLarge);
    }
    Ok(Intent::Message)
}

/// The value of a header that stands there once, and is text.
pub(super) fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return None;
    }
    first.to_str().ok()
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

/// A media type without its parameters.
fn media_type(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}
