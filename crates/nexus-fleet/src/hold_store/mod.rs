//! Holds and slots of all programs of a fleet.
//!
//! An account with a vendor has one set of limits, on all machines that use it. A key of `NEXUS_HOLDS` suspends the account,
//! and a key of `NEXUS_SLOTS` represents each of its running turns. Both change only by compare-and-set on the leading
//! server.

mod known;
mod names;
mod slots;
mod waiting;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use nexus_core::{BackendId, ErrorKind};
use nexus_nats::{BucketKey, NatsError, key_of_subject, key_subject};
use nexus_router::{
    Hold,
    hold::{HoldStore, HoldStoreError, MemoryHoldStore, Revision, Slot, SlotClaim, StoredHold},
};
use tokio::time::Instant;

use self::{
    known::KnownHolds,
    names::{account_of_key, hold_key, probe_key, slot_key},
    slots::{Slots, SlotsHere},
    waiting::SlotWaits,
};
use crate::{
    error::FleetError,
    fleet::Fleet,
    link::Link,
    protocol::{HOLDS_BUCKET, SLOTS_BUCKET},
    setup,
};

/// Time for which unreachable servers are not contacted again. Otherwise each turn would wait for them.
const PAUSE: Duration = Duration::from_secs(5);
/// Maximum length of a stored reason, in bytes.
const MAX_REASON_BYTES: usize = 16 << 10;
/// Marks the revision of a hold from the local store.
const LOCAL: u64 = 1 << 63;

/// Holds and slots that all programs of a fleet share. Clones share the knowledge of one process.
///
/// Backends of one account share its holds and slots. The account is the one that [`with_account`](Self::with_account) or
/// `accounts` of the section `fleet` names, else the account with the backend's own name.
///
/// If the turns of a backend run in a pool, its workers write the holds and take the slots. This store shows those holds and
/// writes none. The [local store](Self::with_local) has everything that concerns this program alone, such as too many
/// waiting turns.
///
/// Without a connection, slots come from the local store, with a warning: a turn does not wait for unreachable servers. It
/// does wait for a clear answer of reachable ones.
///
/// A slot of a dead process is free after 30 s. If a slot expired because the servers were unreachable for so long, this is
/// logged, and its turn continues.
#[derive(Clone, Debug)]
pub struct FleetHoldStore {
    fleet: Fleet,
    accounts: Arc<BTreeMap<BackendId, String>>,
    local: Arc<dyn HoldStore>,
    state: Arc<StoreState>,
}

/// State that the store shares with its tasks.
#[derive(Debug, Default)]
struct StoreState {
    known: KnownHolds,
    here: Arc<SlotsHere>,
    waiting: SlotWaits,
    /// Time until which the servers are not contacted again, and the reason.
    unreachable: Mutex<Option<(Instant, NoAnswer)>>,
    /// True if the missing connection was logged.
    has_warned: AtomicBool,
}

/// Reason why the servers give no answer.
#[derive(Clone, Debug)]
enum NoAnswer {
    /// No connection: no request was sent.
    Away(String),
    /// The request may have been sent, and its result is unknown.
    Unclear(String),
}

impl From<NoAnswer> for HoldStoreError {
    fn from(trouble: NoAnswer) -> Self {
        let (NoAnswer::Away(reason) | NoAnswer::Unclear(reason)) = trouble;
        Self::new(reason)
    }
}

impl FleetHoldStore {
    /// Creates a store for the holds and slots of this fleet. It connects at the first use.
    pub fn new(fleet: &Fleet) -> Self {
        let accounts = &fleet.settings().accounts;
        let accounts = accounts
            .iter()
            .map(|(backend, account)| (BackendId::new(backend.as_str()), account.clone()))
            .collect();
        Self {
            fleet: fleet.clone(),
            accounts: Arc::new(accounts),
            local: Arc::new(MemoryHoldStore::new()),
            state: Arc::default(),
        }
    }

