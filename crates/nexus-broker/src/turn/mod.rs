//! One turn of an agent: it takes a message, runs with it, and stores the answer.

mod end;
mod prompt;
mod run;
mod tools;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use nexus_core::CancelToken;

use self::end::{after, finish, lost};
use crate::{
    agent::{AgentDocument, AgentStatus, BegunTurn, MOST_UNENDED},
    broker::{Broker, WaitingTurn},
    error::{BrokerError, BrokerErrorKind},
    message::{Address, Chain, Envelope, EnvelopeId, MessagePriority, Payload, ReportedStatus},
    route::queue_of,
    session_key::SessionKey,
    store::{Delivery, HandlingLease},
};

/// Lease of a message. The turn renews it while it runs.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// Interval at which a turn checks whether its agent was stopped.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Checks per heartbeat, which also renews the leases of the turn.
const LOOKS_PER_HEARTBEAT: u32 = 15;
/// Time until an agent is checked again while a broker elsewhere runs it.
const WHILE_ELSEWHERE: Duration = Duration::from_secs(2);
/// Longest task id in an agent's record, in bytes.
const MAX_TASK_ID_BYTES: usize = 256;

/// Context that a turn and its tools share.
#[derive(Debug)]
pub(super) struct AgentTurnContext {
    pub(super) broker: Broker,
    /// The agent, as it was when the turn began.
    pub(super) agent: AgentDocument,
    pub(super) queue: String,
    /// The agent's session that the turn belongs to.
    pub(super) session: Address,
    /// The message that it handles.
    message: EnvelopeId,
    /// The lease of that message.
    lease: HandlingLease,
    /// When the leases of the turn were renewed last.
    renewed_at: Mutex<SystemTime>,
    /// The place of its message among those that came of one.
    pub(super) chain: Chain,
    /// Further messages that the turn took. They are finished with it; if it is lost, they are reported as lost with it.
    taken: Mutex<Vec<Delivery>>,
    /// The message that waits to be handed to the running turn.
    offered: Mutex<Option<HandlingLease>>,
    /// While a call of it waits for a message.
    waiting: Mutex<Weak<WaitingTurn>>,
    /// Messages that the turn has answered by itself.
    answered: Mutex<BTreeSet<EnvelopeId>>,
}

impl AgentTurnContext {
    pub(super) fn address(&self) -> Address {
        Address::Agent(self.agent.name.clone())
    }

    /// Stores that the turn gets a message, before the model reads it: if the turn is lost, the message is reported as lost with it, and
    /// no other turn begins with it. Fails with [`QueueFull`](BrokerErrorKind::QueueFull) for a turn that has its most.
    async fn note_taken(&self, id: &EnvelopeId) -> Result<(), BrokerError> {
        let noted = self.broker.directory().update(&self.agent.name, |record| {
            let Some(turn) = record.turn.as_mut().filter(|turn| self.is(turn)) else {
                return Err(BrokerError::new(BrokerErrorKind::Conflict, "the turn is over", ""));
            };
            if turn.messages().count() >= MOST_UNENDED {
                return Err(BrokerError::new(
                    BrokerErrorKind::QueueFull,
                    format!("the turn has {MOST_UNENDED} messages"),
                    "end it: the next ones begin turns of their own",
                ));
            }
            if !turn.taken.contains(id) {
                turn.taken.push(id.clone());
            }
            Ok(())
        });
        noted.await.map(drop)
    }

    /// Whether the turn of the agent's record is this one. It is another one where this process stood still for longer than a heartbeat lasts.
    fn is(&self, begun: &BegunTurn) -> bool {
        begun.message_id == self.message && begun.broker == self.broker.id()
    }

    /// Stores that the turn runs.
    async fn beat(&self) {
        let name = self.agent.name.as_str();
        let now = self.broker.options().clock.now();
        let beat = self.broker.directory().update(name, |record| {
            if let Some(turn) = record.turn.as_mut().filter(|turn| self.is(turn)) {
                turn.heartbeat_at = now;
            }
            Ok(())
        });
        if let Err(error) = beat.await {
            tracing::warn!(agent = name, %error, "the broker cannot say that a turn runs");
        }
    }

    /// The turn has a message that was noted.
    fn has_taken(&self, delivery: Delivery) {
        lock(&self.taken).push(delivery);
    }

