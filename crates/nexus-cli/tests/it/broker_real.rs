//! Agents that are real programs of three vendors, as managers and as workers of each other: `nexus broker run` has their turns run, and
//! `nexus broker send` writes to them. All models are loopback servers.
//!
//! Needs `NEXUS_REAL_CLAUDE`, `NEXUS_REAL_CODEX` and `NEXUS_REAL_GROK`, git and bubblewrap, root, and a namespace with loopback alone:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-cli --test it broker_real:: -- --ignored`

mod seen;
mod stage;

use std::{
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nexus_testkit::sim::{Reply, ToolCall};
use serde_json::json;

use seen::{Seen, call};
use stage::{Program, Stage, is_written, text};

/// The worker asks its manager in the middle of its task, and has the answer in the same turn.
fn a_worker_asks_its_manager(worker: Program, manager: Program) {
    let stage = Stage::new(manager, move |seen: &Seen| match (seen.agent.as_str(), seen.kind.as_str()) {
        ("lead", "task_assignment") if seen.answers.is_empty() => {
            call("start_worker", json!({ "name": "helper", "kind": worker.kind(), "task": "Find the word." }))
        }
        ("lead", "task_assignment") => Reply::text("Given away."),
        ("lead", "query") => Reply::text("The word is heron."),
        ("helper", "task_assignment") => match seen.answers.len() {
            0 => {
                let question =
                    json!({ "to": "manager-of:helper", "content": "Which word?", "expects_answer": true });
                call("send_message_to_agent", question)
            }
            1 => call("wait_for_message", json!({ "seconds": 200 })),
            _ if seen.last_answer().contains("Thewordisheron.") => Reply::text("It is heron."),
            _ => Reply::text(format!("Nobody said it: {}", seen.last_answer())),
        },
        _ => Reply::text("Seen."),
    });
    let running = stage.run();
    let given = stage.said(&["send", "lead", "Have the word found.", "--task", "word", "--wait", "200"]);
    assert!(given.contains("Given away."), "{given}");
    let result = stage.message("result", "helper", "lead");
    assert_eq!(result["payload"]["summary"], "It is heron.", "{}", stage.printed());
    running.drain();
    // Each ran on its own vendor, and the worker was told nothing but its task.
    let calls = stage.calls(worker, "helper");
    let last = &calls.last().expect("the worker is of its vendor").conversation;
    assert_eq!(calls.len(), 3, "one turn: two calls of tools and an answer");
    assert_eq!(last.user_texts().iter().filter(|text| text.contains(", id ")).count(), 1, "{last:?}");
    assert!(!stage.calls(manager, "lead").is_empty());
}

#[test]
#[ignore = "needs the real CLIs"]
fn claude_asks_codex_in_mid_task_and_has_the_answer_in_the_same_turn() {
    a_worker_asks_its_manager(Program::Claude, Program::Codex);
}

#[test]
#[ignore = "needs the real CLIs"]
fn codex_asks_grok_in_mid_task_and_has_the_answer_in_the_same_turn() {
    a_worker_asks_its_manager(Program::Codex, Program::Grok);
}

#[test]
#[ignore = "needs the real CLIs"]
fn grok_asks_claude_in_mid_task_and_has_the_answer_in_the_same_turn() {
    a_worker_asks_its_manager(Program::Grok, Program::Claude);
}

/// What a person writes as urgent is in the running turn, where the program takes it, else in the next; whoever sends it is told which.
fn a_person_is_heard(program: Program, is_steered: bool) {
    let is_sent = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&is_sent);
    // It looks around until it hears the person, or, where it cannot, until the person has spoken.
    let stage = Stage::new(program, move |seen: &Seen| match seen.all.contains("Turn left.") {
        true => Reply::text("I turn left."),
        false if !is_steered && is_over.load(Ordering::SeqCst) => Reply::text("I went straight on."),
        false if seen.answers.len() > 200 => Reply::text("I heard nothing."),
        false => call("list_agents", json!({})).after(Duration::from_millis(300)),
    });
    let running = stage.run();
    let begin = ["send", "lead", "Go straight on.", "--as", "first", "--priority", "normal", "--wait", "200"];
    let first = stage.broker(&begin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    stage.until("a turn that calls tools", || (stage.calls(program, "lead").len() > 1).then_some(()));
    let sent = stage.said(&["send", "lead", "Turn left.", "--as", "second"]);
    is_sent.store(true, Ordering::SeqCst);
    let (reach, went) = match is_steered {
        true => ("the agent is in a turn: it receives the message between two tool calls", "I turn left."),
        false => {
            ("the agent is in a turn: it receives the message with its next turn", "I went straight on.")
        }
    };
    assert!(sent.contains(reach), "{sent}");
    let first = text(&first.wait_with_output().unwrap());
    assert!(first.contains(went), "{first}\n{}", stage.printed());
    let answer = stage.message("message", "lead", "caller:second");
    assert!(answer["payload"]["content"].as_str().unwrap().contains("I turn left."), "{answer}");
    running.drain();
    // The request that had it is answered at once: it ended the turn, or began the next.
    let heard = stage.calls(program, "lead");
    let heard = heard.iter().filter(|call| stage::everything(&call.conversation).contains("Turn left."));
    assert_eq!(heard.count(), 1);
}

#[test]
#[ignore = "needs the real CLIs"]
fn a_person_is_heard_within_a_turn_of_claude() {
    a_person_is_heard(Program::Claude, true);
}

#[test]
#[ignore = "needs the real CLIs"]
fn a_person_is_heard_within_a_turn_of_codex() {
    a_person_is_heard(Program::Codex, true);
}

#[test]
#[ignore = "needs the real CLIs"]
fn a_person_is_heard_with_the_next_turn_of_grok() {
    a_person_is_heard(Program::Grok, false);
}

/// An agent that waits for messages has what a person writes long before its wait is over, whether its program takes input or not.
#[test]
#[ignore = "needs the real CLIs"]
fn a_person_is_heard_by_an_agent_that_waits() {
    for program in Program::ALL {
        let stage = Stage::new(program, |seen: &Seen| match seen.all.contains("Turn left.") {
            true => Reply::text("I turn left."),
            false if seen.answers.len() > 3 => Reply::text("I heard nothing."),
            false => call("wait_for_message", json!({ "seconds": 600 })),
        });
        let running = stage.run();
        stage.said(&["send", "lead", "Wait.", "--as", "first", "--priority", "normal"]);
        stage.until("a turn", || (!stage.calls(program, "lead").is_empty()).then_some(()));
        let answer = stage.said(&["send", "lead", "Turn left.", "--as", "second", "--wait", "200"]);
        assert!(answer.contains("I turn left."), "{program:?}: {answer}\n{}", stage.printed());
        let first = stage.message("message", "lead", "caller:first");
        assert!(first["payload"]["content"].as_str().unwrap().contains("I turn left."), "{first}");
        running.drain();
    }
}

/// A worker of a worker, each on another vendor; none below, and none beside.
#[test]
#[ignore = "needs the real CLIs"]
fn workers_are_nested_to_the_depth_and_refused_beyond() {
    let is_tried = Arc::new(AtomicBool::new(false));
    let stage = Stage::new(Program::Claude, move |seen: &Seen| {
        let start = |name: &str, kind: &str, max_workers: u32| {
            let task = "Do your part.";
            call(
                "start_worker",
                json!({ "name": name, "kind": kind, "task": task, "max_workers": max_workers }),
            )
        };
        match (seen.agent.as_str(), seen.kind.as_str(), seen.answers.as_slice()) {
            ("lead", "task_assignment", []) => start("middle", "codex", 1),
            ("lead", "task_assignment", [_]) => call("wait_for_message", json!({ "seconds": 200 })),
            ("lead", "task_assignment", [.., result]) => Reply::text(result),
            ("middle", "task_assignment", []) => start("leaf", "grok", 1),
            ("middle", "task_assignment", [_]) => start("leaf", "grok", 0),
            ("middle", "task_assignment", [_, _]) => start("beside", "grok", 0),
            ("middle", "task_assignment", [_, _, _]) => {
                is_tried.store(true, Ordering::SeqCst);
                call("wait_for_message", json!({ "seconds": 200 }))
            }
            ("middle", "task_assignment", answers) => Reply::text(answers.join("\n")),
            // It is there for as long as its manager has to be refused another.
            ("leaf", "task_assignment", _) if !is_tried.load(Ordering::SeqCst) => {
                call("list_agents", json!({})).after(Duration::from_millis(300))
            }
            ("leaf", "task_assignment", [.., last]) if !last.contains("\"you\":\"leaf\"") => {
                Reply::text(format!("below: {last}"))
            }
            ("leaf", "task_assignment", _) => start("below", "claude", 0),
            _ => Reply::text("Seen."),
        }
    });
    let running = stage.run();
    let said = stage.said(&["send", "lead", "Have it done.", "--task", "all", "--wait", "220"]);
    for refusal in ["workersofmiddlemayhavenonethemselves", "middlehas1workers,whichisasmanyasitmayhave"] {
        assert!(said.contains(refusal), "{refusal} is not in\n{said}\n{}", stage.printed());
    }
    assert!(said.contains("below:"), "{said}");
    running.drain();
    for (name, manager, depth) in [("middle", "lead", 1), ("leaf", "middle", 2)] {
        let agent = stage.agent(name).unwrap();
        assert_eq!((&agent["manager"], &agent["depth"]), (&json!(manager), &json!(depth)), "{agent}");
    }
    for name in ["below", "beside"] {
        assert_eq!(stage.agent(name), None);
    }
    for (program, agent) in [(Program::Codex, "middle"), (Program::Grok, "leaf")] {
        assert!(!stage.calls(program, agent).is_empty(), "{agent} is not of {program:?}");
    }
}

/// What a manager and a worker do where the worker never ends: it writes a file, and its model says nothing more.
fn half_done(worker: Program) -> impl Fn(&Seen) -> Reply {
    move |seen: &Seen| match (seen.agent.as_str(), seen.kind.as_str()) {
        ("lead", "task_assignment") if seen.answers.is_empty() => {
            call("start_worker", json!({ "name": "helper", "kind": worker.kind(), "task": "Go on." }))
        }
        ("lead", "task_assignment") => Reply::text("Given away."),
        ("helper", _) if seen.answers.is_empty() => {
            Reply::call(ToolCall::write_file("half.txt", "half a line\n"))
        }
        ("helper", _) => Reply::text("One moment").stalled(),
        _ => Reply::text("Seen."),
    }
}

/// The worker's program dies in the middle of its turn.
#[test]
#[ignore = "needs the real CLIs"]
fn a_worker_whose_program_is_killed_is_told_of_and_its_tree_is_there() {
    for (worker, manager) in
        [(Program::Claude, Program::Grok), (Program::Codex, Program::Claude), (Program::Grok, Program::Codex)]
    {
        let stage = Stage::in_repository(manager, half_done(worker));
        let running = stage.run();
        stage.said(&["send", "lead", "Have it written.", "--task", "poem", "--wait", "200"]);
        let half = stage.work_of("helper").join("half.txt");
        stage.until("a turn that has written", || {
            (is_written(&half) && stage.calls(worker, "helper").len() > 1).then_some(())
        });
        let programs: Vec<_> =
            stage.running().into_iter().filter(|(_, name)| name.contains(worker.kind())).collect();
        assert!(!programs.is_empty(), "{worker:?}: {:?}", stage.running());
        for (pid, _) in programs {
            // One may have ended with another.
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        }
        let told = stage.message("error", "helper", "lead");
        assert_eq!(told["payload"]["code"], "turn_failed", "{told}");
        running.drain();
        assert!(is_written(&half), "the tree is there");
        assert_eq!(stage.agent("helper").unwrap()["status"], "failed");
    }
}

/// The broker dies in the middle of a worker's turn.
fn a_lost_turn_is_told_of(worker: Program, manager: Program) {
    let stage = Stage::in_repository(manager, half_done(worker));
    let running = stage.run();
    stage.said(&["send", "lead", "Have it written.", "--task", "poem", "--wait", "200"]);
    let half = stage.work_of("helper").join("half.txt");
    stage.until("a turn that has written", || {
        (is_written(&half) && stage.calls(worker, "helper").len() > 1).then_some(())
    });
    running.kill();
    stage.assert_nothing_runs();
    let asked = stage.calls(worker, "helper").len();

    let running = stage.run();
    let told = stage.message("error", "helper", "lead");
    assert_eq!(told["payload"]["code"], "turn_lost", "{told}");
    let work = stage.work_of("helper");
    assert!(told["payload"]["message"].as_str().unwrap().contains(&*work.to_string_lossy()), "{told}");
    stage.until("a turn of the manager's with it", || {
        let calls = stage.calls(manager, "lead");
        calls.iter().any(|call| stage::everything(&call.conversation).contains("turn_lost")).then_some(())
    });
    running.drain();
    assert!(is_written(&half) && work.join("poem.txt").is_file(), "the tree is there");
    assert_eq!(stage.agent("helper").unwrap()["status"], "failed");
    assert_eq!(stage.calls(worker, "helper").len(), asked, "the message is not handled again");
    let errors = stage.messages();
    let errors = errors.iter().filter(|message| message["type"] == "error").count();
    assert_eq!(errors, 1, "it is told of once");
}

#[test]
#[ignore = "needs the real CLIs"]
fn a_turn_of_claude_that_is_lost_is_told_of() {
    a_lost_turn_is_told_of(Program::Claude, Program::Codex);
}

#[test]
#[ignore = "needs the real CLIs"]
fn a_turn_of_codex_that_is_lost_is_told_of() {
    a_lost_turn_is_told_of(Program::Codex, Program::Grok);
}

#[test]
#[ignore = "needs the real CLIs"]
fn a_turn_of_grok_that_is_lost_is_told_of() {
    a_lost_turn_is_told_of(Program::Grok, Program::Claude);
}
