//! End of a turn: its answer, and the record of it.

use std::time::Duration;

use nexus_core::{Effects, Retry};

use super::{LEASE, OngoingTurn, TakenMessage, prompt, run::AgentTurnEnd};
use crate::{
    agent::{AgentDocument, AgentStatus},
    broker::Broker,
    error::{BrokerError, BrokerErrorKind},
    message::{Address, Envelope, EnvelopeId, Payload},
    route::queue_of,
    store::{Delivery, HandlingLease},
};

/// Maximum number of deliveries of a message that no backend can run.
const MOST_DELIVERIES: u64 = 5;
/// Time for which an answer waits for a caller.
const KEPT_FOR_CALLERS: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Longest wait for a backend that reports when it can run again. The message returns to its queue meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// Stores the result of a turn. Returns false if the agent must not take another message for now.
pub(super) async fn after(turn: &OngoingTurn, ended: AgentTurnEnd) -> Result<bool, BrokerError> {
    let (broker, name) = (&turn.broker, turn.agent.name.as_str());
    let Delivery { envelope, lease, deliveries } = &turn.own;
    let mut diff = None;
    // `said` is the last text of the agent, or the error that answers for a failed turn.
    let (said, status) = match ended {
        AgentTurnEnd::TakenAway => return Ok(false),
        AgentTurnEnd::Turn(outcome) => match outcome.outcome {
            Ok(result) => {
                diff = match broker.workers().keep(broker.directory(), name, envelope).await {
                    Ok(diff) => diff,
                    Err(error) => Some(format!("its changes could not be committed: {error}")),
                };
                (Ok(result.text), AgentStatus::Done)
            }
            // Do not repeat a turn that may have changed something.
            Err(error)
                if error.kind().could_not_run()
                    && error.partial().effects <= Effects::Read
                    && turn.taken().is_empty()
                    && *deliveries < MOST_DELIVERIES =>
            {
                return again(turn, error.retry()).await;
            }
            Err(error) => {
                // Retain the changes of the failed turn, too.
                let kept = broker.workers().keep(broker.directory(), name, envelope).await;
                if let Err(error) = kept {
                    tracing::warn!(agent = name, %error, "the changes of a failed turn are discarded");
                }
                (Err(Some(prompt::failure(&turn.agent, envelope, &error))), AgentStatus::Failed)
            }
        },
        AgentTurnEnd::Busy(_) if *deliveries < MOST_DELIVERIES => {
            return again(turn, Retry::Guessed(LEASE)).await;
        }
        AgentTurnEnd::Busy(error) | AgentTurnEnd::Conversation(error) => {
            let message = format!("the conversation of {name} cannot be used: {error}");
            (
                Err(Some(prompt::problem(&envelope.message_id, "no_conversation", &message))),
                AgentStatus::Failed,
            )
        }
        AgentTurnEnd::Tools(missing) => {
            let message = format!("{name} lacks tools that the task needs: {missing}");
            (Err(Some(prompt::problem(&envelope.message_id, "no_tool", &message))), AgentStatus::Failed)
        }
        AgentTurnEnd::Folder(error) => {
            let message = format!("{name} cannot work: {error}");
            (Err(Some(prompt::problem(&envelope.message_id, "no_folder", &message))), AgentStatus::Failed)
        }
    };
    // Note all messages as begun before any of them is finished. A crash in between must not repeat their turn.
    let taken = turn.taken();
    // Another broker may have taken this turn for lost and begun another. Then the status and the locks belong to that turn.
    let mut is_own = false;
    broker
        .directory()
        .update(name, |record| {
            // The model has not read a noted message that is missing from `taken`, so another turn may begin with it.
            taken.iter().for_each(|taken| record.note_unended(&taken.delivery.envelope.message_id));
            record.note_unended(&envelope.message_id);
            is_own = record.turn.take_if(|begun| turn.is(begun)).is_some();
            if !is_own {
                return Ok(());
            }
            let is_worker = record.manager.is_some();
            record.status = match (record.status, status) {
                (AgentStatus::Stopped, _) => AgentStatus::Stopped,
                (AgentStatus::Blocked, AgentStatus::Done) => AgentStatus::Blocked,
                (_, AgentStatus::Done) if !is_worker => AgentStatus::Started,
                (_, status) => status,
            };
            Ok(())
        })
        .await?;
    let mut ended = vec![&envelope.message_id];
    for TakenMessage { delivery: Delivery { lease, envelope, .. }, is_answered } in &taken {
        let answer = match &said {
            _ if *is_answered => None,
            Ok(text) => prompt::answer(envelope, text, None),
            Err(failure) => failure.clone(),
        };
        match finish(broker, name, lease, envelope, answer).await {
            Ok(_) => ended.push(&envelope.message_id),
            // The message is delivered again, and the broker reports its turn to the sender as lost.
            Err(error) => {
                tracing::warn!(agent = name, %error, "a message that a turn took will be delivered again");
            }
        }
    }
    let answer = match said {
        Ok(text) => prompt::answer(envelope, &text, diff),
        Err(failure) => failure,
    };
    // Release the locks before the answer is sent, so that its recipient can take them at once.
    if is_own {
        broker.release_locks(name).await;
    }
    finish(broker, name, lease, envelope, answer).await?;
    ended_for_good(broker, name, &ended).await;
    Ok(true)
}

