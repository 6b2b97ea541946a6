//! Runs blocking work on a blocking thread.

use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
};

use tokio::task::{JoinHandle, spawn_blocking};

use crate::harness::has_thread;

/// A running job. Dropping it prevents a start; if the job has started and changes something, the drop waits
/// for it, so that nothing changes after the turn has ended.
#[derive(Debug)]
pub(super) struct BlockingWork {
    work: WorkProgress,
    /// Set by the work when it begins, or else by the drop. The drop must not wait for work without a thread,
    /// because the busy threads may wait for this job.
    is_settled: Arc<AtomicBool>,
    /// The work owns the sender, so this channel closes when the work ends.
    ended: Receiver<()>,
    changes: bool,
}

/// Progress of the work.
#[derive(Debug)]
enum WorkProgress {
    /// The work runs on a thread.
    Begun(JoinHandle<Result<String, String>>),
    /// The work ran on the calling thread, because the system could not start another.
    Done(Option<Result<String, String>>),
}

impl BlockingWork {
    /// Starts the work. `changes` is true if the work changes something.
    pub(super) fn start(
        changes: bool,
        work: impl FnOnce() -> Result<String, String> + Send + 'static,
    ) -> Self {
        let (end, ended) = channel();
        let is_settled = Arc::new(AtomicBool::new(false));
        let is_given_up = Arc::clone(&is_settled);
        let work = move || {
            let _end = end;
            // Either this swap or the swap in `drop` comes first, and the first decides if the work starts.
            if is_given_up.swap(true, Ordering::AcqRel) {
                return Err("it was cancelled before it started".to_owned());
            }
            work()
        };
        let work = match has_thread() {
            true => WorkProgress::Begun(spawn_blocking(work)),
            false => WorkProgress::Done(Some(work())),
        };
        Self { work, is_settled, ended, changes }
    }

    /// Returns the result of the job.
    pub(super) async fn answer(mut self) -> Result<String, String> {
        let ending = || Err("the program is shutting down; nothing was done".to_owned());
        match &mut self.work {
            WorkProgress::Begun(handle) => {
                handle.await.unwrap_or_else(|error| match error.try_into_panic() {
                    // Propagate the panic: the toolbox answers it.
                    Ok(panic) => resume_unwind(panic),
                    Err(_) => ending(),
                })
            }
            WorkProgress::Done(answer) => answer.take().unwrap_or_else(ending),
        }
    }
}

impl Drop for BlockingWork {
    fn drop(&mut self) {
        if let WorkProgress::Begun(handle) = &self.work
            && !handle.is_finished()
        {
            // Tokio's abort stops only work that still waits for a thread.
            handle.abort();
            let has_begun = self.is_settled.swap(true, Ordering::AcqRel);
            if has_begun && self.changes {
                // The work never sends anything: `recv` returns when the work drops the sender.
                let _ = self.ended.recv();
            }
        }
    }
}
