//! Who pays, and who sees the credential.

use nexus_core::{ErrorKind, Retry, ToolAccess, TurnRequest};
use nexus_testkit::sim::{Dialect, Fault, Purpose, Reply, Scenario, Sim, ToolCall};
use serde_json::json;

use super::support::{Stage, TOKEN};

/// Looks for the credential wherever a shell of the same user can: in the run's home, in the variables of
/// the CLI and of its own, below the folder of Nexus.
const SEARCH: &str = "env; tr '\\0' '\\n' < /proc/$PPID/environ; cat \"$NEXUS_FOLDER\"/tmp/*/grok/auth.json; \
     grep -rs 'nobody-may-rea[d]' \"$NEXUS_FOLDER\" /proc/$PPID/environ /proc/$PPID/cmdline; echo searched";

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn no_shell_finds_the_credential() {
    for billing in ["plan", "metered"] {
        for access in [ToolAccess::WorkspaceWrite, ToolAccess::Unrestricted] {
            let stage = Stage::new(Reply::text("unused")).with("billing", json!(billing));
            let search = SEARCH.replace("$NEXUS_FOLDER", stage.path("nexus").to_str().unwrap());
            stage.sim.set_scenario(Scenario::tool_then_text(ToolCall::shell(search), "I looked."));
            let request = TurnRequest::new("Look for it.")
                .with_tool_access(access)
                .in_directory(stage.path("work"))
                .with_variable("FOR_TOOLS");
            let ran = stage.run_as_asked(request).await;
            assert_eq!(ran.result().text, "I looked.");
            let seen = ran.tool_text();
            assert!(seen.contains("searched") && seen.contains("FOR_TOOLS=passed"), "{seen}");
            assert!(seen.contains("NEXUS_RUN="), "the mark of the run reaches what tools start: {seen}");
            assert!(
                !seen.contains("nobody-may-read") && !seen.contains("STRAY"),
                "{billing} {access:?}: {seen}"
            );
            // The search would have found it where it is allowed: the requests carried it.
            assert!(stage.calls().iter().all(|call| call.bearer() == Some(TOKEN)), "{billing}");
        }
    }
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn no_reading_tool_finds_the_credential() {
    let stage = Stage::new(Reply::text("unused"));
    let nexus = stage.path("nexus").to_str().unwrap().to_owned();
    let calls = [
        ToolCall::function("grep", json!({ "pattern": "canary-of", "path": nexus })),
        ToolCall::function("read_file", json!({ "target_file": "/proc/self/environ" })),
        ToolCall::function("list_dir", json!({ "target_directory": nexus })),
    ];
    stage.sim.set_scenario([Reply::calls(calls), Reply::text("I looked.")]);
    let ran = stage.run_as_asked(TurnRequest::new("Look.").with_tool_access(ToolAccess::ReadOnly)).await;
    assert_eq!(ran.result().text, "I looked.");
    assert_eq!(ran.result().tool_calls.len(), 3);
    // The pattern itself is among the arguments, not among the answers.
    assert!(!ran.tool_text().contains(TOKEN), "{}", ran.tool_text());
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn nothing_calls_home_but_the_turn() {
    let stage = Stage::new(Reply::text("Hello."));
    stage.run_as_asked(TurnRequest::new("Hello.")).await.result();
    let beside: Vec<_> =
        stage.sim.requests().into_iter().filter(|request| request.purpose == Purpose::SideCall).collect();
    assert!(beside.is_empty(), "no title and no summary: {beside:?}");
    assert_eq!(stage.calls().len(), 1);
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_used_up_plan_is_told_by_its_sentence() {
    let stage = Stage::new(Reply::fault(Fault::usage_limit(0)));
    let ran = stage.run_as_asked(TurnRequest::new("Hello.")).await;
    let error = ran.outcome.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::UsageLimit, Retry::Never));
}

#[tokio::test]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn an_authority_of_ones_own_is_trusted() {
    let sim = Sim::builder(Dialect::Xai, Reply::text("Over TLS.")).tls("localhost").start().unwrap();
    let authority = sim.ca_pem().unwrap().to_owned();
    let stage = Stage::before(sim);
    let file = stage.write("authority.pem", &authority);
    let stage = stage.with("network", json!({ "ca_file": file }));
    assert_eq!(stage.run_as_asked(TurnRequest::new("Hello.")).await.result().text, "Over TLS.");
}
