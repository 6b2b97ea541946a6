//! A review of plans over `kill -9`.

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use nexus_artifacts::{Artifacts, Kind, MilestoneId, WorkStatus, verify_review};
use nexus_testkit::{child_test, effort};

use super::support::{findings, good};

const APPENDER: &str = "NEXUS_TEST_REVIEW_APPENDER";
const MARKER: &str = "NEXUS_TEST_TASK_MARKER";

fn milestone() -> MilestoneId {
    "M001".parse().unwrap()
}

/// A process that appends until it is killed. Does nothing unless it is told where.
#[test]
fn role_appender() {
    let Some(root) = std::env::var_os(APPENDER) else { return };
    let artifacts = Artifacts::at(root);
    let entry = format!("## Iteration\n\n{}\n", "é text ".repeat(4000));
    loop {
        artifacts.append_review(milestone(), &entry, None).unwrap();
    }
}

/// A process that moves a task to and fro until it is killed.
#[test]
fn role_marker() {
    let Some(root) = std::env::var_os(MARKER) else { return };
    let artifacts = Artifacts::at(root);
    loop {
        for status in WorkStatus::ALL {
            artifacts.mark_task("M001-S001-T0001".parse().unwrap(), *status).unwrap();
        }
    }
}

fn start<T>(role: T, variable: &str, root: &Path) -> Child {
    let mut command = child_test::command(role);
    command.env(variable, root).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until a process has changed a file, and then for a while that each round has of its own.
fn let_it_write(path: &Path, round: usize) {
    let read = || fs::read(path).unwrap_or_default();
    let (before, began) = (read(), Instant::now());
    while read() == before {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is written");
        thread::sleep(Duration::from_millis(1));
    }
    let moment = (round as u64 + 1).wrapping_mul(effort::seed()).wrapping_mul(2_654_435_761);
    thread::sleep(Duration::from_micros(moment % 100_000));
}

#[test]
fn what_was_appended_stays_over_kills() {
    let (_folder, artifacts) = good();
    let path = artifacts.milestone_file(milestone(), Kind::PlanReview);
    let mut known = fs::read(&path).unwrap();
    for round in 0..effort::rounds() {
        let mut children: Vec<_> = (0..2).map(|_| start(role_appender, APPENDER, artifacts.root())).collect();
        let_it_write(&path, round);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let now = fs::read(&path).unwrap();
        assert!(now.starts_with(&known), "round {round}: what was there before is there");
        let state = verify_review(&now).unwrap_or_else(|broken| panic!("round {round}: {broken:?}"));
        let appended = artifacts.append_review(milestone(), "after the kill", None).unwrap();
        assert_eq!(appended.sealed_before, state.unsealed_bytes, "round {round}");
        assert_eq!(appended.state.unsealed_bytes, 0);
        known = fs::read(&path).unwrap();
        assert!(known.starts_with(&now));
        // Room for the next rounds.
        if known.len() > 2 << 20 {
            fs::remove_file(&path).unwrap();
            known = Vec::new();
        }
    }
}

#[test]
fn an_entry_that_is_cut_off_anywhere_is_seen_and_sealed_by_the_next() {
    let (folder, artifacts) = good();
    let path = artifacts.milestone_file(milestone(), Kind::PlanReview);
    let before = fs::read(&path).unwrap();
    artifacts.append_review(milestone(), "## Third — é\n\nLong enough.", None).unwrap();
    let after = fs::read(&path).unwrap();
    assert_eq!(findings(folder.path()), Vec::<String>::new());
    for cut in before.len()..after.len() {
        fs::write(&path, &after[..cut]).unwrap();
        let state = verify_review(&after[..cut]).unwrap();
        assert_eq!(state.unsealed_bytes, cut - before.len(), "{cut}");
        let appended = artifacts.append_review(milestone(), "## Fourth", None).unwrap();
        let repaired = fs::read(&path).unwrap();
        assert!(repaired.starts_with(&after[..cut]), "{cut}: nothing is taken away");
        assert_eq!(appended.state.unsealed_bytes, 0, "{cut}");
        assert_eq!(verify_review(&repaired).unwrap().unsealed_bytes, 0, "{cut}");
    }
    // Also the first entry, with the head of the file.
    fs::remove_file(&path).unwrap();
    artifacts.append_review(milestone(), "## First", None).unwrap();
    let first = fs::read(&path).unwrap();
    for cut in 0..first.len() {
        fs::write(&path, &first[..cut]).unwrap();
        artifacts.append_review(milestone(), "## Again", None).unwrap();
        assert!(fs::read(&path).unwrap().starts_with(&first[..cut]), "{cut}");
    }
}

#[test]
fn a_byte_that_was_changed_before_a_seal_stops_every_append() {
    let (_folder, artifacts) = good();
    let path = artifacts.milestone_file(milestone(), Kind::PlanReview);
    let good = fs::read(&path).unwrap();
    let sealed = good.len();
    for at in 0..sealed {
        let mut changed = good.clone();
        changed[at] ^= 1;
        let Ok(state) = verify_review(&changed) else {
            fs::write(&path, &changed).unwrap();
            artifacts.append_review(milestone(), "no", None).unwrap_err();
            assert_eq!(fs::read(&path).unwrap(), changed, "{at}");
            continue;
        };
        // What makes the last seal none leaves a part that is not sealed.
        assert!(state.unsealed_bytes > 0, "{at}");
    }
    let mut shorter = good;
    shorter.remove(3);
    assert!(verify_review(&shorter).is_err());
}

#[test]
fn an_append_can_ask_for_what_it_read() {
    let (_folder, artifacts) = good();
    let path = artifacts.milestone_file(milestone(), Kind::PlanReview);
    let read = verify_review(&fs::read(&path).unwrap()).unwrap().sha256;
    let first = artifacts.append_review(milestone(), "first", Some(&read)).unwrap();
    let before = fs::read(&path).unwrap();
    assert!(artifacts.append_review(milestone(), "second", Some(&read)).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
    artifacts.append_review(milestone(), "second", Some(&first.state.sha256)).unwrap();
    for bad in ["<!-- seal 9: 1 bytes, sha256 0 -->".to_owned(), "x".repeat(300 << 10)] {
        assert!(artifacts.append_review(milestone(), &bad, None).is_err());
    }
    assert!(artifacts.append_review("M077".parse().unwrap(), "x", None).is_err());
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_review_is_refused() {
    let (folder, artifacts) = good();
    let path = artifacts.milestone_file(milestone(), Kind::PlanReview);
    let outside = folder.path().join("outside");
    fs::rename(&path, &outside).unwrap();
    std::os::unix::fs::symlink(&outside, &path).unwrap();
    let before = fs::read(&outside).unwrap();
    assert!(artifacts.append_review(milestone(), "x", None).is_err());
    assert_eq!(fs::read(&outside).unwrap(), before);
}

#[test]
fn a_task_is_whole_over_kills_and_its_todo_comes_back() {
    let (folder, artifacts) = good();
    let task = "M001-S001-T0001".parse().unwrap();
    let plan = artifacts.task_file(task, Kind::TaskPlan);
    for round in 0..effort::rounds() {
        let mut child = start(role_marker, MARKER, artifacts.root());
        let_it_write(&plan, round);
        child.kill().unwrap();
        child.wait().unwrap();
        let found = findings(folder.path());
        assert!(found.iter().all(|finding| finding.contains(" todo-stale: ")), "round {round}: {found:?}");
        artifacts.mark_task(task, WorkStatus::Done).unwrap();
        assert_eq!(findings(folder.path()), Vec::<String>::new(), "round {round}");
    }
}
