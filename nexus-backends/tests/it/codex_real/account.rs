//! On whose account a turn runs, and what is refused before it begins.

use nexus_core::{ErrorKind, TurnRequest};
use nexus_testkit::sim::{Reply, Scenario};
use serde_json::{Value, json};

use super::support::{Stage, TOKEN};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_plan_names_its_account_and_a_key_does_not() {
    for (billing, account) in [("plan", Some("account-of-the-test")), ("metered", None)] {
        let stage = Stage::new(Scenario::text("Paid.")).with("billing", json!(billing));
        let ran = stage.run(TurnRequest::new("Hello.")).await;
        assert_eq!(ran.result().text, "Paid.", "{billing}");
        let requests = stage.sim.requests();
        assert_eq!(requests.len(), 1, "{billing}: nothing but the model is asked: {requests:?}");
        assert_eq!(requests[0].bearer(), Some(TOKEN));
        assert_eq!(requests[0].header("chatgpt-account-id"), account);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_credential_that_would_be_billed_otherwise_is_refused() {
    let stage = Stage::new(Scenario::text("Paid.")).with("billing", json!("metered"));
    stage.write("token", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(stage.path("token"), mode).unwrap();
    let stage = stage.with("credential", json!({ "file": "token" }));
    let error = stage.run(TurnRequest::new("Hello.")).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BillingMismatch);
    assert!(stage.sim.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn without_a_credential_nothing_is_asked() {
    let stage = Stage::new(Scenario::text("Paid.")).with("credential", Value::Null);
    let error = stage.run(TurnRequest::new("Hello.")).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(error.message().unwrap().contains("credential"), "{error}");
    assert!(stage.sim.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn one_character_too_many_is_refused_before_anything_is_spent() {
    let stage = Stage::new(Scenario::text("Read."));
    let most = 1 << 20;
    let ran = stage.run(TurnRequest::new("\u{e9}".repeat(most))).await;
    assert_eq!(ran.result().text, "Read.");
    let asked = stage.sim.requests().len();
    let error = stage.run(TurnRequest::new("\u{e9}".repeat(most + 1))).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.process().is_none(), "a process was started");
    assert_eq!(stage.sim.requests().len(), asked);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_server_that_fails_is_not_asked_thirty_times() {
    let stage = Stage::new(Reply::status(500));
    let error = stage.run(TurnRequest::new("Hello.")).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VendorFailure);
    assert_eq!(stage.calls().len(), 9, "three requests for each of three streams");
}
