//! The device authorization grant, with everything that an issuer may answer to it.

use std::time::Duration;

use nexus_auth::{LoginStep, SignInError, SignInMethod};
use serde_json::{Value, json};

use super::{
    stage::{ACCESS, Flow, good, issuer, sign_in},
    wire::{Reply, Wire},
};

const DEVICE_CODE: &str = "canary-device-code";

fn start() -> Value {
    json!({
        "device_code": DEVICE_CODE,
        "user_code": "ABCD-1234",
        "verification_uri": "https://issuer.test/device",
        "verification_uri_complete": "https://issuer.test/device?user_code=ABCD-1234",
        "expires_in": 600,
        "interval": 1,
    })
}

fn started(with: Value) -> Reply {
    let mut start = start();
    let Value::Object(with) = with else { panic!("{with}") };
    start.as_object_mut().unwrap().extend(with);
    Reply::json(200, &start)
}

fn error(code: &str) -> Reply {
    Reply::json(400, &json!({ "error": code, "error_description": "canary" }))
}

fn flow(wire: &Wire) -> Flow {
    Flow::start(sign_in(issuer(&wire.url()), SignInMethod::DeviceCode))
}

#[tokio::test]
async fn a_code_is_shown_and_asked_after_until_the_person_said_yes() {
    let wire = Wire::answering([started(json!({})), error("authorization_pending"), good()]);
    let mut flow = flow(&wire);
    let wanted = LoginStep::EnterCode {
        url: "https://issuer.test/device".into(),
        complete_url: Some("https://issuer.test/device?user_code=ABCD-1234".into()),
        user_code: "ABCD-1234".into(),
        expires_in: Duration::from_secs(60),
    };
    assert_eq!(flow.step().await, wanted, "as long as it is waited for");
    let login = flow.ended().await.unwrap();
    assert_eq!(login.access_token.expose(), ACCESS);
    let asked = wire.asked();
    assert_eq!(
        asked.iter().map(|asked| asked.path.as_str()).collect::<Vec<_>>(),
        ["/device", "/token", "/token"]
    );
    let mut names = asked[0].names();
    names.sort();
    assert_eq!(names, ["client_id", "scope"]);
    assert_eq!(
        (asked[0].field("client_id").as_str(), asked[0].field("scope").as_str()),
        ("our-client", "openid offline_access")
    );
    for poll in &asked[1..] {
        let mut names = poll.names();
        names.sort();
        assert_eq!(names, ["client_id", "device_code", "grant_type"]);
        assert_eq!(poll.field("grant_type"), "urn:ietf:params:oauth:grant-type:device_code");
        assert_eq!(poll.field("device_code"), DEVICE_CODE);
    }
    for pair in asked.windows(2) {
        assert!(pair[1].at - pair[0].at >= Duration::from_millis(950), "no sooner than it may");
    }
}

#[tokio::test]
async fn an_issuer_that_wants_it_slower_gets_it_slower() {
    let wire = Wire::answering([started(json!({})), error("slow_down"), good()]);
    flow(&wire).ended().await.unwrap();
    let asked = wire.asked();
    assert_eq!(asked.len(), 3);
    assert!(
        asked[2].at - asked[1].at >= Duration::from_millis(5_950),
        "RFC 8628 section 3.5: five seconds more"
    );
}

#[tokio::test]
async fn no_interval_makes_it_ask_without_a_pause() {
    let wire = Wire::answering([started(json!({ "interval": 0 })), error("authorization_pending")]);
    let mut flow = flow(&wire);
    flow.step().await;
    wire.reached(3).await;
    flow.task.abort();
    for pair in wire.asked().windows(2) {
        assert!(pair[1].at - pair[0].at >= Duration::from_millis(950), "it asks without a pause");
    }
}

