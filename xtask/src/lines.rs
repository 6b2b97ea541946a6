//! Counts lines of code, of documentation and of comments beside the code.

use std::ops::AddAssign;

/// Numbers of lines by kind. A line with code and a comment counts for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) all: usize,
    pub(crate) code: usize,
    /// Comments beside or between the code: no documentation.
    pub(crate) comments: usize,
    pub(crate) documentation: usize,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, other: Self) {
        self.all += other.all;
        self.code += other.code;
        self.comments += other.comments;
        self.documentation += other.documentation;
    }
}

/// Syntax that continues from one line into the next.
enum State {
    Code,
    /// In a block comment, this many levels deep.
    Block(usize),
    Text,
    /// In a raw string with this many `#`.
    RawText(usize),
}

/// Counts the lines of `text`, of which `is_product` says by number, from 1, whether they count.
pub(crate) fn count(text: &str, is_product: impl Fn(usize) -> bool) -> Lines {
    let mut lines = Lines::default();
    let mut state = State::Code;
    for (index, line) in text.lines().enumerate() {
        let one;
        (one, state) = scan(line, state);
        if is_product(index + 1) {
            lines += one;
        }
    }
    lines
}

fn scan(line: &str, mut state: State) -> (Lines, State) {
    let (mut code, mut comment, mut documentation) = (false, false, false);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let mut skip = first.len_utf8();
        match state {
            State::Code => {
                if rest.starts_with("//") {
                    // Rust reads `////` as an ordinary comment.
                    let inner = rest.starts_with("//!");
                    let outer = rest.starts_with("///") && !rest.starts_with("////");
                    if inner || outer {
                        documentation = true;
                    } else {
                        comment = true;
                    }
                    break;
                } else if rest.starts_with("/*") {
                    comment = true;
                    state = State::Block(1);
                    skip = 2;
                } else if let Some((hashes, length)) = raw_text(rest) {
                    code = true;
                    state = State::RawText(hashes);
                    skip = length;
                } else if first == '"' {
                    code = true;
                    state = State::Text;
                } else if first == '\'' {
                    code = true;
                    skip = character(rest);
                } else if first.is_alphanumeric() || first == '_' {
                    code = true;
                    // A whole word, so that the `r` of `for"` starts no raw string.
                    skip =
                        rest.find(|one: char| !(one.is_alphanumeric() || one == '_')).unwrap_or(rest.len());
                } else if !first.is_whitespace() {
                    code = true;
                }
            }
            State::Block(depth) => {
                comment = true;
                if rest.starts_with("/*") {
                    state = State::Block(depth + 1);
                    skip = 2;
                } else if rest.starts_with("*/") {
                    state = if depth == 1 { State::Code } else { State::Block(depth - 1) };
                    skip = 2;
                }
            }
            State::Text => {
                code = true;
                if first == '\\' {
                    skip += rest[1..].chars().next().map_or(0, char::len_utf8);
                } else if first == '"' {
                    state = State::Code;
                }
            }
            State::RawText(hashes) => {
                code = true;
                if first == '"' && rest[1..].bytes().take_while(|&one| one == b'#').count() >= hashes {
                    state = State::Code;
                    skip += hashes;
                }
            }
        }
        rest = &rest[skip..];
    }
    let lines = Lines {
        all: 1,
        code: usize::from(code),
        comments: usize::from(comment),
        documentation: usize::from(documentation),
    };
    (lines, state)
}

/// The number of `#` and the length of what opens a raw string here.
fn raw_text(rest: &str) -> Option<(usize, usize)> {
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let after = &rest[prefix.len()..];
    let hashes = after.bytes().take_while(|&one| one == b'#').count();
    after[hashes..].starts_with('"').then_some((hashes, prefix.len() + hashes + 1))
}

/// The length of the character literal here, or of the quote of a lifetime.
fn character(rest: &str) -> usize {
    let mut inner = rest[1..].chars();
    match inner.next() {
        // Search behind the escaped character, which may be a quote itself.
        Some('\\') => rest[3..].find('\'').map_or(rest.len(), |end| 3 + end + 1),
        Some(one) if inner.next() == Some('\'') => 2 + one.len_utf8(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (usize, usize, usize) {
        let lines = count(text, |_| true);
        (lines.code, lines.comments, lines.documentation)
    }

    #[test]
    fn each_line_counts_for_what_is_on_it() {
        assert_eq!(kinds("//! Head.\n/// Item.\nfn f() {} // Why.\n\n// Why, alone.\n"), (1, 2, 2));
        assert_eq!(kinds("/* one\n two /* deeper */\n */ let x;"), (1, 3, 0));
    }

    #[test]
    fn what_looks_like_a_comment_in_a_literal_is_code() {
        assert_eq!(kinds("let x = \"http://host\";"), (1, 0, 0));
        assert_eq!(kinds("let x = r#\"a\" // b\n// c\"#; let y = '\"'; // d"), (2, 1, 0));
        assert_eq!(kinds("let x = '\\''; let y: &'a str = \"\\\"//\";"), (1, 0, 0));
    }
}
