//! An issuer that rotates the refresh token and gives no access token that can be used, and the credential manager of the login: the
//! new refresh token is in the store, no spent one is presented, and none is spent in a loop.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use nexus_auth::{
    Credential, CredentialError, CredentialManager, CredentialSource as _, Issuer as OurIssuer, Login,
    SignInMethod,
    store::{MemoryStore, StoredLogin, TokenStore as _},
};
use nexus_core::Secret;
use nexus_testkit::issuer::{Fault, Issuer, RequestKind};
use serde_json::Value;
use tempfile::TempDir;

use super::stage::{issuer, sign_in};

/// What the credential manager leaves an issuer alone for, and a little more.
const PAUSE: Duration = Duration::from_secs(6);

/// A login that lives for an hour, at an issuer whose answers have no access token.
struct Stage {
    issuer: Issuer,
    manager: CredentialManager,
    store: MemoryStore,
    access: Secret,
    _locks: TempDir,
}

impl Stage {
    fn with_login(age: Duration) -> Self {
        let locks = tempfile::tempdir().unwrap();
        let issuer_of_test = Issuer::start().unwrap();
        let at: OurIssuer = issuer(&issuer_of_test.url()).with_token_endpoint("/oauth2/token");
        let Ok(Value::Object(origin)) = serde_json::to_value(&at) else { panic!("an issuer is an object") };
        let tokens = issuer_of_test.issue("our-client");
        let login = Login::new(tokens.access_token.clone(), SystemTime::now() - age)
            .with_refresh_token(tokens.refresh_token.clone())
            .with_lifetime(Some(Duration::from_secs(3_600)))
            .with_origin(origin);
        let store = MemoryStore::new();
        store.prepare().unwrap().commit(&StoredLogin::new(login).to_text()).unwrap();
        let strategy = Arc::new(sign_in(at, SignInMethod::Browser));
        let manager = CredentialManager::new(strategy, Arc::new(store.clone()), locks.path());
        issuer_of_test.fail(RequestKind::Refresh, Fault::NoAccessToken);
        let access = tokens.access_token;
        Self { issuer: issuer_of_test, manager, store, access, _locks: locks }
    }

    fn stored(&self) -> StoredLogin {
        StoredLogin::from_text(&self.store.read().unwrap().unwrap()).unwrap()
    }

    /// One refresh token was spent, and what came for it is in the store beside the old access token.
    fn was_rotated_once(&self) {
        assert_eq!((self.issuer.count(RequestKind::Refresh), self.issuer.reuses()), (1, 0));
        let stored = self.stored();
        assert_eq!((&stored.login.access_token, stored.refused.as_deref()), (&self.access, None));
        let kept = self.issuer.place_of(stored.login.refresh_token.as_ref().unwrap()).unwrap();
        assert_eq!(kept.generation, 1, "the one that came last");
    }

    /// When the issuer is sound again and has been left alone for long enough, the login goes on. The clock stands still before.
    async fn goes_on(&self) {
        self.issuer.heal();
        tokio::time::advance(PAUSE).await;
        tokio::time::resume();
        let lent = self.manager.credential(Duration::from_secs(600)).await.unwrap();
        assert_ne!(lent.token, self.access);
        assert!(self.issuer.accepts(lent.token.expose()));
        assert_eq!((self.issuer.count(RequestKind::Refresh), self.issuer.reuses()), (2, 0));
    }
}

/// Stops the clock behind the first of several questions: the others are answered without the issuer.
fn pause_once(number: usize) {
    if number == 0 {
        tokio::time::pause();
    }
}

#[tokio::test]
async fn an_expired_login_waits_and_goes_on() {
    let stage = Stage::with_login(Duration::from_secs(3_601));
    for number in 0..5 {
        let error = stage.manager.credential(Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, CredentialError::Malformed { .. }), "{error:?}");
        stage.was_rotated_once();
        // The issuer is left alone from here on, however long the rest takes.
        pause_once(number);
    }
    stage.goes_on().await;
}

#[tokio::test]
async fn a_crowd_spends_one() {
    let stage = Stage::with_login(Duration::from_secs(3_601));
    let asked = (0..20).map(|_| {
        let manager = stage.manager.clone();
        tokio::spawn(async move { manager.credential(Duration::ZERO).await })
    });
    for answer in futures::future::join_all(asked).await {
        let error = answer.unwrap().unwrap_err();
        assert!(matches!(error, CredentialError::Malformed { .. }), "{error:?}");
    }
    stage.was_rotated_once();
}

#[tokio::test]
async fn a_login_that_is_alive_is_lent_meanwhile() {
    let stage = Stage::with_login(Duration::from_secs(3_480));
    for number in 0..5 {
        let lent = stage.manager.credential(Duration::from_secs(600)).await.unwrap();
        assert_eq!(lent.token, stage.access);
        stage.was_rotated_once();
        pause_once(number);
    }
    stage.goes_on().await;
}

#[tokio::test]
async fn a_token_that_was_refused_is_not_lent_again() {
    let stage = Stage::with_login(Duration::from_secs(600));
    let refused = Credential::new(stage.access.clone());
    for number in 0..5 {
        let renewed = stage.manager.renewed(&refused, Duration::ZERO).await;
        let is_none = matches!(renewed, Ok(None) | Err(CredentialError::Malformed { .. }));
        assert!(is_none, "{renewed:?}");
        stage.was_rotated_once();
        pause_once(number);
    }
    stage.issuer.heal();
    tokio::time::advance(PAUSE).await;
    tokio::time::resume();
    let renewed = stage.manager.renewed(&refused, Duration::ZERO).await.unwrap().unwrap();
    assert!(stage.issuer.accepts(renewed.token.expose()));
    assert_eq!((stage.issuer.count(RequestKind::Refresh), stage.issuer.reuses()), (2, 0));
}
