//! Turns whose token ends before they would.

use std::{sync::Arc, time::Duration};

use nexus_core::{ErrorKind, Limit, ToolAccess, TurnEvent, TurnRequest};
use nexus_testkit::sim::{Reply, ToolCall};
use serde_json::json;

use super::support::{Ran, Stage};
use crate::support::scripted_source::{Lend, ScriptedSource};

const TOKEN: &str = "canary-token";

const SHORT: Duration = Duration::from_secs(6);
const LONG: Duration = Duration::from_secs(3_600);

fn stage(script: impl IntoIterator<Item = Lend>) -> (Stage, Arc<ScriptedSource>) {
    let source = ScriptedSource::new(script);
    let stage = Stage::new(Reply::text("unused"))
        .with("credential", json!({ "source": "scripted" }))
        .with_source("scripted", source.clone());
    (stage, source)
}

/// Model calls with a tool between each two, which takes a while and looks for the credential all the time.
fn working(stage: &Stage, calls: usize) -> Vec<Reply> {
    let nexus = stage.path("nexus").display().to_string();
    let look = format!("cat '{nexus}'/tmp/*/grok/auth.json; grep -rs 'canary-toke[n]' '{nexus}'");
    let command = format!("for i in 1 2 3 4 5 6 7 8 9 10; do {look}; sleep 0.15; done; echo looked");
    let mut replies = vec![Reply::call(ToolCall::shell(command)); calls];
    replies.push(Reply::text("It is done."));
    replies
}

fn warnings(ran: &Ran) -> Vec<&str> {
    let warnings = ran.events.iter().filter_map(|event| match event {
        TurnEvent::Warning(warning) => Some(warning.text.as_str()),
        _ => None,
    });
    warnings.collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_turn_is_ended_with_its_token_and_no_tool_sees_it() {
    let (stage, source) = stage([Lend::Token(TOKEN, SHORT)]);
    let record = stage.path("record");
    let stage = stage.with("record", json!(record));
    stage.sim.set_scenario(working(&stage, 9));
    let request =
        TurnRequest::new("Work.").with_tool_access(ToolAccess::Unrestricted).in_directory(stage.path("work"));
    let ran = stage.run_as_asked(request).await;
    let error = ran.outcome.as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline));
    let told = error.to_string();
    assert!(told.contains("because the credential in the script ends"), "{told}");
    assert!(
        warnings(&ran).iter().any(|text| text.contains("is valid for another 5 s")),
        "{:?}",
        warnings(&ran)
    );

    assert!(!stage.calls().is_empty());
    assert!(stage.calls().iter().all(|call| call.bearer() == Some(TOKEN)));
    assert_eq!(source.asked().len(), 1);
    let seen = format!("{:?}", error.partial().tool_calls);
    assert!(seen.contains("looked") && !seen.contains("canary-token"), "{seen}");
    // What was kept of the output is without it; the tools' commands are there.
    let kept: Vec<String> = stage
        .files("record")
        .iter()
        .map(|file| std::fs::read_to_string(record.join(file)).unwrap())
        .collect();
    assert!(kept.len() >= 3 && kept.concat().contains("canary-toke[n]"), "{} files", kept.len());
    assert!(!kept.concat().contains(TOKEN));
    assert_eq!(stage.files("nexus"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/deep"]
async fn a_turn_that_ends_before_its_token_asks_once() {
    let (stage, source) = stage([Lend::Token(TOKEN, LONG)]);
    stage.sim.set_scenario(working(&stage, 1));
    let request =
        TurnRequest::new("Work.").with_tool_access(ToolAccess::Unrestricted).in_directory(stage.path("work"));
    let mut request = request;
    request.limits = nexus_core::Limits::new().with_deadline(Duration::from_secs(60));
    let ran = stage.run_as_asked(request).await;
    assert_eq!(ran.result().text, "It is done.");
    assert_eq!(source.asked(), [Duration::from_secs(360)], "the deadline, and some to spare");
    assert!(warnings(&ran).is_empty(), "{:?}", warnings(&ran));
}
