//! Turns that outlive their token.

use std::{sync::Arc, time::Duration};

use nexus_core::{ToolAccess, TurnEvent, TurnRequest};
use nexus_testkit::sim::{Reply, ToolCall};
use serde_json::json;

use super::support::{Ran, Stage};
use crate::scripted_source::{Lend, ScriptedSource};

const FIRST: &str = "canary-token-number-one";
const SECOND: &str = "canary-token-number-two";
const THIRD: &str = "canary-token-number-three";

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

fn bearers(stage: &Stage) -> Vec<Option<String>> {
    stage.calls().iter().map(|call| call.bearer().map(str::to_owned)).collect()
}

fn warnings(ran: &Ran) -> Vec<&str> {
    let warnings = ran.events.iter().filter_map(|event| match event {
        TurnEvent::Warning(warning) => Some(warning.text.as_str()),
        _ => None,
    });
    warnings.collect()
}

/// Each token, and how often it was used, in order. A call without one fails.
fn spells(stage: &Stage) -> Vec<(String, usize)> {
    let mut spells: Vec<(String, usize)> = Vec::new();
    for bearer in bearers(stage) {
        let bearer = bearer.unwrap_or_else(|| panic!("a call carries no token: {:?}", bearers(stage)));
        match spells.last_mut() {
            Some((token, count)) if *token == bearer => *count += 1,
            _ => spells.push((bearer, 1)),
        }
    }
    spells
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/run"]
async fn later_calls_carry_the_fresh_token_and_no_tool_sees_any() {
    let tokens = [Lend::Token(FIRST, SHORT), Lend::Token(SECOND, 2 * SHORT), Lend::Token(THIRD, LONG)];
    let (stage, source) = stage(tokens);
    let record = stage.path("record");
    let stage = stage.with("record", json!(record));
    stage.sim.set_scenario(working(&stage, 9));
    let request =
        TurnRequest::new("Work.").with_tool_access(ToolAccess::Unrestricted).in_directory(stage.path("work"));
    let ran = stage.run_as_asked(request).await;
    assert_eq!(ran.result().text, "It is done.");

    let spells = spells(&stage);
    let tokens: Vec<_> = spells.iter().map(|(token, _)| token.as_str()).collect();
    assert_eq!(tokens, [FIRST, SECOND, THIRD], "{spells:?}");
    assert_eq!(spells.iter().map(|(_, count)| count).sum::<usize>(), 10);
    assert_eq!(source.asked().len(), 3);
    let seen = ran.tool_text();
    assert_eq!(seen.matches("looked").count(), 9, "{seen}");
    assert!(!seen.contains("canary-token"), "{seen}");
    assert!(warnings(&ran).iter().any(|text| text.contains("is good for 0 s more")), "{:?}", warnings(&ran));
    // What was kept of the output is without any of them; the tools' commands are there.
    let kept: Vec<String> = stage
        .files("record")
        .iter()
        .map(|file| std::fs::read_to_string(record.join(file)).unwrap())
        .collect();
    assert!(kept.len() >= 3 && kept.concat().contains("canary-toke[n]"), "{} files", kept.len());
    for token in [FIRST, SECOND, THIRD] {
        assert!(!kept.concat().contains(token));
    }
    assert_eq!(stage.files("nexus"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/run"]
async fn a_turn_without_tools_finds_the_fresh_token_in_its_place() {
    let (stage, source) = stage([Lend::Token(FIRST, SHORT), Lend::Token(SECOND, LONG)]);
    // A tool that is not there costs nothing but another call of the model.
    let away = || Reply::call(ToolCall::shell("echo no"));
    stage.sim.set_scenario([away(), away().after(Duration::from_secs(7)), Reply::text("It is done.")]);
    let ran = stage.run_as_asked(TurnRequest::new("Work.")).await;
    assert_eq!(ran.result().text, "It is done.");
    assert_eq!(spells(&stage), [(FIRST.to_owned(), 2), (SECOND.to_owned(), 1)]);
    assert_eq!(source.asked().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/run"]
async fn a_renewal_that_fails_for_a_while_is_a_warning() {
    let first = Lend::Token(FIRST, 2 * SHORT);
    let (stage, source) = stage([first, Lend::Unreachable, Lend::Unreachable, Lend::Token(SECOND, LONG)]);
    stage.sim.set_scenario(working(&stage, 9));
    let request =
        TurnRequest::new("Work.").with_tool_access(ToolAccess::Unrestricted).in_directory(stage.path("work"));
    let ran = stage.run_as_asked(request).await;
    assert_eq!(ran.result().text, "It is done.");
    let spells = spells(&stage);
    let tokens: Vec<_> = spells.iter().map(|(token, _)| token.as_str()).collect();
    assert_eq!(tokens, [FIRST, SECOND], "{spells:?}");
    let told = warnings(&ran).iter().filter(|text| text.contains("nobody answers")).count();
    assert_eq!(told, 1, "{:?}", warnings(&ran));
    assert_eq!(source.asked().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the real CLI; run by .ci/run"]
async fn a_turn_that_ends_before_its_token_asks_once() {
    let (stage, source) = stage([Lend::Token(FIRST, LONG)]);
    stage.sim.set_scenario(working(&stage, 1));
    let request =
        TurnRequest::new("Work.").with_tool_access(ToolAccess::Unrestricted).in_directory(stage.path("work"));
    let mut request = request;
    request.limits = nexus_core::Limits::new().with_deadline(Duration::from_secs(60));
    let ran = stage.run_as_asked(request).await;
    assert_eq!(ran.result().text, "It is done.");
    assert_eq!(source.asked(), [Duration::from_secs(360)], "the deadline, and the vendor's margin");
    assert!(warnings(&ran).is_empty(), "{:?}", warnings(&ran));
}
