//! A vendor's report on the limit of an account.

use serde::{Deserialize, Serialize};

/// State of an account's limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimit {
    /// State of the limit: calls are allowed, allowed with a warning, or rejected.
    pub standing: Standing,
    /// Used part of the window, in percent.
    pub used_percent: f64,
    /// Length of the window, in minutes.
    pub window_minutes: u64,
    /// Time of the next reset, in Unix seconds.
    pub resets_at: u64,
    /// The account's plan, where the vendor names it.
    pub plan: String,
    /// A second, longer window, if the vendor reports two.
    #[serde(default)]
    pub secondary: Option<Window>,
}

/// A window of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Used part of the window, in percent.
    pub used_percent: f64,
    /// Its length, in minutes.
    pub window_minutes: u64,
    /// Time of the next reset, in Unix seconds.
    pub resets_at: u64,
}

impl RateLimit {
    /// A limit that is far away.
    pub fn allowed(used_percent: f64, resets_at: u64) -> Self {
        Self {
            standing: Standing::Allowed,
            used_percent,
            window_minutes: 300,
            resets_at,
            plan: "pro".into(),
            secondary: None,
        }
    }

    /// Adds a second window.
    #[must_use]
    pub fn and_window(mut self, window: Window) -> Self {
        self.secondary = Some(window);
        self
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

/// Treatment of calls under a limit.
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
