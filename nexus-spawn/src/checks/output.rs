//! What a program wrote, and how it ended.

use std::fmt;

use nexus_process::spawn::KeptOutput;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a program wrote. It is data, whatever it says: it may hold control characters, and a secret that the program found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckOutput {
    /// Standard output.
    pub stdout: KeptText,
    /// Standard error.
    pub stderr: KeptText,
}

/// The beginning and the end of a text. What is not UTF-8 in it was replaced by U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptText {
    /// All of it, or the beginning, if something was left out.
    pub head: String,
    /// How many bytes were left out between the beginning and the end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_bytes: u64,
    /// The end, if something was left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
}

impl KeptText {
    /// What a program wrote, as far as `most` bytes: half of them from its beginning, half from its end.
    pub(super) fn of(kept: &KeptOutput, most: usize) -> Self {
        let (head, tail) = (kept.head(), kept.tail());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if kept.omitted_bytes() == 0 && head.len() <= most {
            return Self { head: text(&head), ..Self::default() };
        }
        // Where nothing was left out, the beginning is all of it.
        let tail = if kept.omitted_bytes() == 0 { &head } else { &tail };
        let head = &head[..boundary(&head, (most / 2).min(head.len()))];
        let tail = &tail[boundary(tail, tail.len().saturating_sub(most / 2))..];
        let shown = (head.len() + tail.len()) as u64;
        Self { head: text(head), omitted_bytes: kept.total_bytes().saturating_sub(shown), tail: text(tail) }
    }

    /// Whether the program wrote nothing.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.omitted_bytes == 0
    }
}

/// The last place at or before `at` where no character of UTF-8 is cut in two.
fn boundary(bytes: &[u8], at: usize) -> usize {
    let is_within = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    // A character has at most three bytes after its first.
    (at.saturating_sub(3)..=at).rev().find(|at| !is_within(*at)).unwrap_or(at)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How a program ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgramExit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl ProgramExit {
    /// Whether it is exit code 0.
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
