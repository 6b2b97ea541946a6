//! The worker's side: takes turns out of the queues of a pool, and runs them.

mod calls;
mod context;
mod job;
mod measured;
mod open_calls;
mod outgoing;
mod policy;
mod queue;
mod stored;
mod trace;
mod travelling_files;
mod turn;
mod window;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_nats::jetstream::{self, AckKind};
use futures::StreamExt as _;
use nexus_core::{Availability, BackendId, CancelToken, CredentialSource, TraceContext};
use nexus_nats::{KeyLease, LEASE_TIME, RENEW_EVERY, Tenure};
use nexus_router::Router;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};

use self::{
    context::WorkerContext,
    job::{TakenTurn, TurnSlot},
    measured::{Figures, MeasuredSlots},
    policy::Policy,
    queue::{TurnQueues, give_back},
    trace::Trace,
};
use crate::{
    error::FleetError,
    link::Link,
    login::TokenProvider,
    protocol::{
        CallerMessage, INLINE_BYTES, PROTOCOL_VERSION, QueuedTurn, WORKERS_BUCKET, WireForget, WorkerCard,
        WorkerCommand, control_subject, login_subject, token_fault, worker_key,
    },
    settings::FleetSettings,
};

/// Default number of concurrent turns.
const TURNS: usize = 4;
/// Pause between two updates of the worker's card.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// Pause between two probes of the backends.
const PROBE_EVERY: Duration = Duration::from_secs(60);
/// Maximum size of a caller's message, in bytes: the largest inline document, and the fields around it.
const MAX_MESSAGE_BYTES: usize = INLINE_BYTES + (16 << 10);
/// Maximum number of a caller's commands that wait for one turn. Further commands are dropped, and the caller repeats them.
const MAX_COMMANDS: usize = 64;
/// Maximum number of conversations that are forgotten at once.
const MAX_FORGETS: usize = 16;
/// Maximum number of ended turns that wait for their callers' confirmation, in addition to the running ones.
const MAX_LINGERING: usize = 256;

/// Runs the turns of a pool on this machine.
///
/// Every turn goes through the router, like a local turn: with its holds, and with its bound on a backend's
/// concurrent turns. The settings `worker` of the section `fleet` limit what a request may ask for.
pub struct Worker {
    context: WorkerContext,
    instance: String,
    slots: usize,
    wanted: Option<Vec<String>>,
    running: Arc<RunningTurns>,
    /// Lends the logins that this worker owns, if it owns any.
    provider: Option<TokenProvider>,
}

/// A turn of this worker, until its caller has confirmed its end.
struct ListedTurn {
    /// Known to its caller alone.
    key: String,
    commands: mpsc::Sender<WorkerCommand>,
    /// False once the turn has ended and another one may have its slot.
    has_slot: Arc<AtomicBool>,
}

/// Turns of this worker.
#[derive(Default)]
struct RunningTurns {
    turns: Mutex<HashMap<String, ListedTurn>>,
    /// The backends that are offered just now.
    offered: Mutex<BTreeSet<String>>,
    /// Mean duration of the last turns, in milliseconds. Each new turn has a weight of an eighth.
    mean_turn: AtomicU64,
}

impl RunningTurns {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, ListedTurn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a command to its turn, if the turn's queue of commands has room.
    fn hand_over(&self, turn: &str, key: &str, command: WorkerCommand) {
        if let Some(listed) = self.lock().get(turn)
            // The key is a random secret of the turn, so a program that knows only its id cannot control it.
            && listed.key == key
        {
            // Never wait here: one busy turn must not delay the commands of the others.
            let _ = listed.commands.try_send(command);
        }
    }

    /// Returns the turns that have a slot, in order.
    fn with_slots(&self) -> Vec<String> {
        let turns = self.lock();
        let running = turns.iter().filter(|(_, turn)| turn.has_slot.load(Ordering::Relaxed));
        let mut running: Vec<_> = running.map(|(id, _)| id.clone()).collect();
        running.sort_unstable();
        running
    }

