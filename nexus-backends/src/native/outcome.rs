//! Classifies a server's error: each status and each code has one outcome.
//!
//! The vendor's code takes precedence over its status, and the status over its message. The message decides only if a
//! table here contains its text with a source, because nothing else distinguishes such errors.

mod body;
mod delay;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use http::{
    StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue, LOCATION},
};
use nexus_core::{Retry, harness::Failure};
use url::Url;

pub(crate) use self::body::{ErrorBody, Form};
use self::delay::Delay;
use self::tables::{Meaning, advice, of_code, speaks_of_length, speaks_of_missing_model};

/// Maximum length of a failure's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 2 << 10;

/// Error of a server: a response with status and body, or an event in a stream.
#[derive(Debug)]
pub(crate) struct ErrorReply<'a> {
    /// HTTP status; `None` for an error in a stream.
    pub(crate) status: Option<StatusCode>,
    /// Headers of the response. For an error in a stream, those from [`error_headers`].
    pub(crate) headers: &'a HeaderMap,
    /// Body or event, in any of the known forms.
    pub(crate) body: &'a ErrorBody,
}

/// Returns the failure of the error: from the dialect ([`Dialect::failure`](super::dialect::Dialect::failure)),
/// otherwise from the shared table.
pub(crate) fn judge(reply: &ErrorReply<'_>, by_dialect: Option<Failure>) -> Failure {
    let Some(mut failure) = by_dialect else { return reply.shared_outcome() };
    let words = failure.message.take().unwrap_or_default();
    failure.message = Some(reply.message(&words, None));
    if reply.forbids_retry() {
        return failure.with_retry(Retry::Never);
    }
    let named = failure.retry;
    failure.with_named_retry(Some(named))
}

/// Returns copies of the headers that decide if and when to retry after an error in the stream. Copies are needed
/// because the original headers keep the connection's first buffer in memory.
pub(crate) fn error_headers(headers: &HeaderMap) -> HeaderMap {
    // Nearly every response has none of them, so look at the few names that there are.
    let prefixes = ["retry-after", "x-should-retry", "x-ratelimit-"];
    if !headers.keys().any(|name| prefixes.iter().any(|prefix| name.as_str().starts_with(prefix))) {
        return HeaderMap::new();
    }
    let meters = ["", "-requests", "-tokens"];
    let remaining = meters.map(|meter| format!("x-ratelimit-remaining{meter}"));
    let is_used_up = remaining.iter().any(|name| headers.get(name).is_some_and(|left| left == "0"));
    let resets = meters.map(|meter| format!("x-ratelimit-reset{meter}"));
    let always = ["retry-after-ms", "retry-after", "x-should-retry"].map(str::to_owned);
    let metered = remaining.into_iter().chain(resets).filter(|_| is_used_up);
    let copied = always.into_iter().chain(metered).filter_map(|name| {
        let value = HeaderValue::from_bytes(headers.get(&name)?.as_bytes()).ok()?;
        Some((HeaderName::try_from(name).ok()?, value))
    });
    copied.collect()
}

