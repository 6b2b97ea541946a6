//! Words of messages to people: numbers with their nouns, and words of a shell.

use std::ffi::OsStr;
use std::fmt::Display;

/// Formats a number with its noun, in the singular for 1.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        _ if count == N::from(1) => return format!("{count} {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{noun}s"),
    };
    format!("{count} {plural}")
}

/// Quotes a word for a shell, if it needs quotes. A name that is not UTF-8 is shown with replacement characters.
pub fn shell_word(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:=@%+,-".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Cuts a text after `most` characters. A cut text ends with an ellipsis.
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(["äöü", "äö", ""].map(|text| shortened(text, 2)), ["äö…", "äö", ""]);
    }

    #[test]
    fn only_one_is_singular() {
        let of = |count: usize| [counted(count, "turn"), counted(count, "entry"), counted(count, "key")];
        assert_eq!(of(1), ["1 turn", "1 entry", "1 key"]);
        assert_eq!(of(0), ["0 turns", "0 entries", "0 keys"]);
        assert_eq!(of(2), ["2 turns", "2 entries", "2 keys"]);
    }

    #[test]
    fn a_word_can_be_pasted_into_a_shell() {
        let words = ["/a/b-c_d.json", "", "/a b/$c", "/it's"].map(shell_word);
        assert_eq!(words, ["/a/b-c_d.json", "''", "'/a b/$c'", r"'/it'\''s'"]);
    }
}
