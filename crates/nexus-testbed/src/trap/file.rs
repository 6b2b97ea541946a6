//! `trap.yaml`.

use nexus_tasks::BriefDraft;
use serde::Deserialize;

/// The file `trap.yaml`, unchecked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrapFile {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) about: String,
    pub(super) goal: String,
    pub(super) test_command: Vec<String>,
    pub(super) brief: BriefDraft,
    pub(super) claims: Vec<TrapClaim>,
    #[serde(default)]
    pub(super) removed: Removed,
    pub(super) probe: ProbeProgram,
    pub(super) truth: TruthProgram,
    #[serde(default = "usual_seconds")]
    pub(super) seconds: u64,
}

/// A claim of the handoff. It goes with the planted answer and with the right one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrapClaim {
    /// Text of the claim.
    pub text: String,
    /// True if it cites the run of the project's tests.
    #[serde(default)]
    pub shown_by_tests: bool,
}

/// Files of the base that an answer does not have.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Removed {
    pub(super) planted: Vec<String>,
    pub(super) right: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProbeProgram {
    pub(super) argv: Vec<String>,
    #[serde(default)]
    pub(super) inputs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TruthProgram {
    pub(super) argv: Vec<String>,
    pub(super) expected: String,
}

const fn usual_seconds() -> u64 {
    60
}