impl ErrorReply<'_> {
    /// Returns the failure of the error by the shared table.
    pub(crate) fn shared_outcome(&self) -> Failure {
        let (meaning, hint) = self.meaning();
        let failure = Failure::new(meaning.kind(), self.message(self.body.words(), hint));
        if self.forbids_retry() || meaning == Meaning::Unreadable {
            return failure.with_retry(Retry::Never);
        }
        failure.with_named_retry(Delay::of(self).map(Delay::into_retry))
    }

    /// Returns advice on the code of the error, if it has a special one.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        advice(self.body)
    }

    /// Returns the server's time for a retry; [`Retry::Never`] without one.
    pub(crate) fn named_retry(&self) -> Retry {
        Delay::of(self).map(Delay::into_retry).unwrap_or_default()
    }

    /// Returns true for `x-should-retry: false`. The value `true` adds nothing to the status. Source: observed.
    fn forbids_retry(&self) -> bool {
        self.header("x-should-retry").is_some_and(|value| value.eq_ignore_ascii_case("false"))
    }

    fn meaning(&self) -> (Meaning, Option<&'static str>) {
        let body = self.body;
        if let Some(meaning) = of_code(body) {
            return (meaning, advice(body));
        }
        let Some(status) = self.status.or(body.status) else {
            let is_bad_request =
                matches!(body.kind.as_deref(), Some("invalid_request_error" | "validationException"));
            return match () {
                () if speaks_of_length(body) => (Meaning::ContextExceeded, None),
                () if is_bad_request && speaks_of_missing_model(body) => (Meaning::ModelUnavailable, None),
                () if is_bad_request => (Meaning::InvalidRequest, None),
                () => (Meaning::VendorFailure, None),
            };
        };
        match status.as_u16() {
            300..=399 => (
                Meaning::InvalidRequest,
                Some("redirects are not followed: set `base_url` to the server's address"),
            ),
            200..=299 if body.form == Form::Html => (
                Meaning::Unreadable,
                Some(
                    "a web page answered, not a model: check `base_url`, and check for a proxy or a network \
                    login",
                ),
            ),
            200..=299 if body.form == Form::Text => {
                (Meaning::Unreadable, Some("this is not an answer of a model: check `base_url`"))
            }
            401 => (Meaning::Unauthenticated, None),
            402 => (Meaning::UsageLimit, None),
            403 => (Meaning::Forbidden, None),
            407 => {
                (Meaning::InvalidRequest, Some("the proxy requires a login: write it into `network.proxy`"))
            }
            408 | 425 => (Meaning::TimedOut, None),
            429 => (Meaning::RateLimited, None),
            _ if speaks_of_length(body) => (Meaning::ContextExceeded, None),
            400 | 404 | 422 if speaks_of_missing_model(body) => (Meaning::ModelUnavailable, None),
            404 if body.names("item with id") => (Meaning::InvalidRequest, None),
            404 if body.names("model") => (Meaning::ModelUnavailable, None),
            // In a stream the path is known to exist, so the status concerns the request.
            404 | 405 if self.status.is_none() => (Meaning::InvalidRequest, None),
            404 | 405 => (
                Meaning::InvalidRequest,
                Some(
                    "the server has nothing at this path: check \
                `base_url`",
                ),
            ),
            409 => (Meaning::VendorFailure, None),
            426 => (
                Meaning::InvalidRequest,
                Some(
                    "the server requires another version of the client: set `client_version` if the backend \
                    has it",
                ),
            ),
            503 | 529 => (Meaning::Overloaded, None),
            400..=499 => (Meaning::InvalidRequest, None),
            _ => (Meaning::VendorFailure, None),
        }
    }

    /// Returns a message on one line: the status, the error, and the advice.
    fn message(&self, words: &str, hint: Option<&str>) -> String {
        let mut message = String::new();
        // Writing to a string cannot fail.
        let _ = match self.status {
            Some(status) => write!(message, "HTTP {status}"),
            None => write!(message, "error in the stream"),
        };
        if let Some(code) = self.body.code.as_deref().or(self.body.kind.as_deref()) {
            let _ = write!(message, " ({})", one_line(code, 128));
        }
        if let Some(location) = self.location() {
            let _ = write!(message, ", to {}", one_line(&location, 512));
        }
        let hint = hint.unwrap_or_default();
        let room = MAX_MESSAGE_BYTES.saturating_sub(message.len() + hint.len() + 4);
        let words = one_line(words, room);
        for part in [words.as_str(), hint] {
            if !part.is_empty() {
                let _ = write!(message, ": {part}");
            }
        }
        message
    }

    /// Returns the target of a redirect, without parts that may be secret.
    fn location(&self) -> Option<String> {
        if !self.status.is_some_and(|status| status.is_redirection()) {
            return None;
        }
        let location = self.headers.get(LOCATION)?.to_str().ok()?;
        match Url::parse(location) {
            Ok(mut url) => {
                url.set_query(None);
                url.set_fragment(None);
                // Fails only for URLs that cannot have a user name.
                let _ = url.set_username("");
                let _ = url.set_password(None);
                Some(url.into())
            }
            Err(_) => Some(location.split(['?', '#']).next().unwrap_or_default().to_owned()),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }
}

/// Returns true if the message means that the server does not support a field of the request at all.
pub(crate) fn refuses_field(body: &ErrorBody) -> bool {
    const REFUSALS: [&str; 9] = [
        "unknown",
        "unsupported",
        "not supported",
        "unrecognized",
        "unexpected",
        "not permitted",
        "not allowed",
        "additional propert",
        "extra",
    ];
    REFUSALS.iter().any(|words| body.names(words))
}

/// Returns the field of the request that the error concerns. It is the last name in the parameter's path, in a quoted
/// path, or in a word with an underscore.
pub(crate) fn named_field(body: &ErrorBody) -> Option<&str> {
    let words = body.words();
    let quoted = || words.split(['\'', '`', '"']).skip(1).step_by(2).find(|word| !word.contains(' '));
    let bare = || words.split_whitespace().find(|word| word.contains('_'));
    let in_words = || quoted().or_else(bare).filter(|_| refuses_field(body));
    body.param.as_deref().or_else(in_words)?.rsplit('.').next()
}

/// Returns `text` on one line, truncated to at most `limit` bytes at a character boundary.
fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::new();
    for word in text.split(|character: char| character.is_whitespace() || character.is_control()) {
        if !word.is_empty() {
            line.extend((!line.is_empty()).then_some(' '));
            line.push_str(word);
        }
        if line.len() > limit {
            line.truncate(line.floor_char_boundary(limit.saturating_sub('…'.len_utf8())));
            line.push('…');
            break;
        }
    }
    line
}
