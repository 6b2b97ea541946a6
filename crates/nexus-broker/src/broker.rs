//! The broker: accepts messages, selects their queues, and starts the turns of agents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use nexus_conversations::Conversations;
use nexus_core::{Clock, Support, SystemClock};
use nexus_router::Router;
use tokio::sync::Notify;

use crate::{
    agent::{AgentDocument, AgentStatus, Directory},
    error::{BrokerError, BrokerErrorKind},
    memory::MemoryIndex,
    message::{Address, Chain, Envelope, EnvelopeId, MessagePriority, Payload},
    route::{Agents, ByAddress, Route, queue_of},
    session_key::SessionKey,
    store::{BrokerStore, PutOutcome},
    worker::{WorkerOrder, Workers},
};

/// Maximum time until a message expires. Source: our own bound; it keeps the expiry time within the range of all clocks.
const MAX_EXPIRY: Duration = Duration::from_secs(365 * 86_400);
/// Smallest difference that counts as a step of the clock. Source: our own bound; a busy machine delays a process by less.
const CLOCK_STEP: Duration = Duration::from_secs(20);
/// Time for which turns of other brokers count as alive after the clock stepped. Source: those brokers renew
/// their leases within a second.
const AFTER_CLOCK_STEP: Duration = Duration::from_secs(5);

/// Default maximum length of a chain of turns in which each turn began by a message of the one before.
pub(crate) const DEFAULT_MAX_HOPS: u32 = 200;
/// Default maximum number of turns that result from one message.
pub(crate) const DEFAULT_MAX_TURNS_PER_MESSAGE: u32 = 200;

/// Parts and limits of a broker.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Store of the messages.
    pub store: Arc<dyn BrokerStore>,
    /// Router that runs the turns.
    pub router: Router,
    /// Store of the conversations.
    pub conversations: Conversations,
    /// Full-text index of the sessions, which the tool `memory_query` searches. None by default.
    pub memory: Option<MemoryIndex>,
    /// Folder for the trees of workers. The broker creates it when it is needed.
    pub folder: PathBuf,
    /// Clock for all times of the broker.
    pub clock: Arc<dyn Clock>,
    /// Name of this machine, for a store that brokers of several machines share. This broker then runs the turns of agents
    /// that were configured here, and only it watches this machine's files for their triggers of type `file`. None by
    /// default.
    pub machine: Option<String>,
    /// Selects the queue of a message.
    pub route: Arc<dyn Route>,
    /// Maximum number of turns that run here at once. Four by default.
    pub max_turns_at_once: usize,
    /// Deadline of a turn. 30 minutes by default.
    pub turn_deadline: Duration,
    /// Maximum length of a chain of turns in which each turn began by a message of the one before. The broker rejects
    /// messages that the last of these turns sends. 0 lets no agent write to another agent, but answers are still sent. 200
    /// by default.
    pub max_hops: u32,
    /// Maximum number of turns that result from one first message, such as the message of a caller. It counts
    /// the turn of that message, and all turns that messages and answers of these turns begin, at any depth.
    /// 200 by default.
    pub max_turns_per_message: u32,
}

impl BrokerOptions {
    /// Creates the default options, with the system's clock.
    pub fn new(
        store: Arc<dyn BrokerStore>,
        router: Router,
        conversations: Conversations,
        folder: impl Into<PathBuf>,
    ) -> Self {
        Self {
            store,
            router,
            conversations,
            memory: None,
            folder: folder.into(),
            clock: Arc::new(SystemClock),
            machine: None,
            route: Arc::new(ByAddress),
            max_turns_at_once: 4,
            turn_deadline: Duration::from_secs(30 * 60),
            max_hops: DEFAULT_MAX_HOPS,
            max_turns_per_message: DEFAULT_MAX_TURNS_PER_MESSAGE,
        }
    }
}

/// Delivers messages between agents, and runs their turns. Clones share one broker. Several brokers may share a store.
#[derive(Clone)]
pub struct Broker {
    parts: Arc<Parts>,
}

struct Parts {
    options: BrokerOptions,
    directory: Directory,
    workers: Workers,
    /// Identifies this broker among the brokers of the store.
    id: String,
    /// Notified when this process puts a message.
    woken: Notify,
    here: Mutex<LocalWork>,
    /// Number of turns that wait for messages.
    waiting: AtomicUsize,
}

