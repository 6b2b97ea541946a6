//! Triggers of type `completion`: reports in the store's log, as [`CompletionSchedule`] describes them.

use std::{collections::HashMap, sync::Mutex};

use serde_json::{Value, json};

use super::{
    document::{Trigger, TriggerId},
    firing::{TriggerFiring, is_final, named},
    schedule::{CompletionOutcome, CompletionSchedule, TriggerSchedule},
    triggers::Triggers,
};
use crate::{
    error::BrokerError,
    message::{Envelope, Payload, ReportedStatus},
    store::{LoggedEnvelope, LoggedEvent},
};

/// Number of messages of the log that are read at once.
const PAGE: usize = 500;
/// Maximum number of pages per look. The next look resumes after them.
const MAX_PAGES: usize = 40;
/// Maximum distance of the stored position behind the current one, in messages. After a restart, these messages are read
/// again.
const MAX_BEHIND: u64 = 1000;

/// Positions of the triggers in the log.
#[derive(Debug, Default)]
pub(super) struct CompletionLog {
    positions: Mutex<HashMap<TriggerId, u64>>,
}

/// Report that a task has ended.
struct EndedTask<'e> {
    agent: &'e str,
    task: &'e str,
    outcome: CompletionOutcome,
    text: Option<&'e str>,
}

impl CompletionLog {
    /// Fires these triggers for the reports in the log since the last look. Returns true if the log has more.
    pub(super) async fn look(
        &self,
        triggers: &Triggers,
        all: &[&Trigger],
        firings: &mut Vec<TriggerFiring>,
    ) -> Result<bool, BrokerError> {
        let mut watched: Vec<Watched<'_>> = {
            let mut positions = self.positions.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            positions.retain(|id, _| all.iter().any(|trigger| trigger.id == *id));
            let watched = all.iter().filter_map(|trigger| {
                let TriggerSchedule::Completion(schedule) = &trigger.schedule else { return None };
                // The position in memory may be ahead of the stored one, which is written only after a firing or many
                // messages.
                let looked = trigger.decided_in_log.and(positions.get(&trigger.id).copied());
                let position = looked.max(trigger.decided_in_log).unwrap_or(0);
                Some(Watched { trigger, schedule, position, fired: false, failure: None })
            });
            watched.collect()
        };
        let Some(mut after) = watched.iter().map(|watched| watched.position).min() else { return Ok(false) };
        let mut more = true;
        for _ in 0..MAX_PAGES {
            let page = triggers.firer().store.log(after, PAGE).await?;
            more = page.len() == PAGE;
            for logged in &page {
                for watched in &mut watched {
                    watched.take(triggers, logged, firings).await;
                }
                after = after.max(logged.number);
            }
            if !more {
                break;
            }
        }
        let mut failure = None;
        for watched in watched {
            let id = &watched.trigger.id;
            let behind = watched.trigger.decided_in_log;
            if watched.fired || behind.is_none_or(|behind| watched.position - behind >= MAX_BEHIND) {
                let position = watched.position;
                let last_run = watched.fired.then(|| nexus_files::rfc3339::cut_to_millis(triggers.now()));
                let moved = triggers.firer().change(id, |trigger| {
                    trigger.decided_in_log = trigger.decided_in_log.max(Some(position));
                    trigger.last_run = trigger.last_run.max(last_run);
                });
                failure = failure.or(moved.await.err());
            }
            let mut positions = self.positions.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            positions.insert(id.clone(), watched.position);
            failure = failure.or(watched.failure);
        }
        failure.map_or(Ok(more), Err)
    }
}

/// A trigger while the log is read.
struct Watched<'t> {
    trigger: &'t Trigger,
    schedule: &'t CompletionSchedule,
    position: u64,
    fired: bool,
    failure: Option<BrokerError>,
}

impl Watched<'_> {
    async fn take(&mut self, triggers: &Triggers, logged: &LoggedEnvelope, firings: &mut Vec<TriggerFiring>) {
        // After a failed put, the next look repeats this message and all later ones.
        if logged.number <= self.position || self.failure.is_some() {
            return;
        }
        if let Some(ended) = self.concerns(logged) {
            // The firing continues the chain of turns that the report belongs to, so the limits on turns apply
            // to it.
            let chain = Some(logged.envelope.chain());
            let put =
                triggers.firer().put(self.trigger, &ended.occurrence(), Some(ended.data()), chain).await;
            match put {
                Ok(firing) => {
                    firings.push(firing);
                    self.fired = true;
                }
                Err(mut error) => {
                    let passes = is_final(&error);
                    error.message =
                        format!("{} for {}: {}", self.trigger.id, ended.occurrence(), error.message);
                    self.failure = Some(error);
                    if !passes {
                        return;
                    }
                }
            }
        }
        self.position = logged.number;
    }

    fn concerns<'e>(&self, logged: &'e LoggedEnvelope) -> Option<EndedTask<'e>> {
        let ended = EndedTask::read(&logged.envelope).filter(|_| logged.event == LoggedEvent::Put)?;
        // The position of a new trigger is unknown, because the log has no known end. So compare times.
        let is_new = logged.at >= self.trigger.created_at;
        let schedule = self.schedule;
        let is_meant = is_new
            && schedule.agent.as_deref().is_none_or(|agent| agent == ended.agent)
            && schedule.task.as_deref().is_none_or(|task| task == ended.task)
            && (schedule.outcomes.is_empty() || schedule.outcomes.contains(&ended.outcome));
        is_meant.then_some(ended)
    }
}

impl<'e> EndedTask<'e> {
    fn read(envelope: &'e Envelope) -> Option<Self> {
        let agent = envelope.source_agent_id.agent_name()?;
        let (task, outcome, text) = match &envelope.payload {
            Payload::StatusUpdate { task_id, status, details, .. } => {
                let outcome = match status {
                    ReportedStatus::Completed => CompletionOutcome::Completed,
                    ReportedStatus::Failed => CompletionOutcome::Failed,
                    _ => return None,
                };
                (task_id, outcome, details.as_deref())
            }
            Payload::Result { task_id, summary, .. } => {
                (task_id, CompletionOutcome::Completed, Some(&**summary))
            }
            _ => return None,
        };
        Some(Self { agent, task, outcome, text })
    }

    fn outcome_name(&self) -> &'static str {
        match self.outcome {
            CompletionOutcome::Completed => "completed",
            CompletionOutcome::Failed => "failed",
        }
    }

    fn occurrence(&self) -> String {
        // The name of an agent has no colon, so the three parts are unambiguous.
        let name = format!("{}:{}:{}", self.agent, self.task, self.outcome_name());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
        if name.len() <= 128 && name.bytes().all(plain) { name } else { named(&name) }
    }

    fn data(&self) -> Value {
        let mut data = json!({ "agent": self.agent, "task_id": self.task, "outcome": self.outcome_name() });
        if let Some(text) = self.text {
            // Copy only the beginning: the full report is in the queue that it was sent to.
            data["text"] = text.chars().take(4000).collect::<String>().into();
        }
        data
    }
}
