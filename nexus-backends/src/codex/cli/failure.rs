//! Classifies a failure that the program reports.
//!
//! If the program sends a typed error, its word decides. For the word `other`, and for words that cover several cases,
//! the beginning of the program's message decides; each row of the table names its recording. Any other message is
//! [`ErrorKind::VendorFailure`].

use std::time::{Duration, SystemTime};

use chrono::{DateTime, Local, NaiveDate, NaiveTime, TimeDelta, TimeZone};
use nexus_core::{ErrorKind, Retry, harness::Failure};
use serde_json::Value;

use super::wire::{Problem, RateLimits};
use crate::codex::chatgpt::meaning;
use crate::vendor_words::speaks_of_length;

/// Beginning of every message about a stream that ended too early.
const DISCONNECTED: &str = "stream disconnected before completion: ";

/// Beginnings of messages, with or without a preceding [`DISCONNECTED`]. The first match decides.
const SENTENCES: &[(&str, ErrorKind)] = &[
    ("UTF8 error", ErrorKind::Protocol), // observed with codex 0.169.0: a stream of bytes that are no text
    ("error sending request", ErrorKind::Transport), // observed with codex 0.169.0: a reset before the headers
    ("Incomplete response returned, reason: content_filter", ErrorKind::Refused), // fail-incomplete-filter
    ("Incomplete response returned", ErrorKind::Incomplete), // fail-incomplete-max-tokens
    ("Invalid prompt", ErrorKind::Refused),          // fail-failed-invalid-prompt
    ("You\u{2019}ve hit your usage limit", ErrorKind::UsageLimit), // fail-429-usage-limit
    ("The usage limit has been reached", ErrorKind::UsageLimit), // fail-failed-usage-limit
    ("Quota exceeded", ErrorKind::UsageLimit),       // fail-failed-quota
    ("To use Codex with your ChatGPT plan", ErrorKind::Forbidden), // fail-429-not-included
    ("Selected model is at capacity", ErrorKind::Overloaded), // fail-503-overloaded
    ("rate limit exceeded", ErrorKind::RateLimited), // fail-503-slow-down
    ("Codex ran out of room", ErrorKind::ContextExceeded), // fail-failed-context
    ("Connection failed", ErrorKind::Transport),     // fail-conn-refused
    ("Transport error", ErrorKind::Transport),       // fail-cut-always
    ("stream closed before response.completed", ErrorKind::Transport), // fail-eof-no-completed
    ("idle timeout waiting for SSE", ErrorKind::Transport), // fail-stall
];

/// Returns the failure that the program reports. `limits` is the last report of the account's limits.
pub(super) fn of(problem: &Problem, limits: Option<&RateLimits>) -> Failure {
    let kind = kind(problem);
    let named = match kind {
        ErrorKind::UsageLimit => {
            let reset =
                || body_reset(&problem.message).or_else(|| named_moment(&problem.message, &Local::now()));
            // The report of the limits has an exact time, the message often only a local clock time.
            limits.and_then(resets_at).or_else(reset).map(Retry::At)
        }
        ErrorKind::RateLimited => named_wait(&problem.message).map(Retry::After),
        _ => None,
    };
    let message = body_message(&problem.message).unwrap_or_else(|| problem.message.clone());
    let message = match &problem.additional_details {
        Some(details) if !details.is_empty() => format!("{message} ({details})"),
        _ => message,
    };
    Failure::new(kind, message).with_named_retry(named)
}

