//! Lets the host revert the changes of a failed attempt before another backend runs.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use nexus_core::{BackendId, ErrorKind, FailedAttempt, Limit, SessionMark, Skipped, TurnError};
use tokio::time::Instant;

use crate::{
    attempt::TurnEvents,
    config::FallbackRule,
    fallback::PriorAttempts,
    run::{Run, caught, until, words_of_panic},
};

/// Reason why the next backend does not run.
pub(crate) enum Obstacle {
    /// The turn ended.
    Over(ErrorKind),
    /// The host's hook failed, for this reason.
    Failed(String),
}

impl Run<'_> {
    /// Rejects a turn if its rule is `restore` and its host cannot revert changes.
    pub(crate) fn check_restore(&self) -> Result<(), TurnError> {
        if self.route.rule != FallbackRule::Restore || self.host.before_retry.is_some() {
            return Ok(());
        }
        let message = "its fallback rule is `restore`, but this program has no hook that restores the \
                       changes of a failed attempt: use `before-writes`, or give the host a hook \
                       (TurnHost::with_before_retry)";
        let name = BackendId::new(self.route.name);
        Err(TurnError::new(ErrorKind::InvalidRequest, name).with_message(message))
    }

    /// If the rule is `restore`, lets the host revert all changes so far, and resets the session's record to
    /// the start of the turn. `told` is the list of backends that were skipped since the last one ran.
    ///
    /// # Errors
    ///
    /// The turn's error, if the changes could not be reverted. `next` must not run.
    pub(crate) async fn restore(
        &self,
        spent: &mut PriorAttempts,
        told: &mut [Skipped],
        next: &BackendId,
        mark: &SessionMark,
        events: &mut TurnEvents<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), TurnError> {
        if self.route.rule != FallbackRule::Restore {
            return Ok(());
        }
        if let Some(failed) = spent.standing_attempt(next, self.host.session().is_handed_in()) {
            match self.ask_host(&failed, events, deadline).await {
                Ok(()) => spent.put_back(&failed, told),
                Err(obstacle) => {
                    let mut spent = std::mem::take(spent);
                    // The host may have reverted the changes only in part.
                    spent.may_have_changed_more();
                    return Err(match obstacle {
                        Obstacle::Over(kind) => {
                            let message =
                                format!("while the changes of {} were being restored", failed.backend);
                            let error = TurnError::new(kind, next.clone()).with_message(message);
                            spent.into_own_error(error)
                        }
                        Obstacle::Failed(reason) => {
                            let why = format!("its changes could not be restored: {reason}");
                            spent.into_last_error(&failed, &why)
                        }
                    });
                }
            }
        }
        // Rewind without changes too: the next backend repeats the calls that only read, so they must not
        // count.
        self.host.session().rewind(mark);
        Ok(())
    }

    /// Lets the host revert the changes of an attempt, within the turn's time.
    async fn ask_host(
        &self,
        failed: &FailedAttempt,
        events: &mut TurnEvents<'_>,
        deadline: Option<Instant>,
    ) -> Result<(), Obstacle> {
        let Some(hook) = &self.host.before_retry else {
            return Err(Obstacle::Failed("the host has no hook for it".to_owned()));
        };
        tracing::info!(backend = %failed.backend, to = %failed.next, "the host restores the files");
        self.ask(async { hook.call(failed.clone()).await }, events, deadline).await
    }

    /// Returns the output of a host's hook, within the turn's time.
    pub(crate) async fn ask<T, E: std::fmt::Display>(
        &self,
        hook: impl Future<Output = Result<T, E>>,
        events: &mut TurnEvents<'_>,
        deadline: Option<Instant>,
    ) -> Result<T, Obstacle> {
        let mut asked = pin!(caught(hook));
        let mut cancelled = pin!(self.host.cancel.cancelled());
        let mut late = pin!(until(deadline));
        poll_fn(|context| {
            // If the sink is slow, the events stay stored, and the sink wakes this task.
            let _ = events.poll_flush(context);
            if cancelled.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Obstacle::Over(ErrorKind::Cancelled)));
            }
            if late.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Obstacle::Over(ErrorKind::LimitReached(Limit::Deadline))));
            }
            asked.as_mut().poll(context).map(|answer| match answer {
                Ok(answer) => answer.map_err(|error| Obstacle::Failed(error.to_string())),
                Err(panic) => {
                    Err(Obstacle::Failed(format!("the hook panicked: {}", words_of_panic(&*panic))))
                }
            })
        })
        .await
    }
}
