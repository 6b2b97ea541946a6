//! Detects `${NAME}` in a configuration, which other programs replace by a variable.

/// Predicate of a sentence whose subject is a `${NAME}`.
pub(crate) const NO_VARIABLES: &str =
    "is not supported: write the value, or for a credential `{ env: NAME }` with the name of the variable";

/// Returns the name of the first variable in a text.
pub(crate) fn variable_in(text: &str) -> Option<&str> {
    text.split("${").skip(1).find_map(|rest| {
        let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let end = rest.find(|character| !is_plain(character))?;
        // Shells and Compose also accept forms such as `${NAME:-default}`.
        (end > 0 && rest[end..].starts_with(['}', ':', '-', '?', '+'])).then(|| &rest[..end])
    })
}
