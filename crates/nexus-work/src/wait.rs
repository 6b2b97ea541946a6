//! Waiting until the status of a workspace says something.

use std::time::{Duration, SystemTime};

use nexus_core::{LostWork, harness::run_blocking};
use tokio::time::Instant;

use super::{
    Workspace, WorkspaceError, WorkspaceErrorKind, WorkspaceState, WorkspaceStatus, status_file, watch::Watch,
};

impl<S: WorkspaceState + Send + 'static> Workspace<S> {
    /// Waits until the status is another one than `seen`, for at most `timeout`; then there is `None`. What changed since
    /// `seen` was read is not waited for. Several changes may be seen as one.
    ///
    /// It holds no lock, and any number may wait. How soon a change is seen, and what ends a wait, see
    /// [`Workspace::wait_until`].
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

    /// Waits until a status is what `is_awaited` says, for at most `timeout`; then there is `None`. The first status that
    /// it is asked about is the one there is when this is called. A status that is replaced at once may be passed over.
    ///
    /// On Linux the system tells of each change (inotify). Where it does not, elsewhere or because the user has used up
    /// what it gives, the file is read every 100 ms. It is read every 5 s in any case, for file systems whose changes
    /// by another machine no system tells of.
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
    /// As [`Workspace::status`], as soon as that gives one. [`NotFound`](WorkspaceErrorKind::NotFound) if the workspace
    /// is removed, also if another one of its name is there by then.
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
                // Reading once more finds changes between the reading and the watch.
                None => watch = Some(Watch::of_folder(self.path())),
                Some(watched) => {
                    if !watched.wait(left).await {
                        watch = None;
                    }
                }
            }
        }
    }

    /// A removal deletes the files of a workspace one by one: without a status it counts as removed.
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
