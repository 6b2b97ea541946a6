//! The three ways in which a renewal fails, and what each means for a token that is alive and for one that is not.

use std::time::Duration;

use nexus_auth::{CredentialError, CredentialSource as _};

use super::{
    issuer::Mood,
    stage::{ALIVE_AND_DUE, EXPIRED, Stage},
};

const A_WHILE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_token_that_is_alive_keeps_working_while_the_renewal_fails() {
    for mood in [Mood::Refuses, Mood::Unreachable, Mood::Malformed, Mood::Panics] {
        let stage = Stage::with_login(ALIVE_AND_DUE);
        stage.issuer.change(|state| state.mood = mood);
        let lent = stage.manager().credential(A_WHILE).await.unwrap();
        assert_eq!(lent.token.expose(), "access-1", "{mood:?}");
        let lent = stage.manager().credential(A_WHILE).await.unwrap();
        assert_eq!(lent.token.expose(), "access-1", "{mood:?}");
        let spent = usize::from(mood != Mood::Panics);
        assert_eq!(stage.issuer.state().spent.len(), spent, "{mood:?}");
        assert_eq!(stage.left_over(), Vec::<String>::new(), "{mood:?}");
    }
}

#[tokio::test]
async fn with_a_dead_token_each_failure_is_its_own_error() {
    for mood in [Mood::Refuses, Mood::Unreachable, Mood::Malformed, Mood::Panics] {
        let stage = Stage::with_login(EXPIRED);
        stage.issuer.change(|state| state.mood = mood);
        let error = stage.manager().credential(A_WHILE).await.unwrap_err();
        let is_right = match &error {
            CredentialError::Refused { reason, remedy, .. } => {
                mood == Mood::Refuses && reason == "invalid_grant" && remedy == "log in at the test"
            }
            CredentialError::Unreachable { .. } => mood == Mood::Unreachable,
            CredentialError::Malformed { .. } => matches!(mood, Mood::Malformed | Mood::Panics),
            _ => false,
        };
        assert!(is_right, "{mood:?}: {error:?}");
        // The login is still there, whatever was said of it.
        assert_eq!(stage.stored().login.refresh_token.unwrap().expose(), "refresh-1");
    }
}

#[tokio::test]
async fn a_refused_login_is_kept_and_spent_no_more_until_somebody_signs_in() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.mood = Mood::Refuses);
    for _ in 0..3 {
        let error = stage.manager().credential(A_WHILE).await.unwrap_err();
        assert!(matches!(error, CredentialError::Refused { .. }), "{error:?}");
    }
    assert!(matches!(stage.manager().standing().await, Err(CredentialError::Refused { .. })));
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
    assert_eq!(stage.stored().refused.as_deref(), Some("invalid_grant"));

    stage.issuer.change(|state| state.mood = Mood::Works);
    stage.manager().sign_in(&mut |_: &_| {}).await.unwrap();
    assert_eq!(stage.manager().credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    assert_eq!(stage.stored().refused, None);
}

#[tokio::test]
async fn an_alive_token_of_a_refused_login_is_lent_and_is_not_said_to_be_renewable() {
    let stage = Stage::with_login(ALIVE_AND_DUE);
    stage.issuer.change(|state| state.mood = Mood::Refuses);
    stage.manager().credential(A_WHILE).await.unwrap();
    let standing = stage.manager().standing().await.unwrap();
    assert!(!standing.is_renewable);
    assert!(standing.expires_at.is_some());
    stage.clock.forward(Duration::from_secs(300));
    let error = stage.manager().credential(A_WHILE).await.unwrap_err();
    assert!(matches!(error, CredentialError::Refused { .. }), "{error:?}");
    assert_eq!(stage.issuer.state().spent.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_failed_is_left_alone_for_five_seconds_by_every_manager() {
    for mood in [Mood::Unreachable, Mood::Malformed] {
        let stage = Stage::with_login(EXPIRED);
        stage.issuer.change(|state| state.mood = mood);
        let (one, another) = (stage.manager(), stage.manager());
        for _ in 0..5 {
            one.credential(A_WHILE).await.unwrap_err();
            another.credential(A_WHILE).await.unwrap_err();
        }
        assert_eq!(stage.issuer.state().spent.len(), 1, "{mood:?}");
        tokio::time::advance(Duration::from_secs(6)).await;
        another.credential(A_WHILE).await.unwrap_err();
        assert_eq!(stage.issuer.state().spent.len(), 2, "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_pause_a_renewal_that_works_is_taken() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.mood = Mood::Panics);
    let manager = stage.manager();
    manager.credential(A_WHILE).await.unwrap_err();
    stage.issuer.change(|state| state.mood = Mood::Works);
    manager.credential(A_WHILE).await.unwrap_err();
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(manager.credential(A_WHILE).await.unwrap().token.expose(), "access-2");
}

#[tokio::test(start_paused = true)]
async fn a_strategy_that_never_answers_is_given_up_and_the_lock_is_free() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.mood = Mood::Hangs);
    let began = tokio::time::Instant::now();
    let error = stage.manager().credential(A_WHILE).await.unwrap_err();
    assert!(matches!(error, CredentialError::Unreachable { .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(60), "others wait for 100 s");
    stage.issuer.change(|state| state.mood = Mood::Works);
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(stage.manager().credential(A_WHILE).await.unwrap().token.expose(), "access-2");
}

#[tokio::test]
async fn an_answer_without_a_refresh_token_leaves_the_old_one_in_force() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.mood = Mood::KeepsTheRefreshToken);
    for expected in ["access-2", "access-3"] {
        assert_eq!(stage.manager().credential(A_WHILE).await.unwrap().token.expose(), expected);
        assert_eq!(stage.stored().login.refresh_token.unwrap().expose(), "refresh-1");
        stage.clock.forward(EXPIRED);
    }
}

#[tokio::test]
async fn the_same_access_token_again_is_lent_but_not_in_place_of_itself() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.mood = Mood::RepeatsTheAccessToken);
    let lent = stage.manager().credential(A_WHILE).await.unwrap();
    assert_eq!(lent.token.expose(), "access-1");
    stage.clock.forward(EXPIRED);
    assert!(stage.manager().renewed(&lent, A_WHILE).await.unwrap().is_none());
    assert_eq!(stage.issuer.state().spent, ["refresh-1", "refresh-2"]);
    assert_eq!(stage.stored().login.refresh_token.unwrap().expose(), "refresh-3");
}

#[tokio::test]
async fn a_new_token_that_is_dead_already_is_an_error_and_its_refresh_token_is_kept() {
    let stage = Stage::with_login(EXPIRED);
    stage.issuer.change(|state| state.mood = Mood::HandsOutTheDead);
    for _ in 0..3 {
        let error = stage.manager().credential(A_WHILE).await.unwrap_err();
        assert!(matches!(error, CredentialError::Malformed { .. }), "{error:?}");
    }
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
    assert_eq!(stage.stored().login.refresh_token.unwrap().expose(), "refresh-2");
}
