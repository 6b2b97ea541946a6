//! Patterns for the names of allowed tools.

use crate::name_type;

/// Longest pattern, in bytes. Source: the longest tool name that every vendor accepts.
const MAX_BYTES: usize = 64;

name_type! {
    /// The name of a tool, or a pattern in which `*` stands for any number of characters, including none.
    ///
    /// ```
    /// use nexus_core::ToolPattern;
    ///
    /// let reading: ToolPattern = "read_*".parse()?;
    /// assert!(reading.matches("read_file") && !reading.matches("write_file"));
    /// # Ok::<(), nexus_core::scope::InvalidPattern>(())
    /// ```
    pub struct ToolPattern: check => InvalidPattern;
}

impl ToolPattern {
    /// Returns the pattern for every tool.
    pub fn every() -> Self {
        Self("*".into())
    }

    /// Returns true if the pattern matches the tool's name. Case counts.
    pub fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.as_bytes())
    }
}

/// Matches from left to right. At a mismatch, extends the last `*` by one character.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut last_star = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                last_star = Some((at, seen));
                at += 1;
            }
            Some(byte) if name.get(seen) == Some(byte) => {
                at += 1;
                seen += 1;
            }
            _ => match last_star {
                Some((star, taken)) => {
                    // Earlier stars need no other match, so the time is at most the product of both lengths.
                    last_star = Some((star, taken + 1));
                    at = star + 1;
                    seen = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}

fn check(text: &str) -> Result<(), InvalidPattern> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'*');
    if text.is_empty() || text.len() > MAX_BYTES || !text.bytes().all(fits) {
        return Err(InvalidPattern { text: text.chars().take(2 * MAX_BYTES).collect() });
    }
    Ok(())
}

/// Error for a text that cannot match any tool's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot match a tool: a pattern has 1 to {MAX_BYTES} letters, digits, `_`, `-` and `*`")]
pub struct InvalidPattern {
    /// The given text, shortened.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, name: &str) -> bool {
        pattern.parse::<ToolPattern>().unwrap().matches(name)
    }

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        assert!(fits("*", "anything"));
        assert!(fits("read", "read") && !fits("read", "read_file") && !fits("read", "Read"));
        assert!(fits("read_*", "read_") && fits("*_file", "read_file"));
        assert!(fits("a*b*c", "a_b_b_c") && !fits("a*b*c", "a_b_b"));
        assert!(fits("**a", "a") && fits("a*", "a") && !fits("a*a", "a"));
    }

    #[test]
    fn what_can_match_nothing_is_refused() {
        for text in ["", "a b", "é", "a.b", &"x".repeat(65)] {
            assert!(text.parse::<ToolPattern>().is_err(), "{text:?}");
        }
        assert!(serde_json::from_str::<ToolPattern>("\"a b\"").is_err());
    }
}
