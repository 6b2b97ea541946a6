//! Describes the availability of a backend in words.

use nexus::Availability;

use crate::output::printable;

/// Returns the result of a probe in words. Every line after the first is indented by `indent`.
pub(crate) fn words(availability: &Availability, indent: &str) -> String {
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
