//! Readiness of one backend: a backend is ready if a turn on it would start.

use std::time::SystemTime;

use nexus::{Availability, BackendId, LoopMode, hold::Hold};
use nexus_files::rfc3339;
use schemars::JsonSchema;
use serde::Serialize;

use super::{availability, check::Check};
use crate::output::printable;

/// A backend of a configuration.
pub(crate) struct Readiness {
    pub(crate) id: BackendId,
    /// Result of the probe. A backend that no type gives the model that it needs is unusable.
    pub(crate) availability: Availability,
    /// The hold that suspends it.
    pub(crate) hold: Option<Hold>,
    /// True if a type of the configuration uses it.
    pub(crate) is_used: bool,
    /// Party that runs the loop of its turns.
    pub(crate) mode: LoopMode,
}

/// Suspension of a backend.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct HeldBackend {
    /// Since when, as RFC 3339.
    since: String,
    /// Until when, as RFC 3339.
    until: String,
    /// True if the end is a guess, because the vendor named none.
    guessed: bool,
    /// The refusal, in the vendor's words where there are any.
    reason: String,
}

impl HeldBackend {
    pub(crate) fn of(hold: &Hold) -> Self {
        Self {
            since: rfc3339::seconds(hold.since),
            until: rfc3339::seconds(hold.until),
            guessed: hold.guessed,
            reason: hold.reason.clone(),
        }
    }
}

impl Readiness {
    /// Returns true if a turn on it would start.
    pub(crate) fn is_ready(&self) -> bool {
        self.availability.is_ready() && self.hold.is_none()
    }

    /// Returns the check. A backend that no type uses stops no turn.
    pub(crate) fn check(&self) -> Check {
        let subject = format!("backend {}", self.id);
        let check = match &self.hold {
            Some(hold) => Check::failed(subject, printable(&hold.spoken(SystemTime::now())))
                .fixed_by(format!("wait until then; {}", release_advice(&self.id)))
                .with_command(format!("nexus hold release {}", self.id)),
            None => availability::check(subject, &self.availability),
        };
        // A backend that no type uses cannot prevent a turn, so its problem is only a note.
        match self.is_used || check.is_ok() {
            true => check,
            false => check.noted(),
        }
    }

    /// Returns the result of the check, for a person. Further lines are indented by `indent`.
    pub(crate) fn words(&self, indent: &str) -> String {
        match &self.hold {
            Some(hold) => printable(&held_words(hold)),
            None => availability::words(&self.availability, indent),
        }
    }
}

/// Returns the end of a suspension, its reason, and the command that ends it.
fn held_words(hold: &Hold) -> String {
    format!("{} ({})", hold.spoken(SystemTime::now()), release_advice(&hold.backend))
}

/// Returns how a person ends a hold.
fn release_advice(backend: &BackendId) -> String {
    format!("`nexus hold release {backend}` ends this")
}
