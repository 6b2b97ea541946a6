//! Limits of a debate: the section `debate` of `nexus.yaml`.

use nexus_core::{ConfigSection, SettingsError, scope::DEFAULT_REFUSED_SUBMISSIONS, settings_schema};
use nexus_router::Router;
use nexus_work::{MOST_REFUSED_SUBMISSIONS, WorkBudget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{closing_rule::RoundBounds, frame::PANELISTS};

/// Maximum number of rounds that a configuration or a caller may set. Source: our own bound; each round is a turn of every
/// panelist.
const MOST_ROUNDS: u32 = 12;

/// Defaults for debates whose creator sets no bounds. Their sources lie below the roots of the section `tasks`.
///
/// ```
/// use std::sync::Arc;
/// use nexus_core::{BuildContext, Registry};
/// use nexus_debates::{DebateSection, DebateSettings};
/// use nexus_router::Router;
///
/// let registry = Registry::new().with_section(Arc::new(DebateSection));
/// let configuration = serde_json::json!({ "debate": { "max_rounds": 2 } });
/// let router = Router::from_value(configuration, registry, BuildContext::in_home("home"))?;
/// assert_eq!(DebateSettings::of(&router)?.max_rounds, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DebateSettings {
    /// Number of panelists, 2 to 9. Default 3.
    pub panelists: usize,
    /// Lowest number of rounds of cross-examination, from 1 on. Default 1.
    pub min_rounds: u32,
    /// Highest number of rounds, up to 12. Default 3.
    pub max_rounds: u32,
    /// Number of submissions of one agent that may be refused in a stage before it counts as silent. Default 5,
    /// up to 50.
    pub max_refused_submissions: u32,
    /// Budget of all turns of the debate together.
    pub budget: WorkBudget,
    /// Deadline of one agent's turn, in seconds. Default 1,800.
    pub turn_seconds: u64,
}

impl Default for DebateSettings {
    fn default() -> Self {
        Self {
            panelists: 3,
            min_rounds: 1,
            max_rounds: 3,
            max_refused_submissions: DEFAULT_REFUSED_SUBMISSIONS,
            budget: WorkBudget::default(),
            turn_seconds: 1_800,
        }
    }
}

impl DebateSettings {
    /// Returns the settings from the configuration of a router, or the defaults.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if the section cannot be used; never for a router whose registry has [`DebateSection`].
    pub fn of(router: &Router) -> Result<Self, SettingsError> {
        router.section("debate").map_or_else(|| Ok(Self::default()), |value| Self::read(&value))
    }

    fn read(value: &Value) -> Result<Self, SettingsError> {
        let read: Self = SettingsError::reading(value)?;
        match read.fault() {
            Some((field, reason)) => Err(SettingsError { path: vec![field.to_owned()], reason }),
            None => Ok(read),
        }
    }

    /// Returns the invalid field and the reason.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        let (least, most) = PANELISTS.into_inner();
        if !PANELISTS.contains(&self.panelists) {
            return Some(("panelists", format!("is not a number from {least} to {most}")));
        }
        if !(1..=MOST_ROUNDS).contains(&self.max_rounds) {
            return Some(("max_rounds", format!("is not a number from 1 to {MOST_ROUNDS}")));
        }
        if !(1..=self.max_rounds).contains(&self.min_rounds) {
            return Some(("min_rounds", format!("is not a number from 1 to {}, the limit", self.max_rounds)));
        }
        if !(1..=MOST_REFUSED_SUBMISSIONS).contains(&self.max_refused_submissions) {
            let reason = format!("is not a number from 1 to {MOST_REFUSED_SUBMISSIONS}");
            return Some(("max_refused_submissions", reason));
        }
        let leaves_nothing = self.budget.usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0)
            || self.budget.output_tokens == Some(0);
        if leaves_nothing {
            return Some(("budget", "leaves nothing to use".to_owned()));
        }
        (self.turn_seconds == 0).then(|| ("turn_seconds", "is 0".to_owned()))
    }

    pub(crate) fn bounds(&self) -> RoundBounds {
        RoundBounds { least: self.min_rounds, most: self.max_rounds }
    }
}

/// Reads and describes the section [`DebateSettings`]: for [`Registry::with_section`](nexus_core::Registry::with_section).
#[derive(Clone, Copy, Debug)]
pub struct DebateSection;

impl ConfigSection for DebateSection {
    fn name(&self) -> &'static str {
        "debate"
    }

    fn schema(&self) -> Value {
        let mut schema = settings_schema::of::<DebateSettings>();
        schema["description"] = "Debates: the defaults of a debate.".into();
        schema
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        DebateSettings::read(value).map(drop)
    }
}
