//! Time of the next attempt according to a server: in headers, in fields, or in a sentence.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nexus_core::Retry;

use super::ErrorReply;

/// Latest reset that is plausible; a later one results from a wrong unit. Source: our own bound; the longest window of
/// a vendor is a month.
const FURTHEST: Duration = Duration::from_secs(400 * 24 * 3_600);

/// Delay that the server states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    After(Duration),
    At(SystemTime),
}

impl Delay {
    /// Returns the server's delay from the most exact source.
    pub(super) fn of(reply: &ErrorReply<'_>) -> Option<Self> {
        let seconds = |value: &str| value.parse().ok().and_then(from_seconds);
        // The body's field for a used-up plan is more exact than any header.
        if let Some(at) = reply.body.resets_at {
            return Some(Self::At(at));
        }
        if let Some(milliseconds) = reply.header("retry-after-ms").and_then(seconds) {
            return Some(Self::After(milliseconds / 1_000));
        }
        if let Some(value) = reply.header("retry-after") {
            if let Some(wait) = seconds(value).or_else(|| duration_in(value)) {
                return Some(Self::After(wait));
            }
            if let Ok(at) = httpdate::parse_http_date(value) {
                return Some(Self::At(at));
            }
        }
        if let Some(wait) = reply.body.retry_in {
            return Some(Self::After(wait));
        }
        meters(reply).or_else(|| sentence(reply.body.words()).map(Self::After))
    }

    /// Converts the delay into the [`Retry`] of a failure.
    pub(super) fn into_retry(self) -> Retry {
        match self {
            Self::After(wait) => Retry::After(wait),
            Self::At(time) => Retry::At(time),
        }
    }
}

/// Returns a duration of this many seconds, at most `Duration::MAX`. `None` if the number is negative or not a number.
pub(super) fn from_seconds(seconds: f64) -> Option<Duration> {
    (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Returns the latest reset of the exhausted meters: `x-ratelimit-reset-requests: 1s`, `x-ratelimit-reset-tokens: 6m0s`
/// (source: the public API's guide to rate limits) and `x-ratelimit-reset` as a time (source: OpenRouter's). A meter
/// that is not exhausted did not cause the rejection.
fn meters(reply: &ErrorReply<'_>) -> Option<Delay> {
    let is_used_up = |meter: &str| {
        let remaining = reply.header(&format!("x-ratelimit-remaining{meter}"));
        remaining.and_then(|value| value.parse::<f64>().ok()).is_none_or(|remaining| remaining <= 0.0)
    };
    let waits = ["-requests", "-tokens"].into_iter().filter(|meter| is_used_up(meter)).filter_map(|meter| {
        let value = reply.header(&format!("x-ratelimit-reset{meter}"))?;
        duration_in(value).or_else(|| Duration::try_from_secs_f64(value.parse().ok()?).ok())
    });
    if let Some(longest) = waits.filter(|wait| *wait <= FURTHEST).max() {
        return Some(Delay::After(longest));
    }
    let value = reply.header("x-ratelimit-reset").filter(|_| is_used_up(""))?;
    let number = value.parse::<f64>().ok()?;
    match moment(number) {
        Some(at) => Some(Delay::At(at)),
        None => Duration::try_from_secs_f64(number).ok().filter(|wait| *wait <= FURTHEST).map(Delay::After),
    }
}

/// Converts Unix time: in seconds, or in milliseconds if seconds would be an implausible year. `None` for a small
/// number.
pub(super) fn moment(number: f64) -> Option<SystemTime> {
    let seconds = if number >= 1e11 { number / 1_000.0 } else { number };
    if seconds < 1e8 {
        return None;
    }
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Texts before a wait. Source: `rate_limit_exceeded` in a stream states its wait only in its message ("Please try
/// again in 1.8s."), as a vendor's own program reads it; "Please retry in 34.07s." of the Gemini API.
const BEFORE_WAIT: [&str; 3] = ["try again in ", "retry after ", "retry in "];

fn sentence(words: &str) -> Option<Duration> {
    let words = words.to_lowercase();
    BEFORE_WAIT.iter().find_map(|before| {
        let (_, after) = words.split_once(before)?;
        duration_in(after)
    })
}

/// Parses the duration at the beginning of a text: `1s`, `6m0s`, `1.8s`, `250ms`, `20 seconds`, `1h 2m`.
pub(super) fn duration_in(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut sum = None;
    loop {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(digits)?;
        let Ok(number) = number.parse::<f64>() else { return sum };
        let after = after.trim_start();
        let letters = after.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(letters)?;
        let seconds = match unit.to_ascii_lowercase().as_str() {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => return sum,
        };
        let part = Duration::try_from_secs_f64(number * seconds).ok()?;
        sum = Some(sum.unwrap_or(Duration::ZERO).checked_add(part)?);
        rest = after.trim_start();
    }
}
