//! Jobs of this process: at most one for each key, which calls can join.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use nexus_core::{CancelToken, LostWork, ServiceError, ServiceErrorKind, ServiceFault};
use tokio::sync::watch;

/// Reason why a job ended without its own outcome.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobFault {
    /// The program that ran the job ended.
    #[error("the work was interrupted, because the program that ran it ended")]
    CutOff,
    /// [`Jobs::close`] was called: no further job starts.
    #[error("the server ends")]
    Closed,
    /// The job panicked.
    #[error("the work ended unexpectedly: {0}")]
    Panicked(String),
}

impl<K: ServiceErrorKind> From<JobFault> for ServiceError<K> {
    fn from(fault: JobFault) -> Self {
        let failure = Self::of(ServiceFault::Interrupted, fault.to_string());
        match fault {
            JobFault::CutOff => failure,
            JobFault::Closed => {
                Self { advice: format!("start the program again, then {}", K::RETRY), ..failure }
            }
            JobFault::Panicked(_) => Self { message: failure.message, ..LostWork.into() },
        }
    }
}

/// A job that runs, or whose failure no caller has received yet. `T` is the owner's description of the job, `E` its error.
#[derive(Debug)]
pub struct Job<T, E> {
    /// The owner's description of it.
    pub kind: T,
    /// Token that stops the job.
    pub cancel: CancelToken,
    said: watch::Sender<String>,
    ended: watch::Receiver<Option<Result<(), E>>>,
}

/// The jobs of a process, at most one for each key of type `K`.
pub struct Jobs<K, T, E> {
    running: Mutex<RunningJobs<K, T, E>>,
}

/// Running jobs by key.
struct RunningJobs<K, T, E> {
    jobs: HashMap<K, Arc<Job<T, E>>>,
    is_closed: bool,
}

impl<T, E: Clone + From<JobFault>> Job<T, E> {
    /// Returns the last progress text.
    pub fn progress(&self) -> String {
        self.said.borrow().clone()
    }

    /// Returns a receiver of further progress texts.
    pub fn follow(&self) -> watch::Receiver<String> {
        self.said.subscribe()
    }

    /// Returns the outcome, if the job has ended.
    pub fn outcome(&self) -> Option<Result<(), E>> {
        self.ended.borrow().clone()
    }

    /// Waits until the job ends.
    pub async fn ended(&self) -> Result<(), E> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            Err(_) => Err(JobFault::CutOff.into()),
        }
    }

    /// Waits up to `time` until the job ends. `None` if it still runs.
    pub async fn ended_within(&self, time: Duration) -> Option<Result<(), E>> {
        tokio::time::timeout(time, self.ended()).await.ok()
    }
}

impl<K, T, E> Jobs<K, T, E>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    T: Send + Sync + 'static,
    E: Clone + From<JobFault> + Send + Sync + 'static,
{
    /// Returns the job of a key.
    pub fn of(&self, key: &K) -> Option<Arc<Job<T, E>>> {
        self.lock().jobs.get(key).filter(|job| job.outcome().is_none()).cloned()
    }

    /// Removes and returns the failure of the last job, if no caller has received it.
    pub fn take_failure(&self, key: &K) -> Option<E> {
        let mut running = self.lock();
        let failed = running.jobs.get(key)?.outcome()?;
        running.jobs.remove(key);
        failed.err()
    }

    /// Starts a job, or returns the running job of the key. `work` gets a token that stops it, and a sender for its
    /// progress.
    ///
    /// # Errors
    ///
    /// [`JobFault::Closed`] after [`Jobs::close`].
    pub fn start<F>(
        self: &Arc<Self>,
        key: &K,
        kind: T,
        first: &str,
        work: impl FnOnce(CancelToken, watch::Sender<String>) -> F,
    ) -> Result<Arc<Job<T, E>>, E>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        // The lock stays until the job is in the map, so that two calls start one job.
        let mut running = self.lock();
        if running.is_closed {
            return Err(JobFault::Closed.into());
        }
        if let Some(job) = running.jobs.get(key).filter(|job| job.outcome().is_none()) {
            return Ok(Arc::clone(job));
        }
        let (said, _) = watch::channel(first.to_owned());
        let (end, ended) = watch::channel(None);
        let cancel = CancelToken::new();
        let job = Arc::new(Job { kind, cancel: cancel.clone(), said: said.clone(), ended });
        running.jobs.insert(key.clone(), Arc::clone(&job));
        // Release the lock before `work` runs code of the caller.
        drop(running);
        let work = tokio::spawn(work(cancel, said));
        let (jobs, key) = (Arc::clone(self), key.clone());
        // Another task waits for the work, so that even a panic sets an outcome.
        tokio::spawn(async move {
            let outcome =
                work.await.unwrap_or_else(|error| Err(JobFault::Panicked(error.to_string()).into()));
            let is_good = outcome.is_ok();
            end.send_replace(Some(outcome));
            if is_good {
                jobs.forget(&key);
            }
        });
        Ok(job)
    }

    /// Prevents further jobs, and stops the running ones. Returns when all of them have ended.
    pub async fn close(&self) {
        let jobs: Vec<Arc<Job<T, E>>> = {
            let mut running = self.lock();
            running.is_closed = true;
            running.jobs.values().cloned().collect()
        };
        // Cancel every job before waiting for the first, so that they end at the same time.
        for job in &jobs {
            job.cancel.cancel();
        }
        for job in &jobs {
            // Ignore the outcome: the callers of the job receive it.
            let _ = job.ended().await;
        }
    }

    /// Removes a job that succeeded.
    fn forget(&self, key: &K) {
        let mut running = self.lock();
        // A failed job stays until a call reports its failure.
        if running.jobs.get(key).is_some_and(|job| matches!(job.outcome(), Some(Ok(())))) {
            running.jobs.remove(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, RunningJobs<K, T, E>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, T, E> Default for Jobs<K, T, E> {
    fn default() -> Self {
        Self { running: Mutex::new(RunningJobs { jobs: HashMap::new(), is_closed: false }) }
    }
}

impl<K, T, E> fmt::Debug for Jobs<K, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}