/// Counts one turn as waiting for a message, until it is dropped.
pub(crate) struct WaitingTurn(Broker);

impl Drop for WaitingTurn {
    fn drop(&mut self) {
        self.0.parts.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Agents that this process works on or has suspended.
#[derive(Default)]
struct LocalWork {
    running: BTreeSet<String>,
    /// Agents whose messages this process does not take for a time, for example because no backend could run a turn.
    suspended: BTreeMap<String, Suspension>,
    clock: Option<ClockWatch>,
}

/// A time during which this process takes no message of an agent. It ends by the clock or by the measured time, at the
/// earlier of the two: a clock that steps back does not extend it.
struct Suspension {
    until: SystemTime,
    latest: Instant,
}

/// Detects steps of the clock: compares the time that passed by the clock with the time that this process measured. The
/// clock of a machine that sleeps steps, too.
struct ClockWatch {
    looked: (SystemTime, Instant),
    stepped: Option<Instant>,
}

impl ClockWatch {
    fn look(&mut self, wall: SystemTime, now: Instant) {
        let expected = self.looked.0 + now.saturating_duration_since(self.looked.1);
        // The error means that the clock stepped back. A step in either direction counts.
        let step = wall.duration_since(expected).unwrap_or_else(|error| error.duration());
        if step > CLOCK_STEP {
            self.stepped = Some(now);
        }
        self.looked = (wall, now);
    }
}

/// Options for sending a message.
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
pub struct SendOptions {
    /// Priority among the waiting messages.
    pub priority: MessagePriority,
    /// Time after which the message expires.
    pub expires_in: Option<Duration>,
    /// Id of the message. A sender that repeats a message passes the same id. A new id by default.
    pub message_id: Option<EnvelopeId>,
    /// Chain position of the message whose turn sends this one. None for a caller.
    turn: Option<Chain>,
    /// Message that this one answers, if the payload does not name it.
    answered: Option<EnvelopeId>,
}

impl SendOptions {
    /// Sets the priority of the message.
    #[must_use]
    pub fn with_priority(mut self, priority: MessagePriority) -> Self {
        self.priority = priority;
        self
    }

    /// Marks the message as sent by a turn whose own message is at this position of the chain.
    #[must_use]
    pub(crate) fn after(mut self, turn: &Chain) -> Self {
        self.turn = Some(turn.clone());
        self
    }

    /// Marks the message as an answer, such as a question that asks back.
    #[must_use]
    pub(crate) fn answering(mut self, message: Option<EnvelopeId>) -> Self {
        self.answered = message;
        self
    }
}

/// Result of sending a message.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Id of the message.
    pub message_id: EnvelopeId,
    /// `Stored` for a new message. A message with an id that the store already has changes nothing.
    pub outcome: PutOutcome,
    /// Time at which the target is expected to get the message.
    pub reach: Reach,
}

/// Expected time of delivery of a message, as far as it is known when the message is sent.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The agent is idle: a turn begins with the message when the message is first in its queue.
    Now,
    /// The agent is in a turn, and its backend takes input. The agent gets the message between two tool calls, or with its
    /// next turn.
    RunningTurn,
    /// The agent is in a turn. It gets the message with a later turn, or when it asks for messages.
    NextTurn,
    /// The message is for a caller, who fetches it from its inbox.
    Inbox,
}

impl Reach {
    /// Returns a description for the sender of the message.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => "it is handled next",
            Self::RunningTurn => {
                "the agent is in a turn: it receives the message between two tool calls or with its next turn"
            }
            Self::NextTurn => {
                "the agent is in a turn: it receives the message with its next turn, or when it waits for \
                messages"
            }
            Self::Inbox => "the caller must fetch it",
        }
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("id", &self.parts.id).finish_non_exhaustive()
    }
}

impl Broker {
    /// Creates a broker. Until it [runs](Self::run), it only sends messages.
    #[must_use]
    pub fn new(options: BrokerOptions) -> Self {
        let directory = Directory::new(Arc::clone(&options.store), Arc::clone(&options.clock));
        let workers = Workers::in_folder(&options.folder);
        let id = EnvelopeId::random().to_string();
        let parts = Parts {
            options,
            directory,
            workers,
            id,
            woken: Notify::new(),
            here: Mutex::default(),
            waiting: AtomicUsize::new(0),
        };
        Self { parts: Arc::new(parts) }
    }