    /// Sets the account of a backend. Backends of one account share its holds and slots.
    #[must_use]
    pub fn with_account(mut self, backend: impl Into<BackendId>, account: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.accounts).insert(backend.into(), account.into());
        self
    }

    /// Replaces the local store, which has this program's own holds and slots of backends whose turns run in a pool. The
    /// default is in memory, for this process alone.
    #[must_use]
    pub fn with_local(mut self, local: Arc<dyn HoldStore>) -> Self {
        self.local = local;
        self
    }

    /// Waits until the slots of dropped claims are released, for two seconds at most. If a process ends without this call, a
    /// slot may stay taken for another 30 s.
    pub async fn settle(&self) {
        self.state.here.settle().await;
    }

    fn account<'a>(&'a self, backend: &'a BackendId) -> &'a str {
        self.accounts.get(backend).map_or(backend.as_str(), String::as_str)
    }

    /// Returns the backends that a hold on an account suspends.
    fn backends_of(&self, account: &str, hold: &Hold) -> Vec<BackendId> {
        let named =
            self.accounts.iter().filter(|(_, its)| *its == account).map(|(backend, _)| backend.clone());
        let mut backends: Vec<_> = named.collect();
        if self.account(&hold.backend) == account && !backends.contains(&hold.backend) {
            backends.push(hold.backend.clone());
        }
        backends
    }

    /// Runs an operation with the connection, on its thread. Creates the buckets if they do not exist.
    async fn ask<T, F>(
        &self,
        what: impl Fn(Link, Arc<StoreState>) -> F + Send + 'static,
    ) -> Result<T, NoAnswer>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, FleetError>> + Send,
    {
        self.follow();
        self.state.refuse_while_unreachable()?;
        let link = match self.fleet.0.link().await {
            Ok(link) if link.nats.is_connected() => link,
            Ok(_) => return Err(NoAnswer::Away("there is no connection to the fleet at present".to_owned())),
            Err(error) => return Err(self.state.pause(NoAnswer::Away(error.to_string()))),
        };
        let state = Arc::clone(&self.state);
        let done = self.fleet.0.run(async move {
            match what(link.clone(), Arc::clone(&state)).await {
                Err(FleetError::Nats(NatsError::NotSetUp { .. })) => {
                    setup::ensure_shared(&link).await?;
                    what(link, state).await
                }
                done => done,
            }
        });
        let done = done.await.map_err(|error| match error {
            FleetError::Nats(ref nats) if nats.is_unclear() => {
                self.state.pause(NoAnswer::Unclear(error.to_string()))
            }
            // A clear refusal of the servers starts no pause: the next operation may succeed.
            error => NoAnswer::Unclear(error.to_string()),
        })?;
        self.state.has_warned.store(false, Ordering::Relaxed);
        Ok(done)
    }

    /// Starts to watch the holds, if that has not begun.
    fn follow(&self) {
        self.state.known.follow(&self.fleet, &self.state);
    }

    fn is_pooled(&self, backend: &BackendId) -> bool {
        self.fleet.0.is_pooled(backend)
    }

    /// Returns the shared hold on the account of `backend`.
    async fn shared(&self, backend: &BackendId) -> Result<Option<StoredHold>, HoldStoreError> {
        let account = self.account(backend).to_owned();
        let read = self.ask(move |link, state| {
            let account = account.clone();
            async move { state.read(&link, &account).await }
        });
        Ok(read.await?.map(|stored| on(backend, stored)))
    }
}

impl StoreState {
    /// Returns the hold on an account. Its `probing` is true if a turn has the probe slot.
    async fn read(&self, link: &Link, account: &str) -> Result<Option<StoredHold>, FleetError> {
        let key = hold_key(account);
        let found = BucketKey::new(HOLDS_BUCKET, key.clone()).read(&link.nats).await?;
        self.known.see_hold(&key, found.revision, found.value.as_ref());
        let Some(mut hold) = found.value.as_ref().and_then(|value| parse(&key, value)) else {
            return Ok(None);
        };
        // A slot of this process is known without a request. Only otherwise read the slot of another process.
        let probe = probe_key(account);
        hold.probing = match self.here.settled(&probe).await {
            true => true,
            false => {
                let slot = BucketKey::new(SLOTS_BUCKET, probe.clone()).read(&link.nats).await?;
                self.known.see_probe(&probe, slot.revision, slot.value.is_some());
                slot.value.is_some()
            }
        };
        Ok(Some(StoredHold { hold, revision: Revision(found.revision) }))
    }

