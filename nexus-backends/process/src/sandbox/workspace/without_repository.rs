//! Guard over the writable folders of a turn.

use std::path::Path;
use std::sync::Arc;

use crate::guarded_folder::{GuardedFolder, PlantedRepository};
use crate::run_registry::RunEntry;

/// Writable folders of a sandbox in which no repository may appear.
#[derive(Clone, Debug, Default)]
pub struct WithoutRepository {
    folders: Arc<[GuardedFolder]>,
    /// Lets a sweep set repositories aside if this program is killed.
    entry: Option<RunEntry>,
}

impl WithoutRepository {
    /// Guards folders. Registers them below `nexus_home`, unless it is `None`.
    pub(super) fn new(folders: Vec<GuardedFolder>, nexus_home: Option<&Path>) -> Self {
        let register = |home| {
            let entry = RunEntry::begin(home)?;
            entry.guard(folders.clone())?;
            Ok::<_, std::io::Error>(entry)
        };
        let entry = match nexus_home.filter(|_| !folders.is_empty()).map(register) {
            Some(Ok(entry)) => Some(entry),
            Some(Err(error)) => {
                tracing::warn!(%error, "repositories that a program creates would stay if Nexus were killed");
                None
            }
            None => None,
        };
        Self { folders: folders.into(), entry }
    }

    /// Renames each repository that appeared in one of the folders. Git would run commands that its settings name, as this
    /// user and without the sandbox. Returns the repositories, for a warning.
    #[must_use]
    pub fn set_aside(&self) -> Vec<PlantedRepository> {
        let planted: Vec<_> = self.folders.iter().flat_map(GuardedFolder::set_aside).collect();
        let is_left = planted.iter().any(|planted| matches!(planted, PlantedRepository::Left { .. }));
        if let Some(entry) = self.entry.as_ref().filter(|_| is_left) {
            entry.leave_to_sweep();
        }
        planted
    }

    /// Like [`set_aside`](Self::set_aside), for a turn that reports nothing more: logs the repositories.
    pub fn set_aside_and_log(&self) {
        for planted in self.set_aside() {
            tracing::warn!("{planted}");
        }
    }
}
