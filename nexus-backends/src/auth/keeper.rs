//! The one owner of a login: lends its access token, and sees to it that no refresh token is ever spent twice.
//!
//! What others leave behind is judged in `judgement`, renewed under the lock in `renewal`, and begun and ended by a
//! person in `door`; `desk` is what the keepers of one process know together.

mod desk;
mod door;
mod judgement;
mod renewal;

use std::{
    hash::{BuildHasher as _, RandomState},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_core::{Credential, CredentialError, CredentialSource, Secret, Standing};
use tokio::time::Instant;

pub use door::{LogOut, LoginError};

use self::{
    desk::Desk,
    judgement::{Verdict, Wish},
    renewal::Renewal,
};
use super::{
    Clock, SignIn, SystemClock,
    lock::{Attempt, CLAIM_LIFE, Holder, LockPlace, LoginLock, Trust},
    store::{LoginStore, StoreError, StorePlace, StoredLogin, TokenStore},
};

/// How long the lock is waited for: longer than a claim that nobody stands for, and far longer than any renewal.
const LONGEST_WAIT: Duration = Duration::from_secs(CLAIM_LIFE.as_secs() + 10);

/// The shortest and the longest time between two looks at a lock that somebody else holds, in milliseconds.
const LOOK_AGAIN_MS: std::ops::Range<u64> = 10..50;

/// The one owner of a login.
///
/// Any number of keepers may own the same login, in any number of tasks, threads and processes: they agree by its
/// lock and its store. Whoever needs a fresher token takes the lock, reads the store again, makes sure that a new
/// login can be written, spends the refresh token once, and writes the new login so that it survives a loss of power;
/// only then is it lent. Whoever waited takes what was written.
///
/// - A token that is alive keeps working whatever a renewal does.
/// - A renewal that the issuer refused is noted in the store. Nobody spends that token again; a person has to sign in.
/// - After a renewal that failed otherwise the issuer is left alone for 5 seconds.
/// - A renewal that has begun is finished, also if the future that began it is dropped: it runs on a task of its own,
///   which ends early only with its runtime.
///
/// All of it needs a [Tokio](tokio) runtime with time enabled. Nothing here blocks it.
///
/// # On network homes
///
/// The kernel's lock holds among all processes of one machine, in containers or not. Where the file system is not known
/// to keep locks for everybody (NFS, SMB, FUSE and whatever is not on the list), a claim file is made beside it, which
/// holds between machines as far as the file system creates files atomically. If a machine dies in mid-renewal, the
/// others wait for 90 seconds before they take its claim away.
///
/// # Example
///
/// ```
/// use std::{sync::Arc, time::{Duration, SystemTime}};
///
/// use nexus_backends::auth::{
///     CredentialSource, Login, LoginKeeper, LoginScreen, LoginStep, RefreshError, Revocation, SignIn, SignInError,
///     store::MemoryStore,
/// };
/// use nexus_core::Secret;
///
/// /// Hands out visitor's passes.
/// #[derive(Debug)]
/// struct FrontDesk;
///
/// #[async_trait::async_trait]
/// impl SignIn for FrontDesk {
///     fn name(&self) -> &str {
///         "front-desk"
///     }
///
///     fn remedy(&self) -> String {
///         "ask at the front desk".into()
///     }
///
///     async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError> {
///         screen.show(&LoginStep::Note("welcome".into()));
///         let pass = Login::new(Secret::new("pass-1"), SystemTime::now());
///         Ok(pass.with_lifetime(Some(Duration::from_secs(3600))).with_refresh_token(Some(Secret::new("stub-1"))))
///     }
///
///     async fn refresh(&self, login: &Login) -> Result<Login, RefreshError> {
///         match login.refresh_token.as_ref().map(Secret::expose) {
///             Some("stub-1") => Ok(Login::new(Secret::new("pass-2"), SystemTime::now())),
///             _ => Err(RefreshError::Refused { reason: "invalid_grant".into() }),
///         }
///     }
///
///     async fn revoke(&self, _login: &Login) -> Result<Revocation, RefreshError> {
///         Ok(Revocation::NotOffered)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let lock_folder = scratch.path();
/// let keeper = LoginKeeper::new(Arc::new(FrontDesk), Arc::new(MemoryStore::new()), lock_folder);
/// keeper.sign_in(&mut |step: &LoginStep| println!("{step:?}")).await?;
///
/// let lent = keeper.credential(Duration::from_secs(600)).await?;
/// assert_eq!(lent.token.expose(), "pass-1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LoginKeeper {
    inner: Inner,
}

