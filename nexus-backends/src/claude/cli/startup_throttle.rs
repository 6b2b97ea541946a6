//! Throttles the start of processes that run with the user's own login.
//!
//! The CLI refreshes its login itself. Several processes that start when a refresh is due may all refresh at once. So
//! the first process runs alone until the model has answered it, which proves that its login is valid. The others wait,
//! and then all start at once.
//!
//! They also start if the turn of the first process has ended without an answer, because waiting does not make an
//! invalid login valid. A later process that finds neither a process running alone nor a recent answer runs alone
//! itself. This covers every process of all hosts with the same `$NEXUS_HOME`, but no programs that were started
//! elsewhere. The login itself is never read.
//!
//! If the two files cannot be created or locked, a warning is logged and no process waits, so no turn fails because of
//! them. With a credential in the configuration no process waits either, because the CLI does not refresh it.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use futures::stream;
use nexus_core::{LostWork, harness::run_blocking};
use nexus_files::FileLock;

use crate::cli::StartupWait;

/// Folder of the two files, below `$NEXUS_HOME`.
const FOLDER: &str = "startup";
/// File that the process running alone has locked. Its modification time is the start of that process.
const LOCK: &str = "claude-cli.lock";
/// File whose modification time is the last answer to any process.
const ANSWERED: &str = "claude-cli.answered";

/// Longest time that one process runs alone. Also the longest total time that another process waits, however many
/// processes precede it. Source: our own choice; a first answer takes two to five seconds, and slightly longer with a
/// refresh.
const ALONE: Duration = Duration::from_secs(15);
/// Time after an answer during which no process waits. Source: our own choice; longer than a burst of turns takes to
/// start, and short compared to the hours between two refreshes.
const OPEN: Duration = Duration::from_secs(300);
/// Shortest and longest poll interval of a waiting process.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// Time after which a waiting process reports that it waits.
const UNNOTICED: Duration = Duration::from_millis(500);

/// Participation of one process in the throttle. Dropping it without an answer lets the waiting processes start.
#[derive(Debug, Default)]
pub(super) struct FirstTurn {
    /// Set while the process runs alone.
    alone: Arc<Mutex<Option<Alone>>>,
}

impl FirstTurn {
    /// Returns a wait until the process may start.
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

    /// Records that the model has answered, so that the waiting processes start.
    pub(super) fn was_answered(self) {
        if let Some(alone) = self.alone.lock().unwrap_or_else(PoisonError::into_inner).take() {
            alone.was_answered();
        }
    }
}

/// Waiting process.
struct QueuedProcess {
    nexus_home: PathBuf,
    alone: Arc<Mutex<Option<Alone>>>,
    until: Instant,
    /// Time at which to report the wait; `None` after the report.
    tells: Option<Instant>,
    has_looked: bool,
    pause: Duration,
}

impl QueuedProcess {
    /// Waits until the wait must be reported. Returns `None` once the process may start.
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
                    tracing::warn!(%error, "the starts of processes with one login cannot be spread over time");
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
            .unwrap_or_else(|_| Err(io::Error::other(LostWork)))
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
    /// Reads the files. A process with `has_waited` never runs alone, because an earlier process has already tested the
    /// login.
    fn at(nexus_home: &Path, has_waited: bool) -> io::Result<Self> {
        let folder = nexus_home.join(FOLDER);
        let answered = folder.join(ANSWERED);
        if is_within(&answered, OPEN) {
            return Ok(Self::Open);
        }
        nexus_files::make_private_folder(&folder)?;
        let path = folder.join(LOCK);
        // The lock is shared, so that processes that have waited do not exclude each other.
        let locked = if has_waited { FileLock::try_lock_shared(&path) } else { FileLock::try_lock(&path) };
        let lock = match locked? {
            Some(lock) => lock,
            // At the first poll, the process that has just locked the file may not have set its time yet.
            None if !has_waited || is_within(&path, ALONE) => return Ok(Self::Wait),
            None => return Ok(Self::Open),
        };
        let alone = Alone { lock, answered };
        // The previous holder of the lock may have been answered just now.
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

/// Returns true if the file was modified at most `time` ago. A modification time in the future does not count: the
/// clock was set back since.
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
