//! Several threads and processes, and one name.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use nexus_conversations::{ConversationErrorKind as Kind, Conversations};
use nexus_testkit::{child_test, effort};

use super::kit::{name, store, turn};

const ROOT: &str = "NEXUS_TEST_CONVERSATION_HOLD";
const ADD: &str = "NEXUS_TEST_CONVERSATION_ADD";

/// Run as a program of its own: takes a conversation, says so, and keeps it until it is killed.
#[test]
fn holder() {
    let Some(root) = env::var_os(ROOT) else { return };
    let mut held = Conversations::in_home(root).hold(&name("a")).unwrap();
    held.add(turn("of the holder", "yes"), None).unwrap();
    println!("\nheld");
    thread::sleep(Duration::from_secs(600));
}

fn start_holder(root: &std::path::Path) -> Child {
    let mut child = child_test::command(holder).env(ROOT, root).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "held"));
    child
}

#[test]
fn a_second_process_is_told_and_a_killed_one_does_not_keep_the_name() {
    let (home, store) = store();
    let mut child = start_holder(home.path());
    for error in [
        store.hold(&name("a")).unwrap_err(),
        store.delete(&name("a")).unwrap_err(),
        store.hold_within(&name("a"), Duration::from_millis(50)).unwrap_err(),
    ] {
        assert_eq!(error.kind, Kind::InUse);
        assert!(error.to_string().contains("the conversation a is in use"), "{error}");
    }
    // Others go on, and it can be read and forked meanwhile.
    assert_eq!(store.load(&name("a")).unwrap().messages().count(), 2);
    store.fork(&name("a"), &name("b"), None).unwrap();
    store.hold(&name("b")).unwrap().add(turn("in b", "yes"), None).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut held = store.hold(&name("a")).unwrap();
    held.add(turn("after it", "yes"), None).unwrap();
    assert_eq!(held.load().unwrap().messages().count(), 4);
}

/// Run as a program of its own: adds turns and says so after each, until it is killed.
#[test]
fn adder() {
    let Some(root) = env::var_os(ADD) else { return };
    let mut held = Conversations::in_home(root).hold(&name("a")).unwrap();
    println!();
    for number in held.load().unwrap().turns.len().. {
        held.add(turn(&format!("question {number}"), &"x".repeat(number % 7 * 1_000)), None).unwrap();
        println!("added {number}");
    }
}

#[test]
fn a_process_that_is_killed_at_any_moment_leaves_every_turn_that_it_reported() {
    let (home, store) = store();
    let mut reported = 0;
    for round in 0..4 * effort::rounds() as u64 {
        let mut command = child_test::command(adder);
        let mut child = command.env(ADD, home.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("added")));
        thread::sleep(Duration::from_micros(1_700 * (round % 13)));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = lines.filter_map(|line| line.strip_prefix("added ")?.parse::<usize>().ok()).last();
        reported = last.map_or(reported + 1, |last| last + 1);
        let turns = store.load(&name("a")).unwrap().turns;
        // At most the turn that was not reported any more is there, too.
        assert!(turns.len() == reported || turns.len() == reported + 1, "{} of {reported}", turns.len());
        let is_in_order = |(number, turn): (usize, &nexus_conversations::ConversationTurn)| {
            format!("{turn:?}").contains(&format!("\"question {number}\""))
        };
        assert!(turns.iter().enumerate().all(is_in_order));
        reported = turns.len();
    }
}

#[test]
fn whoever_waits_gets_it_once_it_is_free() {
    let (_home, store) = store();
    let mut held = store.hold(&name("a")).unwrap();
    let waiting = thread::spawn(move || {
        store.hold_within(&name("a"), Duration::from_secs(60)).map(|held| held.messages())
    });
    thread::sleep(Duration::from_millis(50));
    held.add(turn("one", "two"), None).unwrap();
    assert!(!waiting.is_finished());
    drop(held);
    assert_eq!(waiting.join().unwrap().unwrap(), 2);
}

#[test]
fn a_name_without_a_turn_leaves_nothing() {
    let (home, store) = store();
    let held = store.hold(&name("a")).unwrap();
    assert!(held.is_new());
    drop(held);
    assert!(store.list().unwrap().conversations.is_empty());
    assert_eq!(std::fs::read_dir(home.path().join("conversations/locks")).unwrap().count(), 0);
}

/// Turns are added, names forked and deleted, while another thread sweeps: no name ever points at what is gone.
#[test]
fn a_sweep_takes_nothing_from_those_who_add_meanwhile() {
    let (_home, store) = store();
    store.hold(&name("trunk")).unwrap().add(turn("one", "two"), None).unwrap();
    let rounds = 10 * effort::rounds() as u64;
    let workers = (0..3).map(|worker| {
        let store = store.clone();
        thread::spawn(move || {
            for round in 0..rounds {
                let fork = name(&format!("fork-{worker}"));
                store.fork(&name("trunk"), &fork, Some(1 + round % 2)).unwrap();
                let mut held = store.hold(&fork).unwrap();
                for number in 0..3 {
                    held.add(turn(&format!("{worker} {round} {number}"), "yes"), None).unwrap();
                }
                assert_eq!(held.load().unwrap().messages().count() as u64, 7 + round % 2);
                drop(held);
                store.delete(&fork).unwrap();
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    let mut swept = 0;
    while workers.iter().any(|worker| !worker.is_finished()) {
        swept += store.sweep().unwrap().files;
    }
    for worker in workers {
        worker.join().unwrap();
    }
    swept += store.sweep().unwrap().files;
    // The log of each deleted fork.
    assert_eq!(swept, 3 * rounds);
    assert_eq!(store.load(&name("trunk")).unwrap().messages().count(), 2);
}