    /// Stops contacting the servers for a while.
    fn pause(&self, trouble: NoAnswer) -> NoAnswer {
        *self.lock_unreachable() = Some((Instant::now() + PAUSE, trouble.clone()));
        trouble
    }

    fn refuse_while_unreachable(&self) -> Result<(), NoAnswer> {
        match &*self.lock_unreachable() {
            Some((until, trouble)) if Instant::now() < *until => Err(trouble.clone()),
            _ => Ok(()),
        }
    }

    /// Logs a missing connection once.
    fn warn(&self, reason: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(reason, "the limit of parallel turns applies to this machine only");
        }
    }

    fn lock_unreachable(&self) -> MutexGuard<'_, Option<(Instant, NoAnswer)>> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl HoldStore for FleetHoldStore {
    async fn list(&self) -> Result<Vec<StoredHold>, HoldStoreError> {
        let accounts = self.ask(|link, _| async move { accounts_held(&link).await }).await?;
        let mut held = BTreeMap::new();
        for account in accounts {
            let read = self.ask(move |link, state| {
                let account = account.clone();
                async move { Ok((state.read(&link, &account).await?, account)) }
            });
            let (Some(stored), account) = read.await? else { continue };
            for backend in self.backends_of(&account, &stored.hold) {
                held.insert(backend.clone(), on(&backend, stored.clone()));
            }
        }
        for stored in self.local.list().await? {
            if self.is_pooled(&stored.hold.backend) {
                held.entry(stored.hold.backend.clone()).or_insert_with(|| marked(stored));
            }
        }
        Ok(held.into_values().collect())
    }

    async fn get(&self, backend: &BackendId) -> Result<Option<StoredHold>, HoldStoreError> {
        match self.shared(backend).await? {
            None if self.is_pooled(backend) => Ok(self.local.get(backend).await?.map(marked)),
            stored => Ok(stored),
        }
    }

    async fn swap(
        &self,
        backend: &BackendId,
        expected: Option<Revision>,
        hold: Option<Hold>,
    ) -> Result<bool, HoldStoreError> {
        if self.is_pooled(backend) {
            match (expected, &hold) {
                (Some(Revision(revision)), _) if revision & LOCAL != 0 => {
                    return self.local.swap(backend, Some(Revision(revision & !LOCAL)), hold).await;
                }
                (None, Some(Hold { kind: ErrorKind::Overloaded, .. })) => {
                    return self.local.swap(backend, None, hold).await;
                }
                // The worker that the vendor refused has already written the hold.
                (_, Some(_)) => return Ok(true),
                (_, None) => {}
            }
        }
        let value = hold.map(written).transpose().map_err(HoldStoreError::new)?;
        let key = hold_key(self.account(backend));
        self.ask(move |link, state| {
            let (key, value) = (key.clone(), value.clone());
            async move { state.swap(&link, key, expected, value).await }
        })
        .await
        .map_err(HoldStoreError::from)
    }

    async fn claim(&self, slot: &Slot) -> Result<Option<SlotClaim>, HoldStoreError> {
        let Some(backend) = backend_of(slot) else {
            return Err(HoldStoreError::new("this version of the fleet does not support the slot"));
        };
        if self.is_pooled(backend) {
            return self.local.claim(slot).await;
        }
        let key = slot_key(self.account(backend), slot);
        // Another turn of this process has the slot: no request is needed.
        if self.state.here.settled(&key).await {
            return Ok(None);
        }
        let fleet = Arc::downgrade(&self.fleet.0);
        let asked = self.ask(move |link, state| {
            // A claim owns only a weak reference, so that a long turn does not extend the life of the connection.
            let slots = Slots { link, fleet: fleet.clone(), here: Arc::clone(&state.here) };
            let key = key.clone();
            async move { slots.claim(key).await }
        });
        match asked.await {
            Err(NoAnswer::Away(reason)) => {
                self.state.warn(&reason);
                self.local.claim(slot).await
            }
            asked => Ok(asked?),
        }
    }

    async fn wait_for(&self, slots: &[Slot], tries: u32) {
        let backend = slots.iter().find_map(backend_of);
        let Some(backend) = backend.filter(|backend| !self.is_pooled(backend)) else {
            return self.local.wait_for(slots, tries).await;
        };
        let account = self.account(backend);
        let keys = slots.iter().map(|slot| slot_key(account, slot)).collect();
        self.state.waiting.wait_for(&self.fleet, &self.state, account, keys, tries).await;
    }

    fn known(&self) -> Vec<Hold> {
        self.follow();
        let mut held = BTreeMap::new();
        for (account, hold) in self.state.known.holds(&self.state.here) {
            for backend in self.backends_of(&account, &hold) {
                let mut hold = hold.clone();
                hold.backend = backend.clone();
                held.insert(backend, hold);
            }
        }
        for hold in self.local.known() {
            if self.is_pooled(&hold.backend) {
                held.entry(hold.backend.clone()).or_insert(hold);
            }
        }
        held.into_values().collect()
    }
}

