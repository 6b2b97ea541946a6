//! Cached result of a trial on this machine.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::scarcity::is_scarcity;

/// Pause before a failed trial is repeated, because reaching a process limit within the trial looks like a missing
/// ability.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Cached outcome of a trial. A success is kept for ever, a failure for a minute, and a resource shortage is not
/// cached.
#[derive(Debug)]
pub(super) struct CachedTrial<T>(Mutex<TrialOutcome<T>>);

/// Outcome of a trial.
#[derive(Debug)]
enum TrialOutcome<T> {
    Untried,
    Worked(T),
    Failed(Instant),
}

impl<T: Clone> CachedTrial<T> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(TrialOutcome::Untried))
    }

    /// Returns the result of `find`, from this call or an earlier one.
    ///
    /// # Errors
    ///
    /// The error that prevented a result of `find`, because the machine is short of a resource.
    pub(super) fn get_or_try(&self, find: impl FnOnce() -> io::Result<Option<T>>) -> io::Result<Option<T>> {
        let mut outcome = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*outcome {
            TrialOutcome::Worked(found) => return Ok(Some(found.clone())),
            TrialOutcome::Failed(at) if at.elapsed() < RETRY_AFTER => return Ok(None),
            _ => {}
        }
        match find() {
            Ok(Some(found)) => {
                *outcome = TrialOutcome::Worked(found.clone());
                Ok(Some(found))
            }
            Err(error) if is_scarcity(&error) => Err(error),
            Ok(None) | Err(_) => {
                *outcome = TrialOutcome::Failed(Instant::now());
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_want_decides_nothing_and_any_other_failure_does_for_a_while() {
        let attempt = CachedTrial::new();
        let want = || Err(Errno::MFILE.into());
        assert!(attempt.get_or_try(want).is_err());
        assert_eq!(attempt.get_or_try(|| Ok(None)).unwrap(), None);
        assert_eq!(attempt.get_or_try(|| Ok(Some(1))).unwrap(), None);

        let attempt = CachedTrial::new();
        assert!(attempt.get_or_try(want).is_err());
        assert_eq!(attempt.get_or_try(|| Ok(Some(1))).unwrap(), Some(1));
        assert_eq!(attempt.get_or_try(want).unwrap(), Some(1));
    }
}
