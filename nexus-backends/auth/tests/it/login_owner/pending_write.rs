//! What was renewed and could not be written: whose it is, who is stopped by it, and how it gets into its store.

use std::{
    fs::File,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use nexus_auth::{
    CredentialError, CredentialManager, CredentialSource as _, Login, LoginError, LoginScreen, RefreshError,
    Revocation, SignIn, SignInError, finish_refreshes,
    store::{DamagedText, MemoryStore, PreparedWrite, StoreError, StoredLogin, TokenStore},
};
use nexus_core::Secret;
use nexus_testkit::child_test;

use super::{
    issuer::FromIssuer,
    stage::{ALIVE_AND_DUE, EXPIRED, Stage},
    trouble::{FailingStore, Step, failing_store},
};

const A_WHILE: Duration = Duration::from_secs(60);

fn stored_in(store: &dyn TokenStore) -> StoredLogin {
    StoredLogin::from_text(&store.read().unwrap().unwrap()).unwrap()
}

fn refresh_token_in(store: &dyn TokenStore) -> String {
    stored_in(store).login.refresh_token.unwrap().expose().to_owned()
}

fn strategy(stage: &Stage) -> FromIssuer {
    FromIssuer { issuer: stage.issuer.clone(), clock: Arc::clone(&stage.clock) as _ }
}

#[tokio::test]
async fn two_logins_of_one_lock_in_stores_that_look_alike_share_nothing() {
    let (one, other) = (Stage::with_login(EXPIRED), Stage::with_login(EXPIRED));
    other.issuer.change(|state| state.issued = 100);
    let (access, refresh, _) = other.issuer.issue();
    let mut login = other.stored();
    (login.login.access_token, login.login.refresh_token) = (Secret::new(access), Some(Secret::new(refresh)));
    let (store, store_of_other) = (failing_store(&one), MemoryStore::holding(login.to_text()));
    store.fail(Step::Commit, 3);
    one.manager_with(Arc::new(store.clone())).credential(A_WHILE).await.unwrap_err();

    let manager_of_other =
        CredentialManager::new(Arc::new(strategy(&other)), Arc::new(store_of_other.clone()), one.auth())
            .with_clock(Arc::clone(&other.clock) as _);
    // It waits for the lock, which is free once the other login is written.
    let lent = manager_of_other.credential(A_WHILE).await.unwrap();
    assert_eq!(
        (lent.token.expose(), refresh_token_in(&store_of_other).as_str()),
        ("access-102", "refresh-102")
    );
    let lent = one.manager_with(Arc::new(store.clone())).credential(A_WHILE).await.unwrap();
    assert_eq!((lent.token.expose(), refresh_token_in(&store).as_str()), ("access-2", "refresh-2"));
    assert_eq!(one.issuer.state().spent, ["refresh-1"]);
    assert_eq!(other.issuer.state().spent, ["refresh-101"]);
}

#[tokio::test]
async fn what_could_not_be_written_is_not_written_over_another_login() {
    for is_removed in [false, true] {
        let stage = Stage::with_login(EXPIRED);
        let store = MemoryStore::holding(stage.stored().to_text());
        let failing = FailingStore::new(store.clone());
        failing.fail(Step::Commit, 3);
        let manager = stage.manager_with(Arc::new(failing));
        manager.credential(A_WHILE).await.unwrap_err();
        // Somebody who heeds no lock has logged in anew, with another account.
        if is_removed {
            store.remove().unwrap();
            let error = manager.credential(A_WHILE).await.unwrap_err();
            assert!(matches!(error, CredentialError::Missing { .. }), "{error:?}");
            assert_eq!(store.read().unwrap(), None);
        } else {
            let mut another = stage.stored();
            another.login = Login::new(Secret::new("access-of-another"), another.login.obtained_at)
                .with_refresh_token(Some(Secret::new("refresh-of-another")));
            store.prepare().unwrap().commit(&another.to_text()).unwrap();
            let lent = manager.credential(A_WHILE).await.unwrap();
            assert_eq!(lent.token.expose(), "access-of-another");
            assert_eq!(stored_in(&store), another);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_written_later_without_anybody_asking() {
    let stage = Stage::with_login(EXPIRED);
    let store = failing_store(&stage);
    store.fail(Step::Commit, 12);
    stage.manager_with(Arc::new(store.clone())).credential(A_WHILE).await.unwrap_err();
    assert_eq!(stored_in(&store).generation, 1);
    let began = tokio::time::Instant::now();
    while stored_in(&store).generation == 1 {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not tried again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // After 1, 3, 7 seconds, and at 15.
    assert!(began.elapsed() > Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(refresh_token_in(&store), "refresh-2");
    stage.lock_is_free().await;
}

/// In a process of its own: what ends is all that it has begun.
#[test]
fn a_program_that_is_about_to_end_tries_a_last_time() {
    if !child_test::runs_alone(a_program_that_is_about_to_end_tries_a_last_time) {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let stage = Stage::with_login(EXPIRED);
        let store = failing_store(&stage);
        store.fail(Step::Commit, 6);
        stage.manager_with(Arc::new(store.clone())).credential(A_WHILE).await.unwrap_err();
        finish_refreshes().await;
        assert_eq!(stored_in(&store).generation, 1, "it failed once more");
        finish_refreshes().await;
        assert_eq!(refresh_token_in(&store), "refresh-2");
    });
}

/// The same issuer, under another name.
#[derive(Debug)]
struct Another(FromIssuer);

#[async_trait]
impl SignIn for Another {
    fn name(&self) -> &str {
        "another-login"
    }

    fn remedy(&self) -> String {
        self.0.remedy()
    }

    async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError> {
        self.0.sign_in(screen).await
    }

    async fn refresh(&self, login: &Login) -> Result<Login, RefreshError> {
        self.0.refresh(login).await
    }

    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError> {
        self.0.revoke(login).await
    }
}

#[tokio::test]
async fn a_login_that_is_held_stops_no_other_one_in_its_folder_from_its_first_sign_in() {
    let stage = Stage::with_login(EXPIRED);
    let store = failing_store(&stage);
    store.fail(Step::Commit, 1000);
    stage.manager_with(Arc::new(store)).credential(A_WHILE).await.unwrap_err();
    assert!(File::open(stage.lock_file()).unwrap().try_lock().is_err());
    let another = CredentialManager::at_home(Arc::new(Another(strategy(&stage))), &stage.home);
    let signed_in = tokio::time::timeout(Duration::from_secs(60), another.sign_in(&mut |_: &_| {})).await;
    assert_eq!(signed_in.unwrap().unwrap().access_token.expose(), "access-3");
}

/// A store that panics when it is asked for the nth time, counted from a moment on.
#[derive(Clone, Debug)]
struct PanickingStore {
    inner: MemoryStore,
    is_armed: Arc<AtomicUsize>,
    panics: Panics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Panics {
    Reading,
    Writing,
    Telling,
}

impl PanickingStore {
    /// Panics so many times from now on.
    fn arm(&self, times: usize) {
        self.is_armed.store(times, Ordering::SeqCst);
    }

    fn check(&self, what: Panics) {
        let left = self.is_armed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if what == self.panics {
            assert!(left.is_err(), "the store panics");
        } else if left.is_ok() {
            self.is_armed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl TokenStore for PanickingStore {
    fn place(&self) -> String {
        self.check(Panics::Telling);
        "a store that panics".to_owned()
    }

    fn identity(&self) -> String {
        self.inner.identity()
    }

    fn read(&self) -> Result<Option<Secret>, StoreError> {
        self.check(Panics::Reading);
        self.inner.read()
    }

    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError> {
        Ok(Box::new(PanickingWrite { store: self.clone(), write: self.inner.prepare()? }))
    }

    fn recover(&self, is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError> {
        self.inner.recover(is_newer)
    }

    fn damaged(&self) -> Result<Option<DamagedText>, StoreError> {
        self.inner.damaged()
    }

    fn remove(&self) -> Result<bool, StoreError> {
        self.inner.remove()
    }
}

#[derive(Debug)]
struct PanickingWrite {
    store: PanickingStore,
    write: Box<dyn PreparedWrite>,
}

impl PreparedWrite for PanickingWrite {
    fn commit(self: Box<Self>, text: &Secret) -> Result<(), StoreError> {
        self.store.check(Panics::Writing);
        self.write.commit(text)
    }
}

/// A strategy that arms a store once the token is spent.
#[derive(Debug)]
struct Arming {
    inner: FromIssuer,
    store: PanickingStore,
    times: usize,
}

#[async_trait]
impl SignIn for Arming {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn remedy(&self) -> String {
        self.inner.remedy()
    }

    async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError> {
        self.inner.sign_in(screen).await
    }

    async fn refresh(&self, login: &Login) -> Result<Login, RefreshError> {
        let renewed = self.inner.refresh(login).await;
        self.store.arm(self.times);
        renewed
    }

    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError> {
        self.inner.revoke(login).await
    }
}

#[tokio::test]
async fn a_store_that_panics_once_the_token_is_spent_loses_nothing() {
    for panics in [Panics::Reading, Panics::Writing, Panics::Telling] {
        // Once, as long as one renewal tries, and on into the next.
        for times in [1, 3, 4] {
            let stage = Stage::with_login(EXPIRED);
            let inner = MemoryStore::holding(stage.stored().to_text());
            let store = PanickingStore { inner, is_armed: Arc::default(), panics };
            let strategy = Arming { inner: strategy(&stage), store: store.clone(), times };
            let manager = CredentialManager::new(Arc::new(strategy), Arc::new(store.clone()), stage.auth())
                .with_clock(Arc::clone(&stage.clock) as _);
            let first = manager.credential(A_WHILE).await;
            let is_written = times < 3 || panics == Panics::Telling;
            assert_eq!(first.is_ok(), is_written, "{panics:?} {times}: {first:?}");
            store.arm(usize::from(panics == Panics::Writing && times > 3));
            assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
            assert_eq!(stage.issuer.state().spent, ["refresh-1"], "{panics:?} {times}");
            assert_eq!(refresh_token_in(&store.inner), "refresh-2");
        }
    }
}

/// A person who takes long enough for a renewal, which cannot be written.
#[derive(Debug)]
struct MeanwhileRenewed {
    inner: FromIssuer,
    store: FailingStore,
    meanwhile: OnceLock<CredentialManager>,
}

#[async_trait]
impl SignIn for MeanwhileRenewed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn remedy(&self) -> String {
        self.inner.remedy()
    }

    async fn sign_in(&self, screen: &mut dyn LoginScreen) -> Result<Login, SignInError> {
        self.store.fail(Step::Commit, 3);
        self.meanwhile.get().unwrap().credential(A_WHILE).await.unwrap();
        self.store.fail(Step::Commit, 3);
        self.inner.sign_in(screen).await
    }

    async fn refresh(&self, login: &Login) -> Result<Login, RefreshError> {
        self.inner.refresh(login).await
    }

    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError> {
        self.inner.revoke(login).await
    }
}

#[tokio::test]
async fn a_sign_in_that_cannot_be_written_does_not_lose_what_was_not_written_before_it() {
    let stage = Stage::with_login(ALIVE_AND_DUE);
    let store = failing_store(&stage);
    let strategy = Arc::new(MeanwhileRenewed {
        inner: strategy(&stage),
        store: store.clone(),
        meanwhile: OnceLock::new(),
    });
    let manager = CredentialManager::new(Arc::clone(&strategy) as _, Arc::new(store.clone()), stage.auth())
        .with_clock(Arc::clone(&stage.clock) as _);
    strategy.meanwhile.set(manager.clone()).unwrap();
    let error = manager.sign_in(&mut |_: &_| {}).await.unwrap_err();
    assert!(matches!(error, LoginError::Store(_)), "{error:?}");
    assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    assert_eq!(
        (refresh_token_in(&store).as_str(), stage.issuer.state().spent),
        ("refresh-2", vec!["refresh-1".to_owned()])
    );
}
