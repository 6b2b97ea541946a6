//! Usage of an account's limits, from the endpoint's headers and events.
//!
//! Source: `codex-api/src/rate_limits.rs` of the public source, and responses that codex 0.169.0 interpreted as limits.

use std::time::{Duration, SystemTime};

use http::header::HeaderMap;
use nexus_core::turn::{RateLimitNotification, RateLimitStatus};
use serde::Deserialize;

/// Used share of a limit above which a warning is reported, in percent. Source: our own choice.
const NEAR_PERCENT: f64 = 90.0;

/// Header that names the exhausted limit.
const REACHED: &str = "x-codex-rate-limit-reached-type";
/// Suffix of the headers with the used share of a window.
const USED: &str = "-used-percent";
/// Name of the main meter, which notifications do not name.
const MAIN_METER: &str = "codex";

/// Used share of a rate-limit window.
#[derive(Clone, Copy, Debug, Deserialize)]
struct UsageWindow {
    used_percent: f64,
    window_minutes: Option<u64>,
    /// Seconds since the Unix epoch.
    reset_at: Option<u64>,
}

impl UsageWindow {
    fn notification(&self, meter: Option<&str>, is_reached: bool) -> RateLimitNotification {
        let status = match self.used_percent {
            used if used >= 100.0 && is_reached => RateLimitStatus::Rejected,
            used if used >= NEAR_PERCENT => RateLimitStatus::Warning,
            _ => RateLimitStatus::Allowed,
        };
        let minutes = self.window_minutes.map(|minutes| format!("{minutes} minutes"));
        let words: Vec<String> = meter.map(str::to_owned).into_iter().chain(minutes).collect();
        RateLimitNotification::new(status)
            .with_window((!words.is_empty()).then(|| words.join(", ")))
            .with_used_percent(Some(self.used_percent))
            .with_resets_at(self.resets_at())
    }

    fn resets_at(&self) -> Option<SystemTime> {
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.reset_at?))
    }
}

/// Returns the limits in the headers of a response: one notification for each window of each meter.
pub(super) fn in_headers(headers: &HeaderMap) -> Vec<RateLimitNotification> {
    let reached = text(headers, REACHED);
    let mut notifications: Vec<RateLimitNotification> = windows(headers)
        .map(|(meter, window)| {
            let name = text(headers, &format!("x-{meter}-limit-name"));
            let name = name.or_else(|| (meter != MAIN_METER).then_some(meter));
            window.notification(name, reached.is_some())
        })
        .collect();
    // Credits, and a workspace's own limits, can be exhausted while every window has capacity.
    if let Some(reached) = reached
        && !notifications.iter().any(|notification| notification.status == RateLimitStatus::Rejected)
    {
        notifications.push(
            RateLimitNotification::new(RateLimitStatus::Rejected).with_window(Some(reached.to_owned())),
        );
    }
    notifications
}

/// Returns true if the headers report an exhausted limit.
pub(super) fn is_reached(headers: &HeaderMap) -> bool {
    headers.contains_key(REACHED)
}

/// Returns the time at which requests are accepted again: the latest reset of the full windows.
pub(super) fn resets_at(headers: &HeaderMap) -> Option<SystemTime> {
    let full = windows(headers).filter(|(_, window)| window.used_percent >= 100.0);
    full.filter_map(|(_, window)| window.resets_at()).max()
}

/// Parses the limits in the event `codex.rate_limits`; `None` if it is unreadable.
pub(super) fn in_event(data: &[u8]) -> Option<Vec<RateLimitNotification>> {
    #[derive(Deserialize)]
    struct Event {
        rate_limits: Option<Windows>,
    }
    #[derive(Deserialize)]
    struct Windows {
        primary: Option<UsageWindow>,
        secondary: Option<UsageWindow>,
    }
    let limits = serde_json::from_slice::<Event>(data).ok()?.rate_limits;
    let windows = limits.into_iter().flat_map(|limits| [limits.primary, limits.secondary]).flatten();
    // The event occurs within an answer, so no limit is exhausted.
    Some(windows.map(|window| window.notification(None, false)).collect())
}