/// What a task needs to work for a keeper. Clones are the same keeper.
#[derive(Clone, Debug)]
struct Inner {
    sign_in: Arc<dyn SignIn>,
    /// Where the login is, and stays when it is renewed.
    store: Arc<dyn TokenStore>,
    /// Where a new login is put.
    store_of_new: Arc<dyn TokenStore>,
    home: Option<PathBuf>,
    lock: Arc<LockPlace>,
    clock: Arc<dyn Clock>,
    desk: Arc<Desk>,
}

/// What came of waiting for the lock.
enum Turn {
    /// It is ours.
    Ours(Box<LoginLock>),
    /// Somebody else's, for now.
    Busy(Option<Holder>),
}

impl LoginKeeper {
    /// The owner of the login that `sign_in` makes and `store` keeps. Everybody who can see the store has to name the
    /// same `lock_folder`; it is made when it is needed.
    pub fn new(
        sign_in: Arc<dyn SignIn>,
        store: Arc<dyn TokenStore>,
        lock_folder: impl Into<PathBuf>,
    ) -> Self {
        let lock = LockPlace::new(lock_folder, sign_in.name());
        let desk = Desk::of((lock.path(), store.place()));
        let inner = Inner {
            sign_in,
            store_of_new: Arc::clone(&store),
            store,
            home: None,
            lock: Arc::new(lock),
            clock: Arc::new(SystemClock),
            desk,
        };
        Self { inner }
    }

    /// The owner of the login that is kept below `nexus_home`, in `auth/`.
    pub fn at_home(sign_in: Arc<dyn SignIn>, nexus_home: &Path) -> Self {
        let store = LoginStore::at(nexus_home, sign_in.name());
        let mut keeper = Self::new(sign_in, Arc::new(store), nexus_home.join("auth"));
        keeper.inner.home = Some(nexus_home.to_owned());
        keeper
    }

    /// States where [`LoginKeeper::sign_in`] puts a new login, wherever the one before it was. It is for a keeper
    /// [at home](LoginKeeper::at_home): a store that was handed in has its one place.
    #[must_use]
    pub fn in_place(mut self, place: StorePlace) -> Self {
        if let Some(home) = &self.inner.home {
            let store = LoginStore::at(home, self.inner.sign_in.name()).moving_to(place);
            self.inner.store_of_new = Arc::new(store);
        }
        self
    }

