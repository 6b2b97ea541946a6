//! The ground truth of a trap.

use std::path::Path;

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_process::private_home::remove_tree;
use nexus_tasks::{
    CheckOutput, Checks, KeptText, ProbeSide, ProbeSides, ProbeStore, SideOutcome, TaskSettings,
};
use nexus_trees::{CommitId, Tree};
use serde::{Deserialize, Serialize};

use crate::{error::TestbedError, laid_trap::settings_of, trap::Trap};

/// Maximum stored size of the ground truth's output, in bytes.
const KEPT_BYTES: usize = 4 << 10;

/// Result of the ground truth for an answer's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "truth", rename_all = "snake_case", deny_unknown_fields)]
pub enum GroundTruth {
    /// The files are right: the program succeeded, and printed the expected output.
    Green,
    /// The files are wrong: the program failed, or printed another output.
    Red {
        /// Ending and output of the program.
        observed: String,
    },
    /// The files are wrong: the program does not end with them, or two runs differ.
    Unfinished {
        /// Ending of the program, and its output until then.
        observed: String,
    },
    /// The files equal the project's files, byte for byte. There is no answer, which is never right. The program does not
    /// run, because it may be green on these files: if a goal preserves behaviour, an agent that does nothing preserves it,
    /// too.
    Unchanged,
    /// The program could not start, which is not a fault of the files.
    Unknown {
        /// Missing requirement.
        reason: String,
    },
}

impl GroundTruth {
    /// Runs the ground truth of a trap on a commit. A commit with unchanged files is [`GroundTruth::Unchanged`].
    ///
    /// The program is copied into the commit's files, in a folder that is created below `folder` and removed with it. It
    /// runs where the settings allow tests to run: in a sandbox without network, unless they allow more. The expected output
    /// is in no file that the program can read. It runs twice; two different outputs are red.
    ///
    /// The function creates `folder`. No other process may use it, and no agent may still work that could read it.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Check`], also for a missing sandbox; [`TestbedError`] of trees; [`TestbedError::Io`];
    /// [`TestbedError::Cancelled`].
    pub async fn of(
        trap: &Trap,
        tree: &Tree,
        commit: &CommitId,
        folder: &Path,
        settings: &TaskSettings,
        cancel: &CancelToken,
    ) -> Result<Self, TestbedError> {
        let (repository, last) = (tree.clone(), commit.clone());
        let is_base = move || {
            Ok::<_, TestbedError>(
                repository.tree_of(&last)? == repository.tree_of(&repository.base().commit)?,
            )
        };
        if try_blocking(is_base).await? {
            return Ok(Self::Unchanged);
        }
        let settings = settings_of(trap, settings);
        let project = folder.join("project");
        let probes = ProbeStore::new(folder.join("runs"));
        let checks = Checks::new(tree.clone(), folder.join("copies"), project, &settings, probes);
        // A probe always compares sides. The ground truth judges one commit, so all sides are that commit.
        let sides = ProbeSides { task_base: commit.clone(), step_base: commit.clone(), now: commit.clone() };
        let ran = checks.run_probe(trap.truth().clone(), &sides, cancel).await;
        // Remove the folder before the outcome is read, so that no error leaves the ground truth on the disk.
        drop(checks);
        let removed = folder.to_owned();
        try_blocking(move || remove_tree(&removed).map_err(|error| TestbedError::io(removed, error))).await?;
        let record = ran.map_err(|error| TestbedError::check("the ground truth was not run", error))?;
        let outcome = record.answer(ProbeSide::Now).and_then(|answer| answer.outcomes.first());
        Ok(match outcome {
            Some(SideOutcome::Ran { exit, output })
                if exit.is_success() && is_expected(&output.stdout, trap.expected()) =>
            {
                Self::Green
            }
            Some(SideOutcome::Ran { exit, output }) => {
                Self::Red { observed: shown(&exit.to_string(), output) }
            }
            Some(SideOutcome::TimedOut { output }) => {
                Self::Unfinished { observed: shown("it did not end in time", output) }
            }
            Some(SideOutcome::ReachedLimit { limit, output }) => {
                Self::Unfinished { observed: shown(&format!("it reached the limit on {limit}"), output) }
            }
            Some(SideOutcome::Unstable { first, .. }) => {
                Self::Unfinished { observed: shown("two runs were not the same", &first.output) }
            }
            Some(SideOutcome::DidNotStart { missing }) => Self::Unknown { reason: missing.clone() },
            None => Self::Unknown { reason: "it was not run".to_owned() },
        })
    }

    /// Returns true if the ground truth is green.
    pub fn is_green(&self) -> bool {
        *self == Self::Green
    }
}

/// Compares an output with the expected one. Ignores blanks at the ends of lines, and empty lines at the end.
fn is_expected(output: &KeptText, expected: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    };
    // Parts of a longer output are not stored, so it cannot be compared. It is never the expected one.
    output.omitted_bytes == 0 && lines(&output.head) == lines(expected)
}

fn shown(end: &str, output: &CheckOutput) -> String {
    let mut text = end.to_owned();
    for kept in [&output.stdout, &output.stderr].into_iter().filter(|kept| !kept.is_empty()) {
        // Each stream gets half of the space, so that a long standard output does not displace the error.
        let part = &kept.head[..kept.head.floor_char_boundary(KEPT_BYTES / 2)];
        text += "\n";
        text += part.trim_end();
    }
    text
}
