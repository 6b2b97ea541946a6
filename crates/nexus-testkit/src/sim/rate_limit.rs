//! What a vendor tells an account about its limit.

use serde::{Deserialize, Serialize};

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
    /// A second, longer window, where the vendor tells two.
    #[serde(default)]
    pub secondary: Option<Window>,
}

/// A window of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// How much of it is used, in percent.
    pub used_percent: f64,
    /// Its length, in minutes.
    pub window_minutes: u64,
    /// When it starts anew, in Unix seconds.
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