    /// Tells the time by another clock than the machine's. The strategy has to go by the same one.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.inner.clock = clock;
        self
    }

    /// Makes claims on every file system, also where locks are known to hold: for folders that are shared between
    /// machines in a way that the file system does not show. Everybody who shares the login has to do the same.
    #[must_use]
    pub fn distrusting_locks(mut self) -> Self {
        let lock = LockPlace::clone(&self.inner.lock).with_trust(Trust::Never);
        self.inner.lock = Arc::new(lock);
        self
    }

    /// Where the login is, for messages.
    pub fn place(&self) -> String {
        self.inner.place()
    }

    /// The strategy that makes and renews it.
    pub fn sign_in_strategy(&self) -> &dyn SignIn {
        &*self.inner.sign_in
    }

    /// Reads the login as it rests: no lock, no network, no change.
    ///
    /// # Errors
    ///
    /// [`CredentialError::Unreadable`].
    pub async fn look(&self) -> Result<Option<StoredLogin>, CredentialError> {
        self.inner.look().await
    }

    /// Lends what the wish asks for; `None`: there is no other than the one that was refused.
    async fn lend(&self, wish: Wish) -> Result<Option<Credential>, CredentialError> {
        let inner = &self.inner;
        loop {
            let stored = inner.look().await?.ok_or_else(|| inner.missing())?;
            if let Some(settled) = inner.settle(&wish, &stored) {
                return settled;
            }
            if let Some(renewed) = self.renew(&wish, stored).await {
                return renewed;
            }
        }
    }

    /// Waits for the lock, or for whoever has it, and renews the login on a task of its own. `None`: the lock was lost
    /// before anything was spent.
    async fn renew(
        &self,
        wish: &Wish,
        mut at_hand: StoredLogin,
    ) -> Option<Result<Option<Credential>, CredentialError>> {
        let inner = &self.inner;
        let began = Instant::now();
        let renewal = loop {
            // Nothing may be awaited between here and the task: what was not saved would be dropped with this future.
            if let Some(unsaved) = inner.desk.take_unsaved() {
                break Renewal::of_unsaved(inner.clone(), wish.clone(), unsaved);
            }
            if let Some(failure) = inner.desk.pause() {
                return Some(inner.without_renewal(wish, &at_hand, failure.at(inner.place())));
            }
            match inner.try_lock().await {
                Ok(Turn::Ours(lock)) => break Renewal::new(inner.clone(), wish.clone(), *lock),
                Ok(Turn::Busy(holder)) => {
                    match inner.look().await {
                        Ok(Some(stored)) => at_hand = stored,
                        Ok(None) => return Some(Err(inner.missing())),
                        Err(error) => return Some(Err(error)),
                    }
                    if let Some(settled) = inner.settle(wish, &at_hand) {
                        return Some(settled);
                    }
                    if wish.will_do_for_now(&at_hand.login, inner.now()) {
                        return Some(Ok(Some(judgement::credential(&at_hand.login))));
                    }
                    if began.elapsed() >= LONGEST_WAIT {
                        let reason =
                            format!("{} has been renewing it, and does not end", named(holder.as_ref()));
                        let error = CredentialError::Unreachable { place: inner.place(), reason };
                        return Some(inner.without_renewal(wish, &at_hand, error));
                    }
                    tokio::time::sleep(a_moment()).await;
                }
                Err(error) => return Some(inner.without_renewal(wish, &at_hand, unusable(error))),
            }
        };
        match tokio::spawn(renewal.run()).await {
            Ok(outcome) => outcome,
            Err(stopped) => {
                let why = if stopped.is_panic() { "it panicked" } else { "the runtime is shutting down" };
                let reason = format!("the renewal was stopped: {why}");
                let error = CredentialError::Unreachable { place: inner.place(), reason };
                Some(inner.without_renewal(wish, &at_hand, error))
            }
        }
    }
}

#[async_trait]
impl CredentialSource for LoginKeeper {
    fn describe(&self) -> String {
        format!("the login {} in {}", self.inner.sign_in.name(), self.place())
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        let stored = self.look().await?.ok_or_else(|| self.inner.missing())?;
        let is_renewable = stored.refused.is_none() && stored.login.refresh_token.is_some();
        let wish = Wish::of_life(Duration::ZERO);
        if let Verdict::Over(reason) = wish.judge(&stored, self.inner.now()) {
            return Err(self.inner.over(reason));
        }
        let mut standing = Standing::default();
        standing.expires_at = stored.login.expires_at;
        standing.is_renewable = is_renewable;
        Ok(standing)
    }

    async fn credential(&self, life: Duration) -> Result<Credential, CredentialError> {
        // Whoever refuses no token is told of no lack of others.
        self.lend(Wish::of_life(life)).await?.ok_or_else(|| self.inner.missing())
    }

    async fn renewed(
        &self,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        self.lend(Wish::instead_of(refused.token.clone(), life)).await
    }
}

impl Inner {
    fn place(&self) -> String {
        self.store.place()
    }

    fn now(&self) -> SystemTime {
        self.clock.now()
    }

