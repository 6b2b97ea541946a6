//! The state of one turn: its own message, the messages that it takes while it runs, and their leases.
//!
//! The agent's record contains the part that other brokers need, as a [`BegunTurn`]. Only the methods of [`OngoingTurn`]
//! change either part.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use super::{is_elsewhere, prompt};
use crate::{
    agent::{AgentDocument, AgentStatus, BegunTurn, MOST_UNENDED},
    broker::{Broker, WaitingTurn},
    error::{BrokerError, BrokerErrorKind},
    message::{Address, Chain, Envelope, EnvelopeId, Payload},
    session_key::SessionKey,
    store::{Delivery, HandlingLease},
};

/// Lease of a message. The turn renews it while it runs.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// Longest task id in an agent's record, in bytes.
const MAX_TASK_ID_BYTES: usize = 256;

/// A turn that has begun and has no stored end. The turn and its tools share this.
#[derive(Debug)]
pub(super) struct OngoingTurn {
    pub(super) broker: Broker,
    /// The agent, as of the beginning of the turn.
    pub(super) agent: AgentDocument,
    pub(super) queue: String,
    /// The agent's session that the turn belongs to.
    pub(super) session: Address,
    /// Message that the turn handles.
    pub(super) own: Delivery,
    messages: Mutex<TurnMessages>,
}

/// Messages and leases of a turn, which change while it runs.
#[derive(Debug)]
struct TurnMessages {
    /// Time of the last renewal of the turn's leases.
    renewed_at: SystemTime,
    /// Further messages that the turn took. They are finished, or reported as lost, together with the turn.
    taken: Vec<TakenMessage>,
    /// Message that is offered to the running turn and not yet delivered.
    offered: Option<HandlingLease>,
    /// Guard of the calls that wait for a message. It is alive while at least one call waits.
    waiting: Weak<WaitingTurn>,
}

/// A message that a turn took in addition to its own.
#[derive(Clone, Debug)]
pub(super) struct TakenMessage {
    pub(super) delivery: Delivery,
    /// True if the agent has already answered the message.
    pub(super) is_answered: bool,
}

impl OngoingTurn {
    /// Stores that a turn of the agent begins with a message. Fails with [`Conflict`](BrokerErrorKind::Conflict) if the agent was stopped
    /// or another broker runs a turn of it.
    pub(super) async fn begin(
        broker: &Broker,
        name: &str,
        queue: &str,
        own: Delivery,
    ) -> Result<Self, BrokerError> {
        let envelope = &own.envelope;
        let now = broker.options().clock.now();
        let refused = |message: String| Err(BrokerError::new(BrokerErrorKind::Conflict, message, ""));
        let began = broker.directory().update(name, |record| {
            if record.status == AgentStatus::Stopped {
                return refused(format!("the agent {name:?} was stopped"));
            }
            if is_elsewhere(broker, record) {
                return refused(format!("another broker runs a turn of {name:?}"));
            }
            // The earlier turn was lost. Note its messages, so that no second turn begins with one of them.
            if let Some(before) = record.turn.take() {
                before
                    .messages()
                    .filter(|id| **id != envelope.message_id)
                    .for_each(|id| record.note_unended(id));
            }
            record.turn = Some(BegunTurn {
                message_id: envelope.message_id.clone(),
                taken: Vec::new(),
                broker: broker.id().to_owned(),
                began_at: now,
                heartbeat_at: now,
            });
            record.status = AgentStatus::Working;
            if let Payload::TaskAssignment { task_id, .. } = &envelope.payload {
                record.task_id = Some(prompt::cut(task_id, MAX_TASK_ID_BYTES));
            }
            Ok(())
        });
        Ok(Self {
            agent: began.await?,
            broker: broker.clone(),
            queue: queue.to_owned(),
            session: SessionKey::of(name, &envelope.target_agent_id).address(),
            messages: Mutex::new(TurnMessages {
                renewed_at: broker.options().clock.now(),
                taken: Vec::new(),
                offered: None,
                waiting: Weak::new(),
            }),
            own,
        })
    }

