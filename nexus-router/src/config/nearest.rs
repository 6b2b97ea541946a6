//! Finds the valid name that is most similar to an unknown name.

/// Longest word that gets a suggestion, in bytes.
const MAX_WORD_BYTES: usize = 100;

/// Returns the name in `valid` with the fewest edits from `word`. Returns `None` if that needs more edits
/// than a third of its length.
pub(crate) fn nearest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let folded = word.to_lowercase();
    let bound = (folded.chars().count() / 3).max(1);
    valid
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&folded, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= bound && *name != word)
        .min()
        .map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_does_not() {
        let valid = ["group", "model", "effort"];
        assert_eq!(nearest("gruop", valid).as_deref(), Some("group"));
        assert_eq!(nearest("Model", valid).as_deref(), Some("model"));
        assert_eq!(nearest("colour", valid), None);
    }
}
