//! The CLI in the belief that it speaks to its vendor: no base URL, the vendor's host name on loopback, a
//! certificate authority of our own, and the token of a subscription. A base URL would switch it to defaults
//! that no subscriber sees.

use std::path::Path;

use std::time::{Duration, SystemTime};

use nexus_core::{ErrorKind, Retry, ToolAccess, TurnEvent, TurnRequest};
use nexus_testkit::sim::{Fault, RateLimit, Reply, Scenario};
use serde_json::json;

use super::support::{HTTPS_PORT, Stage};

async fn text_arrives_with_the_subscribers_token(program: &Path) {
    let _port = HTTPS_PORT.lock().await;
    let stage = stage(program, Reply::text("Hello.").rate_limit(RateLimit::warning(83.0, 4_000_000_000)));
    let ran = stage.run(TurnRequest::new("Say hello.")).await;
    assert_eq!(ran.result().text, "Hello.");
    let calls = stage.calls();
    assert_eq!(calls.len(), 1, "the turn makes one call");
    assert_eq!(calls[0].bearer(), Some("sk-ant-canary-token"));
    assert_eq!(calls[0].conversation.tools.len(), 0, "{:?}", calls[0].conversation.tool_names());
    let news = ran.events.iter().find_map(|event| match event {
        TurnEvent::RateLimit(news) => Some(news.clone()),
        _ => None,
    });
    assert!(news.expect("news of the limit").resets_at.is_some());
}

async fn the_harness_starts_no_server_of_its_own(program: &Path) {
    let _port = HTTPS_PORT.lock().await;
    let stage = stage(program, Scenario::text("Hello."));
    stage.write(
        "work/.mcp.json",
        r#"{"mcpServers":{"poison":{"command":"sh","args":["-c","touch SERVED; cat"]}}}"#,
    );
    let request = TurnRequest::new("Say hello.")
        .with_tool_access(ToolAccess::ReadOnly)
        .in_directory(stage.path("work"));
    stage.run(request).await.result();
    let mut tools = stage.calls()[0].conversation.tool_names();
    tools.sort();
    assert_eq!(tools, ["Glob", "Grep", "Read"]);
    assert!(!stage.path("work/SERVED").exists());
}

async fn a_refused_token_is_unauthenticated(program: &Path) {
    let _port = HTTPS_PORT.lock().await;
    let stage = stage(program, Reply::status(401));
    let began = std::time::Instant::now();
    let ran = stage.run(TurnRequest::new("Say hello.")).await;
    assert_eq!(ran.error().kind(), ErrorKind::Unauthenticated, "{:?}", ran.error());
    assert!(began.elapsed() < Duration::from_secs(30));
}

async fn a_plan_that_is_used_up_says_until_when(program: &Path) {
    let _port = HTTPS_PORT.lock().await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let stage = stage(program, Reply::fault(Fault::usage_limit(now + 3600)));
    let ran = stage.run(TurnRequest::new("Say hello.")).await;
    assert_eq!(ran.error().kind(), ErrorKind::UsageLimit, "{:?}", ran.error());
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(now + 3600);
    assert_eq!(ran.error().retry(), Retry::At(until));
}

/// A backend with the token of a subscription.
fn stage(program: &Path, scenario: impl Into<Scenario>) -> Stage {
    let settings = json!({ "credential": { "env": "TOKEN" }, "billing": "plan" });
    Stage::at_the_vendors_host(program, scenario, settings)
}

mod tests {
    crate::claude_real::support::with_each_program! {
        text_arrives_with_the_subscribers_token
        the_harness_starts_no_server_of_its_own
        a_refused_token_is_unauthenticated
        a_plan_that_is_used_up_says_until_when
    }
}
