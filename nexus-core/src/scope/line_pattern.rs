//! Search pattern for lines. Only this file uses the library of regular expressions.

use regex::bytes::{Regex, RegexBuilder};

/// Longest pattern, in bytes. Source: our own bound.
const MAX_PATTERN_BYTES: usize = 4 << 10;

/// Largest memory of a compiled pattern, in bytes. It bounds the work for each byte of a line. Source: our own bound.
/// `\w{3,40}` needs three quarters of it, and the worst patterns of this size take 10 s for 64 KiB.
const MAX_COMPILED_BYTES: usize = 2 << 20;

/// Largest cache of a pattern while it runs, in bytes. Source: our own bound.
const MAX_REMEMBERED_BYTES: usize = 1 << 20;

/// Search pattern for lines: a regular expression that takes time linear in the length of the line.
///
/// The syntax is that of the crate [`regex`](https://docs.rs/regex/latest/regex/#syntax): that of Perl without
/// the parts that need backtracking, which are back references and look-around. It is matched against one line
/// at a time, without the line's end: `^` and `$` are those of the line.
///
/// ```
/// use nexus_core::scope::{LinePattern, PatternStyle};
///
/// let functions = LinePattern::new(r"^\s*(pub )?fn \w+", PatternStyle::default())?;
/// assert!(functions.is_in("    pub fn new() -> Self {"));
/// let words = LinePattern::new("a.b", PatternStyle { literal: true, ignore_case: true })?;
/// assert!(words.is_in("A.B") && !words.is_in("axb"));
/// assert!(LinePattern::new("(", PatternStyle::default()).is_err());
/// # Ok::<(), nexus_core::scope::InvalidLinePattern>(())
/// ```
#[derive(Clone, Debug)]
pub struct LinePattern(Regex);

/// Interpretation of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatternStyle {
    /// True if the pattern is literal text and not a regular expression.
    pub literal: bool,
    /// True if upper and lower case are equal.
    pub ignore_case: bool,
}

impl LinePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    ///
    /// [`InvalidLinePattern`] with the fault: the text is empty, too long, or too large once compiled, contains
    /// a line break, or is not a regular expression.
    pub fn new(text: &str, style: PatternStyle) -> Result<Self, InvalidLinePattern> {
        if text.is_empty() {
            return Err(InvalidLinePattern("it is empty; `^` is in every line".to_owned()));
        }
        if text.len() > MAX_PATTERN_BYTES {
            return Err(InvalidLinePattern(format!("it is longer than {MAX_PATTERN_BYTES} bytes")));
        }
        if text.contains('\n') {
            let problem = "it contains a line break, but the search matches one line at a time; search for one of its \
                lines";
            return Err(InvalidLinePattern(problem.to_owned()));
        }
        let literal = style.literal.then(|| regex::escape(text));
        let regex = RegexBuilder::new(literal.as_deref().unwrap_or(text))
            .case_insensitive(style.ignore_case)
            .size_limit(MAX_COMPILED_BYTES)
            .dfa_size_limit(MAX_REMEMBERED_BYTES)
            .build();
        regex.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                InvalidLinePattern("it is too large once compiled; write smaller repetitions".to_owned())
            }
            error => InvalidLinePattern(error.to_string()),
        })
    }

    /// Returns true if the pattern matches in a line.
    pub fn is_in(&self, line: impl AsRef<[u8]>) -> bool {
        self.0.is_match(line.as_ref())
    }

    /// Returns the first match in a line: its start and end in bytes.
    pub(super) fn place_in(&self, line: &[u8]) -> Option<(usize, usize)> {
        self.0.find(line).map(|found| (found.start(), found.end()))
    }
}

/// Reason why a text is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it cannot be searched for: {0}")]
pub struct InvalidLinePattern(String);
