//! Spaces the first processes that run with the user's own login.
//!
//! The CLI renews its login by itself, and several of them that start when a renewal is due may all try at once. So
//! one goes alone until the model has answered it, which shows that its login is good; the others wait, and then all
//! go at once. This holds for every process of every host with the same `$NEXUS_HOME`, and says nothing of
//! programs that were started elsewhere. Nobody looks at the login itself: neither here nor anywhere.
//!
//! A credential of the configuration is never renewed by the CLI, so nothing waits then.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::delegated::ledger::private_folder;

/// The folder of the two files, below `$NEXUS_HOME`.
const FOLDER: &str = "gates";
/// Locked by the one that goes alone, and of the time when it set out.
const LOCK: &str = "claude-cli.lock";
/// Of the time when one was answered.
const ANSWERED: &str = "claude-cli.answered";

/// How long the others wait for one that is not answered. Source: our own choice; a first answer takes two to five seconds,
/// and one that renews a little longer.
const ALONE: Duration = Duration::from_secs(15);
/// How long nobody waits after one was answered. Source: our own choice; longer than a burst of turns takes to start, and
/// little of the hours between two renewals.
const OPEN: Duration = Duration::from_secs(300);
/// How often a waiting process looks.
const LOOK: Duration = Duration::from_millis(25);

/// The process that goes alone. Dropped, it lets the next one go alone.
#[derive(Debug)]
pub(super) struct FirstTurn {
    lock: File,
    answered: PathBuf,
}

impl FirstTurn {
    /// Waits until a process may start; `None` if it need not go alone.
    pub(super) async fn wait(nexus_home: &Path) -> Option<Self> {
        loop {
            match Self::attempt(nexus_home) {
                Ok(Attempt::Alone(first)) => return Some(first),
                Ok(Attempt::Open) => return None,
                Ok(Attempt::Wait) => tokio::time::sleep(LOOK).await,
                Err(error) => {
                    tracing::warn!(%error, "first processes cannot be spaced");
                    return None;
                }
            }
        }
    }

    fn attempt(nexus_home: &Path) -> io::Result<Attempt> {
        let folder = nexus_home.join(FOLDER);
        let answered = folder.join(ANSWERED);
        if is_within(&answered, OPEN) {
            return Ok(Attempt::Open);
        }
        private_folder(&folder)?;
        let path = folder.join(LOCK);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if is_within(&path, ALONE) => return Ok(Attempt::Wait),
            Err(TryLockError::WouldBlock) => return Ok(Attempt::Open),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let first = Self { lock, answered };
        // Whoever held it may have been answered just now.
        if is_within(&first.answered, OPEN) {
            return Ok(Attempt::Open);
        }
        first.lock.set_modified(SystemTime::now())?;
        Ok(Attempt::Alone(first))
    }

    /// The model has answered: the others may go.
    pub(super) fn was_answered(self) {
        let opened =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.answered);
        if let Err(error) = opened.and_then(|file| file.set_modified(SystemTime::now())) {
            tracing::warn!(%error, "the next processes wait for one another, too");
        }
    }
}

impl Drop for FirstTurn {
    /// Unlocks by name: a child that is being forked holds a copy of the descriptor for a moment.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// What came of one attempt.
#[derive(Debug)]
enum Attempt {
    Alone(FirstTurn),
    Open,
    Wait,
}

/// Whether a file was marked not longer ago than `time`. One from the future was marked by a clock that was set
/// back since, and counts for nothing.
fn is_within(file: &Path, time: Duration) -> bool {
    let marked = fs::metadata(file).and_then(|metadata| metadata.modified());
    marked.is_ok_and(|marked| SystemTime::now().duration_since(marked).is_ok_and(|age| age <= time))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn age(home: &Path, name: &str, seconds: u64) {
        let file = OpenOptions::new().write(true).open(home.join(FOLDER).join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    #[tokio::test]
    async fn one_goes_alone_until_it_is_answered() {
        let home = tempfile::tempdir().unwrap();
        let first = FirstTurn::wait(home.path()).await.expect("the first goes alone");
        assert!(FirstTurn::wait(home.path()).now_or_never().is_none(), "the second waits");
        first.was_answered();
        for _ in 0..3 {
            assert!(FirstTurn::wait(home.path()).now_or_never().expect("nobody waits").is_none());
        }
        age(home.path(), ANSWERED, OPEN.as_secs() + 1);
        let again = FirstTurn::wait(home.path()).now_or_never().expect("nobody is before it");
        assert!(again.is_some(), "after a while one goes alone again");
    }

    #[tokio::test]
    async fn one_that_ends_without_an_answer_lets_one_go() {
        let home = tempfile::tempdir().unwrap();
        drop(FirstTurn::wait(home.path()).await.unwrap());
        let next = FirstTurn::wait(home.path()).now_or_never().unwrap();
        assert!(next.is_some());
        assert!(FirstTurn::wait(home.path()).now_or_never().is_none());
    }

    #[tokio::test]
    async fn one_that_is_not_answered_is_not_waited_for_for_ever() {
        let home = tempfile::tempdir().unwrap();
        let _first = FirstTurn::wait(home.path()).await.unwrap();
        age(home.path(), LOCK, ALONE.as_secs() + 1);
        assert!(FirstTurn::wait(home.path()).now_or_never().expect("it goes").is_none());
    }

    #[tokio::test]
    async fn a_clock_that_was_set_back_opens_nothing() {
        let home = tempfile::tempdir().unwrap();
        FirstTurn::wait(home.path()).await.unwrap().was_answered();
        let file = home.path().join(FOLDER).join(ANSWERED);
        File::open(&file).unwrap();
        let future = SystemTime::now() + Duration::from_secs(3_600);
        OpenOptions::new().write(true).open(&file).unwrap().set_modified(future).unwrap();
        assert!(FirstTurn::wait(home.path()).await.is_some());
    }
}
