//! Evidence that a verdict may cite: tests and probes that ran in the step, and lines of its diff.

mod patch_lines;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::RangeInclusive,
    str::FromStr,
};

use nexus_work::shown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest id, in bytes. Source: the longest path on Linux, followed by line numbers.
const MAX_BYTES: usize = 4_096 + 32;

/// The name of one piece of evidence.
///
/// | text | names |
/// | --- | --- |
/// | `test-3` | the third run of the tests in the step |
/// | `probe-12` | a probe, by the number that the server gave it |
/// | `diff:src/sum.rs:14-20` | lines 14 to 20 of the new file in the step's diff; `:14` is one line |
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct EvidenceId(EvidenceTarget);

/// Item that an evidence id names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum EvidenceTarget {
    Test(u32),
    Probe(u32),
    Diff { path: String, first: u32, last: u32 },
}

impl EvidenceId {
    /// Names the `number`-th run of the tests in a step, from 1 on.
    pub fn test(number: u32) -> Self {
        Self(EvidenceTarget::Test(number))
    }

    /// Names the probe with this number.
    pub fn probe(number: u32) -> Self {
        Self(EvidenceTarget::Probe(number))
    }

    /// Returns true if it names lines of the diff.
    pub(crate) fn is_diff(&self) -> bool {
        matches!(self.0, EvidenceTarget::Diff { .. })
    }

    /// Returns the number of the probe that it names.
    pub(crate) fn probe_number(&self) -> Option<u32> {
        match self.0 {
            EvidenceTarget::Probe(number) => Some(number),
            EvidenceTarget::Test(_) | EvidenceTarget::Diff { .. } => None,
        }
    }

    /// Returns the path of the file whose changed lines it names.
    pub(crate) fn diff_path(&self) -> Option<&str> {
        match &self.0 {
            EvidenceTarget::Diff { path, .. } => Some(path),
            EvidenceTarget::Test(_) | EvidenceTarget::Probe(_) => None,
        }
    }

    /// Names lines `first..=last` of the new file at `path`.
    pub fn diff(path: impl Into<String>, first: u32, last: u32) -> Self {
        Self(EvidenceTarget::Diff { path: path.into(), first, last })
    }
}

impl fmt::Display for EvidenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            EvidenceTarget::Test(number) => write!(f, "test-{number}"),
            EvidenceTarget::Probe(number) => write!(f, "probe-{number}"),
            EvidenceTarget::Diff { path, first, last } if first == last => write!(f, "diff:{path}:{first}"),
            EvidenceTarget::Diff { path, first, last } => write!(f, "diff:{path}:{first}-{last}"),
        }
    }
}

impl FromStr for EvidenceId {
    type Err = InvalidEvidenceId;

    fn from_str(text: &str) -> Result<Self, InvalidEvidenceId> {
        let invalid = || InvalidEvidenceId { text: shown(text) };
        if text.len() > MAX_BYTES {
            return Err(invalid());
        }
        let named = if let Some(number) = text.strip_prefix("test-") {
            number_of(number).map(EvidenceTarget::Test)
        } else if let Some(number) = text.strip_prefix("probe-") {
            number_of(number).map(EvidenceTarget::Probe)
        } else {
            text.strip_prefix("diff:").and_then(lines_of)
        };
        named.map(Self).ok_or_else(invalid)
    }
}

/// Parses a number from 1 on. Accepts only its canonical form.
fn number_of(text: &str) -> Option<u32> {
    let begins_well = text.bytes().next().is_some_and(|first| matches!(first, b'1'..=b'9'));
    if begins_well { text.parse().ok() } else { None }
}

fn lines_of(text: &str) -> Option<EvidenceTarget> {
    // The last colon: a path may contain colons of its own.
    let (path, lines) = text.rsplit_once(':')?;
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (first, last) = (number_of(first)?, number_of(last)?);
    (!path.is_empty() && first <= last).then(|| EvidenceTarget::Diff { path: path.to_owned(), first, last })
}

impl TryFrom<String> for EvidenceId {
    type Error = InvalidEvidenceId;

    fn try_from(text: String) -> Result<Self, InvalidEvidenceId> {
        text.parse()
    }
}

impl From<EvidenceId> for String {
    fn from(id: EvidenceId) -> Self {
        id.to_string()
    }
}

/// A text that does not name evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text} is not the id of evidence; write an id that a tool returned: test-1, probe-2, or \
    diff:PATH:LINE"
)]
pub struct InvalidEvidenceId {
    /// Beginning of the text, quoted.
    pub text: String,
}