    /// Adds an agent of this machine, or changes the configuration of an existing one and retains its work. For
    /// an agent of another machine, it changes nothing and returns that machine.
    ///
    /// Fails with [`Conflict`](BrokerErrorKind::Conflict) for the name of a worker, and with
    /// [`Invalid`](BrokerErrorKind::Invalid) for an unknown type.
    pub async fn configure(&self, record: &AgentDocument) -> Result<Option<String>, BrokerError> {
        Address::agent(&record.name)?;
        self.parts
            .options
            .router
            .binding(record.kind.as_str())
            .map_err(|error| BrokerError::invalid(format!("agent {:?}: {error}", record.name), ""))?;
        match self.directory().find(&record.name).await? {
            Some(there) if !self.has_machine_of(&there) => return Ok(there.machine),
            Some(_) => {}
            None => {
                let mut record = record.clone();
                record.machine.clone_from(&self.options().machine);
                // Another broker may add the agent at this moment. Then update its record below.
                match self.directory().add(&record).await {
                    Err(error) if error.kind == BrokerErrorKind::Conflict => {}
                    added => return added.map(|()| None),
                }
            }
        }
        let mut elsewhere = None;
        let changed = self.directory().update(&record.name, |there| {
            // Another machine may have added the agent since `get`.
            if !self.has_machine_of(there) {
                elsewhere.clone_from(&there.machine);
                return Ok(());
            }
            if there.manager.is_some() {
                let message = format!(
                    "{:?} is a worker of {}",
                    there.name,
                    there.manager.as_deref().unwrap_or_default()
                );
                return Err(BrokerError::new(
                    BrokerErrorKind::Conflict,
                    message,
                    "take another name for the agent, or remove the worker by `nexus broker clean`",
                ));
            }
            there.kind.clone_from(&record.kind);
            there.instructions.clone_from(&record.instructions);
            there.folder.clone_from(&record.folder);
            there.access = record.access;
            there.scope.clone_from(&record.scope);
            Ok(())
        });
        changed.await?;
        Ok(elsewhere)
    }

    /// Moves an agent to this machine, which runs its turns from now on. Its sessions stay on the other
    /// machine: new ones begin here.
    ///
    /// This broker reports a turn of a killed broker there as lost. Workers of the agent stay there.
    ///
    /// Fails with [`Conflict`](BrokerErrorKind::Conflict) while a turn of the agent runs, or ran until a minute
    /// ago. It also fails so for a worker, whose files are on the other machine. Fails with
    /// [`Unknown`](BrokerErrorKind::Unknown) for an unknown agent.
    pub async fn move_here(&self, name: &str) -> Result<(), BrokerError> {
        let conflict = |message: String, instead: &str| {
            Err(BrokerError::new(BrokerErrorKind::Conflict, message, instead))
        };
        let moved = self.directory().update(name, |record| {
            if self.has_machine_of(record) {
                return Ok(());
            }
            if record.manager.is_some() {
                return conflict(format!("{name} is a worker whose files still exist"), "start another one");
            }
            if self.directory().is_at_work(record) {
                return conflict(
                    format!("a turn of {name} runs"),
                    "wait until it ends, or stop it there; after its broker was killed, it counts as running \
                    for a minute",
                );
            }
            record.machine.clone_from(&self.options().machine);
            Ok(())
        });
        moved.await.map(drop)
    }

    /// Returns true if the agent's folder and sessions are on this machine, as far as that is known.
    pub(crate) fn has_machine_of(&self, record: &AgentDocument) -> bool {
        let (there, here) = (record.machine.as_deref(), self.options().machine.as_deref());
        there.is_none() || here.is_none() || there == here
    }

    /// Returns every agent.
    pub async fn agents(&self) -> Result<Vec<AgentDocument>, BrokerError> {
        self.directory().all().await
    }