    /// Puts a message back that was noted, and that the model has not read.
    async fn give_back(&self, lease: &HandlingLease) -> Result<(), BrokerError> {
        let forgotten = self.broker.directory().update(&self.agent.name, |record| {
            if let Some(turn) = record.turn.as_mut().filter(|turn| self.is(turn)) {
                turn.taken.retain(|id| *id != lease.message);
            }
            Ok(())
        });
        forgotten.await?;
        self.broker.store().put_back(lease).await
    }

    /// Remembers that the turn answered a message, if it is one of whom it wrote to.
    fn has_answered(&self, id: EnvelopeId, to: &Address) {
        let is_theirs = |delivery: &Delivery| {
            delivery.envelope.message_id == id
                && delivery.envelope.source_agent_id.agent_name() == to.agent_name()
        };
        if lock(&self.taken).iter().any(is_theirs) {
            lock(&self.answered).insert(id);
        }
    }

    /// Whether a message may come into this turn: it is of the turn's session, and no turn without a stored end began with it, as that one
    /// is reported as lost. A message that was given out and put back without a turn may.
    async fn may_have(&self, delivery: &Delivery) -> bool {
        let envelope = &delivery.envelope;
        if !self.is_of_session(envelope) {
            return false;
        }
        if delivery.deliveries == 1 {
            return true;
        }
        let record = self.broker.directory().find(&self.agent.name).await;
        matches!(record, Ok(Some(record)) if !record.has_begun(&envelope.message_id))
    }

