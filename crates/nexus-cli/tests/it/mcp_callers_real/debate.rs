//! A debate whose panelists are the programs of three vendors, driven by one of them.

use std::collections::BTreeMap;

use super::{
    caller::{Caller, Way},
    models::{self, Served, WALKED},
    stage::Stage,
    walk,
};
use crate::support::debaters::{self, Part};

#[test]
#[ignore = "needs the real CLIs"]
fn claude_code_has_a_question_debated_by_programs_of_three_vendors() {
    debated_for(Caller::Claude);
}

#[test]
#[ignore = "needs the real CLIs"]
fn codex_has_a_question_debated_by_programs_of_three_vendors() {
    debated_for(Caller::Codex);
}

#[test]
#[ignore = "needs the real CLIs"]
fn grok_has_a_question_debated_by_programs_of_three_vendors() {
    debated_for(Caller::Grok);
}

/// Has a program walk a debate to its end, and looks at who was asked for what, and was sent what.
fn debated_for(caller: Caller) {
    let stage = Stage::new();
    let answers = |conversation: &_| Some(models::debating_caller(conversation));
    let mut calling = caller.start_with(&stage, Served::Debates, Way::Stdio, answers);
    let status = calling.end();
    let said = calling.said();
    assert!(status.success() && said.contains(WALKED), "{status}: {said}");

    let calls = calling.model.main_calls();
    let conversation = &calls.last().expect("it asked its model").conversation;
    let mut walk = models::called(conversation, Served::Debates);
    walk.dedup();
    assert_eq!(walk, ["debate_create", "debate_advance", "debate_result"]);

    let record = stage.nexus(&["debate", "show", "last"]);
    let record = String::from_utf8(record.stdout).unwrap();
    debaters::has_every_word(&record);
    assert!(record.contains("contested"), "{record}");

    // Each vendor's program had its parts, by what its model's server was asked.
    let mut parts = BTreeMap::<&str, Vec<Part>>::new();
    for (vendor, call) in stage.calls() {
        let of_vendor = parts.entry(vendor).or_default();
        let part = debaters::part(&call.conversation);
        of_vendor.extend(part.filter(|part| !of_vendor.contains(part)));
    }
    let panelist = [Part::Opening, Part::Rebuttal, Part::Statement];
    let arbiter = [Part::Analysis, Part::Judgement, Part::Interpretation];
    for (vendor, expected) in [
        ("xai", panelist.to_vec()),
        ("openai", [panelist, arbiter].concat()),
        ("anthropic", [&[Part::Frame], &panelist[..]].concat()),
    ] {
        assert!(
            expected.iter().all(|part| parts[vendor].contains(part)) && parts[vendor].len() == expected.len(),
            "{vendor}: {parts:?}"
        );
    }
    let calls: Vec<_> = stage.calls().into_iter().map(|(_, call)| call).collect();
    debaters::nobody_heard_too_much(&calls);
    walk::tokens_stay_where_they_belong(&stage, &calling.model.requests());
    assert_eq!(stage.running(), [], "nothing is left running");
}