impl StoreState {
    async fn swap(
        &self,
        link: &Link,
        name: String,
        expected: Option<Revision>,
        value: Option<Bytes>,
    ) -> Result<bool, FleetError> {
        let key = BucketKey::new(HOLDS_BUCKET, name);
        // A deleted key still has a revision.
        let last = match expected {
            Some(Revision(revision)) => revision,
            None => {
                let found = key.read(&link.nats).await?;
                if found.value.is_some() {
                    return Ok(false);
                }
                found.revision
            }
        };
        let is_swapped = match value {
            Some(value) => {
                let revision = key.write(&link.nats, last, value.clone(), None).await?;
                if let Some(revision) = revision {
                    self.known.see_hold(&key.name, revision, Some(&value));
                }
                revision.is_some()
            }
            // No hold is expected and none is wanted, so nothing must be written.
            None if expected.is_none() => true,
            None => {
                let revision = key.remove(&link.nats, last).await?;
                if let Some(revision) = revision {
                    self.known.see_hold(&key.name, revision, None);
                }
                revision.is_some()
            }
        };
        Ok(is_swapped)
    }
}

/// Returns the accounts that may be on hold. This includes accounts whose hold ended, while a trace of it exists.
pub(crate) async fn accounts_held(link: &Link) -> Result<Vec<String>, FleetError> {
    let stream = link.nats.bucket_stream(HOLDS_BUCKET).await?;
    let subjects = stream.counts(key_subject(HOLDS_BUCKET, "*")).await?;
    let keys = subjects.iter().filter_map(|(subject, _)| key_of_subject(HOLDS_BUCKET, subject));
    Ok(keys.filter_map(account_of_key).collect())
}

/// Returns the hold on an account. Its information about a probe may be outdated.
pub(crate) async fn hold_on(link: &Link, account: &str) -> Result<Option<Hold>, FleetError> {
    let stored = StoreState::default().read(link, account).await?;
    Ok(stored.map(|stored| stored.hold))
}

/// Returns the backend of a slot. `None`: this version of the fleet does not know the kind of slot.
fn backend_of(slot: &Slot) -> Option<&BackendId> {
    match slot {
        Slot::Probe(backend) | Slot::Next(backend) | Slot::Turn(backend, _) => Some(backend),
        _ => None,
    }
}

/// Returns the hold on an account, with `backend` as its backend.
fn on(backend: &BackendId, mut stored: StoredHold) -> StoredHold {
    stored.hold.backend = backend.clone();
    stored
}

/// Marks a hold as one of the local store.
fn marked(stored: StoredHold) -> StoredHold {
    StoredHold { revision: Revision(stored.revision.0 | LOCAL), ..stored }
}

/// Returns a hold in its stored form.
fn written(mut hold: Hold) -> serde_json::Result<Bytes> {
    // The probe slot has a key of its own. A stored copy would become outdated when its process dies.
    hold.probing = false;
    hold.reason.truncate(hold.reason.floor_char_boundary(MAX_REASON_BYTES));
    serde_json::to_vec(&hold).map(Bytes::from)
}

fn parse(key: &str, value: &Bytes) -> Option<Hold> {
    match serde_json::from_slice(value) {
        Ok(hold) => Some(hold),
        Err(error) => {
            tracing::warn!(key, %error, "a hold of the fleet cannot be read and is ignored");
            None
        }
    }
}
