//! An issuer that fails between the person's yes and the tokens.

use std::time::Duration;

use nexus_auth::{Login, LoginStep, SignIn as _, SignInError, SignInMethod};
use serde_json::json;

use super::{
    stage::{Asking, Flow, Shown, good, issuer, sign_in, tokens},
    wire::{Reply, Wire},
};

/// Says yes at an issuer that answers the exchange with this; gives what the browser shows and what came of it.
async fn exchanged(reply: Reply) -> (Wire, Asking, Shown, Result<Login, SignInError>) {
    let wire = Wire::answering([reply]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    let shown = asking.get(&asking.yes()).await;
    let ended = flow.ended().await;
    let asked = wire.only();
    assert_eq!(asked.path, "/token", "one exchange, and no second try");
    if let Err(error) = &ended {
        let words = format!("{error} {error:?} {}", shown.body);
        for secret in [asked.field("code_verifier"), asking.state.clone()] {
            assert!(!words.contains(&secret), "{words}");
        }
        assert_eq!(shown.status, 502, "{shown:?}");
        assert!(shown.body.contains("did not succeed"), "{}", shown.body);
    }
    assert!(asking.port_is_free());
    (wire, asking, shown, ended)
}

#[tokio::test]
async fn an_issuer_that_is_gone_before_the_exchange_is_unreachable() {
    let wire = Wire::answering([good()]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    wire.stop();
    let shown = asking.get(&asking.yes()).await;
    assert_eq!(shown.status, 502);
    assert!(shown.body.contains("did not succeed"), "{}", shown.body);
    let error = flow.ended().await.unwrap_err();
    assert!(
        matches!(&error, SignInError::Unreachable { reason } if reason.contains("nothing listens")),
        "{error}"
    );
    assert!(asking.port_is_free());
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_unreachable() {
    for reply in
        [good().cut(), Reply::Bytes(Vec::new()), Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec())]
    {
        let (_, _, _, ended) = exchanged(reply.clone()).await;
        assert!(matches!(ended, Err(SignInError::Unreachable { .. })), "{reply:?}: {ended:?}");
    }
}

#[tokio::test]
async fn an_issuer_that_is_busy_is_unreachable() {
    for status in [408, 425, 429, 500, 502, 503] {
        let (_, _, _, ended) = exchanged(Reply::text(status, "text/html", "<html>canary</html>")).await;
        assert!(matches!(ended, Err(SignInError::Unreachable { .. })), "{status}: {ended:?}");
    }
}

#[tokio::test]
async fn a_code_that_is_refused_is_declined_with_the_code_of_the_issuer() {
    let refusal = json!({ "error": "invalid_grant", "error_description": "the code canary-code is spent" });
    let (_, _, shown, ended) = exchanged(Reply::json(400, &refusal)).await;
    assert!(
        matches!(&ended, Err(SignInError::Declined { reason }) if reason.starts_with("invalid_grant")),
        "{ended:?}"
    );
    assert!(shown.body.contains("invalid_grant"), "{}", shown.body);
    // One that declines for now, or for a place, is quoted.
    let refusal =
        json!({ "error": { "code": "unsupported_country_region_territory", "message": "Not here." } });
    let (_, _, _, ended) = exchanged(Reply::json(403, &refusal)).await;
    let Err(SignInError::Declined { reason }) = &ended else { panic!("{ended:?}") };
    assert!(reason.contains("Not here.") && reason.contains("proxy"), "{reason}");
    // An issuer that repeats what it was sent does not get it shown.
    for echo in ["canary-code", "invalid_grant:canary-code"] {
        let (_, _, _, ended) = exchanged(Reply::json(401, &json!({ "error": echo }))).await;
        assert!(
            matches!(&ended, Err(SignInError::Malformed { reason }) if reason == "HTTP 401"),
            "{ended:?}"
        );
    }
}

#[tokio::test]
async fn what_is_no_answer_of_an_issuer_is_malformed() {
    let large = format!("{{\"access_token\":\"canary-access\",\"more\":\"{}\"}}", "x".repeat(2 << 20));
    for (reply, words) in [
        (Reply::text(200, "text/html", "<html>canary: sign in to this network</html>"), "a JSON object"),
        (
            Reply::text(200, "application/json", "[\"canary\",\"canary\",\"canary\",\"Bearer\",60]"),
            "a JSON object",
        ),
        (Reply::text(200, "application/json", "\"canary\""), "a JSON object"),
        (Reply::text(200, "application/json", "{\"access_token\":\"canary"), "a JSON object"),
        (Reply::text(200, "application/json", ""), "empty"),
        (Reply::text(200, "application/json", &large), "larger"),
        (Reply::json(200, &json!({ "refresh_token": "canary" })), "access_token"),
        (Reply::text(200, "application/json", "{\"refresh_token\":\"canary\",\"acc"), "a JSON object"),
        (Reply::json(200, &json!({ "access_token": ["canary"] })), "access_token"),
        (Reply::json(200, &json!({ "access_token": "can ary" })), "access_token"),
        (
            Reply::json(200, &json!({ "access_token": "canary", "refresh_token": { "canary": 1 } })),
            "refresh_token",
        ),
        (Reply::json(200, &json!({ "access_token": "canary", "token_type": "mac" })), "token_type"),
        (Reply::json(404, &json!({ "canary": 1 })), "404"),
    ] {
        let (_, _, _, ended) = exchanged(reply.clone()).await;
        let Err(SignInError::Malformed { reason }) = &ended else { panic!("{ended:?}") };
        assert!(reason.contains(words), "{words}: {reason}");
    }
}

#[tokio::test]
async fn a_code_does_not_follow_a_redirect() {
    let elsewhere = Wire::answering([good()]);
    for status in [301, 302, 303, 307, 308] {
        let reply = Reply::Bytes(
            format!(
                "HTTP/1.1 {status} X\r\nlocation: {}/token\r\ncontent-length: 0\r\n\r\n",
                elsewhere.url()
            )
            .into_bytes(),
        );
        let (_, _, _, ended) = exchanged(reply).await;
        assert!(matches!(ended, Err(SignInError::Malformed { .. })), "{status}: {ended:?}");
    }
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn an_issuer_that_never_answers_is_given_up() {
    let wire = Wire::answering([Reply::Hang]);
    let mut flow = Flow::start(sign_in(issuer(&wire.url()), SignInMethod::Browser));
    let asking = flow.page().await;
    let browser = asking
        .begin(&format!("GET {} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", asking.yes(), asking.port))
        .await;
    wire.reached(1).await;
    tokio::time::pause();
    // A part of its 30 seconds may have passed before.
    tokio::time::advance(Duration::from_secs(15)).await;
    assert!(flow.is_waiting(), "it has 30 seconds");
    tokio::time::advance(Duration::from_secs(16)).await;
    tokio::time::resume();
    let error = flow.ended().await.unwrap_err();
    assert!(
        matches!(&error, SignInError::Unreachable { reason } if reason.contains("30 seconds")),
        "{error}"
    );
    assert_eq!(wire.asked().len(), 1);
    drop(browser);
}

#[tokio::test]
async fn what_was_spent_is_not_lost_for_a_label() {
    let body = tokens().to_string();
    for reply in [
        Reply::text(200, "text/html", &body),
        Reply::text(201, "application/json;charset=UTF-8", &body),
        Reply::Bytes(format!("HTTP/1.1 200 OK\r\n\r\n{body}").into_bytes()),
    ] {
        let (_, _, _, ended) = exchanged(reply.clone()).await;
        assert!(ended.is_ok(), "{reply:?}: {ended:?}");
    }
}

#[tokio::test]
async fn a_secret_is_sent_to_no_address_where_others_can_read_it() {
    let wire = Wire::answering([good()]);
    let mut shown = |step: &LoginStep| panic!("nothing is shown: {step:?}");
    for endpoint in
        ["http://issuer.test/token", "http://10.0.0.1/token", "ftp://127.0.0.1/token", "token", ""]
    {
        for method in [SignInMethod::Browser, SignInMethod::DeviceCode] {
            let sign_in = sign_in(issuer(&wire.url()).with_token_endpoint(endpoint), method);
            let error = sign_in.sign_in(&mut shown).await.unwrap_err();
            assert!(matches!(error, SignInError::Unsupported { .. }), "{endpoint}: {error}");
        }
    }
    let sign_in =
        sign_in(issuer(&wire.url()).with_authorize_parameter("state", "mine"), SignInMethod::Browser);
    let error = sign_in.sign_in(&mut shown).await.unwrap_err();
    assert!(error.to_string().contains("`state`"), "{error}");
    assert!(wire.asked().is_empty());
}
