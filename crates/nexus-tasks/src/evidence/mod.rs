//! What a verdict may cite: tests and probes that were run in the step, and lines of its diff.

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

/// Longest id, in bytes. Source: the longest path that Linux takes, and line numbers behind it.
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
    /// The `number`-th run of the tests in a step, from 1 on.
    pub fn test(number: u32) -> Self {
        Self(EvidenceTarget::Test(number))
    }

    /// The probe with this number.
    pub fn probe(number: u32) -> Self {
        Self(EvidenceTarget::Probe(number))
    }

    /// Whether it names lines.
    pub(crate) fn is_diff(&self) -> bool {
        matches!(self.0, EvidenceTarget::Diff { .. })
    }

    /// The number of the probe that it names.
    pub(crate) fn probe_number(&self) -> Option<u32> {
        match self.0 {
            EvidenceTarget::Probe(number) => Some(number),
            EvidenceTarget::Test(_) | EvidenceTarget::Diff { .. } => None,
        }
    }

    /// Lines `first..=last` of the new file at `path`.
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

/// A number from 1 on, in the one way in which it is written.
fn number_of(text: &str) -> Option<u32> {
    let begins_well = text.bytes().next().is_some_and(|first| matches!(first, b'1'..=b'9'));
    if begins_well { text.parse().ok() } else { None }
}

fn lines_of(text: &str) -> Option<EvidenceTarget> {
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

/// A text that names no evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} names no evidence; write an id as it was given: test-1, probe-2, or diff:PATH:LINE")]
pub struct InvalidEvidenceId {
    /// The beginning of it, quoted.
    pub text: String,
}

/// All that was run in a step, and the lines that it changed: what a handoff and a verdict on it may cite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepEvidence {
    /// Runs of the tests by number.
    tests: BTreeSet<u32>,
    /// Probes by number.
    probes: BTreeSet<u32>,
    /// Changed lines of new files, by path. A file whose lines cannot be told, such as one that was removed, has line 1.
    diff: BTreeMap<String, Vec<RangeInclusive<u32>>>,
}

impl StepEvidence {
    /// A step in which nothing was run or changed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes down a run of the tests under the next number, and returns its id.
    pub fn add_test(&mut self) -> EvidenceId {
        self.add_numbered_test(self.last_test().saturating_add(1))
    }

    /// Takes down the run of the tests with this number: several agents of a step have one sequence of numbers.
    pub(crate) fn add_numbered_test(&mut self, number: u32) -> EvidenceId {
        self.tests.insert(number);
        EvidenceId::test(number)
    }

    /// The number of the last run of the tests; 0 if there was none.
    pub(crate) fn last_test(&self) -> u32 {
        self.tests.last().copied().unwrap_or(0)
    }

    /// Takes down that the probe `number` was run.
    pub fn add_probe(&mut self, number: u32) -> EvidenceId {
        self.probes.insert(number);
        EvidenceId::probe(number)
    }

    /// Takes down changed lines of the file at `path`, from 1 on. An empty range is one that begins at its start.
    pub fn add_lines(&mut self, path: impl Into<String>, lines: RangeInclusive<u32>) {
        let first = (*lines.start()).max(1);
        self.diff.entry(path.into()).or_default().push(first..=(*lines.end()).max(first));
    }

    /// Takes down all that another one has.
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

    /// Takes down all that a patch of git's changes: one without renames, with `a/` and `b/` before its paths, as
    /// `git diff-tree --patch --text --no-renames` writes it.
    pub fn add_patch(&mut self, patch: &[u8]) {
        for (path, lines) in patch_lines::changed_lines(patch) {
            self.add_lines(path, lines);
        }
    }

    /// The numbers of the probes that were run, in order.
    pub fn probes(&self) -> impl Iterator<Item = u32> + '_ {
        self.probes.iter().copied()
    }

    /// Whether `id` names something of this step. Lines are, if one of them was changed.
    pub fn contains(&self, id: &EvidenceId) -> bool {
        match &id.0 {
            EvidenceTarget::Test(number) => self.tests.contains(number),
            EvidenceTarget::Probe(number) => self.probes.contains(number),
            EvidenceTarget::Diff { path, first, last } => {
                let changed = self.diff.get(path).map(Vec::as_slice).unwrap_or_default();
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
