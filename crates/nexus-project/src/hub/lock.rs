//! The lock on a folder of skills, and recovery from a command that was killed.

use std::{
    fs, io,
    path::PathBuf,
    time::{Duration, Instant},
};

use nexus_files::{FileLock, lacks_locks};

use super::{
    installed::{INSTALLING, REMOVED, REPLACED, SkillFolder},
    origin::difference,
};
use crate::error::{ProjectError, ProjectErrorKind};

/// Longest wait for another command on the same skills.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two attempts to lock.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A lock on the folder of skills. `None` on a file system without locks.
pub(super) struct SkillsLock(Option<FileLock>);

impl SkillFolder {
    /// Locks the skills. The operating system unlocks them if the command is killed.
    pub(super) async fn lock(&self) -> Result<SkillsLock, ProjectError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.try_lock()? {
                Some(lock) => return Ok(lock),
                None if Instant::now() >= until => return Err(self.in_use()),
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    pub(super) fn try_lock(&self) -> Result<Option<SkillsLock>, ProjectError> {
        match FileLock::try_lock_folder(&self.folder) {
            Ok(Some(lock)) => Ok(Some(SkillsLock(Some(lock)))),
            Ok(None) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(SkillsLock(None))),
            // Without a lock, no folder can count as the leftover of a killed command.
            Err(error) if lacks_locks(&error) => {
                tracing::debug!(folder = %self.folder.display(), %error, "the skills are not locked");
                Ok(Some(SkillsLock(None)))
            }
            Err(error) => Err(ProjectError::unusable(&self.folder, &error)),
        }
    }

    pub(super) fn in_use(&self) -> ProjectError {
        ProjectError::new(
            ProjectErrorKind::InUse,
            format!("another command changes the skills in {}", self.folder.display()),
            "wait for it, and try again",
        )
    }

    /// Returns the folders beside the skills whose names begin with this prefix.
    pub(super) fn left(&self, prefix: &str) -> Result<Vec<PathBuf>, ProjectError> {
        let mut left: Vec<_> = self.subfolders()?.into_iter().map(|(_, folder)| folder).collect();
        left.retain(|folder| {
            folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        });
        Ok(left)
    }

    /// Restores skills that a killed command had moved away, and removes its unfinished installations.
    pub(super) fn recover(&self, lock: &SkillsLock) -> Result<(), ProjectError> {
        if lock.0.is_none() {
            return Ok(());
        }
        for aside in self.left(REPLACED)? {
            let beside = aside.parent().unwrap_or(&self.folder);
            for entry in fs::read_dir(&aside).map_err(|error| ProjectError::unusable(&aside, &error))? {
                let skill = entry.map_err(|error| ProjectError::unusable(&aside, &error))?.path();
                let to = beside.join(skill.file_name().unwrap_or_default());
                if fs::symlink_metadata(&to).is_err() {
                    fs::rename(&skill, &to).map_err(|error| ProjectError::unusable(&to, &error))?;
                } else if difference(&skill)?.is_none() {
                    // A newer copy is in place, so remove the unchanged earlier one.
                    fs::remove_dir_all(&skill).map_err(|error| ProjectError::unusable(&skill, &error))?;
                }
            }
            // This fails, and the folder stays, if a person has put a file into it.
            let _ = fs::remove_dir(&aside);
        }
        for begun in self.left(INSTALLING)?.into_iter().chain(self.left(REMOVED)?) {
            fs::remove_dir_all(&begun).map_err(|error| ProjectError::unusable(&begun, &error))?;
        }
        Ok(())
    }
}
