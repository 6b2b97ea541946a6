//! Calls that work on workspaces of one kind, such as tasks or debates.
//!
//! One process at a time works on a workspace: its job locks a file of the workspace. Calls join the job of their own
//! process, or wait for the job of another process. Another process stops a job by the flag `stop` in the `data` of the
//! status.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nexus_core::{
    CancelToken, LostWork, ServiceError, ServiceErrorKind, ServiceFault,
    harness::{run_blocking, try_blocking},
};
use nexus_files::FileLock;
use nexus_router::Router;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    jobs::{Job, Jobs},
    type_bindings::{TypeBindings, store_bindings},
};
use crate::{
    Workspace, WorkspaceId, WorkspaceState,
    watch::{LOOK_AGAIN, Watch},
};

/// Default wait of a call.
const DEFAULT_CALL_WAIT: Duration = Duration::from_secs(45);
/// Longest wait of a call. Source: clients cancel a call after 60 seconds.
pub const MAX_CALL_WAIT: Duration = Duration::from_secs(50);
/// Maximum length of a progress text in an error, in bytes.
const MAX_PROGRESS_BYTES: usize = 300;

/// Returns the wait of a call: `seconds` or the default, at most [`MAX_CALL_WAIT`].
pub fn call_wait(seconds: Option<u64>) -> Duration {
    seconds.map_or(DEFAULT_CALL_WAIT, Duration::from_secs).min(MAX_CALL_WAIT)
}

/// A workspace on which one process works at a time.
pub trait LockedWork: Clone + Send + Sync + 'static {
    /// State of the workspace. Its kind names the work in messages, and in the tool names of advice.
    type State: WorkspaceState + Send + 'static;
    /// Kinds of failure of the service.
    type ErrorKind: ServiceErrorKind + Send + Sync + 'static;
    /// Name of the file that the working process locks.
    const LOCK: &'static str;

    /// Returns the workspace.
    fn workspace(&self) -> &Workspace<Self::State>;
}

/// Result of a call on work of one kind.
pub type WorkResult<W, T> = Result<T, ServiceError<<W as LockedWork>::ErrorKind>>;
/// Job that works on a workspace. `T` describes the job.
pub type WorkJob<W, T> = Job<T, ServiceError<<W as LockedWork>::ErrorKind>>;

/// Jobs of this process that work on workspaces of one kind.
pub struct WorkJobs<W: LockedWork, T> {
    router: Router,
    jobs: Arc<Jobs<WorkspaceId, T, ServiceError<W::ErrorKind>>>,
}

