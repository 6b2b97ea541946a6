//! What goes to standard output.

use std::{
    fmt::Display,
    io::{self, Write as _},
};

/// Writes a line. A reader that went away ends the output, not the work.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Writes a value as one line of JSON.
#[cfg(feature = "login")]
pub(crate) fn say_json(value: &impl serde::Serialize) {
    match serde_json::to_string(value) {
        Ok(line) => say(line),
        Err(error) => eprintln!("nexus: {error}"),
    }
}

/// A text of somebody else's, in which a terminal finds nothing to obey.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_finds_nothing_to_obey() {
        assert_eq!(printable("\u{1b}]0;owned\u{7}me@example.org\n\r\u{9b}2J"), "]0;ownedme@example.org2J");
    }
}
