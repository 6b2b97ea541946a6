//! Numbers with their nouns.

use std::fmt::Display;

/// Formats a number with its noun, in the singular for 1.
pub(crate) fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        _ if count == N::from(1) => return format!("{count} {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{noun}s"),
    };
    format!("{count} {plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        let of = |count: usize| [counted(count, "turn"), counted(count, "entry"), counted(count, "key")];
        assert_eq!(of(1), ["1 turn", "1 entry", "1 key"]);
        assert_eq!(of(0), ["0 turns", "0 entries", "0 keys"]);
        assert_eq!(of(2), ["2 turns", "2 entries", "2 keys"]);
    }
}
