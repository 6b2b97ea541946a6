//! Handoffs of several writers.

use std::{fs, process::Stdio, time::Duration};

use nexus_artifacts::{Artifacts, HandoffFilter, HandoffStatus, NewHandoff};
use nexus_testkit::child_test;

use super::support::{empty, files, findings, good};

const WRITER: &str = "NEXUS_TEST_HANDOFF_WRITER";
const EACH: usize = 25;

fn new(from: &str, to: &str, topic: &str) -> NewHandoff {
    NewHandoff {
        from: from.into(),
        to: to.into(),
        topic: topic.into(),
        body: "Do it.".into(),
        ..NewHandoff::default()
    }
}

fn all(artifacts: &Artifacts, filter: &HandoffFilter) -> Vec<String> {
    let list = artifacts.handoffs(filter).unwrap();
    assert_eq!(list.unreadable, Vec::<String>::new());
    list.handoffs.into_iter().map(|found| found.handoff.topic).collect()
}

/// A process that writes handoffs. Does nothing unless it is told where.
#[test]
fn role_writer() {
    let Some(root) = std::env::var_os(WRITER) else { return };
    let artifacts = Artifacts::at(root);
    for number in 0..EACH {
        let writer = std::process::id();
        let milestone = (number % 2 == 0).then(|| "M001".parse().unwrap());
        let handoff =
            NewHandoff { milestone, ..new(&format!("agent-{writer}"), "*", &format!("Number {number}")) };
        artifacts.write_handoff(&handoff).unwrap();
    }
}