/// All tests and probes that ran in a step, and the lines that it changed: the evidence that a handoff and its verdict may cite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepEvidence {
    /// Runs of the tests by number.
    tests: BTreeSet<u32>,
    /// Probes by number.
    probes: BTreeSet<u32>,
    /// Changed lines of new files, by path. A file without known lines, such as a removed one, has line 1.
    diff: BTreeMap<String, Vec<RangeInclusive<u32>>>,
}

impl StepEvidence {
    /// Creates the evidence of a step in which nothing ran or changed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a run of the tests under the next number, and returns its id.
    pub fn add_test(&mut self) -> EvidenceId {
        self.add_numbered_test(self.last_test().saturating_add(1))
    }

    /// Records the run of the tests with this number. Several agents of a step share one sequence of numbers.
    pub(crate) fn add_numbered_test(&mut self, number: u32) -> EvidenceId {
        self.tests.insert(number);
        EvidenceId::test(number)
    }

    /// Returns the number of the last run of the tests; 0 before the first run.
    pub(crate) fn last_test(&self) -> u32 {
        self.tests.last().copied().unwrap_or(0)
    }

    /// Records that the probe `number` ran.
    pub fn add_probe(&mut self, number: u32) -> EvidenceId {
        self.probes.insert(number);
        EvidenceId::probe(number)
    }

    /// Records changed lines of the file at `path`, from 1 on. An empty range counts as its first line.
    pub fn add_lines(&mut self, path: impl Into<String>, lines: RangeInclusive<u32>) {
        let first = (*lines.start()).max(1);
        self.diff.entry(path.into()).or_default().push(first..=(*lines.end()).max(first));
    }

    /// Records all evidence of another step.
    pub fn add_all(&mut self, other: &Self) {
        self.tests.extend(&other.tests);
        self.probes.extend(&other.probes);
        for (path, lines) in &other.diff {
            let known = self.diff.entry(path.clone()).or_default();
            for lines in lines {
                if !known.contains(lines) {
                    known.push(lines.clone());
                }
            }
        }
    }

    /// Records all changes of a git patch. It has no renames and has `a/` and `b/` before its paths, as
    /// `git diff-tree --patch --text --no-renames` writes it.
    pub fn add_patch(&mut self, patch: &[u8]) {
        for (path, lines) in patch_lines::changed_lines(patch) {
            self.add_lines(path, lines);
        }
    }

    /// Returns the numbers of the runs of the tests, in order.
    pub fn tests(&self) -> impl Iterator<Item = u32> + '_ {
        self.tests.iter().copied()
    }

    /// Returns the numbers of the probes that ran, in order.
    pub fn probes(&self) -> impl Iterator<Item = u32> + '_ {
        self.probes.iter().copied()
    }

    /// Returns true if `id` names evidence of this step. A range of lines counts if one of its lines changed.
    pub fn contains(&self, id: &EvidenceId) -> bool {
        match &id.0 {
            EvidenceTarget::Test(number) => self.tests.contains(number),
            EvidenceTarget::Probe(number) => self.probes.contains(number),
            EvidenceTarget::Diff { path, first, last } => {
                let changed = self.diff.get(path).map(Vec::as_slice).unwrap_or_default();
                // Overlap suffices, since reviewers cite changes together with their context.
                changed.iter().any(|lines| lines.start() <= last && first <= lines.end())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        for id in [
            EvidenceId::test(1),
            EvidenceId::probe(4_000_000_000),
            EvidenceId::diff("src/a:b.rs", 3, 3),
            EvidenceId::diff("a b/\u{e9}-1.rs", 3, 12),
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let odd = [
            "",
            "test-",
            "test-0",
            "test-01",
            "test-+1",
            "probe-99999999999",
            "diff:",
            "diff:a",
            "diff::1",
            "diff:a:2-1",
            "diff:a:0",
            "diff:a:1-",
            "TEST-1",
            "test-1 ",
            "\u{661}",
        ];
        for text in odd {
            assert!(text.parse::<EvidenceId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_what_was_run_in_the_step_is_evidence() {
        let mut evidence = StepEvidence::new();
        let (test, probe) = (evidence.add_test(), evidence.add_probe(7));
        evidence.add_lines("src/sum.rs", 10..=12);
        evidence.add_lines("gone.rs", 0..=0);
        for id in [test, probe, EvidenceId::diff("src/sum.rs", 12, 40), EvidenceId::diff("gone.rs", 1, 1)] {
            assert!(evidence.contains(&id), "{id}");
        }
        for id in [
            EvidenceId::test(2),
            EvidenceId::probe(1),
            EvidenceId::diff("src/sum.rs", 13, 40),
            EvidenceId::diff("src/sum.rs", 1, 9),
            EvidenceId::diff("./src/sum.rs", 10, 12),
        ] {
            assert!(!evidence.contains(&id), "{id}");
        }
    }
}
