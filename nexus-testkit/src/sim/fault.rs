//! What can go wrong with a model call, in words that belong to no vendor.

use serde::{Deserialize, Serialize};

/// One way to fail. Parts of the reply come first, where the fault leaves room for any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Fault {
    /// The request is read and never answered.
    StallBeforeHeaders,
    /// The headers come, and then nothing; after the parts, if the reply has any.
    Stall {
        /// Whether the vendor's keep-alive goes on, once a second.
        pings: bool,
    },
    /// The connection ends after the parts, with no terminal event.
    Torn {
        /// How it ends.
        cut: Cut,
    },
    /// The connection is reset before any header is sent.
    ResetBeforeHeaders,
    /// An HTTP status instead of an answer.
    Status(StatusFault),
    /// The stream reports an error after the parts: the vendor's own kind of event.
    StreamError {
        /// `overloaded`, `server` and `rate_limit` become the vendor's own code; any other is sent verbatim.
        code: String,
        /// The vendor's sentence.
        message: String,
    },
    /// Status 200 with an HTML page, as a captive portal gives it.
    Html200,
    /// Status 200 and an event stream whose data is not JSON, then a clean end.
    Garbage,
}

impl Fault {
    /// A refusal by status, with the vendor's own body for it.
    pub fn status(status: u16) -> Self {
        Self::Status(StatusFault::new(status))
    }

    /// 429 with `Retry-After`.
    pub fn rate_limited(retry_after_seconds: u64) -> Self {
        Self::Status(StatusFault { retry_after: Some(retry_after_seconds), ..StatusFault::new(429) })
    }

    /// 429 because the plan is used up, until `resets_at` (Unix seconds), said as the vendor says it: xAI
    /// names no time, unless [`StatusFault::retry_after`] is set too.
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
    /// `x-should-retry`.
    pub should_retry: Option<bool>,
    /// The limit that was reached, told as the vendor tells it.
    pub limit: Option<RateLimit>,
    /// The vendor's own overload code, and its own status for it (Anthropic 529).
    pub overloaded: bool,
}

impl StatusFault {
    /// `status` with everything else chosen by the dialect.
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// TCP is closed in the middle of the HTTP body.
    Fin,
    /// HTTP ends in good order, but the vendor's terminal event never came.
    CleanEnd,
    /// TCP is reset.
    Reset,
}

/// How an account stands with its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimit {
    /// Whether calls still pass.
    pub standing: Standing,
    /// How much of the window is used, in percent.
    pub used_percent: f64,
    /// Length of the window, in minutes.
    pub window_minutes: u64,
    /// When it starts anew, in Unix seconds.
    pub resets_at: u64,
    /// The account's plan, where the vendor names it.
    pub plan: String,
}

impl RateLimit {
    /// A limit that is far away.
    pub fn allowed(used_percent: f64, resets_at: u64) -> Self {
        Self { standing: Standing::Allowed, used_percent, window_minutes: 300, resets_at, plan: "pro".into() }
    }

    /// A limit that is near.
    pub fn warning(used_percent: f64, resets_at: u64) -> Self {
        Self { standing: Standing::Warning, ..Self::allowed(used_percent, resets_at) }
    }

    /// A limit that was reached.
    pub fn rejected(resets_at: u64) -> Self {
        Self { standing: Standing::Rejected, ..Self::allowed(100.0, resets_at) }
    }
}

/// Whether the limit lets calls pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Calls pass.
    Allowed,
    /// Calls pass; the limit is near.
    Warning,
    /// Calls are refused.
    Rejected,
}
