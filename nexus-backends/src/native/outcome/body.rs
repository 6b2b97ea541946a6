//! Parses a server's error in any of its forms.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::delay::{duration_in, from_seconds, moment};

/// Number of bytes retained of a body without a message.
const MAX_EXCERPT_BYTES: usize = 2 << 10;
/// Maximum nesting of an error: in a field, in a list, in a response, or as JSON in a text.
const MAX_DEPTH: usize = 6;

/// Form of an error's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// Empty, or only white space.
    #[default]
    Empty,
    /// JSON.
    Json,
    /// An HTML page, as proxies and network logins send it.
    Html,
    /// Anything else.
    Text,
}

/// A server's error. Its texts are not truncated.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ErrorBody {
    /// Form of the body.
    pub(crate) form: Form,
    /// Error code of the vendor; a numeric code as text.
    pub(crate) code: Option<String>,
    /// Value of the vendor's field `type`.
    pub(crate) kind: Option<String>,
    /// Message of the vendor.
    pub(crate) message: Option<String>,
    /// HTTP status that the error names: as a number, or by its phrase as in `too_many_requests`.
    pub(crate) status: Option<StatusCode>,
    /// Request parameter that the error concerns.
    pub(crate) param: Option<String>,
    /// Time at which the limit ends, by the vendor's clock.
    pub(crate) resets_at: Option<SystemTime>,
    /// Time until a retry, if a field of the body states it.
    pub(crate) retry_in: Option<Duration>,
    /// Name of the quota that is used up.
    pub(crate) quota: Option<String>,
    /// Beginning of the body, or title of a page, if the error has no message.
    pub(crate) excerpt: String,
}

