//! Throttles the first processes that run with the user's own login.
//!
//! The CLI refreshes its login itself, and several processes that start when a refresh is due may all refresh at once. So
//! the first process runs alone until the model has answered it, which shows that its login is valid; the others wait, and
//! then all start at once. They also start once the turn of the first process has ended without an answer: waiting does not
//! make a login valid that fails. A process that comes later, and finds no process alone and no recent answer, runs alone in
//! turn. This holds for every process of every host with the same `$NEXUS_HOME`, not for programs that were started
//! elsewhere. The login itself is never read.
//!
//! Where the two files cannot be created or locked, nothing waits, and a warning is logged: no turn fails by it. A credential
//! of the configuration is never refreshed by the CLI, so nothing waits then.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use futures::stream;
use nexus_core::harness::run_blocking;
use nexus_files::FileLock;

use crate::cli::StartupWait;

/// The folder of the two files, below `$NEXUS_HOME`.
const FOLDER: &str = "startup";
/// Locked by the process that runs alone. Its modification time is when that process started.
const LOCK: &str = "claude-cli.lock";
/// Its modification time is when a process was answered last.
const ANSWERED: &str = "claude-cli.answered";

/// Longest time that one process runs alone, and that another waits in all, with any number before it. Source:
/// our own choice; a first answer takes two to five seconds, and one with a refresh a little longer.
const ALONE: Duration = Duration::from_secs(15);
/// Time after an answer during which no process waits. Source: our own choice; longer than a burst of turns
/// takes to start, and short beside the hours between two refreshes.
const OPEN: Duration = Duration::from_secs(300);
/// Poll interval of a waiting process: the first, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// Time after which a waiting process reports that it waits.
const UNNOTICED: Duration = Duration::from_millis(500);

/// One process's part in the throttle. Dropped without an answer, it lets those start that wait for it.
#[derive(Debug, Default)]
pub(super) struct FirstTurn {
    /// Set while the process runs alone.
    alone: Arc<Mutex<Option<Alone>>>,
}

impl FirstTurn {
    /// Waits until the process may start.
    pub(super) fn wait(&self, nexus_home: &Path) -> StartupWait {
        self.wait_for(nexus_home, ALONE)
    }

    fn wait_for(&self, nexus_home: &Path, patience: Duration) -> StartupWait {
        let waiting = QueuedProcess {
            nexus_home: nexus_home.to_owned(),
            alone: Arc::clone(&self.alone),
            until: Instant::now() + patience,
            tells: Some(Instant::now() + UNNOTICED),
            has_looked: false,
            pause: LOOKS.0,
        };
        StartupWait::until(stream::unfold(waiting, QueuedProcess::wait))
    }

    /// The model has answered: the others may start.
    pub(super) fn was_answered(self) {
        if let Some(alone) = self.alone.lock().unwrap_or_else(PoisonError::into_inner).take() {
            alone.was_answered();
        }
    }
}

/// Process in the queue.
struct QueuedProcess {
    nexus_home: PathBuf,
    alone: Arc<Mutex<Option<Alone>>>,
    until: Instant,
    /// Time of the report; `None` after it.
    tells: Option<Instant>,
    has_looked: bool,
    pause: Duration,
}

impl QueuedProcess {
    /// Waits until there is something to report; `None` once the process may start.
    async fn wait(mut self) -> Option<(String, Self)> {
        loop {
            match self.look().await {
                Ok(PollOutcome::Alone(alone)) => {
                    *self.alone.lock().unwrap_or_else(PoisonError::into_inner) = Some(alone);
                    return None;
                }
                Ok(PollOutcome::Open) => return None,
                Ok(PollOutcome::Wait) => {}
                Err(error) => {
                    tracing::warn!(%error, "the start of processes with one login cannot be spaced");
                    return None;
                }
            }
            let now = Instant::now();
            if self.until <= now {
                return None;
            }
            if self.tells.is_some_and(|at| at <= now) {
                self.tells = None;
                let most = ALONE.as_secs();
                let text = format!(
                    "another turn is the first to use the same login; this turn waits for it, at most {most} \
                    s"
                );
                return Some((text, self));
            }
            tokio::time::sleep(self.pause.min(self.until - now)).await;
            self.pause = (self.pause * 2).min(LOOKS.1);
        }
    }

    async fn look(&mut self) -> io::Result<PollOutcome> {
        let home = self.nexus_home.clone();
        let has_waited = std::mem::replace(&mut self.has_looked, true);
        run_blocking(move || PollOutcome::at(&home, has_waited))
            .await
            .unwrap_or_else(|_| Err(io::Error::other("listing them did not finish in time")))
    }
}

/// Outcome of one poll.
#[derive(Debug)]
enum PollOutcome {
    Alone(Alone),
    Open,
    Wait,
}

impl PollOutcome {
    /// Reads the files. A process that `has_waited` does not run alone: the one before it was the test of the login.
    fn at(nexus_home: &Path, has_waited: bool) -> io::Result<Self> {
        let folder = nexus_home.join(FOLDER);
        let answered = folder.join(ANSWERED);
        if is_within(&answered, OPEN) {
            return Ok(Self::Open);
        }
        nexus_files::make_private_folder(&folder)?;
        let path = folder.join(LOCK);
        // A shared lock: processes that have waited do not exclude each other.
        let locked = if has_waited { FileLock::try_lock_shared(&path) } else { FileLock::try_lock(&path) };
        let lock = match locked? {
            Some(lock) => lock,
            // At the first look, the process that has just locked the file may not have marked it yet.
            None if !has_waited || is_within(&path, ALONE) => return Ok(Self::Wait),
            None => return Ok(Self::Open),
        };
        let alone = Alone { lock, answered };
        // The process that held it may have been answered just now.
        if has_waited || is_within(&alone.answered, OPEN) {
            return Ok(Self::Open);
        }
        alone.lock.file().set_modified(SystemTime::now())?;
        Ok(Self::Alone(alone))
    }
}