/// Returns only the kind of a failure, for reports of retries.
pub(super) fn kind(problem: &Problem) -> ErrorKind {
    let (word, status) = word_and_status(&problem.codex_error_info);
    let sentence = problem.additional_details.as_deref().unwrap_or(&problem.message);
    match word.as_str() {
        "contextwindowexceeded" => ErrorKind::ContextExceeded,
        "usagelimitexceeded" => by_sentence(&problem.message).unwrap_or(ErrorKind::UsageLimit),
        "sessionbudgetexceeded" => ErrorKind::UsageLimit,
        "ratelimitexceeded" => ErrorKind::RateLimited,
        "serveroverloaded" | "flexunavailable" | "policycapacityunavailable" => ErrorKind::Overloaded,
        "modelnotfound" => ErrorKind::ModelUnavailable,
        "cyberpolicy" | "misalignmentpolicyviolation" | "inferencehookdenied" => ErrorKind::Refused,
        "toomanydenials" => ErrorKind::ApprovalRequired,
        "unauthorized" => ErrorKind::Unauthenticated,
        "badrequest" => by_body(&problem.message).unwrap_or(ErrorKind::InvalidRequest),
        "internalservererror" | "sandboxerror" | "threadrollbackfailed" => ErrorKind::VendorFailure,
        "httpconnectionfailed" | "responsestreamconnectionfailed" | "responsetoomanyfailedattempts"
            if matches!(status, Some(400 | 413 | 422)) && speaks_of_length(&problem.message) =>
        {
            ErrorKind::ContextExceeded
        }
        "httpconnectionfailed" | "responsestreamconnectionfailed" | "responsetoomanyfailedattempts" => {
            let missing = || (status == Some(404)).then(|| by_quoted_body(&problem.message)).flatten();
            missing().or(status.map(by_status)).unwrap_or(ErrorKind::Transport)
        }
        "responsestreamdisconnected" => match status {
            Some(status) => by_status(status),
            None => by_sentence(sentence).unwrap_or(ErrorKind::Transport),
        },
        _ => by_sentence(&problem.message)
            .or_else(|| by_body(&problem.message))
            .or_else(|| speaks_of_length(&problem.message).then_some(ErrorKind::ContextExceeded))
            .unwrap_or(ErrorKind::VendorFailure),
    }
}

/// Returns the error word, in lower case without underscores, and the HTTP status beside it.
fn word_and_status(info: &Value) -> (String, Option<u64>) {
    let plain = |word: &str| word.replace('_', "").to_lowercase();
    match info {
        Value::String(word) => (plain(word), None),
        Value::Object(object) => object.iter().next().map_or_else(Default::default, |(word, details)| {
            let status = details.get("httpStatusCode").or_else(|| details.get("http_status_code"));
            (plain(word), status.and_then(Value::as_u64))
        }),
        _ => Default::default(),
    }
}

fn by_status(status: u64) -> ErrorKind {
    match status {
        401 => ErrorKind::Unauthenticated,
        402 => ErrorKind::UsageLimit,
        403 => ErrorKind::Forbidden,
        408 => ErrorKind::Transport,
        429 => ErrorKind::RateLimited,
        400 | 413 | 422 => ErrorKind::InvalidRequest,
        503 | 529 => ErrorKind::Overloaded,
        _ => ErrorKind::VendorFailure,
    }
}

fn by_sentence(sentence: &str) -> Option<ErrorKind> {
    let sentence = sentence.strip_prefix(DISCONNECTED).unwrap_or(sentence);
    SENTENCES.iter().find(|(beginning, _)| sentence.starts_with(beginning)).map(|(_, kind)| *kind)
}

/// Returns the kind of a rejection whose message is the body of the server's response, as for status 400.
///
/// Source: recordings fail-400 and model-unknown-400; public threads for the bodies with `detail`.
fn by_body(sentence: &str) -> Option<ErrorKind> {
    Some(by_error(&body_error(sentence)?).unwrap_or(ErrorKind::InvalidRequest))
}

/// Returns the kind of a response with status 404 whose message quotes the body, or the message in the body:
/// `unexpected status 404 Not Found: BODY, url: …`. As in the native backends, a body that mentions a model concerns
/// the model's name.
///
/// Source: observed with codex 0.169.0 (the body) and 0.158.0 to 0.164.0 (its message).
fn by_quoted_body(sentence: &str) -> Option<ErrorKind> {
    let (_, quoted) = sentence.split_once(": ")?;
    let words = match serde_json::Deserializer::from_str(quoted).into_iter::<Value>().next() {
        Some(Ok(body)) => {
            let error = error_in(body);
            if let Some(kind) = by_error(&error) {
                return Some(kind);
            }
            error.get("message").or_else(|| error.get("detail"))?.as_str()?.to_owned()
        }
        // An HTML page comes from a proxy, not from the model's server.
        _ if quoted.starts_with('<') => return None,
        _ => quoted.rsplit_once(", url: ")?.0.to_owned(),
    };
    words.to_lowercase().contains("model").then_some(ErrorKind::ModelUnavailable)
}