impl ErrorBody {
    /// Parses a body. Source of the forms: the vendors' errors as their CLIs read them, and FastAPI's `detail`.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii();
        if text.is_empty() {
            return Self::default();
        }
        let text = first_event(text).unwrap_or(text);
        if let Ok(value) = serde_json::from_slice::<Value>(text) {
            return Self::of(&value);
        }
        let excerpt = excerpt(text);
        let lower = excerpt.to_ascii_lowercase();
        if lower.starts_with('<')
            && (lower.contains("<html") || lower.contains("<!doctype html") || lower.contains("<head"))
        {
            return Self { form: Form::Html, excerpt: title(&excerpt, &lower), ..Self::default() };
        }
        Self { form: Form::Text, excerpt, ..Self::default() }
    }

    /// Adds the error code that a header states, if the body has none. Source: the services of Amazon, whose header may end
    /// with an address.
    pub(crate) fn add_header(&mut self, headers: &HeaderMap) {
        let code = headers.get("x-amzn-errortype").and_then(|value| value.to_str().ok());
        let code =
            code.and_then(|code| code.split(':').next()).map(str::trim).filter(|code| !code.is_empty());
        if self.code.is_none() {
            self.code = code.map(str::to_owned);
        }
    }

    /// Reads an error from parsed JSON: a body, an event, or a failed response.
    pub(crate) fn of(value: &Value) -> Self {
        let mut body = Self { form: Form::Json, ..Self::default() };
        body.take(value, 0);
        if body.message.is_none() {
            body.excerpt = excerpt(value.to_string().as_bytes());
        }
        body
    }

    /// Returns true if the code, the parameter or the message contains `word`, which must be in lower case. Always
    /// false for an HTML page.
    pub(crate) fn names(&self, word: &str) -> bool {
        let holds = |text: &str| text.to_lowercase().contains(word);
        let fields = [&self.code, &self.param].into_iter().flatten();
        self.form != Form::Html && (holds(self.words()) || fields.map(String::as_str).any(holds))
    }

    /// Returns the vendor's message, or the excerpt in its place.
    pub(crate) fn words(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.excerpt)
    }

    /// Fills fields that are not set yet. Outer values are read first, so they take precedence.
    fn take(&mut self, value: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::String(text) => self.take_text(text, depth),
            Value::Array(list) => {
                for entry in list {
                    self.take(entry, depth + 1);
                }
            }
            Value::Object(fields) => {
                // Read the inner error first, because it contains more than its wrapper:
                // `{"type":"error","error":{…}}`.
                for wrapper in ["error", "response"] {
                    if let Some(inner @ (Value::Object(_) | Value::Array(_))) = fields.get(wrapper) {
                        self.take(inner, depth + 1);
                    }
                }
                self.take_fields(fields);
                for words in ["message", "error", "detail", "msg", "error_description"] {
                    if let Some(inner) = fields.get(words) {
                        self.take(inner, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    fn take_fields(&mut self, fields: &serde_json::Map<String, Value>) {
        let text = |name: &str| match fields.get(name)? {
            Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let number = |name: &str| match fields.get(name)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let duration = |name: &str| match fields.get(name)? {
            Value::String(text) => duration_in(text),
            _ => None,
        };
        // Google's errors have the status as a number in `code`, and the name of the code in `status`.
        let name = text("status").filter(|_| fields.get("code").is_some_and(Value::is_number));
        self.code = self.code.take().or_else(|| name.or_else(|| text("code")));
        self.status = self.status.or_else(|| {
            ["code", "status", "status_code", "type"].into_iter().find_map(|name| status_named(&text(name)?))
        });
        // Ignore the type of an event or a response that wraps the error.
        self.kind = self
            .kind
            .take()
            .or_else(|| text("type").filter(|kind| kind != "error" && !kind.starts_with("response.")));
        self.param = self.param.take().or_else(|| text("param")).or_else(|| location(fields.get("loc")?));
        self.resets_at = self.resets_at.or_else(|| number("resets_at").and_then(moment));
        self.retry_in = self.retry_in.or_else(|| {
            ["resets_in_seconds", "retry_after_seconds", "retry_after"]
                .into_iter()
                .find_map(|name| number(name).and_then(from_seconds))
                .or_else(|| duration("retry_after"))
        });
        if let Some(Value::Array(details)) = fields.get("details") {
            details.iter().for_each(|detail| self.take_detail(detail));
        }
    }

    /// Reads a detail of Google's error model: the reason, the delay, or the quota. Source: `google/rpc/error_details.proto`
    /// of the repository googleapis.
    fn take_detail(&mut self, detail: &Value) {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        self.kind = self.kind.take().or_else(|| text(detail, "reason"));
        self.retry_in =
            self.retry_in.or_else(|| text(detail, "retryDelay").and_then(|delay| duration_in(&delay)));
        let violations = detail.get("violations").and_then(Value::as_array);
        let quotas: Vec<String> =
            violations.into_iter().flatten().filter_map(|violation| text(violation, "quotaId")).collect();
        // The quota of the longest time decides, because it returns last.
        let longest = quotas.iter().find(|quota| quota.contains("PerDay")).or(quotas.first()).cloned();
        self.quota = self.quota.take().or(longest);
    }

    /// Reads a message, or an error as JSON in a text, which gateways pass on.
    fn take_text(&mut self, text: &str, depth: usize) {
        let text = text.trim();
        if text.is_empty() || self.message.is_some() {
            return;
        }
        if text.starts_with('{')
            && let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(text)
        {
            self.take(&value, depth + 1);
        }
        if self.message.is_none() {
            self.message = Some(text.to_owned());
        }
    }
}

/// Returns the path of a field in FastAPI's form: `["body", "input", 2, "status"]`.
fn location(place: &Value) -> Option<String> {
    let names = place.as_array()?.iter().skip_while(|name| *name == "body").filter_map(Value::as_str);
    Some(names.collect::<Vec<_>>().join(".")).filter(|path| !path.is_empty())
}

/// Returns the status that a word names: as a number, or as a reason phrase.
fn status_named(word: &str) -> Option<StatusCode> {
    if let Ok(number) = word.parse::<f64>() {
        let whole = (number.fract() == 0.0 && (400.0..600.0).contains(&number)).then_some(number as u16);
        return StatusCode::from_u16(whole?).ok();
    }
    let is_phrase = |status: &StatusCode| {
        status.canonical_reason().is_some_and(|phrase| letters(phrase).eq(letters(word)))
    };
    (400..600).filter_map(|number| StatusCode::from_u16(number).ok()).find(is_phrase)
}

/// Returns the letters of a text in lower case, which are equal for `Too Many Requests`, `too_many_requests` and
/// `TooManyRequests`.
fn letters(text: &str) -> impl Iterator<Item = u8> {
    text.bytes().filter(u8::is_ascii_alphabetic).map(|byte| byte.to_ascii_lowercase())
}

/// Returns the data of the first event, if the body is a stream of events. Source: LiteLLM 1.106.2, for a stream that
/// fails at its beginning; the status is that of the error.
fn first_event(text: &[u8]) -> Option<&[u8]> {
    let is_stream = [&b"data:"[..], b"event:"].iter().any(|field| text.starts_with(field));
    let mut lines = text.split(|byte| *byte == b'\n').filter(|_| is_stream);
    lines.find_map(|line| line.strip_prefix(b"data:")).map(<[u8]>::trim_ascii)
}

/// Returns the beginning of the bytes as text.
fn excerpt(bytes: &[u8]) -> String {
    let end = bytes.len().min(MAX_EXCERPT_BYTES);
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
}

/// Returns the title of a page, or a note that it has none. `lower` is the page in lower case, with the same byte
/// positions.
fn title(page: &str, lower: &str) -> String {
    let title = lower.find("<title").and_then(|start| {
        let begin = start + lower.get(start..)?.find('>')? + 1;
        let end = begin + lower.get(begin..)?.find('<')?;
        page.get(begin..end).map(str::trim).filter(|title| !title.is_empty())
    });
    match title {
        Some(title) => format!("an HTML page with the title \"{title}\""),
        None => "a page of HTML".to_owned(),
    }
}