    fn offer(&self, backends: &BTreeMap<String, Option<String>>) {
        *self.offered.lock().unwrap_or_else(PoisonError::into_inner) = backends.keys().cloned().collect();
    }

    fn is_offered(&self, backend: &str) -> bool {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).contains(backend)
    }

    fn took(&self, time: Duration) {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let before = self.mean_turn.load(Ordering::Relaxed);
        // A racing update may be lost, which a mean tolerates.
        let mean = if before == 0 { time } else { before - before / 8 + time / 8 };
        self.mean_turn.store(mean.max(1), Ordering::Relaxed);
    }
}

impl Worker {
    /// Connects a worker of `pool` that runs turns on the backends of `router`. Relative paths in the settings are relative
    /// to the current folder.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: the servers could not be used; the name of the pool or of the worker cannot be part of a subject; or
    /// this
    /// worker owns a login and its key differs from the settings.
    pub async fn connect(settings: FleetSettings, pool: &str, router: Router) -> Result<Self, FleetError> {
        let name = settings.worker.name.clone().unwrap_or_else(machine_name);
        for (what, text) in [("the pool", pool), ("the worker", name.as_str())] {
            if let Some(fault) = token_fault(text) {
                return Err(FleetError::Unreadable {
                    what: format!("the name of {what}"),
                    reason: fault.to_owned(),
                });
            }
        }
        let provider = TokenProvider::of(&settings, pool, &name)?;
        let policy = Arc::new(Policy::of(&settings.worker));
        let (slots, wanted) = (settings.worker.turns.unwrap_or(TURNS), settings.worker.backends.clone());
        let link = Link::connect(Arc::new(settings)).await?;
        let context = WorkerContext {
            link,
            pool: pool.into(),
            name: name.into(),
            router,
            policy,
            lingering: Arc::new(Semaphore::new(MAX_LINGERING)),
            trace: Trace::default(),
        };
        Ok(Self {
            context,
            instance: uuid::Uuid::new_v4().simple().to_string(),
            slots,
            wanted,
            running: Arc::default(),
            provider,
        })
    }

    /// Returns the logins that this worker owns by the section's `login_owner`, each with the number of its borrowers.
    pub fn owned_logins(&self) -> BTreeMap<String, usize> {
        let owned = self.provider.iter().flat_map(TokenProvider::logins);
        owned.map(|(login, machines)| (login.to_owned(), machines)).collect()
    }

    /// Sets the source of a login of [`owned_logins`](Self::owned_logins). While this worker runs, it lends access tokens of
    /// the login to the machines that the section lists, sealed to their keys.
    #[must_use]
    pub fn with_login(mut self, login: &str, source: Arc<dyn CredentialSource>) -> Self {
        if let Some(provider) = &mut self.provider {
            provider.add(login, source);
        }
        self
    }

    /// Joins the spans of the turns to those of their callers. `adopt` makes a span a child of the remote span
    /// in a caller's W3C `traceparent`; `context` returns a span's context for the programs of a turn. Without
    /// it, programs get their callers' spans.
    #[must_use]
    pub fn with_trace(
        mut self,
        context: TraceContext,
        adopt: impl Fn(&tracing::Span, &str) + Send + Sync + 'static,
    ) -> Self {
        self.context.trace = Trace::new(context, adopt);
        self
    }

    /// Returns the worker's name in its pool.
    pub fn name(&self) -> &str {
        &self.context.name
    }

