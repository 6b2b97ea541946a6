//! Units of a band: at once, each in its own folder and slice; and what lies outside of it is refused, however it got there.
#![cfg(target_os = "linux")]

use std::{fs, os::unix::fs::symlink, sync::Arc};

use nexus_core::TurnRequest;
use nexus_tasks::{StepEnd, StepRecord};
use nexus_testkit::scripted::{Act, ScriptedBackend};
use serde_json::{Value, json};

use crate::support::{
    agent, agent_by,
    attempts::{Cast, World, call, hand_in, one_step, verdict, write},
};
use tokio::sync::Barrier;

/// A brief with one band of units, each of which may write a folder of `src`.
fn band(slices: &[&str]) -> Value {
    let mut brief = one_step();
    let unit = |slice: &&str| {
        json!({
            "tier": "execution", "phase": "implement", "agent_type": "executor",
            "outcome": format!("The part {slice} is done."), "criteria": ["signs"],
            "write_slice": [slice], "parallel_group": "parts",
        })
    };
    brief["plan"] = slices.iter().map(unit).collect();
    brief["do_not_touch"] = json!(["*.tf"]);
    brief
}

const FILES: [(&str, &str); 5] = [
    ("src/a/old", "0\n"),
    ("src/b/old", "0\n"),
    ("src/c/old", "0\n"),
    ("src/d/old", "0\n"),
    ("docs/old", "0\n"),
];

/// The slice that a unit is told to write.
fn slice_of(request: &TurnRequest) -> String {
    let text = request.prompt_text();
    let (_, after) = text.split_once("[the paths that this step may write]\n> ").expect("a slice");
    after.lines().next().unwrap().to_owned()
}

/// Seats that let everything pass, as line 1 of the file at `path` shows.
fn passing(path: &'static str) -> [Arc<ScriptedBackend>; 2] {
    let pass = call("submit_verdict", verdict("advance", &["outcome", "signs"], &format!("diff:{path}:1")));
    ["one", "two"].map(|id| {
        agent(id, vec![vec![call("read_diff", json!({})), call("read_handoffs", json!({})), pass.clone()]])
    })
}

async fn run(world: &World, maker: &Arc<ScriptedBackend>, seats: &[Arc<ScriptedBackend>; 2]) -> StepRecord {
    let cast = Cast {
        executors: vec![(maker, "acme")],
        seats: vec![vec![(&seats[0], "acme")], vec![(&seats[1], "zenith")]],
        ..Cast::default()
    };
    world.attempt(&cast.router()).run().await.unwrap()
}

