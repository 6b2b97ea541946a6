//! Properties of the terminal: its width, and use of escape codes.

use std::{
    env,
    io::{self, IsTerminal},
};

/// Returns the width of the terminal in columns: that of a standard stream, else `COLUMNS`. `None` without both.
pub(crate) fn columns() -> Option<usize> {
    #[cfg(unix)]
    {
        use rustix::termios::tcgetwinsize;

        // Each of the streams may be redirected, so the first terminal among them counts.
        let sizes = [tcgetwinsize(io::stdout()), tcgetwinsize(io::stderr()), tcgetwinsize(io::stdin())];
        let size =
            sizes.into_iter().flatten().map(|size| usize::from(size.ws_col)).find(|columns| *columns > 0);
        if size.is_some() {
            return size;
        }
    }
    env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

/// Cuts a row of a table to the width of the terminal that shows it. A file or a pipe gets the whole row.
pub(crate) fn fitted(row: &str) -> String {
    match columns().filter(|_| io::stdout().is_terminal()) {
        Some(columns) => cut(row, columns),
        None => row.to_owned(),
    }
}

fn cut(row: &str, columns: usize) -> String {
    match row.char_indices().nth(columns) {
        None => row.to_owned(),
        Some(_) => row.chars().take(columns.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}

/// Folds lines between words at the width of the terminal that shows them. `indent` is that of the lines that follow. A file or a pipe
/// gets the lines unchanged.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    match columns().filter(|_| io::stdout().is_terminal()) {
        Some(columns) => {
            let lines = text.lines().map(|line| {
                let begins = line.len() - line.trim_start().len();
                format!("{:begins$}{}", "", folded_from(&line[begins..], begins, indent, columns))
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        None => text.to_owned(),
    }
}

/// Folds a text at spaces into lines of `width`. It begins at the column `indent`, as do the lines after the first.
pub(crate) fn folded(text: &str, indent: usize, width: usize) -> String {
    folded_from(text, indent, indent, width)
}

fn folded_from(text: &str, begins: usize, indent: usize, width: usize) -> String {
    let mut folded = String::new();
    let (mut column, mut is_begun) = (begins, false);
    for word in text.split(' ') {
        let length = visible_length(word);
        if is_begun && column + 1 + length > width {
            folded.push('\n');
            folded.push_str(&" ".repeat(indent));
            column = indent;
        } else if is_begun {
            folded.push(' ');
            column += 1;
        }
        is_begun = true;
        folded.push_str(word);
        column += length;
    }
    folded
}

/// Returns the number of characters without the codes of colours.
fn visible_length(word: &str) -> usize {
    let mut parts = word.split("\u{1b}[");
    let first = parts.next().map_or(0, |part| part.chars().count());
    // The code of a colour ends at its `m`, and the rest of the part is visible.
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count())).sum::<usize>()
}

/// Formats a text in a colour, if the terminal of standard output takes colours.
pub(crate) fn coloured(text: &str, colour: Colour) -> String {
    match takes_escapes(&io::stdout()) {
        true => format!("\u{1b}[{}m{text}\u{1b}[0m", colour as u8),
        false => text.to_owned(),
    }
}

/// Colour of a word that a person must not miss. Source: ECMA-48, SGR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// Returns true if escape codes may be written to this stream: a terminal that is not `dumb`, and `NO_COLOR` is not set.
pub(crate) fn takes_escapes(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !is_dumb() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns true if the terminal understands no escape codes, not even those that move the cursor.
pub(crate) fn is_dumb() -> bool {
    env::var_os("TERM").map_or(cfg!(unix), |term| term.is_empty() || term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_row_fills_the_terminal_exactly() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab\u{2026}");
    }

    #[test]
    fn a_folded_text_breaks_between_words_and_colours_take_no_width() {
        assert_eq!(folded("one two three", 2, 9), "one two\n  three");
        assert_eq!(folded("unbreakable it", 0, 5), "unbreakable\nit");
        assert_eq!(folded("\u{1b}[31mFAIL\u{1b}[0m  it", 0, 8), "\u{1b}[31mFAIL\u{1b}[0m  it");
    }
}
