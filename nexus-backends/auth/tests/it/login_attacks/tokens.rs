//! Tokens that are odd, old, huge or unsigned, and clocks that are wrong: a login none the less.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nexus_auth::{Login, SignInMethod};
use serde_json::{Map, Value, json};

use super::{
    stage::{ACCESS, Flow, issuer, jwt, sign_in},
    wire::{Reply, Wire},
};

/// The login that an issuer's answer gives, and the time just before it was asked for.
async fn login(answer: &Value) -> (Login, SystemTime) {
    let wire = Wire::answering([Reply::json(200, answer)]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    let before = SystemTime::now();
    let shown = asking.get(&asking.yes()).await;
    assert!(shown.body.contains("You are signed in"), "{}", shown.body);
    (flow.ended().await.unwrap(), before)
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// It lives this long from when it was asked for, by our clock.
fn lives(login: &Login, before: SystemTime, life: Option<u64>) {
    let after = SystemTime::now();
    assert!(login.obtained_at >= before && login.obtained_at <= after, "{:?}", login.obtained_at);
    let life = life.map(Duration::from_secs);
    assert_eq!(login.expires_at.map(|end| end.duration_since(login.obtained_at).unwrap()), life);
}

#[tokio::test]
async fn a_clock_that_is_an_hour_off_makes_no_difference() {
    for skew in [-3_600, 0, 3_600] {
        let issued = now() + skew;
        let access = jwt(&json!({ "alg": "RS256" }), &json!({ "iat": issued, "exp": issued + 1_800 }));
        // Told by the claims alone, and told in so many words, which goes before them.
        let (told, before) = login(&json!({ "access_token": access, "token_type": "Bearer" })).await;
        lives(&told, before, Some(1_800));
        let (told, before) = login(&json!({ "access_token": access, "expires_in": 600 })).await;
        lives(&told, before, Some(600));
    }
}

#[tokio::test]
async fn tokens_that_nobody_can_read_are_tokens() {
    for token in [ACCESS, "a.b.c", "e30.e30.", "..", "canary-access.not-base64!.x", &"x".repeat(100_000)] {
        let (login, before) = login(&json!({ "access_token": token, "id_token": token })).await;
        assert_eq!(login.access_token.expose(), token);
        assert_eq!(login.identity, Default::default());
        lives(&login, before, None);
    }
    let (login, before) =
        login(&json!({ "access_token": ACCESS, "id_token": 5, "expires_in": "3600" })).await;
    lives(&login, before, Some(3_600));
}

#[tokio::test]
async fn a_token_that_says_it_is_over_is_not_believed_to_have_no_life() {
    let long_ago =
        jwt(&json!({ "alg": "RS256" }), &json!({ "iat": 1_000, "exp": 4_600, "email": "a@b.test" }));
    let (told, before) = login(&json!({ "access_token": long_ago })).await;
    lives(&told, before, Some(3_600));
    assert_eq!(told.identity.email.as_deref(), Some("a@b.test"));
    let backwards = jwt(&json!({ "alg": "RS256" }), &json!({ "iat": 4_600, "exp": 1_000 }));
    let (told, before) = login(&json!({ "access_token": backwards })).await;
    lives(&told, before, None);
}

#[tokio::test]
async fn a_token_that_nobody_signed_is_shown_like_any_other() {
    let claims = json!({
        "iat": 0, "exp": 60, "email": "a@b.test", "plan": "pro",
        "https://issuer.test/auth": { "account": "account-1" },
    });
    let unsigned = jwt(&json!({ "alg": "none" }), &claims);
    let bare = format!("{}.", unsigned.rsplit_once('.').unwrap().0);
    for id_token in [unsigned, bare] {
        let (login, before) = login(&json!({ "access_token": ACCESS, "id_token": id_token })).await;
        assert_eq!(login.identity.account.as_deref(), Some("account-1"));
        assert_eq!(
            (login.identity.email.as_deref(), login.identity.plan.as_deref()),
            (Some("a@b.test"), Some("pro"))
        );
        lives(&login, before, None);
    }
}

#[tokio::test]
async fn a_huge_set_of_claims_is_read_and_a_deep_one_is_not() {
    let mut claims = Map::from_iter((0..15_000).map(|number| (format!("claim-{number}"), json!("x"))));
    claims.insert("email".into(), json!("a@b.test"));
    claims.insert("plan".into(), json!("x".repeat(100_000)));
    let huge = jwt(&json!({ "alg": "RS256" }), &Value::Object(claims));
    assert!(huge.len() > 400_000);
    let (told, _) = login(&json!({ "access_token": ACCESS, "id_token": huge })).await;
    assert_eq!(told.identity.email.as_deref(), Some("a@b.test"));
    assert_eq!(told.identity.plan, None, "what nobody could read on a line is left out");

    let mut deep = json!("end");
    for _ in 0..100 {
        deep = json!({ "https://issuer.test/auth": deep });
    }
    let deep = jwt(&json!({ "alg": "RS256" }), &deep);
    let (told, _) = login(&json!({ "access_token": ACCESS, "id_token": deep })).await;
    assert_eq!(told.identity.account, None);
}

#[tokio::test]
async fn claims_that_are_not_what_they_should_be_are_left_out() {
    for account in
        [json!(5), json!(null), json!(["a"]), json!({}), json!("two\r\nlines"), json!("caf\u{e9}"), json!("")]
    {
        let claims = json!({ "https://issuer.test/auth": { "account": account }, "email": account, "plan": [account] });
        let (told, _) = login(&json!({ "access_token": ACCESS, "id_token": jwt(&json!({}), &claims) })).await;
        assert_eq!(told.identity.account, None, "{account}: a header could not carry it");
        assert_eq!(told.identity.plan, None);
    }
    let claims = json!({ "https://issuer.test/auth": "canary", "email": "\u{1b}[31ma@b.test" });
    let (told, _) = login(&json!({ "access_token": ACCESS, "id_token": jwt(&json!({}), &claims) })).await;
    assert_eq!(told.identity, Default::default());
}
