//! Clocks that differ, and clocks that step.

use std::{sync::Arc, time::Duration};

use nexus_auth::CredentialSource as _;

use super::stage::{EXPIRED, FRESH, SetClock, Stage};

const HOUR: Duration = Duration::from_secs(3600);
const A_WHILE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn two_callers_an_hour_apart_spend_every_token_once() {
    for is_ahead in [true, false] {
        let mut stage = Stage::with_login(EXPIRED);
        let here = Arc::clone(&stage.clock);
        let there = Arc::new(SetClock::now());
        if is_ahead {
            there.forward(HOUR);
        } else {
            there.back(HOUR);
        }
        for _ in 0..4 {
            for clock in [&here, &there] {
                stage.clock = Arc::clone(clock);
                stage.manager().credential(A_WHILE).await.unwrap();
            }
        }
        let state = stage.issuer.state();
        assert_eq!(state.reused, Vec::<String>::new(), "ahead: {is_ahead}");
        assert!(!state.spent.is_empty());
        assert_eq!(stage.stored().login.refresh_token.unwrap().expose(), state.current);
    }
}

#[tokio::test]
async fn a_clock_that_is_behind_the_login_lends_it_and_mends_it_when_it_is_refused() {
    let stage = Stage::with_login(FRESH);
    stage.clock.back(HOUR);
    let lent = stage.manager().credential(A_WHILE).await.unwrap();
    assert_eq!(lent.token.expose(), "access-1");
    let lent = stage.manager().renewed(&lent, A_WHILE).await.unwrap().unwrap();
    assert_eq!(lent.token.expose(), "access-2");
}

#[tokio::test]
async fn a_clock_that_steps_forward_renews_once() {
    let stage = Stage::with_login(FRESH);
    stage.clock.forward(HOUR);
    for _ in 0..3 {
        assert_eq!(stage.manager().credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    }
    stage.clock.back(HOUR);
    for _ in 0..3 {
        assert_eq!(stage.manager().credential(A_WHILE).await.unwrap().token.expose(), "access-2");
    }
    assert_eq!(stage.issuer.state().spent, ["refresh-1"]);
}