    /// Returns the store of the messages.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn BrokerStore> {
        &self.parts.options.store
    }

    /// Sends a message that the broker creates for `from`.
    ///
    /// Fails with [`NotAllowed`](BrokerErrorKind::NotAllowed) if the scope of the sender does not allow it, and
    /// with [`Unknown`](BrokerErrorKind::Unknown) for an unknown target. An answer also fails with `Unknown` if the store does not
    /// have the answered message, and with [`Invalid`](BrokerErrorKind::Invalid) if that message was sent between other
    /// addresses. Otherwise fails like [`BrokerStore::put`].
    pub async fn send(
        &self,
        from: &Address,
        to: &Address,
        payload: Payload,
        options: SendOptions,
    ) -> Result<Sent, BrokerError> {
        if options.expires_in.is_some_and(|time| time > MAX_EXPIRY) {
            let days = MAX_EXPIRY.as_secs() / 86_400;
            let message = format!("a message waits for at most {days} days");
            return Err(BrokerError::new(BrokerErrorKind::Invalid, message, "name a shorter time, or none"));
        }
        let clock = &*self.parts.options.clock;
        let mut envelope = Envelope::new(from.clone(), to.clone(), payload, clock);
        envelope.priority = options.priority;
        envelope.expires_at = options.expires_in.and_then(|time| envelope.timestamp.checked_add(time));
        if let Some(turn) = &options.turn {
            envelope.follow(turn);
        }
        if let Some(id) = options.message_id {
            envelope.message_id = id;
        }
        self.submit_answering(from, envelope, options.answered.as_ref()).await
    }

    /// Checks that the message `id` was sent between `sender` and `target`, so that a message to `target` may answer it. So
    /// no agent can pass its message off as the answer of another one.
    ///
    /// Fails with [`Unknown`](BrokerErrorKind::Unknown) if the store does not have the message, or has forgotten it. Fails
    /// with [`Invalid`](BrokerErrorKind::Invalid) if it was sent between others.
    async fn check_reply(
        &self,
        id: &EnvelopeId,
        sender: &Address,
        target: &Address,
    ) -> Result<(), BrokerError> {
        let Some(answered) = self.store().message(id).await? else {
            return Err(BrokerError::new(
                BrokerErrorKind::Unknown,
                format!("there is no message {id}, or it is forgotten"),
                "take the id of a message that you received, or leave out the message that this one answers",
            ));
        };
        let (from, to) = (&answered.source_agent_id, &answered.target_agent_id);
        let is_answer = is_side(from, target) && is_side(to, sender);
        let continues_own = is_side(from, sender) && is_side(to, target);
        match is_answer || continues_own {
            true => Ok(()),
            false => Err(BrokerError::invalid(
                format!(
                    "the message {id} went from {from} to {to}, and this one goes from {sender} to {target}"
                ),
                "write to the sender of the message, or leave out the message that this one answers",
            )),
        }
    }

    /// Sends a message that `sender` created. Fails with [`NotAllowed`](BrokerErrorKind::NotAllowed) if the
    /// message names another sender, and otherwise like [`send`](Self::send).
    pub async fn submit(&self, sender: &Address, envelope: Envelope) -> Result<Sent, BrokerError> {
        self.submit_answering(sender, envelope, None).await
    }

    async fn submit_answering(
        &self,
        sender: &Address,
        envelope: Envelope,
        answered: Option<&EnvelopeId>,
    ) -> Result<Sent, BrokerError> {
        if envelope.source_agent_id != *sender {
            return Err(BrokerError::new(
                BrokerErrorKind::NotAllowed,
                format!(
                    "the message names {} as its sender, but {sender} sends it",
                    envelope.source_agent_id
                ),
                "leave the sender of the message out",
            ));
        }
        if envelope.hops > self.options().max_hops {
            return Err(BrokerError::new(
                BrokerErrorKind::NotAllowed,
                format!(
                    "a chain of {} turns have started each other by messages, which is the limit",
                    envelope.hops
                ),
                "end your turn with your present result: a person must start new work; `max_hops` in nexus.yaml sets the limit",
            ));
        }
        let agents = Agents(self.directory().clone());
        let target = self.parts.options.route.route(&envelope, &agents).await?;
        self.check_scope(sender, &target).await?;
        if let Some(id) = answered.or(envelope.payload.in_reply_to()) {
            self.check_reply(id, sender, &target).await?;
        }
        let reach = match target.agent_name() {
            None => Reach::Inbox,
            Some(name) => {
                let record = self.directory().get(name).await?;
                if record.status == AgentStatus::Stopped {
                    return Err(BrokerError::new(
                        BrokerErrorKind::NotAllowed,
                        format!("the agent {name:?} was stopped"),
                        "write to another one",
                    ));
                }
                let is_urgent = envelope.priority == MessagePriority::Urgent;
                match record.turn {
                    None => Reach::Now,
                    Some(_) if is_urgent && self.takes_input(&record.kind) => Reach::RunningTurn,
                    Some(_) => Reach::NextTurn,
                }
            }
        };
        // Messages to callers start no turn.
        if target.agent_name().is_some() && !self.may_begin_turn(&envelope).await? {
            return Err(BrokerError::new(
                BrokerErrorKind::NotAllowed,
                self.too_many_turns(&envelope.chain()),
                "end your turn with your present result: a person must start new work; `max_turns_per_message` in nexus.yaml sets the limit",
            ));
        }
        let outcome = self.store().put(&queue_of(&target), &envelope).await?;
        // A trigger fires once for an occurrence, with any data: its messages are not compared.
        if outcome == PutOutcome::AlreadyThere && !matches!(envelope.payload, Payload::Trigger { .. }) {
            self.check_is_same(&envelope).await?;
        }
        // `notify_one` stores a permit, so a wake is not lost while the scheduler loop is busy.
        self.parts.woken.notify_one();
        Ok(Sent { message_id: envelope.message_id, outcome, reach })
    }

    /// Fails with [`Conflict`](BrokerErrorKind::Conflict) if another message of this id was sent before.
    async fn check_is_same(&self, envelope: &Envelope) -> Result<(), BrokerError> {
        let id = &envelope.message_id;
        // The stored message is unreadable or forgotten, so it cannot be compared.
        let Ok(Some(sent)) = self.store().message(id).await else { return Ok(()) };
        let to = |envelope: &Envelope| envelope.target_agent_id.clone();
        // Two messages with the same text are the same, even if they answer different messages.
        let says = |envelope: &Envelope| match envelope.payload.clone() {
            Payload::Message { content, other, .. } => Payload::Message { content, in_reply_to: None, other },
            payload => payload,
        };
        let what = match (says(&sent) == says(envelope), to(&sent) == to(envelope)) {
            _ if sent.source_agent_id != envelope.source_agent_id => format!("by {}", sent.source_agent_id),
            (_, false) => format!("to {}", to(&sent)),
            (false, true) => "with another text".to_owned(),
            (true, true) => return Ok(()),
        };
        Err(BrokerError::new(
            BrokerErrorKind::Conflict,
            format!("a message with the id {id} was already sent, {what}: this one was not sent"),
            "give each message a unique id",
        ))
    }

    /// Checks that `sender` may write to the current target of the address. Fails as [`send`](Self::send)
    /// would.
    pub(crate) async fn may_send(&self, sender: &Address, to: &Address) -> Result<(), BrokerError> {
        let payload =
            Payload::Message { content: String::new(), in_reply_to: None, other: serde_json::Map::new() };
        let envelope = Envelope::new(sender.clone(), to.clone(), payload, &*self.parts.options.clock);
        let target = self.parts.options.route.route(&envelope, &Agents(self.directory().clone())).await?;
        self.check_scope(sender, &target).await
    }

    /// Returns true if the first backend of agents of this type takes input while a turn runs.
    pub(crate) fn takes_input(&self, kind: &str) -> bool {
        let router = &self.parts.options.router;
        router.binding(kind).is_ok_and(|binding| {
            let backends = router.backends();
            let first = binding.chain.first().and_then(|id| backends.get(id));
            first.is_some_and(|backend| backend.capabilities().steering == Support::Yes)
        })
    }

    /// Checks that `sender` may write to `target`.
    async fn check_scope(&self, sender: &Address, target: &Address) -> Result<(), BrokerError> {
        // A caller is a program of the user. The scope of an agent does not restrict it.
        let Some(sender) = sender.agent_name() else { return Ok(()) };
        let record = self.directory().get(sender).await?;
        let is_allowed = match target.agent_name() {
            // Only the agent's scope allows new messages to callers. Replies are sent by the broker itself.
            None => record.scope.allows(&target.to_string()),
            Some(name) if name == sender || record.manager.as_deref() == Some(name) => true,
            Some(name) if record.scope.allows(name) => true,
            Some(name) => {
                let target = self.directory().get(name).await?;
                target.manager.as_deref() == Some(sender)
            }
        };
        if is_allowed {
            return Ok(());
        }
        Err(BrokerError::new(
            BrokerErrorKind::NotAllowed,
            format!("{sender} may not write to {target}"),
            "write to your manager, to your workers, or to an agent that list_agents marks with you_may_write",
        ))
    }

    /// Takes the waiting messages of a caller, oldest first, each once. After a failure it returns the messages
    /// taken so far; the next call returns the failure.
    pub async fn inbox(&self, caller: &str, at_most: usize) -> Result<Vec<Envelope>, BrokerError> {
        let queue = queue_of(&Address::Caller(caller.to_owned()));
        let mut found = Vec::new();
        while found.len() < at_most {
            let lease = Duration::from_secs(30);
            let taken = self.store().take(&queue, MessagePriority::Low, lease).await;
            let delivery = match taken {
                Ok(Some(delivery)) => delivery,
                Ok(None) => break,
                // Finished messages exist only here, so an error now would lose them.
                Err(_) if !found.is_empty() => break,
                Err(error) => return Err(error),
            };
            // Finish each message at once: it leaves the store before the caller receives it, so no call returns it
            // twice.
            match self.store().finish(&delivery.lease, &[]).await {
                Ok(()) => found.push(delivery.envelope),
                Err(_) if !found.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Stops an agent and its workers, at any depth: the broker cancels their turns and gives them no further messages.
    /// Their files and records stay.
    pub async fn stop(&self, name: &str) -> Result<(), BrokerError> {
        // Stop the agent before its workers, so that it cannot start another one meanwhile.
        self.directory().set_status(name, AgentStatus::Stopped).await?;
        for worker in self.parts.workers.all_below(self.directory(), name).await? {
            self.directory().set_status(&worker, AgentStatus::Stopped).await?;
        }
        Ok(())
    }

    /// Starts a stopped agent: it takes messages again.
    pub async fn start(&self, name: &str) -> Result<(), BrokerError> {
        let started = self.directory().update(name, |record| {
            if record.status == AgentStatus::Stopped {
                record.status = AgentStatus::Started;
            }
            Ok(())
        });
        started.await?;
        self.wake();
        Ok(())
    }

    /// Moves the branch that a worker's tree began with to the worker's newest commit, if possible. Returns a description of
    /// the result.
    pub async fn land(&self, name: &str) -> Result<String, BrokerError> {
        self.parts.workers.land(self.directory(), name).await
    }

    /// Removes an ended worker and its tree; the refs of its commits stay. Fails with
    /// [`Conflict`](BrokerErrorKind::Conflict) if the worker has not ended, or if its work is not landed and `even_unlanded`
    /// is false.
    pub async fn clean(&self, name: &str, even_unlanded: bool) -> Result<String, BrokerError> {
        self.parts.workers.clean(self.directory(), name, even_unlanded).await
    }

    /// Returns true and marks the agent as entered if this process may start work for it: the process handles none of the
    /// agent's messages, and the agent is not suspended.
    pub(crate) fn enter(&self, name: &str) -> bool {
        let now = self.parts.options.clock.now();
        let mut here = self.here();
        let is_suspended =
            |suspension: &Suspension| suspension.until > now && suspension.latest > Instant::now();
        if here.suspended.get(name).is_some_and(is_suspended) {
            return false;
        }
        here.suspended.remove(name);
        // Check and insert under one lock, so that two tasks of this process never work on one agent.
        here.running.insert(name.to_owned())
    }

    /// Suspends an agent: this process takes none of its messages for a time.
    pub(crate) fn suspend(&self, name: &str, time: Duration) {
        let suspension =
            Suspension { until: self.parts.options.clock.now() + time, latest: Instant::now() + time };
        self.here().suspended.insert(name.to_owned(), suspension);
    }

    /// Checks whether the clock stepped since the last call.
    pub(crate) fn watch_clock(&self) {
        let (wall, now) = (self.parts.options.clock.now(), Instant::now());
        self.here().clock.get_or_insert(ClockWatch { looked: (wall, now), stepped: None }).look(wall, now);
    }

    /// Returns true if [`watch_clock`](Self::watch_clock) found a step of the clock recently.
    pub(crate) fn has_clock_stepped(&self) -> bool {
        self.watch_clock();
        let stepped = self.here().clock.as_ref().and_then(|clock| clock.stepped);
        stepped.is_some_and(|stepped| stepped.elapsed() < AFTER_CLOCK_STEP)
    }

    /// Ends the work of this process on an agent.
    pub(crate) fn leave(&self, name: &str) {
        self.here().running.remove(name);
    }

    /// Counts a turn that waits for a message, until it is dropped.
    pub(crate) fn wait_in_turn(&self) -> WaitingTurn {
        // Count before the wake: the scheduler loop may fill the slot of this turn now.
        self.parts.waiting.fetch_add(1, Ordering::SeqCst);
        self.wake();
        WaitingTurn(self.clone())
    }

    /// Returns the number of turns that wait for messages.
    pub(crate) fn waiting_turns(&self) -> usize {
        self.parts.waiting.load(Ordering::SeqCst)
    }

    /// Waits until this process has put a message.
    pub(crate) async fn woken(&self) {
        self.parts.woken.notified().await;
    }

    fn here(&self) -> MutexGuard<'_, LocalWork> {
        self.parts.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a worker of `manager`, with its task in its queue.
    pub(crate) async fn start_worker(
        &self,
        manager: &str,
        order: WorkerOrder,
        turn: &Chain,
    ) -> Result<AgentDocument, BrokerError> {
        let options = self.options();
        let (conversations, name) = (options.conversations.clone(), order.name.clone());
        let has_spoken = tokio::task::spawn_blocking(move || {
            conversations.list().map(|list| {
                let keys =
                    list.conversations.iter().filter_map(|found| SessionKey::of_conversation(&found.name));
                keys.into_iter().any(|key| key.agent() == name)
            })
        });
        // A new worker would resume the conversation of the earlier worker of this name.
        if matches!(has_spoken.await, Ok(Ok(true))) {
            return Err(BrokerError::new(
                BrokerErrorKind::Conflict,
                format!("an earlier agent had the name {:?}, and its sessions are still stored", order.name),
                "take another name",
            ));
        }
        let record =
            self.parts.workers.start(self.directory(), manager, &order, &self.parts.options.router).await?;
        let from = Address::agent(manager)?;
        let payload = Payload::TaskAssignment {
            task_id: record.task_id.clone().unwrap_or_else(|| record.name.clone()),
            definition: order.task,
            inputs: order.inputs,
            working_directory: record.folder.clone(),
            required_tools: order.required_tools,
            other: serde_json::Map::new(),
        };
        let options = SendOptions::default().after(turn);
        let sent = self.send(&from, &Address::agent(&record.name)?, payload, options).await;
        if let Err(error) = sent {
            // A worker without its task would block the name for the next attempt, so stop it.
            self.stop(&record.name).await?;
            self.clean(&record.name, true).await?;
            return Err(error);
        }
        Ok(record)
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.parts.directory
    }

    pub(crate) fn workers(&self) -> &Workers {
        &self.parts.workers
    }

    /// Returns the options of this broker.
    #[must_use]
    pub fn options(&self) -> &BrokerOptions {
        &self.parts.options
    }

    pub(crate) fn id(&self) -> &str {
        &self.parts.id
    }

    pub(crate) fn wake(&self) {
        self.parts.woken.notify_one();
    }
}

/// Returns true if a stored address, of a sender or recipient, can mean this participant.
fn is_side(stored: &Address, participant: &Address) -> bool {
    match (stored, participant) {
        // The worker that this address names may have been removed. Its manager is then unknown, so every agent may be
        // meant.
        (Address::ManagerOf(_), _) => participant.agent_name().is_some(),
        // Callers are programs of one user, and one may answer for another.
        (Address::Caller(_), Address::Caller(_)) => true,
        _ => stored.agent_name().is_some() && stored.agent_name() == participant.agent_name(),
    }
}