    /// Whether one of these that wait may come into this turn.
    async fn may_have_any(&self, waiting: &[Envelope]) -> Result<bool, BrokerError> {
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

    /// Says that the turn waits for a message, until what is given is dropped. It is one turn however many of its calls wait.
    fn waits(&self) -> Arc<WaitingTurn> {
        let mut waiting = lock(&self.waiting);
        waiting.upgrade().unwrap_or_else(|| {
            let waits = Arc::new(self.broker.wait_in_turn());
            *waiting = Arc::downgrade(&waits);
            waits
        })
    }

    /// Renews the leases of the turn. Fails if that of its own message cannot be renewed; another one is given out again then, and
    /// its sender is told that it was lost.
    async fn renew(&self) -> Result<(), BrokerError> {
        let store = self.broker.store();
        let now = self.broker.options().clock.now();
        let mut further: Vec<_> = lock(&self.taken).iter().map(|delivery| delivery.lease.clone()).collect();
        further.extend(lock(&self.offered).clone());
        let renewed = store.extend(&self.lease, LEASE).await;
        for lease in further {
            let _ = store.extend(&lease, LEASE).await;
        }
        if renewed.is_ok() {
            *lock(&self.renewed_at) = now;
        }
        renewed
    }

    /// Whether the clock has stepped so far since the last renewal that the leases may have lapsed.
    fn is_renewal_late(&self) -> bool {
        let since = self.broker.options().clock.now().duration_since(*lock(&self.renewed_at));
        since.map_or(true, |since| since > LEASE / 2)
    }

    /// Renews the leases of a turn that is about to take a message, if they may have lapsed: it would take its own.
    async fn renew_before_taking(&self) -> Result<(), BrokerError> {
        if self.is_renewal_late() { self.renew().await } else { Ok(()) }
    }
}

/// Handles the messages of an agent until none is left, or until `drain` or `end` is cancelled; the latter ends the turn that runs.
pub(crate) async fn handle(
    broker: &Broker,
    name: &str,
    drain: &CancelToken,
    end: &CancelToken,
) -> Result<(), BrokerError> {
    let queue = queue_of(&Address::Agent(name.to_owned()));
    while !drain.is_cancelled() && !end.is_cancelled() {
        let record = broker.directory().find(name).await?;
        if record.is_some_and(|record| is_elsewhere(broker, &record) || !broker.has_machine_of(&record)) {
            broker.suspend(name, WHILE_ELSEWHERE);
            break;
        }
        let Some(delivery) = broker.store().take(&queue, MessagePriority::Low, LEASE).await? else { break };
        if !handle_message(broker, name, &queue, delivery, end).await? {
            break;
        }
    }
    Ok(())
}

/// Whether another broker runs a turn of the agent, or said so until a moment ago.
fn is_elsewhere(broker: &Broker, record: &AgentDocument) -> bool {
    let now = broker.options().clock.now();
    // Brokers of a machine that slept, or whose clock stepped, renew their leases first.
    let may_be_alive = |turn: &BegunTurn| turn.is_alive(now) || broker.has_clock_stepped();
    record.turn.as_ref().is_some_and(|turn| turn.broker != broker.id() && may_be_alive(turn))
}

/// Handles one message. False if the agent is suspended for now.
async fn handle_message(
    broker: &Broker,
    name: &str,
    queue: &str,
    delivery: Delivery,
    end: &CancelToken,
) -> Result<bool, BrokerError> {
    let Delivery { envelope, lease, deliveries, .. } = delivery;
    let Some(record) = broker.directory().find(name).await? else {
        let message = format!("there is no agent {name:?}");
        return finish(
            broker,
            name,
            &lease,
            &envelope,
            Some(prompt::problem(&envelope.message_id, "no_agent", &message)),
        )
        .await;
    };
    // Also where the agent was stopped since: its turn did something, and its record says that it runs.
    if deliveries > 1 && record.has_begun(&envelope.message_id) {
        return lost(broker, &record, &lease, &envelope).await;
    }
    if record.status == AgentStatus::Stopped {
        let message = format!("the agent {name:?} was stopped");
        return finish(
            broker,
            name,
            &lease,
            &envelope,
            Some(prompt::problem(&envelope.message_id, "agent_stopped", &message)),
        )
        .await;
    }
    if let Payload::StatusUpdate { status: ReportedStatus::Received | ReportedStatus::InProgress, .. } =
        &envelope.payload
    {
        // It is in the record of who reports, which `list_agents` shows. No turn is spent on it.
        return finish(broker, name, &lease, &envelope, None).await;
    }
    if !broker.count_turn(&envelope).await? {
        let problem = prompt::problem(
            &envelope.message_id,
            "too_many_turns",
            &broker.too_many_turns(&envelope.chain()),
        );
        tracing::warn!(agent = name, root = %envelope.chain().root, "a message begins no turn: as many as may came of one");
        return finish(broker, name, &lease, &envelope, Some(problem)).await;
    }
    let record = match begin(broker, name, &envelope).await {
        Ok(record) => record,
        // Another broker was first, or the agent was stopped meanwhile.
        Err(error) if error.kind == BrokerErrorKind::Conflict => {
            broker.store().put_back(&lease).await?;
            broker.suspend(name, WHILE_ELSEWHERE);
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let turn = Arc::new(AgentTurnContext {
        broker: broker.clone(),
        agent: record,
        queue: queue.to_owned(),
        session: SessionKey::of(name, &envelope.target_agent_id).address(),
        message: envelope.message_id.clone(),
        lease: lease.clone(),
        renewed_at: Mutex::new(broker.options().clock.now()),
        chain: envelope.chain(),
        taken: Mutex::default(),
        offered: Mutex::default(),
        waiting: Mutex::default(),
        answered: Mutex::default(),
    });
    let ended = run::run(&turn, &envelope, end).await;
    // What follows may take its time: git looks at every file.
    tokio::select! {
        done = after(&turn, &lease, &envelope, deliveries, ended) => done,
        () = keep_leases(&turn) => unreachable!("it goes on until it is dropped"),
    }
}

/// Renews the leases of a turn that has ended, while its end is stored.
async fn keep_leases(turn: &AgentTurnContext) {
    loop {
        tokio::time::sleep(LOOK_EVERY * LOOKS_PER_HEARTBEAT).await;
        // A failure shows when the message is finished.
        let _ = turn.renew().await;
        turn.beat().await;
    }
}

/// Stores that a turn begins.
async fn begin(broker: &Broker, name: &str, envelope: &Envelope) -> Result<AgentDocument, BrokerError> {
    let now = broker.options().clock.now();
    let refused = |message: String| Err(BrokerError::new(BrokerErrorKind::Conflict, message, ""));
    let began = broker.directory().update(name, |record| {
        if record.status == AgentStatus::Stopped {
            return refused(format!("the agent {name:?} was stopped"));
        }
        if is_elsewhere(broker, record) {
            return refused(format!("another broker runs a turn of {name:?}"));
        }
        if let Some(before) = record.turn.take() {
            before.messages().filter(|id| **id != envelope.message_id).for_each(|id| record.note_unended(id));
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
    began.await
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
