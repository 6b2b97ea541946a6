//! Names of tiers, phases and types: validity, and similarity.

use super::{AgentNameKind, AgentTypeError};

/// Longest name, in bytes. Source: our own bound.
const MAX_BYTES: usize = 64;

/// Checks that `text` is a name: an ASCII letter, and up to 63 ASCII letters, digits, `-` and `_`.
///
/// Other scripts are excluded, because their letters could be mistaken for these.
pub(super) fn check(what: AgentNameKind, text: &str) -> Result<(), AgentTypeError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let begins_well = text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic());
    match begins_well && text.len() <= MAX_BYTES && text.bytes().all(fits) {
        true => Ok(()),
        false => Err(AgentTypeError::InvalidName { what, text: text.chars().take(2 * MAX_BYTES).collect() }),
    }
}

/// Returns the look of a name: names with the same look are too similar.
fn glance(name: &str) -> String {
    let glyph = |character: char| match character.to_ascii_lowercase() {
        '-' | '_' => None,
        '0' => Some('o'),
        '1' | 'i' => Some('l'),
        '5' => Some('s'),
        other => Some(other),
    };
    // These pairs look like one letter in many fonts.
    name.chars().filter_map(glyph).collect::<String>().replace("rn", "m").replace("vv", "w")
}

/// Returns true if a person could take one name for the other. A name looks like itself.
pub(super) fn look_alike(one: &str, other: &str) -> bool {
    glance(one) == glance(other)
}

/// Returns the name of `known` that is most similar to `word`.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let word: String = word.chars().take(2 * MAX_BYTES).collect::<String>().to_lowercase();
    // A third of the letters may differ; more would suggest an unrelated name.
    let bound = (word.chars().count() / 3).max(1);
    let distance = |name: &'a str| (strsim::damerau_levenshtein(&word, &name.to_lowercase()), name);
    let best = known.into_iter().map(distance).filter(|(distance, _)| *distance <= bound).min();
    best.map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_ascii_letters_digits_and_two_signs() {
        for text in ["a", "security-reviewer", "step_2", "X", &"x".repeat(64)] {
            assert!(check(AgentNameKind::Type, text).is_ok(), "{text:?}");
        }
        // The first letter of the last one but one is Cyrillic; the one before has a joiner in it.
        for text in
            ["", "2nd", "-a", "_", "a b", "a/b", "a.b", "re\u{200d}viewer", "\u{435}xecutor", &"x".repeat(65)]
        {
            assert!(check(AgentNameKind::Type, text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_look_alike_whatever_their_case_and_signs() {
        for alike in ["executor", "Executor", "EXECUTOR", "exe-cutor", "execut0r", "executor_"] {
            assert!(look_alike("executor", alike), "{alike}");
        }
        assert!(look_alike("reviewer", "revlewer") && look_alike("reviewer", "rev1evver"));
        assert!(look_alike("former", "forrner"));
        for other in ["executors", "executer", "planner"] {
            assert!(!look_alike("executor", other), "{other}");
        }
    }
}
