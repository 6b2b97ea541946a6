//! Running stages.

use std::sync::Arc;

use nexus_core::CancelToken;
use nexus_router::spending::WorkLabel;
use nexus_work::{MAX_CALL_WAIT, WorkspaceState as _, call_wait};
use tokio::sync::watch;

use super::{
    answer::DebateView,
    debates::{Debates, DebatesCore},
    request::{DebateAdvanceRequest, DebateCancelRequest},
};
use crate::{
    debate::{Debate, DebateLogEvent},
    debate_error::DebateError,
    record::StageRecord,
    stage::StageRun,
    state::{DebateEvent, DebateState, WrongStage},
};

impl Debates {
    /// Runs the next stage of a debate, or joins the running one. For a finished debate, it returns the state.
    pub async fn advance(&self, request: DebateAdvanceRequest) -> Result<DebateView, DebateError> {
        let wait = call_wait(request.wait_s);
        let debate = self.0.open(&request.debate_id).await?;
        // A stage that failed after its caller had stopped waiting reports its error to the next call.
        if let Some(error) = self.0.jobs.take_failure(debate.id()) {
            return Err(error);
        }
        let job = match self.0.jobs.of(debate.id()) {
            Some(job) => job,
            None => {
                let snapshot = self.0.read(&debate, Debate::snapshot).await?;
                match snapshot.state {
                    DebateState::Done => return self.view(&debate).await,
                    DebateState::Cancelled => {
                        return Err(DebateError::wrong_status(
                            "the debate is cancelled",
                            snapshot.state.next_call(),
                        ));
                    }
                    _ => snapshot.data.check_is_whole()?,
                }
                let (inner, running, from) = (Arc::clone(&self.0), debate.clone(), snapshot.state);
                let run = move |cancel, progress| async move {
                    inner.run_stage(&running, from, &cancel, &progress).await
                };
                self.0.jobs.start(&debate, (), "the stage begins", run)?
            }
        };
        if let Some(outcome) = self.0.jobs.outcome(&debate, &job, wait).await {
            outcome?;
        }
        self.view(&debate).await
    }

    /// Cancels a debate, after it has stopped its running stage in this or another process. The records of finished stages
    /// remain.
    pub async fn cancel(&self, request: DebateCancelRequest) -> Result<DebateView, DebateError> {
        let debate = self.0.open(&request.debate_id).await?;
        let state = self
            .0
            .read(&debate, |debate| {
                debate.update(|state, data| {
                    // Store the wish before anything is stopped: another process that runs a stage reads it.
                    data.stop = !state.is_final();
                    Ok(*state)
                })
            })
            .await?;
        match state {
            DebateState::Cancelled => return self.view(&debate).await,
            DebateState::Done => {
                return Err(DebateError::wrong_status(
                    "the debate is done, and no stage of it is running",
                    state.next_call(),
                ));
            }
            _ => {}
        }
        self.0.jobs.stop(&debate).await;
        // Another process may need this time to stop its stage.
        let hold = self.0.jobs.lock(&debate, MAX_CALL_WAIT).await?;
        self.0.read(&debate, finish_cancel).await?;
        // Unlock before the view: the owner of the lock counts as a running stage.
        drop(hold);
        let seen = self.view(&debate).await;
        seen.map_err(|error| {
            let message = format!("the debate is cancelled; its record cannot be read: {}", error.message);
            DebateError::new(error.kind, message, error.advice)
        })
    }
}

impl DebatesCore {
    /// Runs the stage `from`, unless another process did. The caller must own the lock of the stage.
    async fn run_stage(
        &self,
        debate: &Debate,
        from: DebateState,
        cancel: &CancelToken,
        said: &watch::Sender<String>,
    ) -> Result<(), DebateError> {
        let reading = self.read(debate, move |debate| {
            let snapshot = debate.snapshot()?;
            // Finish a cancellation that was interrupted.
            if snapshot.data.stop {
                finish_cancel(debate)?;
            }
            // Another process may have run this stage while the job waited for the lock.
            if snapshot.data.stop || snapshot.state != from {
                return Ok(None);
            }
            let proceedings = debate.proceedings(&snapshot.data)?;
            let turns = debate.turns()?;
            let used = debate.turn_log()?;
            Ok(Some((snapshot.data, proceedings, turns, used)))
        });
        let Some((data, mut proceedings, turns, used)) = reading.await? else { return Ok(()) };
        let stage = stage_name(from);
        said.send_replace(format!("{stage}: it begins"));
        let began = DebateLogEvent::StageBegan { stage: stage.clone() };
        let _ = self.read(debate, move |debate| debate.log(&began)).await;
        let router = self.router.labelled(WorkLabel::Debate, debate.id().to_string());
        let run = StageRun {
            router: &router,
            debate,
            data: &data,
            proceedings: &proceedings,
            stage: &stage,
            turns,
            budget: data.settings.budget.left_of(&used),
            cancel: cancel.clone(),
            said: said.clone(),
        };
        let record = match run.run(from).await {
            Ok(record) => record,
            Err(error) => {
                let failed = DebateLogEvent::StageFailed { stage, reason: error.message.clone() };
                let _ = self.read(debate, move |debate| debate.log(&failed)).await;
                return Err(error);
            }
        };
        // `run` borrows the proceedings, which change below.
        drop(run);
        let event = match &record {
            // The next state depends on the judgement, so add the record before the status is written.
            StageRecord::CheckingClose { .. } => {
                proceedings
                    .add(record.clone())
                    .map_err(|reason| DebateError::damaged(debate.folder(), &reason))?;
                DebateEvent::RoundDecided(proceedings.last_decision())
            }
            _ => DebateEvent::StageDone,
        };
        self.read(debate, move |debate| settle(debate, from, &stage, &record, event)).await
    }
}

/// Writes the record of a stage, and leaves the stage. The caller must own its lock.
fn settle(
    debate: &Debate,
    from: DebateState,
    stage: &str,
    record: &StageRecord,
    event: DebateEvent,
) -> Result<(), DebateError> {
    // Write the record first: it counts only once its stage is in `settled`.
    debate.write_stage(stage, record)?;
    let to = debate.update(|state, data| {
        if *state != from {
            return Err(DebateError::wrong_status(
                "another process has changed the debate",
                state.next_call(),
            ));
        }
        *state = state.after(event)?;
        data.settled.push(stage.to_owned());
        Ok(*state)
    })?;
    let settled = DebateLogEvent::StageSettled { stage: stage.to_owned(), status: to.name().to_owned() };
    // The stage is finished. If this write fails, only the log lacks the event.
    let _ = debate.log(&settled);
    Ok(())
}

/// Ends a debate that the caller wants to cancel. The caller of this function must own the lock of the stage.
fn finish_cancel(debate: &Debate) -> Result<(), DebateError> {
    let was_open = debate.update(|state, data| {
        data.stop = false;
        let is_open = !state.is_final();
        if is_open {
            *state = state.after(DebateEvent::Cancelled)?;
        }
        Ok(is_open)
    })?;
    if was_open {
        let _ = debate.log(&DebateLogEvent::Cancelled);
    }
    Ok(())
}

/// Returns the name of a stage in files: `round-2`.
fn stage_name(state: DebateState) -> String {
    match state {
        DebateState::CrossExamining { round } => format!("round-{round}"),
        DebateState::CheckingClose { round } => format!("close-{round}"),
        other => other.name().to_owned(),
    }
}

impl From<WrongStage> for DebateError {
    fn from(error: WrongStage) -> Self {
        DebateError::wrong_status(error.to_string(), "call debate_status, and continue with its answer")
    }
}
