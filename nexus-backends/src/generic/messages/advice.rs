//! Reads limits from the headers of the Messages API, and names the setting that avoids an error.

use std::time::SystemTime;

use http::header::HeaderMap;
use nexus_core::{
    ErrorKind, Retry,
    harness::Failure,
    turn::{RateLimitNotification, RateLimitStatus},
};

use crate::native::outcome::{ErrorBody, ErrorReply};

/// Part of a limit above which its use is reported as a warning. Source: our own choice.
const NEAR_PERCENT: f64 = 80.0;

/// Returns the failure of a model that Amazon Bedrock does not have under this name, with the form of its names.
pub(super) fn bedrock_model(error: &ErrorReply<'_>) -> Option<Failure> {
    if error.shared_outcome().kind != ErrorKind::ModelUnavailable {
        return None;
    }
    let words = format!(
        "{} (set `model` for this backend in nexus.yaml: names of Bedrock are such as anthropic.claude-NAME-v1:0, \
         us.anthropic.claude-NAME-v1:0 for an inference profile of a region, or an ARN)",
        error.body.words()
    );
    Some(Failure::new(ErrorKind::ModelUnavailable, words))
}

/// Returns the end of the limit that the account's owner set, if the words are about it. The API sends them as an
/// invalid request: "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00
/// UTC." Source: observed.
pub(super) fn own_limit(words: &str) -> Option<Retry> {
    if !words.contains("API usage limits") {
        return None;
    }
    let moment = |after: &str| {
        let (date, rest) = after.split_once(" at ")?;
        let time = rest.split_whitespace().next()?;
        nexus_files::rfc3339::parse(&format!("{date}T{time}:00Z"))
    };
    let until = words.split_once("regain access on ").and_then(|(_, after)| moment(after));
    Some(until.map_or(Retry::Never, Retry::At))
}

/// Returns the setting that omits or changes the field that an error concerns. The API names fields in its words alone.
pub(super) fn switch(body: &ErrorBody) -> Option<&'static str> {
    Some(match () {
        () if body.names("budget_tokens") || body.names("thinking.type.enabled") => "thinking: adaptive",
        () if body.names("adaptive") => "thinking: budget",
        () if body.names("output_config.effort") || body.names("effort parameter") => "thinking: budget",
        () if body.names("output_config") || body.names("output_format") => "structured_output: tool",
        () if body.names("cache_control") => "cache_marks: false",
        () if body.names("max_tokens:") => "max_tokens",
        _ => return None,
    })
}

/// Returns the use of the account's limits. Source: the API reference, "Rate limits", response headers.
pub(super) fn limits(headers: &HeaderMap) -> Vec<RateLimitNotification> {
    let text = |name: String| headers.get(name).and_then(|value| value.to_str().ok());
    let limit = |window: &str| {
        let member = |member: &str| text(format!("anthropic-ratelimit-{window}-{member}"));
        let number = |name: &str| member(name).and_then(|value| value.trim().parse::<f64>().ok());
        let (all, left) = (number("limit").filter(|all| *all > 0.0)?, number("remaining")?);
        let used = ((all - left) / all * 100.0).clamp(0.0, 100.0).round();
        let status = match () {
            () if left <= 0.0 => RateLimitStatus::Rejected,
            () if used >= NEAR_PERCENT => RateLimitStatus::Warning,
            () => return None,
        };
        let reset: Option<SystemTime> = member("reset").and_then(nexus_files::rfc3339::parse);
        Some(
            RateLimitNotification::new(status)
                .with_window(Some(window.to_owned()))
                .with_used_percent(Some(used))
                .with_resets_at(reset),
        )
    };
    ["requests", "input-tokens", "output-tokens"].into_iter().filter_map(limit).collect()
}