impl<W: LockedWork, T: Send + Sync + 'static> WorkJobs<W, T> {
    /// Creates an empty set. Each job stores the bindings of `router` with its work, if they differ from the stored ones.
    pub fn new(router: Router) -> Self {
        Self { router, jobs: Arc::default() }
    }

    /// Returns the job that runs in this process.
    pub fn of(&self, id: &WorkspaceId) -> Option<Arc<WorkJob<W, T>>> {
        self.jobs.of(id)
    }

    /// Returns the failure of the last job that no call has reported.
    pub fn take_failure(&self, id: &WorkspaceId) -> Option<ServiceError<W::ErrorKind>> {
        self.jobs.take_failure(id)
    }

    /// Starts a job, or returns the running one. It runs once no other process works on the workspace, with a
    /// token that stops it and a channel for its progress.
    ///
    /// # Errors
    ///
    /// [`JobFault::Closed`](super::JobFault::Closed) after [`close`](Self::close).
    pub fn start<F>(
        &self,
        work: &W,
        kind: T,
        first: &str,
        run: impl FnOnce(CancelToken, watch::Sender<String>) -> F + Send + 'static,
    ) -> WorkResult<W, Arc<WorkJob<W, T>>>
    where
        F: Future<Output = WorkResult<W, ()>> + Send + 'static,
    {
        let (locked, router) = (work.clone(), self.router.clone());
        self.jobs.start(work.workspace().id(), kind, first, move |cancel, progress| async move {
            let _lock = lock_for_job(&locked, &cancel, &progress).await?;
            let (workspace, bindings) = (locked.workspace().clone(), TypeBindings::of(&router));
            let changes = run_blocking(move || store_bindings(&workspace, &bindings)).await;
            // A job that cannot store its bindings fails soon, at the first event of its own.
            if let Ok(Ok(changes)) = changes
                && !changes.is_empty()
            {
                let kind = W::State::KIND;
                progress.send_replace(format!(
                    "the {kind} began with another configuration: {}",
                    changes.join("; ")
                ));
            }
            let stopping = cancel.clone();
            tokio::select! {
                done = run(cancel, progress) => done,
                // This branch only cancels the job, which then ends by itself.
                never = stop_when_asked(locked.workspace(), &stopping) => match never {},
            }
        })
    }

    /// Waits for the end of a job, and marks its failure as reported. Returns `None` if the job still runs after `wait`.
    pub async fn outcome(&self, work: &W, job: &WorkJob<W, T>, wait: Duration) -> Option<WorkResult<W, ()>> {
        let outcome = job.ended_within(wait).await?;
        self.jobs.take_failure(work.workspace().id());
        Some(outcome)
    }

    /// Stops the job of this process, and waits for its end.
    pub async fn stop(&self, work: &W) {
        let id = work.workspace().id();
        if let Some(job) = self.jobs.of(id) {
            job.cancel.cancel();
            // Ignore the outcome: the callers that wait for the job report it.
            let _ = job.ended().await;
            self.jobs.take_failure(id);
        }
    }

    /// Locks a workspace that no job works on. Waits up to `patience` for another process.
    ///
    /// # Errors
    ///
    /// In use, if a job of this process runs or another process works on the workspace for too long; errors of the file
    /// system.
    pub async fn lock(&self, work: &W, patience: Duration) -> WorkResult<W, FileLock> {
        let kind = W::State::KIND;
        let wait = format!("call {kind}_status with wait_s, which returns when it ends");
        let in_use =
            |message, advice| Err(ServiceError::new(W::ErrorKind::of(ServiceFault::InUse), message, advice));
        if let Some(job) = self.jobs.of(work.workspace().id()) {
            let progress = job.progress();
            let progress = &progress[..progress.floor_char_boundary(MAX_PROGRESS_BYTES)];
            let message = format!("the {kind} has running work: {progress}");
            return in_use(message, format!("{wait}; or {kind}_cancel, which stops it"));
        }
        let path = lock_path(work);
        match lock_file(&path, Some(patience)).await.map_err(ServiceError::at(&path))? {
            Some(lock) => Ok(lock),
            None => in_use(format!("another process works on the {kind} {}", work.workspace().id()), wait),
        }
    }

    /// Returns the progress of the job on the workspace, in this or another process. `None` without a job.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub async fn progress(&self, work: &W) -> WorkResult<W, Option<String>> {
        if let Some(job) = self.jobs.of(work.workspace().id()) {
            return Ok(Some(job.progress()));
        }
        let path = lock_path(work);
        let is_locked =
            try_blocking(move || FileLock::is_locked(&path).map_err(ServiceError::at(&path))).await?;
        Ok(is_locked.then(|| format!("another process works on this {}", W::State::KIND)))
    }

    /// Waits until no job works on the workspace, or until `deadline`. Then returns the [`progress`](Self::progress).
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub async fn progress_at(&self, work: &W, deadline: Instant) -> WorkResult<W, Option<String>> {
        loop {
            let progress = self.progress(work).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if progress.is_none() || left.is_zero() {
                return Ok(progress);
            }
            match self.jobs.of(work.workspace().id()) {
                Some(job) => drop(job.ended_within(left).await),
                None => {
                    let path = lock_path(work);
                    let is_free = |path: &Path| Ok((!FileLock::is_locked(path)?).then_some(()));
                    once_free(&path, Some(left), is_free).await.map_err(ServiceError::at(&path))?;
                }
            }
        }
    }

    /// Prevents further jobs, and stops the running ones. Returns when all of them have ended.
    pub async fn close(&self) {
        self.jobs.close().await;
    }
}

