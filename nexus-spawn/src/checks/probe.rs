//! A program that prints observations, as an agent hands it in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program that prints observations, to be run on three trees: the task's base, the step's base, and the files as they are now.
///
/// Its files are laid into a copy of each tree; none of them may have the path of something that is in one of the trees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeDraft {
    /// Files to lay into a copy of each tree: at most 16, each at most 64 KiB. None of them may be in one of the trees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ProbeFile>,
    /// The program and its arguments, run in the root of the copy: `[python3, probe.py]`. No shell reads it.
    pub argv: Vec<String>,
    /// What the program reads from its standard input: it is run once for each, at most 16. Without any, it is run once with
    /// empty input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
}

/// A file of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeFile {
    /// Its path from the root of the tree, with `/` between the names.
    pub path: String,
    /// What it holds.
    pub content: String,
}
