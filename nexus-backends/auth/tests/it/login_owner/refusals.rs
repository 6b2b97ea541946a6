//! A note that the issuer refused: what it stands against, and what stands for it where it cannot be written.

use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _, sync::Arc, time::Duration};

use async_trait::async_trait;
use nexus_auth::{
    CredentialError, CredentialManager, CredentialSource as _, Login, LoginScreen, RefreshError, Revocation,
    SignIn, SignInError,
    store::{StoredLogin, TokenStore},
};

use super::{
    issuer::{FromIssuer, Mood, NAME},
    stage::{ALIVE_AND_DUE, EXPIRED, Stage},
    trouble::{Step, failing_store},
};

const A_WHILE: Duration = Duration::from_secs(60);

/// A note of somebody who heeds no lock, as large as what is renewed.
fn noted(stage: &Stage) -> StoredLogin {
    let mut noted = stage.stored();
    noted.generation += 1;
    noted.refused = Some("invalid_grant".into());
    noted
}

/// A strategy that is given a new pair for a token, after which somebody else is refused for the same one.
#[derive(Debug)]
struct RefusedElsewhere {
    inner: FromIssuer,
    store: Arc<dyn TokenStore>,
    note: StoredLogin,
}

#[async_trait]
impl SignIn for RefusedElsewhere {
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
        self.store.prepare().unwrap().commit(&self.note.to_text()).unwrap();
        renewed
    }

    async fn revoke(&self, login: &Login) -> Result<Revocation, RefreshError> {
        self.inner.revoke(login).await
    }
}

#[tokio::test]
async fn a_new_pair_stands_against_a_note_that_the_old_one_was_refused() {
    let stage = Stage::with_login(EXPIRED);
    let store: Arc<dyn TokenStore> = Arc::new(stage.store());
    let inner = FromIssuer { issuer: stage.issuer.clone(), clock: Arc::clone(&stage.clock) as _ };
    let strategy = RefusedElsewhere { inner, store: Arc::clone(&store), note: noted(&stage) };
    let manager = CredentialManager::new(Arc::new(strategy), store, stage.auth())
        .with_clock(Arc::clone(&stage.clock) as _);
    assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    let stored = stage.stored();
    assert_eq!((stored.refused.as_deref(), stored.generation), (None, 3));
    assert_eq!(stored.login.refresh_token.unwrap().expose(), stage.issuer.state().current);
}

#[tokio::test]
async fn a_whole_new_pair_of_the_dead_stands_against_a_note_of_its_generation() {
    let stage = Stage::with_login(EXPIRED);
    let renewed = stage.renewed_by_the_dead();
    stage.write(&noted(&stage));
    let pending = stage.auth().join(format!(".{NAME}.json.999999-0.new"));
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&pending).unwrap();
    file.write_all(renewed.to_text().expose().as_bytes()).unwrap();
    drop(file);
    let manager = stage.manager();
    // Whoever signs in, looks; and whoever logs out.
    assert!(manager.log_out().await.unwrap().was_logged_in);
    assert_eq!(stage.issuer.state().revoked, ["refresh-2"]);
}

#[tokio::test]
async fn a_refusal_of_a_token_that_was_replaced_meanwhile_is_noted_of_none() {
    let stage = Stage::with_login(EXPIRED);
    let mut another = stage.renewed_by_the_dead();
    another.generation = 1;
    let store: Arc<dyn TokenStore> = Arc::new(stage.store());
    let inner = FromIssuer { issuer: stage.issuer.clone(), clock: Arc::clone(&stage.clock) as _ };
    let strategy = RefusedElsewhere { inner, store: Arc::clone(&store), note: another.clone() };
    stage.issuer.change(|state| state.mood = Mood::Refuses);
    let manager = CredentialManager::new(Arc::new(strategy), store, stage.auth())
        .with_clock(Arc::clone(&stage.clock) as _);
    assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    assert_eq!(stage.stored().refused, None);
}

#[tokio::test]
async fn a_refusal_that_cannot_be_noted_is_remembered_and_nothing_spent_again() {
    for (age, is_alive) in [(EXPIRED, false), (ALIVE_AND_DUE, true)] {
        let stage = Stage::with_login(age);
        stage.issuer.change(|state| state.mood = Mood::Refuses);
        let store = failing_store(&stage);
        store.fail(Step::Commit, 1000);
        let manager = stage.manager_with(Arc::new(store.clone()));
        for manager in [&manager, &manager, &stage.manager_with(Arc::new(store.clone()))] {
            match manager.credential(A_WHILE).await {
                Ok(lent) => assert!(is_alive && lent.token.expose() == "access-1"),
                Err(CredentialError::Refused { .. }) => assert!(!is_alive),
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
        assert_eq!(manager.look().await.unwrap().unwrap().refused.as_deref(), Some("invalid_grant"));

        store.fail(Step::Commit, 0);
        stage.issuer.change(|state| state.mood = Mood::Works);
        manager.sign_in(&mut |_: &_| {}).await.unwrap();
        assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    }
}
