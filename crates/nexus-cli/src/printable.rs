//! Text of others that is safe to print.

/// Removes the characters that a terminal would obey: control characters, and characters that change the direction of text.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|character| !is_obeyed(*character)).collect()
}

/// Like [`printable`], but retains line breaks and tabs.
pub(crate) fn printable_lines(text: &str) -> String {
    text.chars().filter(|character| !is_obeyed(*character) || matches!(character, '\n' | '\t')).collect()
}

/// Returns true if a terminal obeys the character in place of showing it.
fn is_obeyed(character: char) -> bool {
    // Marks of text direction can display words in another order than they have.
    let changes_direction = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || changes_direction || matches!(character, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_finds_nothing_to_obey() {
        assert_eq!(printable("a\u{202e}b\u{2066}c\u{200f}d"), "abcd");
        assert_eq!(printable_lines("a\u{202e}\n\u{2028}b"), "a\nb");
        assert_eq!(printable("\u{1b}]0;owned\u{7}me@example.org\n\r\u{9b}2J"), "]0;ownedme@example.org2J");
    }
}
