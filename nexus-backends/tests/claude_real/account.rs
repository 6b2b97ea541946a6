//! Who pays, known before the prompt is.

use nexus_core::{Availability, ErrorKind, TurnRequest};
use nexus_testkit::sim::Scenario;
use serde_json::json;

use super::support::{PORT, Stage};

async fn a_login_that_is_the_expected_one_is_used(variable: &str) {
    let _port = PORT.lock().await;
    let stage = own_login(variable).with("billing", json!("plan"));
    assert!(stage.backend().probe().await.is_ready());
    let ran = stage.run(TurnRequest::new("Hello.")).await;
    assert_eq!(ran.result().text, "Hello.");
    assert_eq!(stage.calls().len(), 1);
    assert_eq!(stage.calls()[0].bearer(), Some("sk-ant-oat01-simulated"));
}

async fn a_login_that_another_pays_for_ends_the_turn_unspent(variable: &str) {
    let _port = PORT.lock().await;
    let stage = own_login(variable).with("billing", json!("metered"));
    let ran = stage.run(TurnRequest::new("Hello.")).await;
    assert_eq!(ran.error().kind(), ErrorKind::BillingMismatch, "{:?}", ran.error());
    assert_eq!(stage.calls().len(), 0);
}

async fn without_a_login_the_turn_ends_unspent(variable: &str) {
    let _port = PORT.lock().await;
    let stage = own_login(variable);
    std::fs::remove_file(stage.path("home/.claude/.credentials.json")).unwrap();
    assert!(matches!(stage.backend().probe().await, Availability::Unauthenticated { .. }));
    let ran = stage.run(TurnRequest::new("Hello.")).await;
    assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated, "{:?}", ran.error());
    assert_eq!(stage.calls().len(), 0);
}

fn own_login(variable: &str) -> Stage {
    own_login_with(variable, Scenario::text("Hello."))
}

/// A backend that uses the login of its user, who has a subscription.
pub(crate) fn own_login_with(variable: &str, scenario: Scenario) -> Stage {
    let stage = Stage::at_the_vendors_host(variable, scenario, json!({}));
    let login = json!({ "claudeAiOauth": {
        "accessToken": "sk-ant-oat01-simulated", "refreshToken": "sk-ant-ort01-simulated",
        "expiresAt": 9_999_999_999_999_u64, "scopes": ["user:inference"], "subscriptionType": "max",
    }});
    stage.write("home/.claude/.credentials.json", &login.to_string());
    stage
}

mod tests {
    crate::with_each_version! {
        a_login_that_is_the_expected_one_is_used
        a_login_that_another_pays_for_ends_the_turn_unspent
        without_a_login_the_turn_ends_unspent
    }
}
