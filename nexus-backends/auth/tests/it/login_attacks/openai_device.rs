//! OpenAI's own way by another device. Source of what is sent and answered: observed with codex 0.169.0.

use std::time::Duration;

use nexus_auth::{DeviceFlow, Issuer, LoginStep, SignInError, SignInMethod};
use serde_json::{Value, json};

use super::{
    stage::{ACCESS, Flow, good, sign_in},
    wire::{Reply, Wire},
};

const CLIENT_ID: &str = "our-client";
const VERIFIER: &str = "canary-verifier-of-the-server";

fn started() -> Reply {
    Reply::json(
        200,
        &json!({ "device_auth_id": "canary-device", "user_code": "ABCD-12345", "interval": "1" }),
    )
}

fn approved() -> Reply {
    let answer =
        json!({ "authorization_code": "canary-code", "code_challenge": "unused", "code_verifier": VERIFIER });
    Reply::json(200, &answer)
}

fn pending(status: u16) -> Reply {
    Reply::json(
        status,
        &json!({ "error": { "message": "canary", "code": "deviceauth_authorization_unknown" } }),
    )
}

/// An issuer with this flow, at the paths of OpenAI's own.
fn issuer(url: &str) -> Issuer {
    Issuer::new(url, CLIENT_ID).with_token_endpoint("/oauth/token").with_device_flow(
        DeviceFlow::CodeWithVerifier {
            endpoint: "/api/accounts/deviceauth/usercode".into(),
            poll_endpoint: "/api/accounts/deviceauth/token".into(),
            page: "/codex/device".into(),
            redirect: "/deviceauth/callback".into(),
        },
    )
}

fn flow(wire: &Wire) -> Flow {
    Flow::start(sign_in(issuer(&wire.url()), SignInMethod::DeviceCode))
}

#[tokio::test]
async fn a_code_is_shown_asked_after_in_json_and_exchanged_with_the_verifier_of_the_server() {
    let wire = Wire::answering([started(), pending(403), pending(404), approved(), good()]);
    let mut flow = flow(&wire);
    let LoginStep::EnterCode { url, complete_url, user_code, expires_in } = flow.step().await else {
        panic!()
    };
    assert_eq!(url, format!("{}/codex/device", wire.url()));
    assert_eq!((complete_url, user_code.as_str(), expires_in), (None, "ABCD-12345", Duration::from_secs(60)));
    assert_eq!(flow.ended().await.unwrap().access_token.expose(), ACCESS);

    let asked = wire.asked();
    let paths: Vec<_> = asked.iter().map(|asked| asked.path.as_str()).collect();
    let poll = "/api/accounts/deviceauth/token";
    assert_eq!(paths, ["/api/accounts/deviceauth/usercode", poll, poll, poll, "/oauth/token"]);
    let body = |number: usize| serde_json::from_str::<Value>(&asked[number].body).unwrap();
    assert_eq!(asked[0].header("content-type"), Some("application/json"));
    assert_eq!(body(0), json!({ "client_id": CLIENT_ID }));
    for number in 1..4 {
        assert_eq!(body(number), json!({ "device_auth_id": "canary-device", "user_code": "ABCD-12345" }));
        assert!(asked[number].at - asked[number - 1].at >= Duration::from_millis(950));
    }
    assert_eq!(asked[4].field("grant_type"), "authorization_code");
    assert_eq!(asked[4].field("code"), "canary-code");
    assert_eq!(asked[4].field("code_verifier"), VERIFIER);
    assert_eq!(asked[4].field("redirect_uri"), format!("{}/deviceauth/callback", wire.url()));
    assert_eq!(asked[4].field("client_id"), CLIENT_ID);
}

#[tokio::test]
async fn each_end_is_told_apart() {
    let wire = Wire::answering([started(), Reply::json(400, &json!({ "error": "invalid_grant" }))]);
    let ended = flow(&wire).ended().await;
    assert!(
        matches!(&ended, Err(SignInError::Declined { reason }) if reason.contains("invalid_grant")),
        "{ended:?}"
    );
    let wire = Wire::answering([started(), Reply::text(200, "text/html", "<html>canary</html>")]);
    let ended = flow(&wire).ended().await;
    assert!(matches!(ended, Err(SignInError::Malformed { .. })), "{ended:?}");
    let wire =
        Wire::answering([started(), approved(), Reply::json(400, &json!({ "error": "invalid_grant" }))]);
    let ended = flow(&wire).ended().await;
    assert!(matches!(ended, Err(SignInError::Declined { .. })), "{ended:?}");
    let wire = Wire::answering([Reply::json(404, &json!({}))]);
    let ended = flow(&wire).ended().await;
    assert!(matches!(ended, Err(SignInError::Malformed { .. })), "{ended:?}");
    assert_eq!(wire.asked().len(), 1);
    // Pending has the same status as a country that is not served.
    let region =
        json!({ "error": { "code": "unsupported_country_region_territory", "message": "Not here." } });
    let wire = Wire::answering([started(), Reply::json(403, &region)]);
    let ended = flow(&wire).ended().await;
    assert!(
        matches!(&ended, Err(SignInError::Declined { reason }) if reason.contains("Not here.")),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_network_that_fails_in_between_is_asked_again() {
    let wire = Wire::answering([
        started(),
        Reply::Bytes(Vec::new()),
        Reply::text(502, "text/html", "canary"),
        approved(),
        good(),
    ]);
    flow(&wire).ended().await.unwrap();
    assert_eq!(wire.asked().len(), 5);
}

#[tokio::test]
async fn nobody_enters_the_code() {
    let wire = Wire::answering([started(), pending(403)]);
    let patience = Duration::from_millis(1_500);
    let sign_in = sign_in(issuer(&wire.url()), SignInMethod::DeviceCode).with_patience(patience);
    let ended = Flow::start(sign_in).ended().await;
    assert!(matches!(ended, Err(SignInError::TimedOut { after }) if after == patience), "{ended:?}");
}

#[tokio::test]
async fn a_start_that_makes_no_sense_is_not_shown() {
    for odd in [
        json!({}),
        json!({ "device_auth_id": "canary", "user_code": "\u{1b}[2J" }),
        json!({ "device_auth_id": 5, "user_code": "ABCD" }),
        json!(["canary", "ABCD", 1]),
    ] {
        let wire = Wire::answering([Reply::json(200, &odd)]);
        let mut flow = flow(&wire);
        while flow.is_waiting() {
            tokio::task::yield_now().await;
        }
        assert!(flow.shown().is_empty(), "{odd}");
        let ended = flow.ended().await;
        assert!(matches!(ended, Err(SignInError::Malformed { .. })), "{odd}: {ended:?}");
    }
}
