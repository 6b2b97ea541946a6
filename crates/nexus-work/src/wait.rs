//! Waiting for a condition of a workspace's status.

use std::time::{Duration, SystemTime};

use nexus_core::{LostWork, harness::run_blocking};
use tokio::time::Instant;

use super::{
    Workspace, WorkspaceError, WorkspaceErrorKind, WorkspaceState, WorkspaceStatus, status_file, watch::Watch,
};

impl<S: WorkspaceState + Send + 'static> Workspace<S> {
    /// Waits up to `timeout` until the status differs from `seen`, and returns it; `None` after that. If the status has
    /// changed since `seen` was read, it returns at once. Several changes may be seen as one.
    ///
    /// It takes no lock, and any number of callers may wait. See [`Workspace::wait_until`] for the delay and for the
    /// conditions that end a wait.
    ///
    /// # Errors
    ///
    /// As [`Workspace::wait_until`].
    pub async fn wait_for_change(
        &self,
        seen: &WorkspaceStatus<S>,
        timeout: Duration,
    ) -> Result<Option<WorkspaceStatus<S>>, WorkspaceError> {
        self.wait(Some(seen.created_at), timeout, |status| status.generation != seen.generation).await
    }

    /// Waits up to `timeout` until `is_awaited` returns true for the status, and returns the status; `None` after that. The
    /// first status that it checks is the present one. A status that is replaced at once may be missed.
    ///
    /// On Linux the system reports each change (inotify). On other systems, or when the user's watches are used up, the file
    /// is read every 100 ms. It is read every 5 s in any case, because no system reports changes by another machine.
    ///
    /// ```
    /// # use std::{thread, time::Duration};
    /// # use nexus_work::{NewWorkspace, WorkspaceState, Workspaces};
    /// # #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    /// # struct Task { is_complete: bool }
    /// # impl WorkspaceState for Task {
    /// #     const KIND: &'static str = "task";
    /// #     fn is_final(&self) -> bool { self.is_complete }
    /// # }
    /// # let place = tempfile::tempdir()?;
    /// # let task = Workspaces::below(place.path()).create(NewWorkspace::new(Task { is_complete: false }))?;
    /// # let worker = { let task = task.clone(); thread::spawn(move || task.update(|status| status.state.is_complete = true)) };
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// match task.wait_until(Duration::from_secs(45), |status| status.is_final()).await? {
    ///     Some(status) => assert!(status.state.is_complete),
    ///     None => println!("still running: ask again"),
    /// }
    /// # worker.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of [`Workspace::status`]. [`NotFound`](WorkspaceErrorKind::NotFound) if the workspace is removed, even if
    /// another one has its id by then.
    pub async fn wait_until(
        &self,
        timeout: Duration,
        is_awaited: impl FnMut(&WorkspaceStatus<S>) -> bool,
    ) -> Result<Option<WorkspaceStatus<S>>, WorkspaceError> {
        self.wait(None, timeout, is_awaited).await
    }

    async fn wait(
        &self,
        mut created_at: Option<SystemTime>,
        timeout: Duration,
        mut is_awaited: impl FnMut(&WorkspaceStatus<S>) -> bool,
    ) -> Result<Option<WorkspaceStatus<S>>, WorkspaceError> {
        let began = Instant::now();
        let mut watch = None;
        loop {
            let reading = self.clone();
            let status = run_blocking(move || reading.status()).await.unwrap_or_else(|_| {
                Err(WorkspaceError::new(WorkspaceErrorKind::Io, self.path(), LostWork.to_string()))
            });
            let status = status.map_err(|error| self.removed_or(error))?;
            if *created_at.get_or_insert(status.created_at) != status.created_at {
                return Err(self.removed());
            }
            if is_awaited(&status) {
                return Ok(Some(status));
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            match &watch {
                // Read once more after this: the status may have changed before the watch began.
                None => watch = Some(Watch::of_folder(self.path())),
                Some(watched) => {
                    if !watched.wait(left).await {
                        watch = None;
                    }
                }
            }
        }
    }

    /// Converts the error for a missing status: a removal deletes the files one by one, so the workspace counts as removed.
    fn removed_or(&self, error: WorkspaceError) -> WorkspaceError {
        let status = self.path().join(status_file::NAME);
        match error.kind() {
            WorkspaceErrorKind::NotAWorkspace if std::fs::symlink_metadata(status).is_err() => self.removed(),
            _ => error,
        }
    }

    fn removed(&self) -> WorkspaceError {
        let reason = "was removed during the wait";
        WorkspaceError::new(WorkspaceErrorKind::NotFound, self.path(), reason)
    }
}
