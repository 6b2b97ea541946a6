//! Determines the version of a CLI, once per state of its file.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::OnceCell;

use crate::environment::Environment;
use crate::executable::{Executable, ExecutableError, ExecutableStamp};
use crate::scarcity::is_scarcity;
use crate::spawn::{Bounds, EndedBy, ExitStatus, Invocation, SpawnError};

/// Time limit for a CLI to print its version.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Time during which a CLI that hung is not run again for its version. Otherwise each turn would wait for
/// [`TIME_LIMIT`]. Source: our own bound, equal to the time after which a silent turn is retried.
const HUNG_FOR: Duration = Duration::from_secs(30);
/// Maximum length of the version line, in bytes.
const LINE_BYTES: usize = 4 << 10;
/// Maximum number of lines that are searched for the first nonblank line.
const LINES: usize = 100;

/// Reason why a version is not known.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VersionError {
    /// The program no longer exists, or cannot be executed.
    #[error(transparent)]
    Executable(#[from] ExecutableError),
    /// The program could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The program took too long, now or a moment ago.
    #[error(
        "the program did not print its version within {} s; the next attempt is after {} s, or when the \
        program changes",
        TIME_LIMIT.as_secs(),
        HUNG_FOR.as_secs()
    )]
    TooSlow,
    /// The program ended without printing a version.
    #[error("the program printed no version ({status:?}): {stderr_tail}")]
    Silent {
        /// Exit status of the program.
        status: ExitStatus,
        /// End of its standard error, redacted.
        stderr_tail: String,
    },
}

/// Returns the first line that `executable --version` prints, unchanged.
///
/// The result is cached for this path, modification time, size and inode, so a replaced CLI is queried again. Of the
/// failures, only a hang is cached, for 30 seconds. Concurrent callers share one process.
///
/// # Errors
///
/// A [`VersionError`].
pub async fn version_line(
    executable: &Executable,
    environment: &Environment,
) -> Result<String, VersionError> {
    static KNOWN: Mutex<Option<HashMap<ExecutableStamp, Arc<ToldVersion>>>> = Mutex::new(None);
    let stamp = executable.stamp()?;
    // Release the lock of the map before the program runs: only callers of the same file share its process.
    let known = {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.get_or_insert_default().entry(stamp).or_default())
    };
    known.line(executable, environment).await
}

/// Cached result for one state of a file.
#[derive(Debug, Default)]
struct ToldVersion {
    line: OnceCell<String>,
    /// Time of the last hang.
    hung: Mutex<Option<Instant>>,
}

impl ToldVersion {
    async fn line(&self, executable: &Executable, environment: &Environment) -> Result<String, VersionError> {
        let asking = || async {
            if self.hung().is_some_and(|hung| hung.elapsed() < HUNG_FOR) {
                return Err(VersionError::TooSlow);
            }
            let told = ask(executable, environment).await;
            if let Err(VersionError::TooSlow) = told {
                *self.hung() = Some(Instant::now());
            }
            told
        };
        self.line.get_or_try_init(asking).await.cloned()
    }

    fn hung(&self) -> MutexGuard<'_, Option<Instant>> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VersionError {
    /// Returns true if the machine was short of a resource, so the program itself may work.
    #[must_use]
    pub fn is_scarcity(&self) -> bool {
        match self {
            Self::Spawn(error) => error.is_scarcity(),
            Self::Executable(ExecutableError::Unreadable { source, .. }) => is_scarcity(source),
            _ => false,
        }
    }
}

async fn ask(executable: &Executable, environment: &Environment) -> Result<String, VersionError> {
    let bounds = Bounds { line_bytes: LINE_BYTES, time_limit: Some(TIME_LIMIT), ..Bounds::default() };
    let process = Invocation::new(executable.clone(), "/")
        .argument("--version")
        .environment(environment.clone())
        .bounds(bounds)
        .spawn()?;
    let mut version = None;
    for _ in 0..LINES {
        let Some(line) = process.next_line().await else { break };
        let text = String::from_utf8_lossy(&line.bytes).trim().to_owned();
        if !text.is_empty() {
            version = Some(text);
            break;
        }
    }
    // Read the remaining output, because the program would otherwise block on it.
    while process.next_line().await.is_some() {}
    let exit = process.wait().await;
    match version {
        Some(version) if exit.status.is_success() => Ok(version),
        _ if exit.ended_by == EndedBy::TimeLimit => Err(VersionError::TooSlow),
        _ => Err(VersionError::Silent { status: exit.status, stderr_tail: process.stderr_tail() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_hung_is_not_asked_again_at_once() {
        let executable = Executable::at("/bin/echo").unwrap();
        let environment = Environment::empty();
        let known = ToldVersion::default();
        *known.hung() = Some(Instant::now());
        let refused = known.line(&executable, &environment).await.unwrap_err();
        assert!(matches!(refused, VersionError::TooSlow), "{refused}");
        *known.hung() = Instant::now().checked_sub(HUNG_FOR);
        assert!(known.line(&executable, &environment).await.is_ok());
    }
}