/// Removes the notes (`unended`) of messages whose end is stored.
async fn ended_for_good(broker: &Broker, name: &str, ids: &[&EnvelopeId]) {
    let noted = broker.directory().update(name, |record| {
        record.unended.retain(|noted| !ids.contains(&noted));
        Ok(())
    });
    // A remaining note does no harm: the store never delivers the message again.
    let _ = noted.await;
}

/// Returns a message that no backend could run to its queue, and suspends the agent until a backend may.
async fn again(turn: &OngoingTurn, retry: Retry) -> Result<bool, BrokerError> {
    let (broker, name) = (&turn.broker, turn.agent.name.as_str());
    // A turn that fails at once must not use up its five deliveries within a second.
    let least = Duration::from_secs(1 << turn.own.deliveries.min(6));
    let wait = retry.delay(broker.options().clock.now()).unwrap_or(LEASE).clamp(least, LONGEST_WAIT);
    broker.suspend(name, wait);
    broker
        .directory()
        .update(name, |record| {
            let was_own = record.turn.take_if(|begun| turn.is(begun)).is_some();
            if was_own && record.status != AgentStatus::Stopped {
                record.status = AgentStatus::Assigned;
            }
            Ok(())
        })
        .await?;
    broker.store().put_back(&turn.own.lease).await?;
    Ok(false)
}

/// Reports a turn without a stored end to the sender of its message and to the agent's manager. The turn does not begin
/// again, because its effects are unknown.
pub(super) async fn lost(
    broker: &Broker,
    record: &AgentDocument,
    lease: &HandlingLease,
    envelope: &Envelope,
) -> Result<bool, BrokerError> {
    let told = prompt::lost(record, &envelope.message_id);
    broker
        .directory()
        .update(&record.name, |record| {
            record.note_unended(&envelope.message_id);
            if let Some(turn) = record.turn.take_if(|turn| turn.message_id == envelope.message_id) {
                turn.messages().for_each(|id| record.note_unended(id));
                if record.status != AgentStatus::Stopped {
                    record.status = AgentStatus::Failed;
                }
            }
            Ok(())
        })
        .await?;
    broker.release_locks(&record.name).await;
    let manager = record.manager.as_deref().map(Address::agent).transpose()?;
    if let Some(manager) = manager.filter(|manager| *manager != envelope.source_agent_id) {
        let id = EnvelopeId::of_occurrence(envelope.message_id.as_str(), "lost");
        let mut message =
            Envelope::new(Address::agent(&record.name)?, manager, told.clone(), &*broker.options().clock);
        message.message_id = id;
        message.follow(&envelope.chain());
        // A manager whose queue is full can still see the failure with `list_agents`.
        if let Err(error) = broker.store().put(&queue_of(&message.target_agent_id), &message).await {
            tracing::warn!(agent = %record.name, %error, "the report of a lost turn could not be sent to the \
                manager");
        }
    }
    finish(broker, &record.name, lease, envelope, Some(told)).await?;
    ended_for_good(broker, &record.name, &[&envelope.message_id]).await;
    Ok(true)
}

/// Marks a message as handled, and stores the answer to its sender.
pub(super) async fn finish(
    broker: &Broker,
    name: &str,
    lease: &HandlingLease,
    envelope: &Envelope,
    answer: Option<Payload>,
) -> Result<bool, BrokerError> {
    // Triggers and errors get no answer, or two agents would answer each other for ever. A message of an agent to itself
    // gets none, either.
    let is_own = envelope.source_agent_id.agent_name() == Some(name);
    let is_answered = !matches!(envelope.payload, Payload::Trigger { .. } | Payload::Error { .. });
    let mut outcome = match answer {
        Some(payload) if !is_own && is_answered => {
            let mut message = Envelope::new(
                Address::agent(name)?,
                envelope.source_agent_id.clone(),
                payload,
                &*broker.options().clock,
            );
            // Derive the id from the message, so that two brokers that end the same turn store one answer.
            message.message_id = EnvelopeId::of_occurrence(envelope.message_id.as_str(), "answer");
            message.priority = envelope.priority;
            message.follow(&envelope.chain());
            if matches!(envelope.source_agent_id, Address::Caller(_)) {
                // The caller may never read its inbox, so let its answers expire.
                message.expires_at = message.timestamp.checked_add(KEPT_FOR_CALLERS);
            }
            vec![(queue_of(&envelope.source_agent_id), message)]
        }
        _ => Vec::new(),
    };
    match broker.store().finish(lease, &outcome).await {
        // JSON may encode a text in six times its size. If the answer is too large, send a failure.
        Err(error) if error.kind == BrokerErrorKind::Invalid && !outcome.is_empty() => {
            outcome[0].1.payload =
                prompt::problem(&envelope.message_id, "answer_too_large", &error.to_string());
            broker.store().finish(lease, &outcome).await?;
        }
        finished => finished?,
    }
    broker.wake();
    Ok(true)
}