    pub(super) fn address(&self) -> Address {
        Address::Agent(self.agent.name.clone())
    }

    /// Returns the chain position of the turn's message.
    pub(super) fn chain(&self) -> Chain {
        self.own.envelope.chain()
    }

    /// Returns true if `begun`, from the agent's record, is this turn. It is another turn if this process stood still for
    /// longer than a heartbeat lasts.
    pub(super) fn is(&self, begun: &BegunTurn) -> bool {
        begun.message_id == self.own.envelope.message_id && begun.broker == self.broker.id()
    }

    /// Stores a heartbeat of the turn.
    pub(super) async fn beat(&self) {
        let name = self.agent.name.as_str();
        let now = self.broker.options().clock.now();
        let beat = self.broker.directory().update(name, |record| {
            if let Some(turn) = record.turn.as_mut().filter(|turn| self.is(turn)) {
                turn.heartbeat_at = now;
            }
            Ok(())
        });
        if let Err(error) = beat.await {
            tracing::warn!(agent = name, %error, "the broker cannot record that a turn is running");
        }
    }

    /// Stores that the turn takes a message, before the model reads it. If the turn is lost, the message is reported as lost
    /// with it, and no other turn begins with it. Fails with [`QueueFull`](BrokerErrorKind::QueueFull) if the turn has the
    /// maximum number of messages.
    pub(super) async fn note_taken(&self, id: &EnvelopeId) -> Result<(), BrokerError> {
        let noted = self.broker.directory().update(&self.agent.name, |record| {
            let Some(turn) = record.turn.as_mut().filter(|turn| self.is(turn)) else {
                return Err(BrokerError::new(BrokerErrorKind::Conflict, "the turn is over", ""));
            };
            if turn.messages().count() >= MOST_UNENDED {
                return Err(BrokerError::new(
                    BrokerErrorKind::QueueFull,
                    format!("the turn has {MOST_UNENDED} messages"),
                    "end the turn: the next messages start new turns",
                ));
            }
            // The write may be repeated after a conflict with another writer of the record.
            if !turn.taken.contains(id) {
                turn.taken.push(id.clone());
            }
            Ok(())
        });
        noted.await.map(drop)
    }

    /// Returns a noted message that the model has not read to its queue.
    pub(super) async fn give_back(&self, lease: &HandlingLease) -> Result<(), BrokerError> {
        // Remove the note first. After a crash in between, the lease lapses and the message is delivered again.
        let forgotten = self.broker.directory().update(&self.agent.name, |record| {
            if let Some(turn) = record.turn.as_mut().filter(|turn| self.is(turn)) {
                turn.taken.retain(|id| *id != lease.message);
            }
            Ok(())
        });
        forgotten.await?;
        self.broker.store().put_back(lease).await
    }

    /// Remembers a noted message that is offered to the running turn. Its lease is renewed with the others.
    pub(super) fn offer(&self, lease: &HandlingLease) {
        self.lock().offered = Some(lease.clone());
    }

    /// Returns true if a message is offered to the running turn and not yet delivered.
    pub(super) fn has_offer(&self) -> bool {
        self.lock().offered.is_some()
    }

    /// Forgets the offered message, which was not delivered.
    pub(super) fn withdraw_offer(&self) {
        self.lock().offered = None;
    }

    /// Adds a noted message that the model has read to the messages of the turn.
    pub(super) fn has_taken(&self, delivery: Delivery) {
        let mut messages = self.lock();
        messages.offered.take_if(|offered| *offered == delivery.lease);
        messages.taken.push(TakenMessage { delivery, is_answered: false });
    }

    /// Returns the messages that the turn took in addition to its own.
    pub(super) fn taken(&self) -> Vec<TakenMessage> {
        self.lock().taken.clone()
    }