    /// Takes turns until `drain` is cancelled. Then it takes no further turn, and returns when the running ones have ended.
    /// Dropping the future ends the running turns at once without a message: their callers notice the silence.
    ///
    /// Calls `on_ready` once, when it begins to take turns, with the offered backends and the reasons for the others.
    ///
    /// # Errors
    ///
    /// [`FleetError::NothingToOffer`], [`FleetError::NameTaken`], [`NatsError::NotSetUp`](nexus_nats::NatsError::NotSetUp),
    /// [`FleetError::LoginOwner`], and others that prevent the start. Later errors are retried.
    pub async fn run(mut self, drain: CancelToken, on_ready: impl FnOnce(&Offer)) -> Result<(), FleetError> {
        let provider = self.provider.take().map(Arc::new);
        if let Some(provider) = &provider {
            // Check the logins before anything is registered, so that a faulty worker never appears in the pool.
            provider.check()?;
        }
        let offer = self.offer().await;
        if offer.backends.is_empty() {
            let reasons: Vec<_> =
                offer.missing.iter().map(|(backend, why)| format!("{backend}: {why}")).collect();
            let reason =
                if reasons.is_empty() { "the configuration has none".to_owned() } else { reasons.join("; ") };
            return Err(FleetError::NothingToOffer { reason });
        }
        let mut queue = TurnQueues::open(&self.context.link, &self.context.pool, &self.context.name).await?;
        // Subscribe before the entry exists: callers may send messages as soon as they see it.
        let control =
            self.context.link.subscribe(control_subject(&self.context.pool, &self.context.name)).await?;
        self.running.offer(&offer.backends);
        let mut background = JoinSet::new();
        // Serve tokens before the name is taken: taking the name of a killed worker takes a while, and borrowers need tokens
        // meanwhile.
        if let Some(provider) = provider {
            let subject = login_subject(&self.context.pool, &self.context.name);
            let requests = self.context.link.subscribe(subject).await?;
            background.spawn(provider.serve(requests, self.context.link.clone()));
        }
        let (lease, tenure) = self.register(&offer).await?;
        travelling_files::sweep(&self.context.link).await;
        background.spawn(Self::listen(control, Arc::clone(&self.running), self.context.clone()));
        let entry =
            PoolEntry { worker: self.card_maker(), lease, tenure: tenure.clone(), drain: drain.clone() };
        let ended = CancelToken::new();
        let (is_lost, mut lost) = tokio::sync::oneshot::channel();
        let keeping = entry.keep(offer.backends.clone(), ended.clone());
        background.spawn(async move {
            keeping.await;
            let _ = is_lost.send(());
        });
        on_ready(&offer);
        let mut turns = JoinSet::new();
        let slots = Arc::new(Semaphore::new(self.slots));
        let measured = MeasuredSlots::new(&self.context.pool, self.slots);
        let name_taken = || FleetError::NameTaken {
            name: self.context.name.to_string(),
            pool: self.context.pool.to_string(),
        };
        let failure = loop {
            // Acquire a slot before a message: without a slot the message would wait here, although another worker may
            // be free.
            let slot = tokio::select! {
                biased;
                () = drain.cancelled() => break None,
                _ = &mut lost => break Some(name_taken()),
                Some(_) = turns.join_next(), if !turns.is_empty() => continue,
                slot = Arc::clone(&slots).acquire_owned() => slot,
            };
            let Ok(slot) = slot else { break None };
            let next = async {
                tenure.active().await;
                queue.next().await
            };
            let message = tokio::select! {
                // `biased`: a worker that drains or has lost its name takes no further message.
                biased;
                () = drain.cancelled() => break None,
                _ = &mut lost => break Some(name_taken()),
                message = next => message,
            };
            // The claim on the name may have expired while this waited for a message.
            if tenure.is_active() {
                self.begin(message, slot, &tenure, &drain, &mut turns).await;
            } else {
                tracing::warn!(
                    "the worker's entry was not renewed: the worker takes no turn until the entry \
                    is renewed"
                );
                give_back(&message).await;
            }
        };
        drop(measured);
        // Return unread messages first, so that other workers can take them while the last turns end here.
        queue.close().await;
        while turns.join_next().await.is_some() {}
        ended.cancel();
        // Wait until `keep` has released the entry, so that the name is free when this returns.
        if failure.is_none() {
            let _ = lost.await;
        }
        background.shutdown().await;
        failure.map_or(Ok(()), Err)
    }