/// Returns the windows in the headers with the name of their meter: the main meter first, the others sorted by name.
fn windows(headers: &HeaderMap) -> impl Iterator<Item = (&str, UsageWindow)> {
    let mut found: Vec<(&str, &str, UsageWindow)> = headers
        .keys()
        .filter_map(|name| {
            let (meter, which) = name.as_str().strip_prefix("x-")?.strip_suffix(USED)?.rsplit_once('-')?;
            if !matches!(which, "primary" | "secondary") {
                return None;
            }
            let number = |what: &str| text(headers, &format!("x-{meter}-{which}-{what}"));
            let window = UsageWindow {
                used_percent: number("used-percent")?.parse().ok().filter(|used: &f64| used.is_finite())?,
                window_minutes: number("window-minutes").and_then(|minutes| minutes.parse().ok()),
                reset_at: number("reset-at").and_then(|seconds| seconds.parse().ok()),
            };
            Some((meter, which, window))
        })
        .collect();
    // `false` precedes `true`, so the main meter is first.
    found.sort_unstable_by_key(|(meter, which, _)| (*meter != MAIN_METER, *meter, *which));
    found.into_iter().map(|(meter, _, window)| (meter, window))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn seconds(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn each_window_is_a_notification() {
        let notifications = in_headers(&headers(&[
            ("x-codex-secondary-used-percent", "91"),
            ("x-codex-secondary-window-minutes", "10080"),
            ("x-codex-primary-used-percent", "12.5"),
            ("x-codex-primary-window-minutes", "300"),
            ("x-codex-primary-reset-at", "1795221060"),
            ("x-codex-credits-has-credits", "true"),
            ("x-codex-credits-balance", "9.5"),
        ]));
        assert_eq!(
            notifications,
            [
                RateLimitNotification::new(RateLimitStatus::Allowed)
                    .with_window(Some("300 minutes".into()))
                    .with_used_percent(Some(12.5))
                    .with_resets_at(Some(seconds(1_795_221_060))),
                RateLimitNotification::new(RateLimitStatus::Warning)
                    .with_window(Some("10080 minutes".into()))
                    .with_used_percent(Some(91.0)),
            ]
        );
    }

    #[test]
    fn a_meter_of_its_own_is_named() {
        let notifications = in_headers(&headers(&[
            ("x-codex-other-primary-used-percent", "50"),
            ("x-codex-other-primary-window-minutes", "60"),
            ("x-review-secondary-used-percent", "1"),
            ("x-review-limit-name", "Code review"),
            ("x-codex-primary-used-percent", "3"),
        ]));
        let names: Vec<_> = notifications.iter().map(|notification| notification.window.as_deref()).collect();
        assert_eq!(names, [None, Some("codex-other, 60 minutes"), Some("Code review")]);
    }

    #[test]
    fn a_full_window_is_refused_only_where_a_limit_was_reached() {
        let full = [("x-codex-primary-used-percent", "100"), ("x-codex-primary-reset-at", "1795221060")];
        assert_eq!(in_headers(&headers(&full))[0].status, RateLimitStatus::Warning);
        let mut reached = full.to_vec();
        reached.push((REACHED, "rate_limit_reached"));
        let notifications = in_headers(&headers(&reached));
        assert_eq!(notifications.len(), 1);
        assert_eq!(notifications[0].status, RateLimitStatus::Rejected);
        assert_eq!(resets_at(&headers(&reached)), Some(seconds(1_795_221_060)));
    }

    #[test]
    fn credits_may_be_gone_while_the_windows_have_room() {
        let notifications = in_headers(&headers(&[
            ("x-codex-primary-used-percent", "20"),
            (REACHED, "workspace_owner_credits_depleted"),
        ]));
        assert_eq!(notifications[0].status, RateLimitStatus::Allowed);
        assert_eq!(notifications[1].status, RateLimitStatus::Rejected);
        assert_eq!(notifications[1].window.as_deref(), Some("workspace_owner_credits_depleted"));
    }

    #[test]
    fn the_last_of_the_full_windows_says_when_there_is_room_again() {
        let headers = headers(&[
            ("x-codex-primary-used-percent", "100"),
            ("x-codex-primary-reset-at", "10"),
            ("x-codex-secondary-used-percent", "100"),
            ("x-codex-secondary-reset-at", "20"),
            ("x-other-primary-used-percent", "3"),
            ("x-other-primary-reset-at", "30"),
        ]);
        assert_eq!(resets_at(&headers), Some(seconds(20)));
    }

    #[test]
    fn what_is_no_number_is_no_notification() {
        for nonsense in ["", "lots", "NaN", "inf"] {
            let headers = headers(&[("x-codex-primary-used-percent", nonsense)]);
            assert!(in_headers(&headers).is_empty(), "{nonsense:?}");
        }
        let far = headers(&[
            ("x-codex-primary-used-percent", "100"),
            ("x-codex-primary-reset-at", "99999999999999999999"),
        ]);
        assert_eq!(resets_at(&far), None);
    }

    #[test]
    fn the_event_tells_the_same() {
        let event =
            br#"{"type":"codex.rate_limits","plan_type":"pro","rate_limits":{"primary":{"used_percent":12.5,
            "window_minutes":300,"reset_at":1795221060},"secondary":null},"credits":{"has_credits":true}}"#;
        let notifications = in_event(event).unwrap();
        assert_eq!(notifications.len(), 1);
        assert_eq!(notifications[0].used_percent, Some(12.5));
        assert_eq!(notifications[0].resets_at, Some(seconds(1_795_221_060)));
        assert!(in_event(b"{").is_none());
        assert!(in_event(br#"{"rate_limits":null}"#).unwrap().is_empty());
    }
}
