//! Callers that go away and disks that fail, at the worst moments.

use std::{
    future::Future as _,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use nexus_auth::{
    CredentialError, CredentialSource as _,
    store::{DamagedText, MemoryStore, PreparedWrite, StoreError, TokenStore},
};
use nexus_core::Secret;

use super::{
    issuer::Mood,
    stage::{ALIVE_AND_DUE, EXPIRED, Stage},
};

const A_WHILE: Duration = Duration::from_secs(60);

/// A store whose steps fail on demand.
#[derive(Clone, Debug)]
pub(crate) struct FailingStore {
    inner: MemoryStore,
    failing: Arc<Mutex<Option<(Step, usize)>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Read,
    Recover,
    Prepare,
    Commit,
}

impl FailingStore {
    pub(crate) fn new(inner: MemoryStore) -> Self {
        Self { inner, failing: Arc::default() }
    }

    /// Lets a step fail so many times.
    pub(crate) fn fail(&self, step: Step, times: usize) {
        *self.failing.lock().unwrap() = Some((step, times));
    }

    fn check(&self, step: Step) -> Result<(), StoreError> {
        match &mut *self.failing.lock().unwrap() {
            Some((failing, times)) if *failing == step && *times > 0 => {
                *times -= 1;
                Err(StoreError::new(self.inner.place(), format!("{step:?} was made to fail")))
            }
            _ => Ok(()),
        }
    }
}

impl TokenStore for FailingStore {
    fn place(&self) -> String {
        self.inner.place()
    }

    fn identity(&self) -> String {
        self.inner.identity()
    }

    fn read(&self) -> Result<Option<Secret>, StoreError> {
        self.check(Step::Read)?;
        self.inner.read()
    }

    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError> {
        self.check(Step::Prepare)?;
        Ok(Box::new(FailingWrite { store: self.clone(), write: self.inner.prepare()? }))
    }

    fn recover(&self, is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError> {
        self.check(Step::Recover)?;
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
struct FailingWrite {
    store: FailingStore,
    write: Box<dyn PreparedWrite>,
}

impl PreparedWrite for FailingWrite {
    fn commit(self: Box<Self>, text: &Secret) -> Result<(), StoreError> {
        self.store.check(Step::Commit)?;
        self.write.commit(text)
    }
}

/// A store that holds what the stage's holds.
pub(crate) fn failing_store(stage: &Stage) -> FailingStore {
    FailingStore::new(MemoryStore::holding(stage.stored().to_text()))
}

#[tokio::test]
async fn nothing_is_spent_for_what_could_not_be_kept() {
    for step in [Step::Prepare, Step::Recover] {
        for (age, is_alive) in [(ALIVE_AND_DUE, true), (EXPIRED, false)] {
            let stage = Stage::with_login(age);
            let store = failing_store(&stage);
            store.fail(step, 1);
            let manager = stage.manager_with(Arc::new(store));
            match manager.credential(A_WHILE).await {
                Ok(lent) => assert!(is_alive && lent.token.expose() == "access-1"),
                Err(CredentialError::Unreadable { .. }) => assert!(!is_alive),
                Err(error) => panic!("{error:?}"),
            }
            assert!(stage.issuer.state().spent.is_empty());
            assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
        }
    }
}

#[tokio::test]
async fn a_folder_that_cannot_hold_a_lock_spends_nothing() {
    for (age, is_alive) in [(ALIVE_AND_DUE, true), (EXPIRED, false)] {
        let stage = Stage::with_login(age);
        std::fs::create_dir(stage.lock_file()).unwrap();
        match stage.manager().credential(A_WHILE).await {
            Ok(lent) => assert!(is_alive && lent.token.expose() == "access-1"),
            Err(CredentialError::Unreadable { .. }) => assert!(!is_alive),
            Err(error) => panic!("{error:?}"),
        }
        assert!(stage.issuer.state().spent.is_empty());
    }
}

#[tokio::test]
async fn a_write_that_fails_once_is_repeated() {
    let stage = Stage::with_login(EXPIRED);
    let store = failing_store(&stage);
    store.fail(Step::Commit, 2);
    let manager = stage.manager_with(Arc::new(store));
    assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
}

#[tokio::test]
async fn what_cannot_be_written_is_lent_to_nobody_and_kept_with_its_lock_until_it_can_be() {
    let stage = Stage::with_login(EXPIRED);
    let store = failing_store(&stage);
    store.fail(Step::Commit, 6);
    let manager = stage.manager_with(Arc::new(store.clone()));
    for _ in 0..2 {
        let error = manager.credential(A_WHILE).await.unwrap_err();
        assert!(
            matches!(&error, CredentialError::Unreadable { reason, .. } if reason.contains("memory")),
            "{error:?}"
        );
        let file = std::fs::File::open(stage.lock_file()).unwrap();
        assert!(file.try_lock().is_err(), "another process must not spend what is in the store");
    }
    let another = stage.manager_with(Arc::new(store));
    assert_eq!(another.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    let state = stage.issuer.state();
    assert_eq!((state.spent.len(), state.reused.len()), (1, 0));
}

#[tokio::test]
async fn what_cannot_be_written_does_not_stop_a_token_that_is_alive() {
    let stage = Stage::with_login(ALIVE_AND_DUE);
    let store = failing_store(&stage);
    store.fail(Step::Commit, 3);
    let manager = stage.manager_with(Arc::new(store));
    assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-1");
    assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
}

#[tokio::test]
async fn what_cannot_be_written_is_revoked_when_a_person_logs_out() {
    let stage = Stage::with_login(EXPIRED);
    let store = failing_store(&stage);
    store.fail(Step::Commit, 3);
    let manager = stage.manager_with(Arc::new(store));
    manager.credential(A_WHILE).await.unwrap_err();
    assert!(manager.log_out().await.unwrap().was_logged_in);
    assert_eq!(stage.issuer.state().revoked, ["refresh-2"]);
}

#[tokio::test]
async fn a_caller_that_goes_away_in_mid_renewal_loses_nothing() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.holds_answers = true);
    let manager = stage.manager();
    let caller = tokio::spawn(async move { manager.credential(A_WHILE).await });
    stage.issuer.was_asked().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert_eq!(stage.stored().login.access_token.expose(), "access-1", "it is still on its way");
    stage.issuer.change(|state| state.holds_answers = false);
    assert_eq!(stage.manager().credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
}

#[tokio::test]
async fn a_caller_may_go_away_at_any_point() {
    let stage = Stage::with_login(EXPIRED);
    for polls in 0..24 {
        stage.clock.forward(EXPIRED);
        {
            let manager = stage.manager();
            let mut asked = pin!(manager.credential(A_WHILE));
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                if let Poll::Ready(lent) = asked.as_mut().poll(&mut context) {
                    lent.unwrap();
                    break;
                }
                tokio::time::sleep(Duration::from_micros(300)).await;
            }
        }
        stage.manager().credential(A_WHILE).await.unwrap();
        let state = stage.issuer.state();
        assert!(state.reused.is_empty(), "dropped after {polls} polls");
        assert_eq!(stage.stored().login.refresh_token.unwrap().expose(), state.current);
    }
}

#[tokio::test]
async fn a_caller_that_is_neither_polled_nor_dropped_stops_nobody() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.delay_ms = 50);
    for polls in 1..8 {
        stage.clock.forward(EXPIRED);
        let manager = stage.manager();
        let mut forgotten = pin!(manager.credential(A_WHILE));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            if forgotten.as_mut().poll(&mut context).is_ready() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let another = stage.manager();
        let lent = tokio::time::timeout(Duration::from_secs(60), another.credential(A_WHILE)).await;
        lent.unwrap().unwrap();
        stage.lock_is_free().await;
    }
    assert!(stage.issuer.state().reused.is_empty());
}

#[tokio::test]
async fn a_runtime_that_ends_before_the_answer_frees_the_lock() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.mood = Mood::Hangs);
    let (manager, lock) = (stage.manager(), stage.lock_file());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.spawn(async move { manager.credential(A_WHILE).await });
        while !std::fs::File::open(&lock).is_ok_and(|lock| lock.try_lock().is_err()) {
            std::thread::sleep(Duration::from_millis(2));
        }
        runtime.shutdown_background();
    })
    .join()
    .unwrap();
    stage.issuer.change(|state| state.mood = Mood::Works);
    assert_eq!(stage.manager().credential(A_WHILE).await.unwrap().token.expose(), "access-2");
}