    async fn look(&self) -> Result<Option<StoredLogin>, CredentialError> {
        let store = Arc::clone(&self.store);
        off_the_runtime(self.place(), move || read(&*store)).await.map_err(unusable)
    }

    /// What is lent of a login as it is; `None` if there should be a fresher one.
    fn settle(
        &self,
        wish: &Wish,
        stored: &StoredLogin,
    ) -> Option<Result<Option<Credential>, CredentialError>> {
        match wish.judge(stored, self.now()) {
            Verdict::Lend => Some(Ok(Some(judgement::credential(&stored.login)))),
            Verdict::Renew => None,
            Verdict::NoOther => Some(Ok(None)),
            Verdict::Over(reason) => Some(Err(self.over(reason))),
        }
    }

    /// What is lent when there is no fresher one to be had: the one at hand while it is alive, or the error.
    fn without_renewal(
        &self,
        wish: &Wish,
        stored: &StoredLogin,
        error: CredentialError,
    ) -> Result<Option<Credential>, CredentialError> {
        if !wish.will_do(&stored.login, self.now()) {
            return Err(error);
        }
        tracing::warn!(login = self.sign_in.name(), %error, "a login was not renewed; its token is alive and goes on");
        Ok(Some(judgement::credential(&stored.login)))
    }

    /// Tries for the lock once, and watches the claim in the way.
    async fn try_lock(&self) -> Result<Turn, StoreError> {
        let (place, stale) = (Arc::clone(&self.lock), self.desk.stale_claim());
        let attempt = off_the_runtime(self.place(), move || place.attempt(stale.as_ref())).await?;
        match attempt {
            Attempt::Got(lock) => Ok(Turn::Ours(Box::new(lock))),
            Attempt::Busy { holder, claim } => {
                self.desk.watch(claim);
                Ok(Turn::Busy(holder))
            }
        }
    }

    fn missing(&self) -> CredentialError {
        CredentialError::Missing { place: self.place(), remedy: self.sign_in.remedy() }
    }

    fn over(&self, reason: String) -> CredentialError {
        CredentialError::Refused { place: self.place(), reason, remedy: self.sign_in.remedy() }
    }
}

/// Reads the login of a store.
fn read(store: &dyn TokenStore) -> Result<Option<StoredLogin>, StoreError> {
    let Some(text) = store.read()? else { return Ok(None) };
    StoredLogin::from_text(&text).map(Some).map_err(|reason| StoreError::new(store.place(), reason))
}

/// Finishes a write that was broken off, if what was to be written is newer than what is there.
fn recover(store: &dyn TokenStore) -> Result<(), StoreError> {
    let generation = |text: &Secret| StoredLogin::from_text(text).map(|stored| stored.generation);
    let is_newer = |found: &Secret, there: Option<&Secret>| match (generation(found), there.map(generation)) {
        (Ok(found), Some(Ok(there))) => found > there,
        (Ok(_), None) => true,
        // What cannot be read is not replaced: it may be somebody's only login.
        (_, Some(Err(_))) | (Err(_), _) => false,
    };
    if store.recover(&is_newer)? {
        tracing::info!(
            place = store.place(),
            "a login that was written and not yet in its place was put there"
        );
    }
    Ok(())
}

/// Runs what may block on a thread that may.
async fn off_the_runtime<T: Send + 'static>(
    place: String,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(stopped) if stopped.is_panic() => Err(StoreError::new(place, "the store panicked")),
        Err(_) => Err(StoreError::new(place, "the runtime is shutting down")),
    }
}

/// Until the next look at a lock: never the same for all who wait.
fn a_moment() -> Duration {
    let spread = LOOK_AGAIN_MS.end - LOOK_AGAIN_MS.start;
    Duration::from_millis(LOOK_AGAIN_MS.start + RandomState::new().hash_one(0_u8) % spread)
}

fn named(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), ToString::to_string)
}

fn unusable(error: StoreError) -> CredentialError {
    CredentialError::Unreadable { place: error.place, reason: error.reason }
}
