//! Output of a program, and its exit.

use std::fmt;

use nexus_process::spawn::KeptOutput;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Output of a program. Treat it as data: it may contain control characters, and a secret that the program found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckOutput {
    /// Standard output.
    pub stdout: KeptText,
    /// Standard error.
    pub stderr: KeptText,
}

impl CheckOutput {
    /// Returns the end of standard error.
    pub(super) fn end_of_errors(&self) -> &str {
        match self.stderr.omitted_bytes {
            0 => &self.stderr.head,
            _ => &self.stderr.tail,
        }
    }
}

/// Beginning and end of a text. Bytes that are not UTF-8 are replaced by U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptText {
    /// The whole text, or its beginning if bytes were left out.
    pub head: String,
    /// Number of bytes left out between the beginning and the end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_bytes: u64,
    /// The end, if bytes were left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
}

impl KeptText {
    /// Returns at most `most` bytes of an output: half of them from its beginning, half from its end.
    pub(super) fn of(kept: &KeptOutput, most: usize) -> Self {
        let (head, tail) = (kept.head(), kept.tail());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if kept.omitted_bytes() == 0 && head.len() <= most {
            return Self { head: text(&head), ..Self::default() };
        }
        // `KeptOutput` fills its tail only if it omitted bytes.
        let tail = if kept.omitted_bytes() == 0 { &head } else { &tail };
        let head = without_cut_end(&head[..(most / 2).min(head.len())]);
        let tail = without_cut_beginning(&tail[tail.len().saturating_sub(most / 2)..]);
        let shown = (head.len() + tail.len()) as u64;
        Self { head: text(head), omitted_bytes: kept.total_bytes().saturating_sub(shown), tail: text(tail) }
    }

    /// Returns true if the program wrote nothing.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.omitted_bytes == 0
    }
}

/// Returns the bytes without an incomplete UTF-8 character at their end.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    // A character has at most three bytes after its first byte, which encodes their number.
    let first = bytes.iter().rev().take(3).position(|byte| byte & 0xC0 != 0x80);
    let Some(after) = first else { return bytes };
    let at = bytes.len() - 1 - after;
    let length = match bytes[at] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if length > after + 1 { &bytes[..at] } else { bytes }
}

/// Returns the bytes without the rest of a cut UTF-8 character at their beginning.
fn without_cut_beginning(bytes: &[u8]) -> &[u8] {
    let within = bytes.iter().take(3).take_while(|byte| *byte & 0xC0 == 0x80).count();
    &bytes[within..]
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Exit of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgramExit {
    /// Exit code.
    Code(i32),
    /// Signal that ended it.
    Signal(i32),
}

impl ProgramExit {
    /// Returns true if it is exit code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for ProgramExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_cut_in_two() {
        let text = "a\u{e9}\u{20ac}\u{1f600}z";
        for at in 0..=text.len() {
            let (head, tail) =
                (without_cut_end(&text.as_bytes()[..at]), without_cut_beginning(&text.as_bytes()[at..]));
            let (head, tail) = (std::str::from_utf8(head).unwrap(), std::str::from_utf8(tail).unwrap());
            assert!(text.starts_with(head) && head.len() + 4 > at && text.ends_with(tail), "{at}");
        }
        for odd in [&[][..], &[0x80; 7], &[0xFF, 0xF0], b"ab"] {
            let kept = without_cut_end(odd).len().min(without_cut_beginning(odd).len());
            assert!(kept + 3 >= odd.len(), "{odd:?}");
        }
    }
}
