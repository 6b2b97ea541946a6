//! Faults of a model call, independent of the vendor.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::rate_limit::RateLimit;

/// A way to fail. Parts of the reply come first, if the fault permits any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Fault {
    /// The request is read and never answered.
    StallBeforeHeaders,
    /// The stream falls silent after the headers and the parts.
    Stall {
        /// True if the vendor's keep-alive continues, once a second.
        pings: bool,
    },
    /// The connection ends after the parts, with no terminal event.
    Torn {
        /// End of the connection.
        cut: Cut,
    },
    /// All parts arrive whole, and the stream ends in good order without the vendor's terminal event.
    NoEnd,
    /// The connection is reset before any header is sent.
    ResetBeforeHeaders,
    /// An HTTP status in place of an answer.
    Status(StatusFault),
    /// The stream reports an error after the parts: the vendor's own kind of event.
    StreamError {
        /// `overloaded`, `server` and `rate_limit` become the vendor's own code; any other is sent verbatim.
        code: String,
        /// The vendor's sentence.
        message: String,
    },
    /// Status 200 with an HTML page, like that of a captive portal.
    Html200,
    /// Status 200 and an event stream whose data is not JSON, then a clean end.
    Garbage,
    /// An HTML page with this status, like that of a proxy or the vendor's edge.
    Html {
        /// The HTTP status.
        status: u16,
    },
    /// A redirect.
    Redirect {
        /// The HTTP status, such as 307.
        status: u16,
        /// Target of the redirect.
        location: String,
    },
    /// The whole reply, compressed with gzip, even if the client does not accept gzip.
    Gzip,
    /// Status 200 with the vendor's JSON error body.
    Error200 {
        /// The vendor's code, verbatim.
        code: String,
        /// The vendor's sentence.
        message: String,
    },
    /// Status 200 with the whole answer in one JSON body, although a stream was requested.
    Unstreamed,
    /// Status 200, the type of an event stream, and no body.
    Empty200,
    /// After the parts, the connection ends between the bytes of one character.
    TornCharacter {
        /// End of the connection.
        cut: Cut,
    },
    /// The whole reply with a wrong content length.
    Length {
        /// Direction of the difference.
        lie: Lie,
    },
    /// A status with a body too large to buffer.
    HugeBody {
        /// The HTTP status.
        status: u16,
        /// The length of the body.
        bytes: u64,
    },
    /// After the parts, one large event of an unknown type; then the reply ends normally.
    HugeEvent {
        /// Length of its contents.
        bytes: u64,
    },
    /// After the parts, pieces of text without end.
    Flood,
    /// After the parts, an error as a bare line of the stream: xAI's two flat fields, bare JSON at the Gemini API, elsewhere an
    /// `error` event.
    ErrorLine {
        /// The vendor's code, verbatim.
        code: String,
        /// The vendor's sentence.
        message: String,
    },
}

/// Direction in which a content length is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lie {
    /// The length exceeds the body, and the connection closes early.
    More,
    /// The length is less than the body. The rest is sent after the end of the body.
    Less,
}

impl Fault {
    /// Returns true if the last part of the reply stays open, because the fault occurs inside it.
    pub(super) fn strikes_inside(&self) -> bool {
        matches!(
            self,
            Self::Stall { .. }
                | Self::Torn { .. }
                | Self::StreamError { .. }
                | Self::TornCharacter { .. }
                | Self::Flood
                | Self::ErrorLine { .. }
        )
    }

    /// Returns true if the fault leaves no part of the reply.
    pub(crate) fn replaces_the_reply(&self) -> bool {
        matches!(
            self,
            Self::StallBeforeHeaders
                | Self::ResetBeforeHeaders
                | Self::Status(_)
                | Self::Html200
                | Self::Html { .. }
                | Self::Garbage
                | Self::Redirect { .. }
                | Self::Error200 { .. }
                | Self::Empty200
                | Self::HugeBody { .. }
        )
    }

    /// Returns true if the reply arrives whole despite the fault, for a client that can read it.
    pub(crate) fn spares_the_reply(&self) -> bool {
        matches!(self, Self::Gzip | Self::Unstreamed | Self::HugeEvent { .. })
    }

    /// A refusal by status, with the vendor's own body for it.
    pub fn status(status: u16) -> Self {
        Self::Status(StatusFault::new(status))
    }

    /// 429 with `Retry-After`.
    pub fn rate_limited(retry_after_seconds: u64) -> Self {
        Self::Status(StatusFault { retry_after: Some(retry_after_seconds), ..StatusFault::new(429) })
    }

    /// 429 with `Retry-After` as an HTTP date, that many seconds from now.
    pub fn rate_limited_until(seconds_from_now: u64) -> Self {
        Self::Status(StatusFault {
            retry_after: Some(seconds_from_now),
            retry_after_date: true,
            ..StatusFault::new(429)
        })
    }

    /// 429 for an exhausted plan, until `resets_at` (Unix seconds), in the vendor's format. xAI names
    /// no time, unless [`StatusFault::retry_after`] is set too.
    pub fn usage_limit(resets_at: u64) -> Self {
        Self::Status(StatusFault { limit: Some(RateLimit::rejected(resets_at)), ..StatusFault::new(429) })
    }

    /// The vendor is over its capacity, in the status and body that it uses for it.
    pub fn overloaded() -> Self {
        Self::Status(StatusFault { overloaded: true, ..StatusFault::new(503) })
    }

    /// 502 with a page of HTML from the vendor's edge.
    pub fn bad_gateway() -> Self {
        Self::Status(StatusFault {
            body: Some(
                "<html><head><title>502 Bad Gateway</title></head><body>bad gateway</body></html>".into(),
            ),
            content_type: Some("text/html".into()),
            ..StatusFault::new(502)
        })
    }
}

/// A refusal by HTTP status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StatusFault {
    /// The HTTP status.
    pub status: u16,
    /// The vendor's sentence; one is chosen for the status if absent.
    pub message: Option<String>,
    /// The vendor's error code or type; one is chosen for the status if absent.
    pub code: Option<String>,
    /// The whole body, verbatim, in place of the vendor's.
    pub body: Option<String>,
    /// The type of `body`.
    pub content_type: Option<String>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// True if `Retry-After` is an HTTP date, not a number of seconds.
    pub retry_after_date: bool,
    /// `x-should-retry`.
    pub should_retry: Option<bool>,
    /// The limit that was reached, in the vendor's format.
    pub limit: Option<RateLimit>,
    /// The vendor's own overload code, and its own status for it (Anthropic 529).
    pub overloaded: bool,
}

impl StatusFault {
    /// `status` with everything else chosen by the dialect.
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// Headers on the retry: its time, and its permission.
    pub(super) fn retry_headers(&self) -> Vec<(String, String)> {
        let wait = self.retry_after.map(|seconds| match self.retry_after_date {
            // HTTP dates have whole seconds, so the client may see up to a second less.
            true => httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds)),
            false => seconds.to_string(),
        });
        let again = self.should_retry.map(|again| again.to_string());
        let headers = [("retry-after", wait), ("x-should-retry", again)];
        headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// TCP is closed in the middle of the HTTP body.
    Fin,
    /// HTTP ends in good order, but without the vendor's terminal event.
    CleanEnd,
    /// TCP is reset.
    Reset,
}
