//! A token that the vendor refused: another one, if there is another one to be had.

use std::time::Duration;

use nexus_auth::{Credential, CredentialError, CredentialSource as _};
use nexus_core::Secret;

use super::{
    issuer::Mood,
    stage::{EXPIRED, FRESH, Stage},
};

const A_WHILE: Duration = Duration::from_secs(60);

fn refused(token: &str) -> Credential {
    Credential::new(Secret::new(token))
}

#[tokio::test]
async fn a_refused_token_is_replaced_once_and_whoever_asks_later_adopts() {
    let stage = Stage::with_login(FRESH);
    let asked = (0..20).map(|_| {
        let manager = stage.manager();
        tokio::spawn(async move { manager.renewed(&refused("access-1"), A_WHILE).await })
    });
    for answer in futures::future::join_all(asked).await {
        assert_eq!(answer.unwrap().unwrap().unwrap().token.expose(), "access-2");
    }
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
    // The new one is refused as well: it is too young for that to be for its age.
    assert!(stage.manager().renewed(&refused("access-2"), A_WHILE).await.unwrap().is_none());
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
    stage.clock.forward(Duration::from_secs(31));
    let lent = stage.manager().renewed(&refused("access-2"), A_WHILE).await.unwrap().unwrap();
    assert_eq!(lent.token.expose(), "access-3");
}

#[tokio::test]
async fn what_is_in_the_store_is_adopted_without_asking_anybody() {
    let stage = Stage::with_login(FRESH);
    let lent = stage.manager().renewed(&refused("access-0"), A_WHILE).await.unwrap().unwrap();
    assert_eq!(lent.token.expose(), "access-1");
    assert!(stage.issuer.state().spent.is_empty());
}

#[tokio::test]
async fn what_is_in_the_store_is_renewed_where_it_has_expired() {
    let stage = Stage::with_login(EXPIRED);
    let lent = stage.manager().renewed(&refused("access-0"), A_WHILE).await.unwrap().unwrap();
    assert_eq!(lent.token.expose(), "access-2");
}

#[tokio::test]
async fn a_refused_token_is_never_lent_again_however_the_renewal_fails() {
    for mood in [Mood::Refuses, Mood::Unreachable, Mood::Malformed, Mood::Panics] {
        let stage = Stage::with_login(FRESH);
        stage.issuer.change(|state| state.mood = mood);
        for _ in 0..2 {
            let error = stage.manager().renewed(&refused("access-1"), A_WHILE).await.unwrap_err();
            let is_right = match error {
                CredentialError::Refused { .. } => mood == Mood::Refuses,
                CredentialError::Unreachable { .. } => mood == Mood::Unreachable,
                CredentialError::Malformed { .. } => matches!(mood, Mood::Malformed | Mood::Panics),
                _ => false,
            };
            assert!(is_right, "{mood:?}");
        }
        assert!(stage.issuer.state().spent.len() <= 1, "{mood:?}");
    }
}

#[tokio::test]
async fn without_a_refresh_token_there_is_no_other() {
    let stage = Stage::with_login(FRESH);
    let mut stored = stage.stored();
    stored.login.refresh_token = None;
    stage.write(&stored);
    assert!(stage.manager().renewed(&refused("access-1"), A_WHILE).await.unwrap().is_none());
    assert!(stage.issuer.state().spent.is_empty());
}
