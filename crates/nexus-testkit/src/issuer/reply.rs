//! An answer, and the error format of the requested path.

use serde_json::{Value, json};

use super::log::Outcome;

/// Error format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// RFC 6749: a flat object with `error`.
    Standard,
    /// OpenAI: an object in `error`, with its own code. Source: observed with codex 0.169.0, which reads both formats.
    OpenAi,
}

impl Manner {
    pub(super) fn of(path: &str) -> Self {
        match path.starts_with("/oauth2/") {
            true => Self::Standard,
            false => Self::OpenAi,
        }
    }
}

/// An answer before it is sent.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) location: Option<String>,
    pub(super) body: String,
    pub(super) outcome: Outcome,
    /// The login and the generation of what was presented.
    pub(super) presented: Option<(u64, u64)>,
    pub(super) reuse: bool,
}

impl Reply {
    fn new(status: u16, content_type: &'static str, body: String) -> Self {
        let outcome = Outcome::Done;
        Self { status, content_type, location: None, body, outcome, presented: None, reuse: false }
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    pub(super) fn html(status: u16, body: String) -> Self {
        Self::new(status, "text/html; charset=utf-8", body)
    }

    pub(super) fn text(status: u16, body: impl Into<String>) -> Self {
        Self::new(status, "text/plain", body.into())
    }

    pub(super) fn redirect(location: impl Into<String>) -> Self {
        let mut reply = Self::new(302, "text/plain", String::new());
        reply.location = Some(location.into());
        reply
    }

    /// A refusal by `code`, one of RFC 6749's.
    pub(super) fn refusal(manner: Manner, code: &str, words: &str) -> Self {
        let body = match manner {
            Manner::Standard => json!({ "error": code, "error_description": words }),
            Manner::OpenAi => json!({
                "error": { "message": words, "type": "invalid_request_error", "param": null, "code": code },
            }),
        };
        let status = match code {
            "invalid_client" => 401,
            _ if manner == Manner::OpenAi && code.starts_with("refresh_token_") => 401,
            _ => 400,
        };
        Self::json(status, &body).with_outcome(Outcome::Refused(code.to_owned()))
    }

    pub(super) fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(super) fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    pub(super) fn presenting(mut self, presented: Option<(u64, u64)>) -> Self {
        self.presented = presented;
        self
    }

    pub(super) fn reused(mut self) -> Self {
        self.reuse = true;
        self
    }
}