    /// Remembers that the turn answered a message, if the answer went to the agent that sent the message.
    pub(super) fn has_answered(&self, id: &EnvelopeId, to: &Address) {
        for taken in &mut self.lock().taken {
            let envelope = &taken.delivery.envelope;
            taken.is_answered |=
                envelope.message_id == *id && envelope.source_agent_id.agent_name() == to.agent_name();
        }
    }

    /// Returns true if this turn may take a message. The message must belong to the turn's session. It must not have begun
    /// a turn without a stored end, because such a turn is reported as lost. A message that was delivered and returned
    /// without a turn is allowed.
    pub(super) async fn may_have(&self, delivery: &Delivery) -> bool {
        let envelope = &delivery.envelope;
        if !self.is_of_session(envelope) {
            return false;
        }
        // The first delivery cannot have begun an earlier turn, which saves a read of the record.
        if delivery.deliveries == 1 {
            return true;
        }
        let record = self.broker.directory().find(&self.agent.name).await;
        matches!(record, Ok(Some(record)) if !record.has_begun(&envelope.message_id))
    }

    /// Returns true if this turn may take one of these waiting messages.
    pub(super) async fn may_have_any(&self, waiting: &[Envelope]) -> Result<bool, BrokerError> {
        if !waiting.iter().any(|envelope| self.is_of_session(envelope)) {
            return Ok(false);
        }
        let record = self.broker.directory().get(&self.agent.name).await?;
        let may_have =
            |envelope: &Envelope| self.is_of_session(envelope) && !record.has_begun(&envelope.message_id);
        Ok(waiting.iter().any(may_have))
    }

    fn is_of_session(&self, envelope: &Envelope) -> bool {
        SessionKey::of(&self.agent.name, &envelope.target_agent_id).address() == self.session
    }

    /// Counts the turn as waiting for a message until the returned guard is dropped. Several waiting calls of
    /// one turn count once.
    pub(super) fn waits(&self) -> Arc<WaitingTurn> {
        let mut messages = self.lock();
        messages.waiting.upgrade().unwrap_or_else(|| {
            let waits = Arc::new(self.broker.wait_in_turn());
            messages.waiting = Arc::downgrade(&waits);
            waits
        })
    }

    /// Renews the leases of the turn. Fails if the lease of its own message cannot be renewed. If another lease
    /// cannot be renewed, its message is delivered again, and the broker reports it to its sender as lost.
    pub(super) async fn renew(&self) -> Result<(), BrokerError> {
        let store = self.broker.store();
        let now = self.broker.options().clock.now();
        // Clone the leases, so that the lock is free during the calls of the store.
        let further: Vec<_> = {
            let messages = self.lock();
            let taken = messages.taken.iter().map(|taken| &taken.delivery.lease);
            taken.chain(&messages.offered).cloned().collect()
        };
        let renewed = store.extend(&self.own.lease, LEASE).await;
        for lease in further {
            // Ignore an error: only the lease of the turn's own message decides if the turn goes on.
            let _ = store.extend(&lease, LEASE).await;
        }
        if renewed.is_ok() {
            self.lock().renewed_at = now;
        }
        renewed
    }

    /// Returns true if the clock has stepped so far since the last renewal that the leases may have lapsed.
    pub(super) fn is_renewal_late(&self) -> bool {
        let since = self.broker.options().clock.now().duration_since(self.lock().renewed_at);
        // An error means that the clock was set back, after which the times of the leases mean nothing.
        since.map_or(true, |since| since > LEASE / 2)
    }

    /// Renews the leases before the turn takes a message, if they may have lapsed. Otherwise the store could deliver the
    /// turn's own message to it.
    pub(super) async fn renew_before_taking(&self) -> Result<(), BrokerError> {
        if self.is_renewal_late() { self.renew().await } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, TurnMessages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