#[test]
fn handoffs_of_eight_processes_sort_by_name_as_by_time() {
    let (folder, artifacts) = good();
    for path in files(&folder.path().join(".nubos-pilot/milestones/M001/handoffs")) {
        fs::remove_file(path).unwrap();
    }
    let writer = || {
        let mut command = child_test::command(role_writer);
        command.env(WRITER, folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let writers: Vec<_> = (0..8).map(|_| writer()).collect();
    for writer in writers {
        child_test::assert_passed("a writer", &writer.wait_with_output().unwrap());
    }
    let list = artifacts.handoffs(&HandoffFilter::default()).unwrap();
    assert_eq!(list.unreadable, Vec::<String>::new());
    assert_eq!(list.handoffs.len(), 8 * EACH);
    let by_time: Vec<_> =
        list.handoffs.iter().map(|found| found.path.file_name().unwrap().to_owned()).collect();
    let mut by_name = by_time.clone();
    by_name.sort();
    assert_eq!(by_name, by_time);
    let times: Vec<_> = list.handoffs.iter().map(|found| found.handoff.created_at.clone()).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "no two have the same time");
    // Each writer's own come in the order in which it wrote them.
    for found in &list.handoffs {
        let of_one =
            list.handoffs.iter().filter(|other| other.handoff.from_agent == found.handoff.from_agent);
        let topics: Vec<_> = of_one.map(|found| found.handoff.topic.clone()).collect();
        assert_eq!(topics, (0..EACH).map(|number| format!("Number {number}")).collect::<Vec<_>>());
    }
    assert_eq!(findings(folder.path()), Vec::<String>::new());
}

#[test]
fn times_grow_though_the_clock_stands_in_the_past() {
    let (folder, artifacts) = empty();
    let ahead = humantime_like(Duration::from_secs(3600));
    let name = format!("{ahead}__a-to-b__later__00000001.md");
    fs::create_dir_all(folder.path().join(".nubos-pilot/handoffs")).unwrap();
    fs::write(folder.path().join(".nubos-pilot/handoffs").join(&name), "not yet a handoff").unwrap();
    let found = artifacts.write_handoff(&new("a", "b", "now")).unwrap();
    assert!(found.path.file_name().unwrap().to_str().unwrap() > name.as_str(), "{found:?}");
}

/// A time from now, as names have it.
fn humantime_like(from_now: Duration) -> String {
    let time: nexus_project::Time = (std::time::SystemTime::now() + from_now).into();
    time.to_string().replace([':', '.'], "-")
}

#[test]
fn a_status_changes_in_place() {
    let (_folder, artifacts) = good();
    let list = artifacts.handoffs(&HandoffFilter::default()).unwrap();
    let path = &list.handoffs[0].path;
    let original = fs::read_to_string(path).unwrap();
    for ending in ["\n", "\r\n"] {
        let text = original.replace('\n', ending) + "\ttail without an end, status: \"open\"";
        fs::write(path, &text).unwrap();
        let mut before = "open";
        for status in HandoffStatus::ALL.iter().skip(1).chain([&HandoffStatus::Open]) {
            let found = artifacts.mark_handoff("0a1b2c3d", *status).unwrap();
            assert_eq!(found.handoff.status, *status);
            let expected = text.replacen("status: \"open\"", &format!("status: \"{status}\""), 1);
            assert_eq!(fs::read_to_string(path).unwrap(), expected, "{before} to {status}");
            before = status.as_str();
        }
    }
    assert!(artifacts.mark_handoff("00000000", HandoffStatus::Read).is_err());
}

#[test]
fn lists_are_by_agent_status_milestone_and_global() {
    let (_folder, artifacts) = good();
    let milestone = "M001".parse().unwrap();
    artifacts.write_handoff(&new("a", "b", "global for b")).unwrap();
    artifacts.write_handoff(&new("a", "*", "global for everybody")).unwrap();
    let acted = artifacts
        .write_handoff(&NewHandoff { milestone: Some(milestone), ..new("b", "a", "of a milestone") })
        .unwrap();
    artifacts.mark_handoff(&acted.handoff.id, HandoffStatus::Acted).unwrap();
    let filter = HandoffFilter::default();
    assert_eq!(
        all(&artifacts, &filter),
        ["Mind the cookies", "global for b", "global for everybody", "of a milestone"]
    );
    let for_b = HandoffFilter { agent: Some("b".into()), ..HandoffFilter::default() };
    assert_eq!(all(&artifacts, &for_b), ["global for b", "global for everybody"]);
    assert_eq!(
        all(&artifacts, &HandoffFilter { global: true, ..filter.clone() }),
        ["global for b", "global for everybody"]
    );
    let of_one = HandoffFilter { milestone: Some(milestone), ..filter.clone() };
    assert_eq!(all(&artifacts, &of_one), ["Mind the cookies", "of a milestone"]);
    assert_eq!(
        all(&artifacts, &HandoffFilter { status: Some(HandoffStatus::Acted), ..filter }),
        ["of a milestone"]
    );
}

#[test]
fn names_never_lead_out() {
    let (folder, artifacts) = empty();
    for (from, to, topic) in [
        ("../a", "b", "c"),
        ("a", "../b", "c"),
        ("a/b", "c", "d"),
        ("", "b", "c"),
        ("a", "", "c"),
        ("*", "b", "c"),
        ("all", "b", "c"),
        ("a", "b", ""),
        ("a", "b", "two\nlines"),
    ] {
        assert!(artifacts.write_handoff(&new(from, to, topic)).is_err(), "{from:?} {to:?} {topic:?}");
    }
    let found = artifacts.write_handoff(&new("a", "*", "etc\u{85}passwd")).unwrap_err();
    assert!(found.to_string().contains("topic"), "{found}");
    let found = artifacts.write_handoff(&new("a", "*", "../../../etc/passwd: \"x\" # \u{2028}y")).unwrap();
    assert_eq!(found.path.parent().unwrap(), folder.path().join(".nubos-pilot/handoffs"));
    assert_eq!(all(&artifacts, &HandoffFilter::default()), ["../../../etc/passwd: \"x\" # \u{2028}y"]);
    assert_eq!(findings(folder.path()), Vec::<String>::new());
}