impl<W: LockedWork, T> fmt::Debug for WorkJobs<W, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkJobs").finish_non_exhaustive()
    }
}

/// Locks the file at `path` when it is free, within `patience` if it is set. Returns `None` if the file stays locked.
///
/// # Errors
///
/// Errors of [`FileLock::try_lock`].
pub async fn lock_file(path: &Path, patience: Option<Duration>) -> io::Result<Option<FileLock>> {
    // Test the lock first, without opening the file for writing: closing a file that is open for writing wakes all waiters.
    once_free(path, patience, |path| match FileLock::is_locked(path)? {
        true => Ok(None),
        false => FileLock::try_lock(path),
    })
    .await
}

/// Repeats `attempt` whenever the lock on the file at `path` may have been released. Returns its value, or `None` when
/// `patience` is over.
async fn once_free<T: Send + 'static>(
    path: &Path,
    patience: Option<Duration>,
    attempt: impl Fn(&Path) -> io::Result<Option<T>> + Copy + Send + 'static,
) -> io::Result<Option<T>> {
    let deadline = patience.map(|patience| Instant::now() + patience);
    let mut watch = None;
    loop {
        let trying = path.to_owned();
        let tried = run_blocking(move || attempt(&trying)).await;
        if let Some(done) = tried.unwrap_or_else(|_| Err(io::Error::other(LostWork)))? {
            return Ok(Some(done));
        }
        let left = deadline.map_or(LOOK_AGAIN, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(None);
        }
        match &watch {
            // Attempt once more after this: the lock may have been released before the watch began.
            None => watch = Some(Watch::of_lock(path)),
            Some(watched) => {
                if !watched.wait(left).await {
                    watch = None;
                }
            }
        }
    }
}

async fn lock_for_job<W: LockedWork>(
    work: &W,
    cancel: &CancelToken,
    progress: &watch::Sender<String>,
) -> WorkResult<W, FileLock> {
    let path = lock_path(work);
    if let Some(lock) = lock_file(&path, Some(Duration::ZERO)).await.map_err(ServiceError::at(&path))? {
        return Ok(lock);
    }
    let kind = W::State::KIND;
    progress.send_replace(format!("another process works on this {kind}; this call waits for it"));
    let waiting = async {
        loop {
            if let Some(lock) = lock_file(&path, None).await.map_err(ServiceError::at(&path))? {
                return Ok(lock);
            }
        }
    };
    tokio::select! {
        locked = waiting => locked,
        () = cancel.cancelled() => {
            let message = format!("the call was interrupted while another process worked on the {kind}");
            Err(ServiceError::of(ServiceFault::Interrupted, message))
        }
    }
}

/// Cancels a job when another process sets the flag `stop` of its workspace.
async fn stop_when_asked<S: WorkspaceState + Send + 'static>(
    workspace: &Workspace<S>,
    cancel: &CancelToken,
) -> Infallible {
    loop {
        let asked = workspace.wait_until(LOOK_AGAIN, |status| status.data["stop"] == true).await;
        if let Ok(Some(_)) = asked {
            cancel.cancel();
        }
        if !matches!(asked, Ok(None)) {
            // Pause: `wait_until` would return at once again. The cancelled job ends soon, or reports the invalid
            // status itself.
            sleep(LOOK_AGAIN).await;
        }
    }
}

fn lock_path<W: LockedWork>(work: &W) -> PathBuf {
    work.workspace().path().join(W::LOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_45_seconds_unless_its_caller_names_others_and_50_at_most() {
        let waits = [None, Some(0), Some(7), Some(50), Some(51), Some(u64::MAX)].map(call_wait);
        assert_eq!(waits.map(|time| time.as_secs()), [45, 0, 7, 50, 50, 50]);
    }
}
