//! Notifications about the account's limits, and notifications that produce no event.

use nexus_core::{
    TurnEvent,
    turn::{RateLimitNotification, RateLimitStatus},
};

use super::failure::unix_time;
use super::wire::{RateLimits, RateWindow};

/// Used share of a limit above which a warning is reported, in percent. Source: our own choice.
const NEAR_PERCENT: f64 = 90.0;

/// Returns one event for each known window.
pub(super) fn events(limits: &RateLimits) -> impl Iterator<Item = TurnEvent> {
    let windows = [limits.primary, limits.secondary].into_iter().flatten();
    let is_reached = limits.rate_limit_reached_type.is_some();
    windows.map(move |window| window_notification(&window, is_reached).into()).collect::<Vec<_>>().into_iter()
}

fn window_notification(window: &RateWindow, is_reached: bool) -> RateLimitNotification {
    let status = match window.used_percent {
        used if used >= 100.0 && is_reached => RateLimitStatus::Rejected,
        used if used >= NEAR_PERCENT => RateLimitStatus::Warning,
        _ => RateLimitStatus::Allowed,
    };
    RateLimitNotification::new(status)
        .with_window(window.window_duration_mins.map(|minutes| format!("{minutes} minutes")))
        .with_used_percent(Some(window.used_percent))
        .with_resets_at(window.resets_at.and_then(unix_time))
}

/// Returns true for notifications that a turn does not need: they repeat other lines, or report the program's
/// own affairs.
pub(super) fn is_housekeeping(method: &str) -> bool {
    const EXACT: &[&str] = &[
        "account/updated",
        "item/commandExecution/outputDelta",
        "item/commandExecution/terminalInteraction",
        "item/fileChange/outputDelta",
        "item/fileChange/patchUpdated",
        "item/mcpToolCall/progress",
        "item/plan/delta",
        "item/reasoning/summaryPartAdded",
        "mcpServer/startupStatus/updated",
        "model/safetyBuffering/updated",
        "model/verification",
        "rawResponse/completed",
        "rawResponseItem/completed",
        "remoteControl/status/changed",
        "serverRequest/resolved",
        "skills/changed",
        "thread/closed",
        "thread/compacted",
        "thread/name/updated",
        "thread/queue/changed",
        "thread/readState/changed",
        "thread/settings/updated",
        "thread/started",
        "thread/status/changed",
        "turn/diff/updated",
        "turn/moderationMetadata",
        "turn/plan/updated",
    ];
    const FAMILIES: &[&str] = &["hook/", "thread/goal/", "modelProvider/authRecovery", "account/login/"];
    EXACT.contains(&method) || FAMILIES.iter().any(|family| method.starts_with(family))
}

/// Returns true if the user can act on a warning of the program. The report that the program brings its own sandbox is
/// excluded.
pub(super) fn is_worth_a_warning(text: &str) -> bool {
    !text.starts_with("Codex could not find bubblewrap on PATH")
}