#[tokio::test]
async fn the_end_that_the_issuer_names_is_the_end() {
    let wire = Wire::answering([started(json!({})), error("access_denied")]);
    let ended = flow(&wire).ended().await;
    assert!(
        matches!(&ended, Err(SignInError::Declined { reason }) if reason == "access_denied"),
        "{ended:?}"
    );
    let wire = Wire::answering([started(json!({})), error("expired_token")]);
    let ended = flow(&wire).ended().await;
    assert!(matches!(ended, Err(SignInError::TimedOut { .. })), "{ended:?}");
    let wire = Wire::answering([started(json!({})), error("invalid_grant")]);
    let ended = flow(&wire).ended().await;
    assert!(
        matches!(&ended, Err(SignInError::Declined { reason }) if reason.contains("invalid_grant")),
        "{ended:?}"
    );
    let wire = Wire::answering([started(json!({})), Reply::text(200, "text/html", "<html>canary</html>")]);
    let ended = flow(&wire).ended().await;
    assert!(matches!(ended, Err(SignInError::Malformed { .. })), "{ended:?}");
    let wire = Wire::answering([started(json!({})), Reply::json(404, &json!({ "error": DEVICE_CODE }))]);
    let ended = flow(&wire).ended().await;
    assert!(matches!(ended, Err(SignInError::Malformed { .. })), "{ended:?}");
    assert_eq!(wire.asked().len(), 2, "what is no answer is not asked again");
}

#[tokio::test]
async fn a_code_that_nobody_enters_is_stale_in_time() {
    let wire = Wire::answering([started(json!({ "expires_in": 2 })), error("authorization_pending")]);
    let ended = flow(&wire).ended().await;
    assert!(
        matches!(ended, Err(SignInError::TimedOut { after }) if after == Duration::from_secs(2)),
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_network_that_fails_in_between_is_asked_again() {
    let cut = Reply::Bytes(Vec::new());
    let busy = Reply::text(503, "text/html", "<html>canary</html>");
    let wire = Wire::answering([started(json!({})), cut, busy, good()]);
    flow(&wire).ended().await.unwrap();
    assert_eq!(wire.asked().len(), 4);
}

#[tokio::test]
async fn a_network_that_fails_to_the_end_is_unreachable_not_late() {
    let wire = Wire::answering([started(json!({ "expires_in": 3 })), Reply::Bytes(Vec::new())]);
    let ended = flow(&wire).ended().await;
    assert!(matches!(ended, Err(SignInError::Unreachable { .. })), "{ended:?}");
    let gone = Wire::answering([]);
    gone.stop();
    let ended = flow(&gone).ended().await;
    assert!(matches!(ended, Err(SignInError::Unreachable { .. })), "{ended:?}");
}

#[tokio::test]
async fn what_a_person_could_not_safely_read_or_open_is_not_shown() {
    for odd in [
        json!({ "user_code": "\u{1b}]0;canary\u{7}AB" }),
        json!({ "user_code": "AB\nCD" }),
        json!({ "user_code": "" }),
        json!({ "user_code": "x".repeat(1_000) }),
        json!({ "verification_uri": "javascript:alert(1)" }),
        json!({ "verification_uri": "http://issuer.test/device" }),
        json!({ "verification_uri": "file:///etc/passwd" }),
        json!({ "verification_uri": "not a url" }),
        json!({ "device_code": null }),
        json!({ "expires_in": "soon" }),
    ] {
        let wire = Wire::answering([started(odd.clone()), good()]);
        let mut flow = flow(&wire);
        while flow.is_waiting() {
            tokio::task::yield_now().await;
        }
        assert!(flow.shown().is_empty(), "{odd}");
        let ended = flow.ended().await;
        assert!(matches!(ended, Err(SignInError::Malformed { .. })), "{odd}: {ended:?}");
        assert_eq!(wire.asked().len(), 1, "{odd}");
    }
    // The page with the code in it is only a convenience.
    let wire =
        Wire::answering([started(json!({ "verification_uri_complete": "javascript:alert(1)" })), good()]);
    let mut flow = flow(&wire);
    assert!(matches!(flow.step().await, LoginStep::EnterCode { complete_url: None, .. }));
    flow.ended().await.unwrap();
}
