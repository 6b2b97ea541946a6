//! A goal, walked to a reviewed commit by each program.

use std::collections::{BTreeMap, BTreeSet};

use crate::{caller::Caller, models, stage::Stage, walk};

#[test]
#[ignore = "needs the real CLIs; run by .ci/run"]
fn claude_code_walks_a_goal_to_a_commit() {
    walked_by(Caller::Claude);
}

#[test]
#[ignore = "needs the real CLIs; run by .ci/run"]
fn codex_walks_a_goal_to_a_commit() {
    walked_by(Caller::Codex);
}

#[test]
#[ignore = "needs the real CLIs; run by .ci/run"]
fn grok_walks_a_goal_to_a_commit() {
    walked_by(Caller::Grok);
}

fn walked_by(caller: Caller) {
    let stage = Stage::new();
    let mut calling = caller.start(&stage);
    let status = calling.end();
    let said = calling.said();
    assert!(status.success() && said.contains(models::WALKED), "{status}: {said}");

    // The caller's model was answered by the tools, in this order.
    let calls = calling.model.main_calls();
    let mut walk = models::called(&calls.last().expect("it asked its model").conversation);
    walk.dedup();
    assert_eq!(walk, ["task_create", "task_orchestrate", "task_run_turn", "task_result"]);

    walk::landed(&stage);
    let set = |vendors: &[&str]| vendors.iter().map(|vendor| (*vendor).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(
        walk::vendors_of_phases(&stage),
        BTreeMap::from([
            ("orchestrate".to_owned(), set(&["anthropic"])),
            ("implement".to_owned(), set(&["openai"])),
            ("review".to_owned(), set(&["anthropic", "openai"])),
        ])
    );
    assert_eq!(
        walk::calls_of_phases(&stage),
        BTreeMap::from([
            (("orchestrate", "anthropic"), 1),
            (("implement", "openai"), 5),
            (("review", "anthropic"), 2),
            (("review", "openai"), 2),
        ])
    );
    walk::nobody_heard_too_much(&stage);
    walk::tokens_stay_where_they_belong(&stage, &calling.model.requests());
    assert_eq!(stage.running(), [], "nothing is left running");
}