    /// Begins a turn from the queue.
    async fn begin(
        &self,
        message: jetstream::Message,
        slot: tokio::sync::OwnedSemaphorePermit,
        tenure: &Tenure,
        drain: &CancelToken,
        turns: &mut JoinSet<()>,
    ) {
        let taken_at = Instant::now();
        let slot = TurnSlot::new(slot);
        // The servers check the subject against the sender's permissions. The payload could name any caller.
        let caller = message.subject.rsplit('.').next().unwrap_or_default().to_owned();
        let queued = match QueuedTurn::read(&message.payload) {
            Ok(queued) => queued,
            Err(error) => {
                measured::taken(&self.context.pool, &message, None);
                measured::declined(&self.context.pool, "unreadable");
                // Remove the message from the queue, or it would be delivered again for ever.
                tracing::warn!(%error, caller, "a message in the queue is not a turn");
                // Ignore an error: the next worker rejects the message as well.
                let _ = message.ack_with(AckKind::Term).await;
                return;
            }
        };
        measured::taken(&self.context.pool, &message, queued.fault.is_none().then_some(queued.sent_at));
        // These texts become parts of subjects, in which characters such as `.` and `*` have a meaning.
        if [&queued.turn, &queued.instance, &queued.key].into_iter().any(|token| token_fault(token).is_some())
        {
            measured::declined(&self.context.pool, "unreadable");
            tracing::warn!(caller, "a message in the queue names no turn");
            let _ = message.ack_with(AckKind::Term).await;
            return;
        }
        let (sender, commands) = mpsc::channel(MAX_COMMANDS);
        let turn = queued.turn.clone();
        {
            let mut running = self.running.lock();
            // The message was delivered twice and its turn runs here. The started key would reject it, too.
            if running.contains_key(&turn) {
                measured::declined(&self.context.pool, "runs_here");
                return;
            }
            let (key, has_slot) = (queued.key.clone(), slot.mark());
            running.insert(turn.clone(), ListedTurn { key, commands: sender, has_slot });
        }
        let is_offered = self.running.is_offered(&queued.backend);
        let job = TakenTurn {
            worker: self.context.clone(),
            caller,
            figures: Figures::of(&self.context.pool, &queued, is_offered),
            queued,
            commands,
            slot: Some(slot),
            taken_at,
            tenure: tenure.clone(),
            is_offered,
            drain: drain.clone(),
        };
        let entry = TurnEntry { running: Arc::clone(&self.running), turn, since: taken_at };
        turns.spawn(async move {
            if let Some(attempt) = job::claim(&job, &message).await {
                turn::run(job, attempt).await;
            }
            drop(entry);
        });
    }

    /// Passes each message of a caller to its turn.
    async fn listen(mut control: async_nats::Subscriber, running: Arc<RunningTurns>, context: WorkerContext) {
        let WorkerContext { link, router, policy, .. } = context;
        let mut forgetting = JoinSet::new();
        loop {
            let message = tokio::select! {
                message = control.next() => message,
                Some(_) = forgetting.join_next(), if !forgetting.is_empty() => continue,
            };
            let Some(message) = message else { return };
            if message.payload.len() > MAX_MESSAGE_BYTES {
                tracing::warn!(
                    bytes = message.payload.len(),
                    "a message of a caller is too large to be read"
                );
                continue;
            }
            match serde_json::from_slice(&message.payload) {
                Ok(CallerMessage::Turn(control)) => {
                    running.hand_over(&control.turn, &control.key, control.command);
                }
                Ok(CallerMessage::Forget { backend, handle }) => {
                    let Some(reply) = message.reply else { continue };
                    let (link, router) = (link.clone(), router.clone());
                    let is_offered = policy.offers(&backend);
                    let tell = move |outcome: WireForget| {
                        if let Ok(text) = serde_json::to_vec(&outcome) {
                            link.nats.send(&reply, text);
                        }
                    };
                    // Collect finished tasks before the count, which would otherwise include them.
                    while forgetting.try_join_next().is_some() {}
                    if forgetting.len() >= MAX_FORGETS {
                        let reason =
                            format!("{MAX_FORGETS} conversations are being forgotten, which is the limit");
                        tell(WireForget::NoBackend { reason });
                        continue;
                    }
                    forgetting.spawn(async move {
                        // The handle could name another backend than the request, which may not be offered.
                        tell(match is_offered && handle.backend().as_str() == backend {
                            true => WireForget::from(router.forget(&handle).await),
                            false => WireForget::InvalidHandle,
                        });
                    });
                }
                Err(error) => tracing::warn!(%error, "a message of a caller cannot be read"),
            }
        }
    }

