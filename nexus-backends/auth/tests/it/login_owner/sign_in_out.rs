//! How a login comes and goes.

use std::{os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use nexus_auth::{
    CredentialError, CredentialSource as _, LoginError, RefreshError, Revocation, store::MemoryStore,
};

use super::{
    issuer::Mood,
    stage::{EXPIRED, FRESH, Stage},
    trouble::{FailingStore, Step},
};

const A_WHILE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_login_begins_is_lent_and_ends() {
    let stage = Stage::with_login(FRESH);
    let manager = stage.manager_with(Arc::new(MemoryStore::new()));
    assert!(manager.look().await.unwrap().is_none());
    assert!(matches!(manager.standing().await, Err(CredentialError::Missing { .. })));
    let error = manager.credential(A_WHILE).await.unwrap_err();
    assert!(matches!(&error, CredentialError::Missing { remedy, .. } if remedy == "log in at the test"));

    let mut notes = 0;
    let login = manager.sign_in(&mut |_: &_| notes += 1).await.unwrap();
    assert_eq!(notes, 1);
    let found = manager.look().await.unwrap().unwrap();
    assert_eq!((found.login.access_token, found.generation), (login.access_token.clone(), 1));
    assert!(manager.standing().await.unwrap().is_renewable);
    assert_eq!(manager.credential(A_WHILE).await.unwrap().token, login.access_token);

    let gone = manager.log_out().await.unwrap();
    assert!(gone.was_logged_in);
    assert!(matches!(gone.revocation, Some(Ok(Revocation::Revoked))));
    assert_eq!(stage.issuer.state().revoked, ["refresh-2"]);
    let gone = manager.log_out().await.unwrap();
    assert!(!gone.was_logged_in && gone.revocation.is_none());
}

#[tokio::test]
async fn what_the_issuer_is_not_told_is_removed_all_the_same_and_said() {
    for mood in [Mood::Unreachable, Mood::Panics] {
        let stage = Stage::with_login(FRESH);
        stage.issuer.change(|state| state.mood = mood);
        let gone = stage.manager().log_out().await.unwrap();
        assert!(gone.was_logged_in, "{mood:?}");
        assert!(matches!(gone.revocation, Some(Err(_))), "{mood:?}: {gone:?}");
        assert!(stage.manager().look().await.unwrap().is_none(), "{mood:?}");
    }
}

#[tokio::test]
async fn a_login_that_others_can_read_is_lent_to_nobody_and_written_over_by_nobody() {
    let stage = Stage::with_login(FRESH);
    let file = stage.auth().join("test-login.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let error = stage.manager().credential(A_WHILE).await.unwrap_err();
    assert!(matches!(error, CredentialError::Unreadable { .. }), "{error:?}");
    let mut was_bothered = false;
    let error = stage.manager().sign_in(&mut |_: &_| was_bothered = true).await.unwrap_err();
    assert!(matches!(error, LoginError::Store(_)) && !was_bothered, "{error:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert_eq!(stage.issuer.state().issued, 1);
}

#[tokio::test]
async fn a_login_that_is_torn_is_lent_to_nobody_and_kept_aside_at_a_new_sign_in() {
    for text in ["{ torn", ""] {
        let stage = Stage::with_login(FRESH);
        let file = stage.auth().join("test-login.json");
        std::fs::write(&file, text).unwrap();
        let error = stage.manager().credential(A_WHILE).await.unwrap_err();
        assert!(matches!(error, CredentialError::Unreadable { .. }), "{error:?}");
        stage.manager().sign_in(&mut |_: &_| {}).await.unwrap();
        assert_eq!(stage.stored().login.access_token.expose(), "access-2");
        let aside = stage.auth().join("test-login.json.damaged-1");
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), text);
        assert_eq!(std::fs::metadata(&aside).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_login_that_makes_no_sense_can_be_removed_and_the_issuer_is_said_not_to_know() {
    let stage = Stage::with_login(FRESH);
    let file = stage.auth().join("test-login.json");
    std::fs::write(&file, "{ torn").unwrap();
    let gone = stage.manager().log_out().await.unwrap();
    assert!(gone.was_logged_in);
    assert!(matches!(gone.revocation, Some(Err(RefreshError::Unasked { .. }))), "{gone:?}");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_store_that_cannot_be_written_is_found_before_a_person_is_bothered() {
    let stage = Stage::with_login(FRESH);
    let store = FailingStore::new(MemoryStore::new());
    store.fail(Step::Prepare, 1);
    let manager = stage.manager_with(Arc::new(store));
    let mut was_bothered = false;
    let error = manager.sign_in(&mut |_: &_| was_bothered = true).await.unwrap_err();
    assert!(matches!(error, LoginError::Store(_)), "{error:?}");
    assert!(!was_bothered);
}

#[tokio::test]
async fn logging_out_waits_for_a_renewal_which_does_not_write_it_back() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.holds_answers = true);
    let manager = stage.manager();
    let renewal = tokio::spawn(async move { manager.credential(A_WHILE).await });
    stage.issuer.was_asked().await;
    let manager = stage.manager();
    let log_out = tokio::spawn(async move { manager.log_out().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!log_out.is_finished(), "it waits");
    stage.issuer.change(|state| state.holds_answers = false);
    let gone = log_out.await.unwrap().unwrap();
    assert!(gone.was_logged_in);
    renewal.await.unwrap().unwrap();
    assert_eq!(stage.issuer.state().revoked, ["refresh-2"], "the newest is what is revoked");
    assert!(stage.manager().look().await.unwrap().is_none());
}

#[tokio::test]
async fn a_new_login_counts_on_from_the_one_before() {
    let stage = Stage::with_login(FRESH);
    stage.manager().sign_in(&mut |_: &_| {}).await.unwrap();
    assert_eq!(stage.stored().generation, 2);
    assert_eq!(stage.stored().login.access_token.expose(), "access-2");
}