/// The lock of the process that runs alone, released on drop.
#[derive(Debug)]
struct Alone {
    lock: FileLock,
    answered: PathBuf,
}

impl Alone {
    fn was_answered(self) {
        let opened = nexus_files::open_regular(&self.answered, OpenOptions::new().write(true).create(true));
        if let Err(error) = opened.and_then(|file| file.set_modified(SystemTime::now())) {
            tracing::warn!(%error, "the next processes also wait for each other");
        }
    }
}

/// Returns true if a file was marked at most `time` ago. A mark in the future comes from a clock that was set
/// back since, and does not count.
fn is_within(file: &Path, time: Duration) -> bool {
    let marked = fs::metadata(file).and_then(|metadata| metadata.modified());
    marked.is_ok_and(|marked| SystemTime::now().duration_since(marked).is_ok_and(|age| age <= time))
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn age(home: &Path, name: &str, seconds: u64) {
        let file = OpenOptions::new().write(true).open(home.join(FOLDER).join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }

    fn is_alone(turn: &FirstTurn) -> bool {
        turn.alone.lock().unwrap().is_some()
    }

    /// A turn that need not wait.
    async fn goes(home: &Path) -> FirstTurn {
        let turn = FirstTurn::default();
        let warning = timeout(Duration::from_secs(60), turn.wait(home).warning()).await;
        assert_eq!(warning.expect("it goes"), None, "it goes at once");
        turn
    }

    async fn waits(wait: &mut StartupWait) {
        assert!(timeout(Duration::from_millis(200), wait.warning()).await.is_err(), "it waits");
    }

    #[tokio::test]
    async fn one_goes_alone_until_it_is_answered() {
        let home = tempfile::tempdir().unwrap();
        let first = goes(home.path()).await;
        assert!(is_alone(&first));
        let second = FirstTurn::default();
        let mut wait = second.wait(home.path());
        waits(&mut wait).await;
        first.was_answered();
        assert_eq!(wait.warning().await, None);
        assert!(!is_alone(&second));
        for _ in 0..3 {
            assert!(!is_alone(&goes(home.path()).await), "nobody waits");
        }
        age(home.path(), ANSWERED, OPEN.as_secs() + 1);
        assert!(is_alone(&goes(home.path()).await), "after a while one goes alone again");
    }

    #[tokio::test]
    async fn one_that_ends_without_an_answer_lets_all_go_that_wait() {
        let home = tempfile::tempdir().unwrap();
        let first = goes(home.path()).await;
        let others: Vec<_> = (0..3).map(|_| FirstTurn::default()).collect();
        let mut queues = Vec::new();
        for turn in &others {
            let mut wait = turn.wait(home.path());
            waits(&mut wait).await;
            queues.push(wait);
        }
        drop(first);
        for wait in &mut queues {
            // A word of a wait that was long may come first.
            while timeout(Duration::from_secs(60), wait.warning()).await.expect("it goes").is_some() {}
        }
        assert!(!others.iter().any(is_alone));
        assert!(is_alone(&goes(home.path()).await), "nobody has been answered yet");
    }

    #[tokio::test]
    async fn one_that_is_not_answered_is_not_waited_for_for_ever() {
        let home = tempfile::tempdir().unwrap();
        let first = goes(home.path()).await;
        age(home.path(), LOCK, ALONE.as_secs() + 1);
        assert!(!is_alone(&goes(home.path()).await));
        // Nor are several that each set out anew.
        age(home.path(), LOCK, 0);
        let turn = FirstTurn::default();
        let began = Instant::now();
        let mut wait = turn.wait_for(home.path(), Duration::from_secs(1));
        assert!(wait.warning().await.expect("the wait is told").contains("waits for it"));
        assert_eq!(wait.warning().await, None, "and told once");
        let waited = began.elapsed();
        assert!((Duration::from_secs(1)..Duration::from_secs(60)).contains(&waited), "{waited:?}");
        assert!(is_alone(&first) && !is_alone(&turn));
    }

    #[test]
    fn a_lock_that_is_not_marked_yet_is_looked_at_again() {
        let home = tempfile::tempdir().unwrap();
        let PollOutcome::Alone(first) = PollOutcome::at(home.path(), false).unwrap() else {
            panic!("it is the first")
        };
        age(home.path(), LOCK, ALONE.as_secs() + 1);
        assert!(matches!(PollOutcome::at(home.path(), false).unwrap(), PollOutcome::Wait));
        first.lock.file().set_modified(SystemTime::now()).unwrap();
        assert!(matches!(PollOutcome::at(home.path(), true).unwrap(), PollOutcome::Wait));
        age(home.path(), LOCK, ALONE.as_secs() + 1);
        assert!(matches!(PollOutcome::at(home.path(), true).unwrap(), PollOutcome::Open));
    }

    #[tokio::test]
    async fn where_nothing_can_be_locked_nothing_waits() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FOLDER), "a file in its place").unwrap();
        for _ in 0..2 {
            let turn = goes(home.path()).await;
            assert!(!is_alone(&turn));
            turn.was_answered();
        }
    }

    #[tokio::test]
    async fn a_clock_that_was_set_back_opens_nothing() {
        let home = tempfile::tempdir().unwrap();
        goes(home.path()).await.was_answered();
        let file = home.path().join(FOLDER).join(ANSWERED);
        let future = SystemTime::now() + Duration::from_secs(3_600);
        OpenOptions::new().write(true).open(&file).unwrap().set_modified(future).unwrap();
        assert!(is_alone(&goes(home.path()).await));
    }
}
