//! A trap that was written to a folder.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_files::make_private_folder;
use nexus_tasks::{Checks, ProbeStore, ProblemBrief, SandboxSettings, TaskSettings};
use nexus_trees::{CommitId, CommitIntent, Git, Project, Tree, TreeOptions};
use nexus_work::AgentTypes;

use crate::{
    error::TestbedError,
    trap::{Answer, Trap},
};

/// A trap that was written to a folder: its project, a repository over it, and its answers as commits of that repository. It
/// contains nothing of the ground truth or of the probe.
#[derive(Debug)]
pub struct LaidTrap {
    folder: PathBuf,
    tree: Tree,
    base: CommitId,
    brief: ProblemBrief,
    settings: TaskSettings,
    trap: Arc<Trap>,
}

impl LaidTrap {
    /// Writes a trap to a folder, which is created. `settings` are those of the arm; the trap itself defines its test
    /// command and time limit.
    ///
    /// # Errors
    ///
    /// [`TestbedError`] of trees and files; and [`TestbedError::Draft`] if the brief does not fit the project.
    pub async fn lay_out(
        trap: &Arc<Trap>,
        folder: impl Into<PathBuf>,
        settings: &TaskSettings,
        cancel: &CancelToken,
    ) -> Result<Self, TestbedError> {
        let (trap, folder, cancel) = (Arc::clone(trap), folder.into(), cancel.clone());
        // Replace the arm's test command, because the arm's configuration does not know this project.
        let settings = settings_of(&trap, settings);
        try_blocking(move || {
            let project = folder.join("project");
            lay_project(&trap, &project)?;
            let workspace = folder.join("workspace");
            make_private_folder(&workspace).map_err(|error| TestbedError::io(&workspace, error))?;
            let git = Git::find()?.with_cancel(cancel);
            let tree = Tree::create(&git, &workspace, &Project::folder(&project)?, &TreeOptions::new())?;
            let base = tree.base().commit.clone();
            let brief = ProblemBrief::accept(trap.brief().clone(), &AgentTypes::built_in(), &project)
                .map_err(|source| TestbedError::Draft {
                    place: format!("{}/trap.yaml: brief", trap.origin()),
                    source,
                })?;
            Ok(Self { folder, tree, base, brief, settings, trap })
        })
        .await
    }

    /// Returns the trap.
    pub fn trap(&self) -> &Arc<Trap> {
        &self.trap
    }

    /// Returns the settings of the trap's programs, and the limits of the task in addition to its brief.
    pub fn settings(&self) -> &TaskSettings {
        &self.settings
    }

    /// Returns the folder for the folders of agents.
    pub(crate) fn work_folder(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Returns the brief of the task.
    pub fn brief(&self) -> &ProblemBrief {
        &self.brief
    }

    /// Returns the repository.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the commit of the project's files.
    pub fn base(&self) -> &CommitId {
        &self.base
    }

    /// Creates the commit of an answer.
    ///
    /// # Errors
    ///
    /// [`TestbedError`] of trees and files.
    pub async fn commit(&self, answer: Answer, cancel: &CancelToken) -> Result<CommitId, TestbedError> {
        let (trap, tree) = (Arc::clone(&self.trap), self.tree.clone().with_cancel(cancel.clone()));
        let (base, folder) = (self.base.clone(), self.folder.join("answer"));
        try_blocking(move || {
            // A trap stores only the changes of an answer, so apply them to the project's files.
            tree.restore(&base, &folder, &[])?;
            let files = trap.tree(Some(answer));
            for path in trap.changed(answer) {
                match files.get(path) {
                    Some(content) => write(&folder, path, content)?,
                    // `changed` also lists the removed paths, which the answer's tree lacks.
                    None => fs::remove_file(folder.join(path))
                        .map_err(|error| TestbedError::io(folder.join(path), error))?,
                }
            }
            let snapshot = tree.snapshot(&folder)?;
            Ok(tree.commit(&CommitIntent::new(
                snapshot,
                base,
                SystemTime::UNIX_EPOCH,
                "The work of a step",
            ))?)
        })
        .await
    }

    /// Returns the runner of the agents' tests and probes.
    pub fn checks(&self) -> Checks {
        let probes = ProbeStore::new(self.folder.join("probes"));
        Checks::new(
            self.tree.clone(),
            self.folder.join("checks"),
            self.folder.join("project"),
            &self.settings,
            probes,
        )
    }

    /// Returns the store of the probes that [`LaidTrap::checks`] ran.
    pub fn probes(&self) -> ProbeStore {
        ProbeStore::new(self.folder.join("probes"))
    }
}

/// Writes the project of a trap to a folder, which is created.
pub(crate) fn lay_project(trap: &Trap, project: &Path) -> Result<(), TestbedError> {
    for (path, content) in trap.tree(None) {
        write(project, path, content)?;
    }
    Ok(())
}

/// Returns the settings for a trap's programs. The sandbox is as configured; the rest is the trap's. Kept files,
/// caches and setup steps belong to a person's project, so there are none.
pub(crate) fn settings_of(trap: &Trap, configured: &TaskSettings) -> TaskSettings {
    TaskSettings {
        test_command: Some(trap.test_command().to_vec()),
        sandbox: SandboxSettings {
            keep: Vec::new(),
            caches: Vec::new(),
            setup: Vec::new(),
            seconds: trap.seconds(),
            ..configured.sandbox.clone()
        },
        ..configured.clone()
    }
}

fn write(root: &Path, path: &str, content: &[u8]) -> Result<(), TestbedError> {
    let place = root.join(path);
    let folder = place.parent().unwrap_or(root);
    fs::create_dir_all(folder).map_err(|error| TestbedError::io(folder, error))?;
    fs::write(&place, content).map_err(|error| TestbedError::io(&place, error))
}
