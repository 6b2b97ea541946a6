//! Who pays, known before the prompt is.

use std::path::Path;

use nexus_core::{Availability, ErrorKind, TurnRequest};
use nexus_testkit::sim::Scenario;
use serde_json::json;

use super::support::{HTTPS_PORT, Stage};

async fn a_login_that_is_the_expected_one_is_used(program: &Path) {
    let _port = HTTPS_PORT.lock().await;
    let stage = own_login(program).with("billing", json!("plan"));
    assert!(stage.backend().probe().await.is_ready());
    let ran = stage.run(TurnRequest::new("Hello.")).await;
    assert_eq!(ran.result().text, "Hello.");
    assert_eq!(stage.calls().len(), 1);
    assert_eq!(stage.calls()[0].bearer(), Some("sk-ant-oat01-simulated"));
}

async fn a_login_that_another_pays_for_ends_the_turn_unspent(program: &Path) {
    let _port = HTTPS_PORT.lock().await;
    let stage = own_login(program).with("billing", json!("metered"));
    let ran = stage.run(TurnRequest::new("Hello.")).await;
    assert_eq!(ran.error().kind(), ErrorKind::BillingMismatch, "{:?}", ran.error());
    assert_eq!(stage.calls().len(), 0);
}

async fn without_a_login_the_turn_ends_unspent(program: &Path) {
    let _port = HTTPS_PORT.lock().await;
    let stage = own_login(program);
    std::fs::remove_file(stage.path("home/.claude/.credentials.json")).unwrap();
    assert!(matches!(stage.backend().probe().await, Availability::Unauthenticated { .. }));
    let ran = stage.run(TurnRequest::new("Hello.")).await;
    assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated, "{:?}", ran.error());
    assert_eq!(stage.calls().len(), 0);
}

fn own_login(program: &Path) -> Stage {
    own_login_with(program, Scenario::text("Hello."))
}

/// A backend that uses the login of its user, who has a subscription.
pub(crate) fn own_login_with(program: &Path, scenario: Scenario) -> Stage {
    let stage = Stage::at_the_vendors_host(program, scenario, json!({}));
    let login = json!({ "claudeAiOauth": {
        "accessToken": "sk-ant-oat01-simulated", "refreshToken": "sk-ant-ort01-simulated",
        "expiresAt": 9_999_999_999_999_u64, "scopes": ["user:inference"], "subscriptionType": "max",
    }});
    stage.write("home/.claude/.credentials.json", &login.to_string());
    stage
}

mod tests {
    crate::claude_real::support::with_each_program! {
        a_login_that_is_the_expected_one_is_used
        a_login_that_another_pays_for_ends_the_turn_unspent
        without_a_login_the_turn_ends_unspent
    }
}
