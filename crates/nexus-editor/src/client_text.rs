//! Text for a client: without control characters for a terminal, and within limits.

use nexus_core::visible::Visible;

/// Maximum length of a title, in characters.
const TITLE_CHARACTERS: usize = 120;

/// Returns a text without control characters, except line breaks and tabs.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() || matches!(character, '\n' | '\t')).collect()
}

/// Returns one line for a list: the beginning of the first line that is not blank. An ellipsis marks omitted text.
pub(crate) fn title(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let shown = Visible(lines.next().unwrap_or_default()).to_string();
    let mut characters = shown.chars();
    let mut title: String = characters.by_ref().take(TITLE_CHARACTERS).collect();
    if characters.next().is_some() || lines.next().is_some() {
        title.push('…');
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_finds_nothing_to_obey() {
        assert_eq!(harmless("a\u{1b}[2J\r\n\tb\u{9b}"), "a[2J\n\tb");
        assert_eq!(title(" \n a\u{202e}b\u{7} \n"), r"a\u{202e}b\u{7}");
        assert_eq!(title("ls\n\nrm"), "ls…");
        assert_eq!(title(&"ä".repeat(200)).chars().count(), TITLE_CHARACTERS + 1);
    }
}