/// Returns the kind of the error in a body; `None` for an invalid request.
fn by_error(error: &Value) -> Option<ErrorKind> {
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    let words = text("message").to_lowercase() + &text("detail").to_lowercase();
    let names = |part: &str| words.contains(part);
    match text("code") {
        "context_length_exceeded" => Some(ErrorKind::ContextExceeded),
        "model_not_found" | "model_not_supported" => Some(ErrorKind::ModelUnavailable),
        _ if speaks_of_length(&words) => Some(ErrorKind::ContextExceeded),
        _ if names("model is not supported") || names("model not found") => Some(ErrorKind::ModelUnavailable),
        code => meaning(code, error.get("param").and_then(Value::as_str)).map(|(kind, _)| kind),
    }
}

fn body_error(sentence: &str) -> Option<Value> {
    if !sentence.starts_with('{') {
        return None;
    }
    serde_json::from_str(sentence).ok().map(error_in)
}

/// Returns the field `error` of a body if it is an object, otherwise the body.
fn error_in(mut body: Value) -> Value {
    match body.get_mut("error") {
        Some(error) if error.is_object() => error.take(),
        _ => body,
    }
}

fn body_message(sentence: &str) -> Option<String> {
    let error = body_error(sentence)?;
    let message = error.get("message").or_else(|| error.get("detail"))?;
    message.as_str().map(str::to_owned)
}

/// Returns the reset time of the limit from the server's response: `resets_at` in Unix seconds. Source: observed,
/// beside `usage_limit_reached`.
fn body_reset(sentence: &str) -> Option<SystemTime> {
    unix_time(body_error(sentence)?.get("resets_at")?.as_i64()?)
}

/// Parses the reset time in a message, in the program's time zone, which is that of `now`: "try again at 5:46 AM." for
/// the same day, or "try again at Nov 28th, 2026 5:46 AM." for another day. Source: recording fail-429-usage-limit; the
/// form with a date is from the program's public source.
fn named_moment<Z: TimeZone>(sentence: &str, now: &DateTime<Z>) -> Option<SystemTime> {
    let (_, rest) = sentence.rsplit_once("try again at ")?;
    let words: Vec<&str> = rest.split('.').next()?.split_whitespace().collect();
    let clock =
        |time: &str, half: &str| NaiveTime::parse_from_str(&format!("{time} {half}"), "%I:%M %p").ok();
    let local = match words[..] {
        [time, half] => {
            let today = now.date_naive().and_time(clock(time, half)?);
            // The message omits the seconds, so the time counts as past only a minute later.
            let is_over = today + TimeDelta::minutes(1) <= now.naive_local();
            if is_over { today + TimeDelta::days(1) } else { today }
        }
        [month, day, year, time, half] => {
            let day = day.trim_end_matches(|letter: char| !letter.is_ascii_digit());
            let date = format!("{month} {day} {year}");
            NaiveDate::parse_from_str(&date, "%b %d %Y").ok()?.and_time(clock(time, half)?)
        }
        _ => return None,
    };
    now.timezone().from_local_datetime(&local).earliest().map(SystemTime::from)
}

/// Returns the reset time of the exhausted limit: the latest reset of the exhausted windows. Without an exhausted
/// window, the earliest reset.
fn resets_at(limits: &RateLimits) -> Option<SystemTime> {
    let windows = || [limits.primary, limits.secondary].into_iter().flatten();
    let used_up =
        windows().filter(|window| window.used_percent >= 100.0).filter_map(|window| window.resets_at);
    let seconds = used_up.max().or_else(|| windows().filter_map(|window| window.resets_at).min())?;
    unix_time(seconds)
}

