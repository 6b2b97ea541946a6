//! Links: both sides name each other, whoever writes, fails or dies in between.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use nexus_testkit::{child_test, effort};
use nexus_work::{NewWorkspace, WorkspaceErrorKind as Kind, WorkspaceId, WorkspaceState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::Work;

type Workspace = nexus_work::Workspace<Work>;
type Workspaces = nexus_work::Workspaces<Work>;

/// The place in which a started process links workspaces, and which of them it begins with.
const PLACE: &str = "NEXUS_TEST_PLACE";
const START: &str = "NEXUS_TEST_START";
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A state of another owner's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Debate(Vec<f64>);

impl WorkspaceState for Debate {
    const KIND: &'static str = "debate";

    fn is_final(&self) -> bool {
        false
    }
}

fn id(text: &str) -> WorkspaceId {
    text.parse().unwrap()
}

fn place(names: &[&str]) -> (TempDir, Workspaces) {
    let folder = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::below(folder.path());
    for name in names {
        workspaces.create(NewWorkspace::new(Work::Created).with_id(id(name))).unwrap();
    }
    (folder, workspaces)
}

fn ids(names: &[&str]) -> BTreeSet<WorkspaceId> {
    names.iter().copied().map(id).collect()
}

fn file(workspaces: &Workspaces, name: &str) -> PathBuf {
    workspaces.path().join(name).join("status.json")
}

/// What the file says, without mending anything.
fn written(workspaces: &Workspaces, name: &str) -> Value {
    serde_json::from_slice(&fs::read(file(workspaces, name)).unwrap()).unwrap()
}

fn links(workspaces: &Workspaces, name: &str) -> Value {
    let pending = written(workspaces, name).get("pending_link_ids").cloned();
    assert!(pending.is_none_or(|pending| pending == json!([])), "{name} is about to be linked");
    written(workspaces, name)["linked_workspace_ids"].clone()
}

fn edit(workspaces: &Workspaces, name: &str, change: impl FnOnce(&mut Value)) {
    let mut status = written(workspaces, name);
    change(&mut status);
    fs::write(file(workspaces, name), serde_json::to_vec(&status).unwrap()).unwrap();
}

#[test]
fn both_sides_are_linked_in_one_call() {
    let (_folder, workspaces) = place(&["a", "b"]);
    let a = workspaces.open(&id("a")).unwrap();
    a.link(&id("b")).unwrap();
    assert_eq!((links(&workspaces, "a"), links(&workspaces, "b")), (json!(["b"]), json!(["a"])));
    let before = [fs::read(file(&workspaces, "a")).unwrap(), fs::read(file(&workspaces, "b")).unwrap()];
    a.link(&id("b")).unwrap();
    workspaces.open(&id("b")).unwrap().link(&id("a")).unwrap();
    let after = [fs::read(file(&workspaces, "a")).unwrap(), fs::read(file(&workspaces, "b")).unwrap()];
    assert_eq!(before, after, "where they are linked already nothing is written");
    assert_eq!(a.status().unwrap().linked_workspace_ids(), &ids(&["b"]));
}

#[test]
fn a_workspace_of_another_owner_is_linked_and_its_state_kept_to_the_letter() {
    let (_folder, workspaces) = place(&["a"]);
    let debates = workspaces.of::<Debate>();
    let new = NewWorkspace::new(Debate(vec![0.1 + 0.2])).with_id(id("debate")).with_link(id("a"));
    let debate = debates.create(new).unwrap();
    assert_eq!((links(&workspaces, "a"), links(&workspaces, "debate")), (json!(["debate"]), json!(["a"])));
    let odd = r#"[  1e-3,0.30000000000000000000001 ]"#;
    let text = fs::read_to_string(file(&workspaces, "debate")).unwrap();
    let start = text.find("\"state\": [").unwrap() + "\"state\": ".len();
    let end = start + text[start..].find(']').unwrap() + 1;
    fs::write(file(&workspaces, "debate"), format!("{}{odd}{}", &text[..start], &text[end..])).unwrap();
    let new = NewWorkspace::new(Work::Created).with_id(id("b")).with_parent(id("debate"));
    workspaces.create(new).unwrap();
    assert_eq!(links(&workspaces, "debate"), json!(["a", "b"]));
    assert_eq!(
        (links(&workspaces, "b"), written(&workspaces, "b")["parent_workspace_id"].clone()),
        (json!([]), json!("debate"))
    );
    assert!(fs::read_to_string(file(&workspaces, "debate")).unwrap().contains(odd));
    assert_eq!(debate.status().unwrap().state.0[0], 1e-3);
}

#[test]
fn what_cannot_be_linked_is_refused_and_nothing_is_written() {
    let (_folder, workspaces) = place(&["a", "b"]);
    let a = workspaces.open(&id("a")).unwrap();
    fs::create_dir(workspaces.path().join("plain")).unwrap();
    let before = fs::read(file(&workspaces, "a")).unwrap();
    assert_eq!(a.link(&id("a")).unwrap_err().kind(), Kind::Unwritable);
    assert_eq!(a.link(&id("nobody")).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(a.link(&id("plain")).unwrap_err().kind(), Kind::NotAWorkspace);
    assert_eq!(fs::read_dir(workspaces.path().join("plain")).unwrap().count(), 0);
    for held in ["a", "b"] {
        let held = workspaces.open(&id(held)).unwrap();
        let error = held.update(|_| a.link(&id("b")).unwrap_err()).unwrap();
        assert_eq!(error.kind(), Kind::InUse, "inside a change");
    }
    let own = NewWorkspace::new(Work::Created).with_id(id("a")).with_parent(id("a"));
    assert_eq!(workspaces.create(own).unwrap_err().kind(), Kind::AlreadyExists);
    let taken = NewWorkspace::new(Work::Created).with_id(id("b")).with_link(id("a"));
    assert_eq!(workspaces.create(taken).unwrap_err().kind(), Kind::AlreadyExists);
    assert_eq!(fs::read(file(&workspaces, "a")).unwrap(), before, "nobody was made to name it");
    for new in [
        NewWorkspace::new(Work::Created).with_link(id("a")).with_parent(id("nobody")),
        NewWorkspace::new(Work::Created).with_link(id("a")).with_link(id("plain")),
        NewWorkspace::new(Work::Created).with_link(id("a")).with_id(id("b")),
        NewWorkspace::new(Work::Created).with_link(id("a")).with_data(json!("x".repeat(17 << 20))),
    ] {
        workspaces.create(new).unwrap_err();
    }
    fs::remove_dir_all(workspaces.path().join("b")).unwrap();
    assert_eq!(
        workspaces
            .create(NewWorkspace::new(Work::Created).with_id(id("c")).with_link(id("b")))
            .unwrap_err()
            .kind(),
        Kind::NotFound
    );
    let mut after: Value = serde_json::from_slice(&fs::read(file(&workspaces, "a")).unwrap()).unwrap();
    assert_eq!(links(&workspaces, "a"), json!([]));
    let before: Value = serde_json::from_slice(&before).unwrap();
    for counted in ["generation", "updated_at"] {
        after[counted] = before[counted].clone();
    }
    assert_eq!(after, before);
    assert_eq!(workspaces.list().unwrap().entries.len(), 1);
}

/// As large as a status may be: no other link goes into it.
fn fill_up(workspace: &Workspace) {
    workspace.update(|status| status.data = json!("")).unwrap();
    let length = fs::metadata(workspace.path().join("status.json")).unwrap().len();
    workspace
        .update(|status| status.data = json!("x".repeat((16 << 20) - usize::try_from(length).unwrap())))
        .unwrap();
    assert_eq!(fs::metadata(workspace.path().join("status.json")).unwrap().len(), 16 << 20);
}

#[test]
fn a_link_that_one_side_cannot_take_is_on_neither() {
    for full in ["a", "b"] {
        let (_folder, workspaces) = place(&["a", "b"]);
        fill_up(&workspaces.open(&id(full)).unwrap());
        let a = workspaces.open(&id("a")).unwrap();
        assert_eq!(a.link(&id("b")).unwrap_err().kind(), Kind::Unwritable);
        assert_eq!((links(&workspaces, "a"), links(&workspaces, "b")), (json!([]), json!([])), "{full}");
        let new = NewWorkspace::new(Work::Created).with_link(id("a")).with_link(id("b"));
        assert_eq!(workspaces.create(new).unwrap_err().kind(), Kind::Unwritable);
        assert_eq!((links(&workspaces, "a"), links(&workspaces, "b")), (json!([]), json!([])), "{full}");
        assert_eq!(fs::read_dir(workspaces.path()).unwrap().count(), 2, "nothing is left of the new one");
    }
}

/// The first three are what a writer who dies can leave: opening either side settles them. The others were made by a
/// hand, or by an older program: opening the side that names the other settles them.
#[test]
fn whichever_side_is_opened_a_half_made_link_is_settled() {
    const EITHER: &[&[&str]] = &[&["a"], &["b"], &["a", "b"], &["b", "a"]];
    let nothing = || json!([]);
    // Links of a, pending links of a, links of b, who opens them, whether they are linked in the end.
    let cases = [
        (nothing(), json!(["b"]), nothing(), EITHER, false),
        (nothing(), json!(["b"]), json!(["a"]), EITHER, true),
        (json!(["b"]), nothing(), json!(["a"]), EITHER, true),
        (json!(["b"]), nothing(), nothing(), &[&["a"], &["a", "b"], &["b", "a"]], true),
        (json!(["b"]), json!(["b"]), nothing(), &[&["a"], &["a", "b"], &["b", "a"]], true),
        (nothing(), nothing(), json!(["a"]), &[&["b"], &["a", "b"], &["b", "a"]], true),
    ];
    for (of_a, pending, of_b, openings, is_linked) in cases {
        for opened in openings {
            let (_folder, workspaces) = place(&["a", "b"]);
            edit(&workspaces, "a", |status| {
                status["linked_workspace_ids"] = of_a.clone();
                status["pending_link_ids"] = pending.clone();
            });
            edit(&workspaces, "b", |status| status["linked_workspace_ids"] = of_b.clone());
            for name in *opened {
                workspaces.open(&id(name)).unwrap();
            }
            let sides = ["a", "b"].map(|name| written(&workspaces, name)["linked_workspace_ids"].clone());
            let expected = if is_linked { [json!(["b"]), json!(["a"])] } else { [nothing(), nothing()] };
            assert_eq!(sides, expected, "{of_a} {pending} {of_b}, opened {opened:?}");
            if opened.contains(&"a") {
                links(&workspaces, "a");
            }
        }
    }
}

#[test]
fn a_child_whose_parent_does_not_know_it_makes_itself_known() {
    let (_folder, workspaces) = place(&["a"]);
    workspaces.create(NewWorkspace::new(Work::Created).with_id(id("child")).with_parent(id("a"))).unwrap();
    edit(&workspaces, "a", |status| status["linked_workspace_ids"] = json!([]));
    workspaces.open(&id("child")).unwrap();
    assert_eq!((links(&workspaces, "a"), links(&workspaces, "child")), (json!(["child"]), json!([])));
}

#[test]
fn a_link_to_what_is_gone_goes_and_comes_back_with_it() {
    let (folder, workspaces) = place(&["a", "b"]);
    let a = workspaces.open(&id("a")).unwrap();
    a.link(&id("b")).unwrap();
    let away = folder.path().join(".away");
    fs::rename(workspaces.path().join("b"), &away).unwrap();
    let busy = a.update(|_| workspaces.open(&id("a")).map(|_| ())).unwrap();
    assert!(busy.is_ok() && links(&workspaces, "a") == json!(["b"]), "somebody is writing");
    assert_eq!(workspaces.open(&id("a")).unwrap().status().unwrap().linked_workspace_ids(), &ids(&[]));
    fs::rename(&away, workspaces.path().join("b")).unwrap();
    workspaces.open(&id("b")).unwrap();
    assert_eq!((links(&workspaces, "a"), links(&workspaces, "b")), (json!(["b"]), json!(["a"])));

    // A parent that is gone stays the parent; another one of the name of what is gone is not linked.
    workspaces.create(NewWorkspace::new(Work::Created).with_id(id("child")).with_parent(id("b"))).unwrap();
    fs::remove_dir_all(workspaces.path().join("b")).unwrap();
    let child = workspaces.open(&id("child")).unwrap();
    assert_eq!(child.status().unwrap().parent_workspace_id(), Some(&id("b")));
    assert!(workspaces.open(&id("a")).unwrap().status().unwrap().linked_workspace_ids().is_empty());
}

#[test]
fn a_change_cannot_make_a_link_one_sided() {
    let (_folder, workspaces) = place(&["a", "b", "c"]);
    let [a, b, c] = ["a", "b", "c"].map(|name| workspaces.open(&id(name)).unwrap());
    a.link(b.id()).unwrap();
    let whole = c.status().unwrap();
    a.update(|status| *status = whole).unwrap();
    assert_eq!((links(&workspaces, "a"), links(&workspaces, "c")), (json!(["b"]), json!([])));
}

#[cfg(unix)]
#[test]
fn links_lead_out_of_the_place_by_no_symbolic_link() {
    let (_folder, workspaces) = place(&["a"]);
    let (_outside, others) = place(&["b"]);
    std::os::unix::fs::symlink(others.path().join("b"), workspaces.path().join("b")).unwrap();
    let a = workspaces.open(&id("a")).unwrap();
    assert_eq!(a.link(&id("b")).unwrap_err().kind(), Kind::NotAWorkspace);
    edit(&workspaces, "a", |status| status["linked_workspace_ids"] = json!(["b"]));
    workspaces.open(&id("a")).unwrap();
    assert_eq!(links(&others, "b"), json!([]));
}

/// Reads all, opens none.
fn both_sides_agree(workspaces: &Workspaces) {
    let list = workspaces.list().unwrap();
    assert!(list.unreadable.is_empty());
    let all: BTreeMap<_, _> =
        list.entries.iter().map(|entry| (entry.workspace.id().clone(), &entry.status)).collect();
    for (one, status) in &all {
        for other in status.linked_workspace_ids().iter().chain(status.parent_workspace_id()) {
            let found = all.get(other).unwrap_or_else(|| panic!("{one} names {other}, which is gone"));
            let names_it =
                found.linked_workspace_ids().contains(one) || found.parent_workspace_id() == Some(one);
            assert!(names_it, "{other} does not name {one}");
        }
        assert_eq!(written(workspaces, one.as_str()).get("pending_link_ids"), None);
    }
}

/// Links every pair from both ends, beginning somewhere, and changes both as well.
fn link_all(workspaces: &Workspaces, start: usize) {
    for step in 0..NAMES.len() * NAMES.len() {
        let step = (start + step * 7) % (NAMES.len() * NAMES.len());
        let (one, other) = (NAMES[step / NAMES.len()], NAMES[step % NAMES.len()]);
        if one != other {
            let workspace = workspaces.open(&id(one)).unwrap();
            workspace
                .update(|status| status.data = json!(status.data.as_u64().unwrap_or_default() + 1))
                .unwrap();
            workspace.link(&id(other)).unwrap();
        }
    }
}

/// Starts one test again as a writer.
fn start<T>(test: T, place: &Path, start: usize) -> Child {
    child_test::command(test)
        .env(PLACE, place)
        .env(START, start.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn part() -> Option<(Workspaces, usize)> {
    let place = std::env::var_os(PLACE)?;
    Some((Workspaces::below(place), std::env::var(START).unwrap().parse().unwrap()))
}

#[test]
fn links_from_all_ends_at_once_wait_for_each_other_and_lose_nothing() {
    if let Some((workspaces, start)) = part() {
        return link_all(&workspaces, start);
    }
    let (_folder, workspaces) = place(&NAMES);
    thread::scope(|scope| {
        let workspaces = &workspaces;
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || link_all(workspaces, n * 5))).collect();
        let test = links_from_all_ends_at_once_wait_for_each_other_and_lose_nothing;
        let children: Vec<_> = (4..8).map(|n| start(test, workspaces.path(), n * 5)).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            child_test::assert_passed("a writer", &output);
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
    for entry in workspaces.list().unwrap().entries {
        let others: Vec<&str> =
            NAMES.into_iter().filter(|name| *name != entry.workspace.id().as_str()).collect();
        assert_eq!(entry.status.linked_workspace_ids(), &ids(&others));
        assert_eq!(entry.status.data, 8 * (NAMES.len() - 1), "no change was lost");
    }
    both_sides_agree(&workspaces);
}

#[test]
fn opening_takes_no_link_from_what_is_just_being_created() {
    let (_folder, workspaces) = place(&["a", "b"]);
    let many = 10 * effort::rounds();
    thread::scope(|scope| {
        let create = |letter: &'static str| {
            let workspaces = &workspaces;
            move || {
                for n in 0..many {
                    let new = NewWorkspace::new(Work::Created).with_id(id(&format!("{letter}{n}")));
                    workspaces.create(new.with_link(id("b")).with_parent(id("a"))).unwrap();
                }
            }
        };
        let creators = ["x", "y"].map(|letter| scope.spawn(create(letter)));
        let is_busy = || creators.iter().any(|creator| !creator.is_finished());
        while is_busy() {
            for name in ["a", "b", "x0", "y9"] {
                let _ = workspaces.open(&id(name));
            }
        }
    });
    for name in ["a", "b"] {
        let found = workspaces.open(&id(name)).unwrap().status().unwrap();
        assert_eq!(found.linked_workspace_ids().len(), 2 * many, "{name}");
    }
    both_sides_agree(&workspaces);
}

#[test]
fn a_killed_writer_leaves_no_link_one_sided() {
    if let Some((workspaces, start)) = part() {
        let hub = workspaces.open(&id("a")).unwrap();
        for round in 0_u64.. {
            if round == 1 {
                println!("one was created");
            }
            let new = NewWorkspace::new(Work::Created)
                .with_id(id(&format!("n{start}-{round}")))
                .with_link(id("b"))
                .with_parent(id("c"));
            hub.link(workspaces.create(new).unwrap().id()).unwrap();
        }
    }
    let (_folder, workspaces) = place(&["a", "b", "c"]);
    let mut half = 0;
    for round in 0..effort::rounds() {
        let test = a_killed_writer_leaves_no_link_one_sided;
        let mut child = start(test, workspaces.path(), round);
        let output = BufReader::new(child.stdout.take().unwrap());
        assert!(output.lines().map_while(Result::ok).any(|line| line.ends_with("one was created")));
        let moment = (round as u64 + 1).wrapping_mul(effort::seed()).wrapping_mul(2_654_435_761);
        thread::sleep(Duration::from_micros(moment % 40_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let before = ["a", "b", "c"].map(|name| written(&workspaces, name));
        // Only those that all links have in common are opened: the others are never looked at again.
        for name in ["a", "b", "c"] {
            workspaces.open(&id(name)).unwrap();
        }
        half += u64::from(before != ["a", "b", "c"].map(|name| written(&workspaces, name)));
        both_sides_agree(&workspaces);
    }
    println!("{} kills: {half} left a link half made", effort::rounds());
    assert!(workspaces.list().unwrap().entries.len() >= 3 + effort::rounds(), "each writer created one");
}