    /// Returns the backends that can start here.
    async fn offer(&self) -> Offer {
        offer_of(&self.context.router, self.wanted.as_deref()).await
    }

    fn card_maker(&self) -> CardMaker {
        CardMaker {
            router: self.context.router.clone(),
            wanted: self.wanted.clone(),
            running: Arc::clone(&self.running),
            instance: self.instance.clone(),
            slots: self.slots,
        }
    }

    /// Claims the worker's name in its pool. Waits until the entry of a killed worker has expired.
    async fn register(&self, offer: &Offer) -> Result<(KeyLease, Tenure), FleetError> {
        let card = self.card_maker().card(&offer.backends, false);
        // The entry of a killed worker expires after the lease time. The rest allows for delays of the servers.
        let until = Instant::now() + LEASE_TIME + Duration::from_secs(5);
        let mut was_told = false;
        loop {
            let key = worker_key(&self.context.pool, &self.context.name);
            let tenure = Tenure::since(Instant::now());
            if let Some(lease) =
                KeyLease::take(&self.context.link.nats, WORKERS_BUCKET, key, card.clone().into()).await?
            {
                return Ok((lease, tenure));
            }
            if Instant::now() >= until {
                return Err(FleetError::NameTaken {
                    name: self.context.name.to_string(),
                    pool: self.context.pool.to_string(),
                });
            }
            if !std::mem::replace(&mut was_told, true) {
                tracing::info!(name = %self.context.name, "the name is in use; if its worker was killed, it \
                    is free within 30 s");
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Backends that a worker offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Offered backends, with the version of the program if it has one: backends that can start, and backends that the
    /// settings name.
    pub backends: BTreeMap<String, Option<String>>,
    /// Backends that cannot start, with the reasons.
    pub missing: BTreeMap<String, String>,
}

async fn offer_of(router: &Router, wanted: Option<&[String]>) -> Offer {
    let mut offer = Offer::default();
    for (id, backend) in router.backends() {
        let id: BackendId = id;
        if wanted.is_some_and(|wanted| !wanted.iter().any(|name| name == id.as_str())) {
            continue;
        }
        match backend.probe().await {
            Availability::Ready { version, .. } => {
                offer.backends.insert(id.as_str().to_owned(), version);
            }
            unready => {
                let reason = match unready {
                    Availability::NotInstalled { remedy, .. } | Availability::Unauthenticated { remedy } => {
                        remedy
                    }
                    Availability::Unusable { reason } => reason,
                    _ => "it cannot start".to_owned(),
                };
                offer.missing.insert(id.as_str().to_owned(), reason);
                // A backend that the settings name is offered even if it cannot start, so that its turns fail
                // with the reason.
                if wanted.is_some() {
                    offer.backends.insert(id.as_str().to_owned(), None);
                }
            }
        }
    }
    offer
}

/// Removes a turn from the list of running turns when dropped.
struct TurnEntry {
    running: Arc<RunningTurns>,
    turn: String,
    since: Instant,
}

impl Drop for TurnEntry {
    fn drop(&mut self) {
        self.running.lock().remove(&self.turn);
        self.running.took(self.since.elapsed());
    }
}

/// Writes the worker's card.
struct CardMaker {
    router: Router,
    wanted: Option<Vec<String>>,
    running: Arc<RunningTurns>,
    instance: String,
    slots: usize,
}

impl CardMaker {
    /// Returns true if a card belongs to this process.
    fn is_of(&self, card: &[u8]) -> bool {
        serde_json::from_slice::<WorkerCard>(card).is_ok_and(|card| card.instance == self.instance)
    }

    fn card(&self, backends: &BTreeMap<String, Option<String>>, is_draining: bool) -> Vec<u8> {
        let card = WorkerCard {
            version: PROTOCOL_VERSION,
            instance: self.instance.clone(),
            backends: backends.clone(),
            slots: self.slots,
            running: self.running.with_slots(),
            mean_turn: self.running.mean_turn.load(Ordering::Relaxed),
            is_draining,
        };
        serde_json::to_vec(&card).unwrap_or_default()
    }
}

/// The worker's entry among the workers of its pool.
struct PoolEntry {
    worker: CardMaker,
    lease: KeyLease,
    /// Claim on the worker's name, under which turns may be taken.
    tenure: Tenure,
    drain: CancelToken,
}

impl PoolEntry {
    /// Renews the entry until another worker has it. When the worker has ended, releases the entry.
    async fn keep(mut self, mut backends: BTreeMap<String, Option<String>>, ended: CancelToken) {
        let mut last = Vec::new();
        let (mut renewed_at, mut probed_at) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                () = ended.cancelled() => return self.lease.release().await,
                () = tokio::time::sleep(TELL_EVERY) => {}
            }
            if probed_at.elapsed() >= PROBE_EVERY {
                probed_at = Instant::now();
                backends = offer_of(&self.worker.router, self.worker.wanted.as_deref()).await.backends;
                self.worker.running.offer(&backends);
            }
            let card = self.worker.card(&backends, self.drain.is_cancelled());
            if card == last && renewed_at.elapsed() < RENEW_EVERY {
                continue;
            }
            // Count from before the request, so that the claim ends here before it ends at the servers.
            let asked_at = Instant::now();
            match self.lease.renew(card.clone().into(), |value| self.worker.is_of(value)).await {
                Ok(true) => {
                    self.tenure.renewed(asked_at);
                    (last, renewed_at) = (card, asked_at);
                }
                Ok(false) => {
                    tracing::error!(
                        "another worker now has the name of this worker: this worker takes no \
                        further turn"
                    );
                    return;
                }
                Err(error) => tracing::warn!(%error, "the worker's entry could not be renewed"),
            }
        }
    }
}

/// Returns the name of this machine, without characters that cannot be part of a subject.
fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let name: String =
        name.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(64).collect();
    if token_fault(&name).is_some() { "worker".to_owned() } else { name }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("pool", &self.context.pool)
            .field("name", &self.context.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_counts_as_running_until_its_slot_is_given_back() {
        let (running, slots) = (RunningTurns::default(), Arc::new(Semaphore::new(2)));
        let mut taken = Vec::new();
        for turn in ["one", "two"] {
            let slot = TurnSlot::new(Arc::clone(&slots).try_acquire_owned().unwrap());
            let (commands, _) = mpsc::channel(1);
            let listed = ListedTurn { key: turn.to_owned(), commands, has_slot: slot.mark() };
            running.lock().insert(turn.to_owned(), listed);
            taken.push(slot);
        }
        assert_eq!(running.with_slots(), ["one", "two"]);
        // It ended, and its caller has not confirmed that yet.
        taken.remove(0);
        assert_eq!(running.with_slots(), ["two"]);
        assert_eq!(running.lock().len(), 2);
        assert_eq!(slots.available_permits(), 1);
    }
}