/// Converts Unix seconds; `None` if `SystemTime` cannot represent them.
pub(super) fn unix_time(seconds: i64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// Parses the wait in a message, as in "Please try again in 1.8s". Source: recording fail-failed-rate-limit.
fn named_wait(sentence: &str) -> Option<Duration> {
    let (_, rest) = sentence.split_once("try again in ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = rest.split_at_checked(end)?;
    let number: f64 = number.parse().ok()?;
    let unit = unit.trim_start();
    let seconds = if unit.starts_with("ms") {
        number / 1000.0
    } else if unit.starts_with('s') {
        number
    } else if unit.starts_with('m') {
        number * 60.0
    } else {
        return None;
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Parses the wait before a retry, which the program reports only on standard error: `… retrying sampling request (1/2
/// in 299.998487719s)…`. The last report counts. Source: observed with codex 0.169.0.
pub(super) fn retry_delay(stderr_tail: &str) -> Option<Duration> {
    let line = stderr_tail.lines().rev().find(|line| line.contains("retrying sampling request"))?;
    let (_, rest) = line.split_once(" in ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = rest.split_at_checked(end)?;
    let seconds: f64 = number.parse().ok()?;
    let scale = if unit.starts_with("ms)") {
        1e-3
    } else if unit.starts_with("s)") {
        1.0
    } else {
        return None;
    };
    Duration::try_from_secs_f64(seconds * scale).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::codex::cli::wire::RateWindow;

    fn problem(message: &str, info: Value) -> Problem {
        Problem { message: message.into(), codex_error_info: info, additional_details: None }
    }

    #[test]
    fn the_word_decides_in_either_spelling() {
        for info in [json!("contextWindowExceeded"), json!("context_window_exceeded")] {
            assert_eq!(kind(&problem("", info)), ErrorKind::ContextExceeded);
        }
        let camel = json!({ "httpConnectionFailed": { "httpStatusCode": 403 } });
        let snake = json!({ "http_connection_failed": { "http_status_code": 403 } });
        for info in [camel, snake] {
            assert_eq!(kind(&problem("", info)), ErrorKind::Forbidden);
        }
    }

    #[test]
    fn a_sentence_that_nobody_knows_is_a_vendor_failure() {
        assert_eq!(kind(&problem("A new sentence.", json!("other"))), ErrorKind::VendorFailure);
        assert_eq!(kind(&problem("A new sentence.", json!("aNewWord"))), ErrorKind::VendorFailure);
    }

    #[test]
    fn a_model_that_the_account_does_not_have_is_unavailable_however_it_is_told() {
        let detail =
            r#"{"detail":"The 'X' model is not supported when using Codex with a ChatGPT account."}"#;
        assert_eq!(kind(&problem(detail, json!("other"))), ErrorKind::ModelUnavailable);
        let not_found = |words: &str| {
            let sentence =
                format!("unexpected status 404 Not Found: {words}, url: http://127.0.0.1:1/v1/responses");
            kind(&problem(&sentence, json!({ "httpConnectionFailed": { "httpStatusCode": 404 } })))
        };
        assert_eq!(not_found(r#"{"detail":"Model not found X"}"#), ErrorKind::ModelUnavailable);
        let sentence = "The model `X` does not exist or you do not have access to it.";
        assert_eq!(not_found(sentence), ErrorKind::ModelUnavailable);
        assert_eq!(not_found(&json!({ "message": sentence }).to_string()), ErrorKind::ModelUnavailable);
        assert_eq!(not_found(r#"{"detail":"Not Found"}"#), ErrorKind::VendorFailure);
        assert_eq!(not_found("Not Found"), ErrorKind::VendorFailure);
        assert_eq!(not_found("<html>a model</html>"), ErrorKind::VendorFailure);
    }

    #[test]
    fn the_wait_before_a_retry_is_read_from_the_last_line_that_names_one() {
        let line = |wait: &str| {
            format!(
                "WARN codex_core::responses_retry: stream disconnected - retrying sampling request (1/2 in {wait})... turn_id=x"
            )
        };
        let tail = format!("{}\n{}\nother\n", line("203.5ms"), line("299.998487719s"));
        assert_eq!(retry_delay(&tail).map(|delay| delay.as_secs()), Some(299));
        assert_eq!(retry_delay(&line("203.5ms")), Some(Duration::from_micros(203_500)));
        assert_eq!(retry_delay(&line("9e9s")), None);
        assert_eq!(retry_delay("in 3s"), None);
    }

    #[test]
    fn a_used_up_window_says_when_to_come_back() {
        let window = |used_percent, resets_at| {
            Some(RateWindow { used_percent, resets_at: Some(resets_at), ..RateWindow::default() })
        };
        let limits =
            RateLimits { primary: window(100.0, 50), secondary: window(60.0, 900), ..RateLimits::default() };
        let failure = of(&problem("", json!("usageLimitExceeded")), Some(&limits));
        assert_eq!(failure.retry, Retry::At(unix_time(50).unwrap()));
    }

    #[test]
    fn a_named_wait_is_kept() {
        assert_eq!(named_wait("Please try again in 1.8s. Visit"), Some(Duration::from_millis(1800)));
        assert_eq!(named_wait("try again in 250ms"), Some(Duration::from_millis(250)));
        assert_eq!(named_wait("try again in 9e999s"), None);
        assert_eq!(named_wait("try again later"), None);
    }

    /// vLLM has a number for a code, and its sentence is flat or nested.
    #[test]
    fn a_conversation_that_is_too_long_is_known_by_its_words_where_there_is_no_code() {
        let words = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.";
        for body in [
            json!({ "error": { "message": words, "type": "BadRequestError", "param": null, "code": 400 } }),
            json!({ "object": "error", "message": words, "type": "BadRequestError", "code": 400 }),
            json!({ "detail": words }),
        ] {
            for info in [json!("badRequest"), json!("other")] {
                assert_eq!(kind(&problem(&body.to_string(), info)), ErrorKind::ContextExceeded, "{body}");
            }
            let sentence = format!(
                "unexpected status 413 Payload Too Large: {body}, url: http://127.0.0.1:1/v1/responses"
            );
            let info = json!({ "httpConnectionFailed": { "httpStatusCode": 413 } });
            assert_eq!(kind(&problem(&sentence, info)), ErrorKind::ContextExceeded, "{sentence}");
        }
        assert_eq!(kind(&problem(words, json!("other"))), ErrorKind::ContextExceeded);
    }

    /// Source: recordings fail-429-usage-limit and fail-429-usage-limit-body-only.
    #[test]
    fn a_usage_limit_ends_when_its_sentence_says() {
        let sentence = |when: &str| {
            let link = "Visit https://chatgpt.com/settings/usage to purchase more credits or try again at";
            format!("You\u{2019}ve hit your usage limit. {link} {when}.")
        };
        let failure = of(&problem(&sentence("5:46 AM"), json!("usageLimitExceeded")), None);
        let Retry::At(at) = failure.retry else { panic!("{failure:?}") };
        let wait = at.duration_since(SystemTime::now()).unwrap_or_default();
        // A day may have an hour more.
        assert!(wait <= Duration::from_secs(25 * 3_600 + 60), "{wait:?}");

        let zone = chrono::FixedOffset::east_opt(2 * 3_600).unwrap();
        let now = zone.with_ymd_and_hms(2026, 11, 21, 3, 47, 22).unwrap();
        let moment = |when: &str| {
            let at = named_moment(&sentence(when), &now)?;
            Some(DateTime::<chrono::Utc>::from(at).format("%F %R").to_string())
        };
        for (when, utc) in [
            ("5:46 AM", Some("2026-11-21 03:46")),
            ("3:47 AM", Some("2026-11-21 01:47")),
            ("3:40 AM", Some("2026-11-22 01:40")),
            ("11:05 PM", Some("2026-11-21 21:05")),
            ("12:10 AM", Some("2026-11-21 22:10")),
            ("Nov 28th, 2026 5:46 AM", Some("2026-11-28 03:46")),
            ("Dec 1st, 2026 12:00 PM", Some("2026-12-01 10:00")),
            ("a later time", None),
            ("25:46 AM", None),
            ("Foo 28th, 2026 5:46 AM", None),
        ] {
            assert_eq!(moment(when).as_deref(), utc, "{when}");
        }
        let body = json!({ "error": { "type": "usage_limit_reached", "message": "x", "resets_at": 50 } });
        let failure = of(&problem(&body.to_string(), json!("usageLimitExceeded")), None);
        assert_eq!(failure.retry, Retry::At(unix_time(50).unwrap()));
    }
}
