//! Names in a message that come from a file, which may be long and many.

/// Maximum number of names in a message.
const MAX_NAMES: usize = 20;
/// Maximum number of characters of a name, or of a fault that quotes a file.
const MAX_CHARS: usize = 200;

/// Joins names for a message. Counts those after the first twenty.
pub(super) fn listed_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names;
    let mut shown: Vec<String> = names.by_ref().take(MAX_NAMES).map(shortened).collect();
    let further = names.count();
    if further > 0 {
        shown.push(format!("and {further} more"));
    }
    shown.join(", ")
}

/// Cuts a text from a file to a length that fits a message.
pub(super) fn shortened(text: &str) -> String {
    nexus_files::shortened(text, MAX_CHARS)
}
