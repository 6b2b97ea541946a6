//! What a program wrote, and how it ended.

use std::fmt;

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
