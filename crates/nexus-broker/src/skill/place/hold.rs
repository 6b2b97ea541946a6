//! One command at a time changes the skills of a place, and puts right what one that was killed has left.

use std::{
    fs, io,
    path::PathBuf,
    time::{Duration, Instant},
};

use nexus_files::{FileLock, lacks_locks};

use super::{INSTALLING, REMOVED, REPLACED, SkillPlace, at, mark::not_as_it_came};
use crate::error::{BrokerError, BrokerErrorKind};

/// How long another command on the same skills is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Held while skills are changed: their folder, locked. `None` where it cannot be.
pub(super) struct SkillsHold(Option<FileLock>);

impl SkillPlace {
    /// Has the skills to oneself. The operating system takes them back from a command that is killed.
    pub(super) async fn hold(&self) -> Result<SkillsHold, BrokerError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.try_hold()? {
                Some(hold) => return Ok(hold),
                None if Instant::now() >= until => return Err(self.is_held()),
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    pub(super) fn try_hold(&self) -> Result<Option<SkillsHold>, BrokerError> {
        match FileLock::try_lock_folder(&self.folder) {
            Ok(Some(lock)) => Ok(Some(SkillsHold(Some(lock)))),
            Ok(None) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some(SkillsHold(None))),
            // Without a lock, nothing is taken for the remains of a killed command.
            Err(error) if lacks_locks(&error) => {
                tracing::debug!(folder = %self.folder.display(), %error, "the skills are not locked");
                Ok(Some(SkillsHold(None)))
            }
            Err(error) => Err(at(&self.folder, &error)),
        }
    }

    pub(super) fn is_held(&self) -> BrokerError {
        BrokerError::new(
            BrokerErrorKind::Conflict,
            format!("another command changes the skills in {}", self.folder.display()),
            "wait for it, and try again",
        )
    }

    /// The folders beside the skills whose names begin like this.
    pub(super) fn left(&self, prefix: &str) -> Result<Vec<PathBuf>, BrokerError> {
        let mut left: Vec<_> = self.subfolders()?.into_iter().map(|(_, folder)| folder).collect();
        left.retain(|folder| {
            folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        });
        Ok(left)
    }

    /// Puts back what a command that was killed had set aside, and removes what it had begun.
    pub(super) fn recover(&self, hold: &SkillsHold) -> Result<(), BrokerError> {
        if hold.0.is_none() {
            return Ok(());
        }
        for aside in self.left(REPLACED)? {
            let beside = aside.parent().unwrap_or(&self.folder);
            for entry in fs::read_dir(&aside).map_err(|error| at(&aside, &error))? {
                let skill = entry.map_err(|error| at(&aside, &error))?.path();
                let to = beside.join(skill.file_name().unwrap_or_default());
                if fs::symlink_metadata(&to).is_err() {
                    fs::rename(&skill, &to).map_err(|error| at(&to, &error))?;
                } else if not_as_it_came(&skill)?.is_none() {
                    // The newer one has its place.
                    fs::remove_dir_all(&skill).map_err(|error| at(&skill, &error))?;
                }
            }
            // Where something of a person's is in it, it stays.
            let _ = fs::remove_dir(&aside);
        }
        for begun in self.left(INSTALLING)?.into_iter().chain(self.left(REMOVED)?) {
            fs::remove_dir_all(&begun).map_err(|error| at(&begun, &error))?;
        }
        Ok(())
    }
}
