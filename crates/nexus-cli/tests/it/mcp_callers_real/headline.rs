//! A goal, walked to a reviewed commit by each program.

use std::collections::{BTreeMap, BTreeSet};

use nexus_testkit::real;

use super::{
    caller::{Caller, HttpServer, Way},
    models::{self, Served},
    stage::Stage,
    walk,
};

#[test]
#[ignore = "needs the real CLIs"]
fn claude_code_walks_a_goal_to_a_commit() {
    walked_by(Caller::Claude);
}

#[test]
#[ignore = "needs the real CLIs"]
fn codex_walks_a_goal_to_a_commit() {
    walked_by(Caller::Codex);
}

#[test]
#[ignore = "needs the real CLIs"]
fn grok_walks_a_goal_to_a_commit() {
    walked_by(Caller::Grok);
}

#[test]
#[ignore = "needs the real CLIs"]
fn the_oldest_claude_code_walks_a_goal_to_a_commit() {
    let oldest = real::programs("NEXUS_REAL_CLAUDE").remove(0);
    let stage = Stage::with_claude(oldest);
    walked(&stage, Caller::Claude, Way::Stdio, None);
    assert_eq!(stage.running(), [], "nothing is left running");
}

#[test]
#[ignore = "needs the real CLIs"]
fn each_of_three_walks_by_way_of_a_server_that_runs() {
    for caller in [Caller::Claude, Caller::Codex, Caller::Grok] {
        let stage = Stage::new();
        let server = HttpServer::start(&stage);
        walked(&stage, caller, Way::Attach, None);
        drop(server);
        assert_eq!(stage.running(), [], "{caller:?}: nothing is left running");
    }
}

#[test]
#[ignore = "needs the real CLIs"]
fn claude_code_walks_over_http() {
    let stage = Stage::new();
    let server = HttpServer::start(&stage);
    let heard = walked(&stage, Caller::Claude, Way::Http(&server), None);
    assert!(!heard.contains(server.token()), "a model heard the server's token");
    drop(server);
    assert_eq!(stage.running(), [], "nothing is left running");
}

#[test]
#[ignore = "needs the real CLIs"]
fn who_waits_a_second_at_a_time_joins_what_runs() {
    for caller in [Caller::Claude, Caller::Codex, Caller::Grok] {
        let stage = Stage::new();
        let heard = walked(&stage, caller, Way::Stdio, Some(1));
        let compact: String = heard.chars().filter(|c| !c.is_whitespace() && *c != '\\').collect();
        assert!(compact.contains("\"running\":true"), "{caller:?} never had to ask again");
    }
}

fn walked_by(caller: Caller) {
    let stage = Stage::new();
    walked(&stage, caller, Way::Stdio, None);
    assert_eq!(stage.running(), [], "nothing is left running");
}

/// Has a program walk a goal to its end, and looks at what came of it. All that its model was sent is the answer.
fn walked(stage: &Stage, caller: Caller, way: Way<'_>, wait_s: Option<u64>) -> String {
    let mut calling = caller.start_by(stage, way, wait_s);
    let status = calling.end();
    let said = calling.said();
    assert!(status.success() && said.contains(models::WALKED), "{status}: {said}");

    // The caller's model was answered by the tools, in this order.
    let calls = calling.model.main_calls();
    let conversation = &calls.last().expect("it asked its model").conversation;
    let mut walk = models::called(conversation, Served::Tasks);
    walk.dedup();
    assert_eq!(walk, ["task_create", "task_orchestrate", "task_run_turn", "task_result"]);

    walk::landed(stage);
    let set = |vendors: &[&str]| vendors.iter().map(|vendor| (*vendor).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(
        walk::vendors_of_phases(stage),
        BTreeMap::from([
            ("orchestrate".to_owned(), set(&["anthropic"])),
            ("implement".to_owned(), set(&["openai"])),
            ("review".to_owned(), set(&["anthropic", "openai"])),
        ])
    );
    assert_eq!(
        walk::calls_of_phases(stage),
        BTreeMap::from([
            (("orchestrate", "anthropic"), 1),
            (("implement", "openai"), 5),
            (("review", "anthropic"), 2),
            (("review", "openai"), 2),
        ])
    );
    walk::nobody_heard_too_much(stage);
    let requests = calling.model.requests();
    walk::tokens_stay_where_they_belong(stage, &requests);
    requests.iter().map(|request| String::from_utf8_lossy(&request.body)).collect()
}
