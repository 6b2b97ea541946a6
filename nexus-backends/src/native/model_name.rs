//! Names of models on a server's list.

use nexus_core::visible::is_invisible;

/// Longest accepted name of a model, in bytes. Source: our own choice.
const MAX_NAME_BYTES: usize = 200;

/// Returns true for a name that a message or a configuration can show. A name with control characters or invisible characters
/// could pass for another one.
pub(crate) fn is_listed_name(name: &str) -> bool {
    let is_shown = |character: char| !character.is_control() && !is_invisible(character);
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_shown_as_it_is_does_not_count() {
        assert!(is_listed_name("org/model:7b"));
        for name in ["", "a\n", "a\u{200b}b", "a\u{202e}b", "a\u{feff}", &"x".repeat(201)] {
            assert!(!is_listed_name(name), "{name:?}");
        }
    }
}