fn reason(record: &StepRecord) -> (&str, &str) {
    match &record.end {
        StepEnd::Escalated { reason, error } => (reason, error.as_deref().unwrap_or("")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn four_units_work_at_once_and_their_work_is_reviewed_as_one() {
    let Some(world) = World::new(&FILES, band(&["src/a", "src/b", "src/c", "src/d"])) else { return };
    // None of them goes on before all four are at work.
    let met = Arc::new(Barrier::new(4));
    let maker = agent_by("maker", move |request| {
        let slice = slice_of(request);
        let others = if slice == "src/a" { "src/b/new" } else { "src/a/new" };
        vec![
            Act::Meet(Arc::clone(&met)),
            write(&format!("{slice}/new"), "1\n"),
            write(others, "stolen\n"),
            Act::Meet(Arc::clone(&met)),
            call("list_files", json!({ "path": "src" })),
            hand_in(json!("step_done")),
        ]
    });
    let seats = passing("src/c/new");
    let record = run(&world, &maker, &seats).await;
    assert_eq!(record.end, StepEnd::Advanced, "{:?}", seats[0].answered());
    let work = record.work.as_ref().unwrap();
    assert_eq!(world.changed(work), ["src/a/new", "src/b/new", "src/c/new", "src/d/new"]);
    assert_eq!(world.file(work, "src/a/new"), "1\n");
    assert_eq!(record.units.iter().map(|unit| unit.entry).collect::<Vec<_>>(), [0, 1, 2, 3]);
    // None of them saw another one's files, and the reviewers saw one diff, and what each handed in.
    let answers = maker.answered();
    for listed in answers.iter().filter(|answer| answer.starts_with("src/")) {
        assert_eq!(listed.matches("new").count(), 1, "{listed}");
    }
    assert_eq!(answers.iter().filter(|answer| answer.contains("it is read-only")).count(), 4, "{answers:?}");
    let read = seats[0].answered();
    assert_eq!(read[0].matches("new file mode").count(), 4, "{}", read[0]);
    assert_eq!(
        read[1].matches("[the handoff of the work that you judge, plan entry").count(),
        4,
        "{}",
        read[1]
    );
}

#[tokio::test]
async fn the_worst_unit_decides_and_its_record_says_which() {
    let Some(world) = World::new(&FILES, band(&["src/a", "src/b"])) else { return };
    let maker = agent_by("maker", |request| match slice_of(request).as_str() {
        "src/a" => vec![write("src/a/new", "1\n"), hand_in(json!("complete"))],
        _ => vec![hand_in(json!({ "blocked": { "reason": "There is no server." } }))],
    });
    let record = run(&world, &maker, &passing("src/a/new")).await;
    assert_eq!(record.end, StepEnd::Blocked { reasons: vec!["There is no server.".to_owned()] });

    let maker = agent_by("maker", |request| match slice_of(request).as_str() {
        "src/a" => vec![Act::Fail(nexus_core::ErrorKind::Crashed)],
        _ => vec![hand_in(json!({ "blocked": { "reason": "There is no server." } }))],
    });
    let record = run(&world, &maker, &passing("src/a/new")).await;
    let (words, error) = reason(&record);
    assert!(
        words.contains("unit 1") && !words.contains("maker") && error.contains("maker"),
        "{words}; {error}"
    );
    assert!(record.units[0].outcome.is_err() && record.units[1].outcome.is_ok());
}

#[tokio::test]
async fn what_a_unit_changed_outside_of_its_slice_is_refused_though_no_tool_did_it() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 8] = [
        ("docs/new", |root| fs::write(root.join("docs/new"), "x").unwrap()),
        ("src/b/new", |root| fs::write(root.join("src/b/new"), "x").unwrap()),
        ("src/b/old", |root| fs::remove_file(root.join("src/b/old")).unwrap()),
        ("docs/old", |root| {
            use std::os::unix::fs::PermissionsExt as _;
            fs::set_permissions(root.join("docs/old"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("src/a/keys.tf", |root| fs::write(root.join("src/a/keys.tf"), "x").unwrap()),
        ("src/a/link", |root| symlink("../b/old", root.join("src/a/link")).unwrap()),
        ("src/a/out", |root| symlink("/etc/hostname", root.join("src/a/out")).unwrap()),
        ("src/a", |root| {
            fs::remove_dir_all(root.join("src/a")).unwrap();
            symlink("b", root.join("src/a")).unwrap();
        }),
    ];
    for (path, change) in changes {
        let Some(world) = World::new(&FILES, band(&["src/a", "src/b"])) else { return };
        let folder = world.root.join("work/unit-1");
        let maker = agent_by("maker", move |request| match slice_of(request).as_str() {
            "src/a" => {
                let folder = folder.clone();
                vec![
                    write("src/a/new", "1\n"),
                    Act::beside(move || change(&folder)),
                    hand_in(json!("step_done")),
                ]
            }
            _ => vec![write("src/b/fine", "1\n"), hand_in(json!("step_done"))],
        });
        let seats = passing("src/a/new");
        let record = run(&world, &maker, &seats).await;
        let (words, error) = reason(&record);
        assert!(words.contains("unit 1 changed files that it may not write"), "{path}: {words}");
        assert!(error.contains(&format!("{path:?}")), "{path}: {error}");
        assert_eq!((record.work, seats[0].turns()), (None, 0), "{path}");
    }
}

#[tokio::test]
async fn names_and_links_that_no_tree_takes_are_refused() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 4] = [
        (".git", |root| fs::create_dir(root.join("src/a/.git")).unwrap()),
        ("SRC/A/OLD", |root| fs::write(root.join("src/a/OLD"), "x").unwrap()),
        ("a\u{7}b", |root| fs::write(root.join("src/a/a\u{7}b"), "x").unwrap()),
        ("pipe", |root| {
            let made = std::process::Command::new("mkfifo").arg(root.join("src/a/pipe")).status().unwrap();
            assert!(made.success());
        }),
    ];
    for (name, change) in changes {
        let Some(world) = World::new(&FILES, band(&["src/a", "src/b"])) else { return };
        let folder = world.root.join("work/unit-1");
        let maker = agent_by("maker", move |request| match slice_of(request).as_str() {
            "src/a" => {
                let folder = folder.clone();
                vec![
                    Act::beside(move || change(&folder)),
                    call("run_tests", json!({})),
                    hand_in(json!("step_done")),
                ]
            }
            _ => vec![hand_in(json!("step_done"))],
        });
        let record = run(&world, &maker, &passing("src/a/new")).await;
        let (words, error) = reason(&record);
        assert!(
            words.contains("these files cannot be committed") || words.contains("may not write"),
            "{name}: {words}; {error}"
        );
        assert!(!words.contains("unit-1"), "{name}: {words}");
        // The agent itself is told, and goes on.
        let told = &maker.answered();
        let told = told.iter().any(|answer| answer.contains("cannot be committed"));
        assert!(told || name == "a\u{7}b", "{name}: {:?}", maker.answered());
    }
}

#[tokio::test]
async fn slices_that_have_come_to_overlap_are_refused_when_the_band_is_dispatched() {
    let Some(world) = World::new(&FILES, band(&["src/a", "src/b"])) else { return };
    let folder = world.root.join("again");
    world.tree.restore(&world.base, &folder, &[]).unwrap();
    fs::remove_dir_all(folder.join("src/b")).unwrap();
    symlink("a", folder.join("src/b")).unwrap();
    let snapshot = world.tree.snapshot(&folder).unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH;
    let intent = nexus_trees::CommitIntent::new(snapshot, world.base.clone(), time, "x");
    let linked = world.tree.commit(&intent).unwrap();

    let maker = agent("maker", Vec::new());
    let seats = passing("src/a/new");
    let cast = Cast {
        executors: vec![(&maker, "acme")],
        seats: vec![vec![(&seats[0], "acme")], vec![(&seats[1], "zenith")]],
        ..Cast::default()
    };
    let router = cast.router();
    let mut attempt = world.attempt(&router);
    (attempt.place.step_base, attempt.place.from) = (linked.clone(), linked);
    let record = attempt.run().await.unwrap();
    assert!(reason(&record).0.contains("cannot be enforced"), "{:?}", record.end);
    assert_eq!(maker.turns(), 0);
}
