//! Converts the availability of a backend to a check, and to text.

use std::path::Path;

use nexus::Availability;

use super::check::Check;
use crate::output::printable;

/// Returns the result of a probe in words. Every line after the first is indented by `indent`.
pub(super) fn words(availability: &Availability, indent: &str) -> String {
    match availability {
        Availability::Ready { version, notes } => {
            let version = version.as_deref().unwrap_or("version unknown");
            let notes: String = notes.iter().map(|note| format!("\n{indent}{}", printable(note))).collect();
            format!("ready ({}){notes}", printable(version))
        }
        Availability::NotInstalled { looked_in, remedy } => {
            let places = looked_in.iter().map(|place| place.display().to_string()).collect::<Vec<_>>();
            format!("not installed: {remedy}\n{indent}searched in {}", places.join(", "))
        }
        Availability::Unauthenticated { remedy } => format!("not logged in: {}", printable(remedy)),
        Availability::Unusable { reason } => format!("cannot be used: {}", printable(reason)),
        other => format!("{other:?}"),
    }
}

/// Returns the result of a probe as a check.
pub(super) fn check(subject: String, found: &Availability) -> Check {
    match found {
        Availability::Ready { version, notes } => {
            let version = version.as_deref().map(|version| format!(" ({})", printable(version)));
            let text = format!("ready{}", version.unwrap_or_default());
            match notes.as_slice() {
                [] => Check::ok(subject, text),
                notes => {
                    let notes = notes.iter().map(|note| printable(note)).collect::<Vec<_>>().join("; ");
                    Check::note(subject, format!("{text}: {notes}"))
                }
            }
        }
        Availability::NotInstalled { looked_in, remedy } => {
            let shown = |path: &Path| printable(&path.display().to_string());
            let places = looked_in.iter().map(|place| shown(place)).collect::<Vec<_>>().join(", ");
            Check::missing(subject, format!("not installed; looked in {places}")).fixed_by(remedy)
        }
        Availability::Unauthenticated { remedy } => {
            Check::missing(subject, "not logged in").fixed_by(printable(remedy))
        }
        Availability::Unusable { reason } => Check::failed(subject, printable(reason))
            .fixed_by("fix the cause in the line, or park the backend in nexus.yaml"),
        other => Check::unknown(subject, format!("{other:?}")),
    }
}
