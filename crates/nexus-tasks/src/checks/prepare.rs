//! Preparation of a tree's copy: check-out, then the setup commands.

use std::{sync::Arc, time::Duration};

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_trees::{CommitId, TreeId};

use super::{
    Checks,
    copies::{Preparation, PreparedCopy},
    error::CheckError,
    keep::{self, ShownPath},
    missing,
    output::CheckOutput,
    runner::{Program, ProgramEnd},
};

/// Maximum amount of output of a setup command, in bytes.
const OUTPUT_BYTES: u64 = 256 << 20;
/// Retained part of each of its outputs, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// Outcome of preparing a tree.
pub(super) enum Prepare {
    Done(Arc<PreparedCopy>),
    /// A setup command failed, or did not end in time.
    Failed {
        missing: String,
        output: CheckOutput,
        elapsed: Duration,
    },
}

impl Checks {
    /// Longest run of one program.
    pub(super) fn wall(&self) -> Duration {
        Duration::from_secs(self.runner.settings().seconds.max(1))
    }

    /// The tree of a commit.
    pub(super) async fn tree_of(
        &self,
        commit: &CommitId,
        cancel: &CancelToken,
    ) -> Result<TreeId, CheckError> {
        let (repository, commit) = (self.tree.clone().with_cancel(cancel.clone()), commit.clone());
        try_blocking(move || Ok(repository.tree_of(&commit)?)).await
    }

    /// Returns the kept paths of the project that exist now.
    pub(super) async fn kept(&self) -> Result<Vec<ShownPath>, CheckError> {
        let (project, keep) = (self.runner.project.clone(), self.runner.settings().keep.clone());
        try_blocking(move || keep::find(&project, &keep)).await
    }

    /// Returns the prepared copy of a tree, and prepares it if necessary.
    pub(super) async fn prepare(
        &self,
        tree: &TreeId,
        kept: &[ShownPath],
        cancel: &CancelToken,
    ) -> Result<Prepare, CheckError> {
        let unprepared = match self.copies.prepare(tree, cancel).await? {
            Preparation::Done(prepared) => return Ok(Prepare::Done(prepared)),
            Preparation::Needed(unprepared) => unprepared,
        };
        let (files, home) = (unprepared.copy.files(), unprepared.copy.home());
        self.link(&files, kept).await?;
        // An early return drops `unprepared`. This removes the copy, and the next caller for the tree starts again.
        for argv in &self.runner.settings().setup {
            let program = Program {
                argv,
                stdin: &[],
                wall: self.wall(),
                output_bytes: OUTPUT_BYTES,
                kept_bytes: KEPT_BYTES,
            };
            let ran = self.runner.run(&files, &home, kept, program, cancel).await?;
            let output = ran.output(KEPT_BYTES);
            let how = match &ran.ended {
                ProgramEnd::Exited(exit) if exit.is_success() => continue,
                ProgramEnd::Exited(exit) => match missing::tool(*exit, output.end_of_errors()) {
                    Some(missing) => missing,
                    None => format!("it ended with {exit}"),
                },
                ProgramEnd::TimedOut => "it did not end in time".to_owned(),
                ProgramEnd::Limit(limit) => format!("it reached the limit on {limit}"),
                ProgramEnd::NotStarted(missing) => missing.clone(),
            };
            let missing = format!("`{}`, which prepares the tree: {how}", argv.join(" "));
            return Ok(Prepare::Failed { missing, output, elapsed: ran.elapsed });
        }
        Ok(Prepare::Done(self.copies.prepared(unprepared).await?))
    }
}
