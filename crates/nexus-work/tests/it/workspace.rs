//! One workspace at a time: what is created, changed, linked, listed and appended, and what each error says.

use std::{fs, path::Path, time::Duration};

use nexus_testkit::effort;
use nexus_work::{NewWorkspace, WorkspaceError, WorkspaceErrorKind as Kind, WorkspaceId, WorkspaceList};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::Work;

type Workspace = nexus_work::Workspace<Work>;
type Workspaces = nexus_work::Workspaces<Work>;

fn place() -> (TempDir, Workspaces) {
    let folder = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::below(folder.path().join("deep/place"));
    (folder, workspaces)
}

fn id(text: &str) -> WorkspaceId {
    text.parse().unwrap()
}

fn named(workspaces: &Workspaces, name: &str) -> Workspace {
    workspaces.create(NewWorkspace::new(Work::Created).with_id(id(name))).unwrap()
}

fn edit(workspace: &Workspace, change: impl FnOnce(&mut Value)) {
    let path = workspace.path().join("status.json");
    let mut status: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut status);
    fs::write(&path, serde_json::to_vec(&status).unwrap()).unwrap();
}

fn refused(workspace: &Workspace) -> WorkspaceError {
    Workspace::open(workspace.path()).unwrap_err()
}

#[test]
fn what_is_created_is_read_back() {
    let (_folder, workspaces) = place();
    let parent = named(&workspaces, "parent");
    let friend = named(&workspaces, "friend");
    let new = NewWorkspace::new(Work::Created)
        .with_id(id("child"))
        .with_parent(parent.id().clone())
        .with_link(friend.id().clone())
        .with_label("issue", "12")
        .with_data(json!({ "third": 0.1 + 0.2, "large": u64::MAX }));
    workspaces.create(new).unwrap();

    let status = workspaces.open(&id("child")).unwrap().status().unwrap();
    assert_eq!((status.id(), status.generation()), (&id("child"), 1));
    assert_eq!(status.parent_workspace_id(), Some(&id("parent")));
    assert_eq!(status.linked_workspace_ids(), &[id("friend")].into());
    assert_eq!(status.labels["issue"], "12");
    assert_eq!(status.data, json!({ "third": 0.1 + 0.2, "large": u64::MAX }));
    assert_eq!((&status.state, status.is_final()), (&Work::Created, false));
    assert!(status.created_at().elapsed().unwrap() < Duration::from_secs(60));
    assert_eq!(status.created_at(), status.updated_at());
}

#[test]
fn the_file_says_it_in_plain_words() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    workspace.update(|status| status.state = Work::Failed("out of time".to_owned())).unwrap();
    let status: Value =
        serde_json::from_slice(&fs::read(workspace.path().join("status.json")).unwrap()).unwrap();
    assert_eq!(status["version"], 1);
    assert_eq!(status["kind"], "work");
    assert_eq!(status["state"], json!({ "failed": "out of time" }));
    assert_eq!(status["generation"], 2);
    assert_eq!(status["parent_workspace_id"], Value::Null);
    assert_eq!(status["linked_workspace_ids"], json!([]));
    let updated = status["updated_at"].as_str().unwrap();
    assert!(updated.ends_with('Z') && nexus_files::rfc3339::parse(updated).is_some(), "{updated}");
}

#[test]
fn a_change_is_written_once_and_none_is_not_written_at_all() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    workspace.update(|status| status.state = Work::Running).unwrap();
    let after = workspace.status().unwrap();
    assert_eq!((&after.state, after.generation()), (&Work::Running, 2));
    workspace.update(|status| status.state = Work::Running).unwrap();
    assert_eq!(workspace.status().unwrap(), after);
}

#[test]
fn a_change_that_fails_or_panics_writes_nothing_and_frees_the_lock() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    let failed: Result<(), Box<dyn std::error::Error>> = workspace.try_update(|status| {
        status.state = Work::Failed("no".to_owned());
        Err("no".into())
    });
    assert_eq!(failed.unwrap_err().to_string(), "no");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        workspace.update(|status| {
            status.state = Work::Failed("no".to_owned());
            panic!("on purpose");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(workspace.status().unwrap().generation(), 1);
    workspace.update(|status| status.state = Work::Failed("at last".to_owned())).unwrap();
    assert!(workspace.status().unwrap().is_final());
}

#[test]
fn a_change_inside_a_change_is_refused_at_once() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    let (inner, event) = workspace
        .update(|_| (workspace.update(|_| ()).unwrap_err(), workspace.append("x", Value::Null).unwrap_err()))
        .unwrap();
    assert_eq!((inner.kind(), event.kind()), (Kind::InUse, Kind::InUse));
    assert!(inner.to_string().contains("locked by this thread"), "{inner}");
    workspace.append("x", Value::Null).unwrap();
}

#[test]
fn a_writer_that_does_not_end_is_not_waited_for_forever() {
    let (_folder, workspaces) = place();
    named(&workspaces, "task");
    let hasty = workspaces.clone().with_patience(Duration::from_millis(30)).open(&id("task")).unwrap();
    let workspace = workspaces.open(&id("task")).unwrap();
    let error = workspace
        .update(|_| std::thread::scope(|scope| scope.spawn(|| hasty.update(|_| ())).join().unwrap()))
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), Kind::InUse);
    assert!(error.to_string().ends_with("for 30 ms: try again"), "{error}");
}

#[test]
fn what_a_change_cannot_change_stays() {
    let (_folder, workspaces) = place();
    let (one, other) = (named(&workspaces, "one"), named(&workspaces, "other"));
    let whole = other.status().unwrap();
    one.update(|status| *status = whole).unwrap();
    assert_eq!((one.status().unwrap().id(), one.status().unwrap().generation()), (&id("one"), 1));
}

#[test]
fn unknown_fields_of_the_same_version_are_kept_to_the_letter() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    let path = workspace.path().join("status.json");
    let text = fs::read_to_string(&path).unwrap();
    let unknown = r#""later": { "n": 123456789012345678901234567890.10, "s": "\u00e9" }"#;
    fs::write(&path, text.replacen('{', &format!("{{ {unknown},"), 1)).unwrap();
    workspace.update(|status| status.state = Work::Running).unwrap();
    workspace.update(|status| status.data = json!([1])).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains(unknown));
}

#[test]
fn a_newer_version_is_an_error_that_says_so() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    edit(&workspace, |status| *status = json!({ "version": 2, "identity": "task" }));
    let error = refused(&workspace);
    assert_eq!(error.kind(), Kind::NewerVersion { found: 2 });
    assert!(error.to_string().contains("status.json has version 2 of a newer Nexus"), "{error}");
    let before = fs::read(workspace.path().join("status.json")).unwrap();
    assert!(workspace.update(|_| ()).is_err());
    assert_eq!(fs::read(workspace.path().join("status.json")).unwrap(), before);
}

#[test]
fn what_is_malformed_is_named_with_its_place() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    let path = workspace.path().join("status.json");
    let text = r#"{
  "version": 1,
  "id": "task",
  "kind": "work",
  "generation": 1,
  "state": "created",
  "labels": {},
  "created_at": "2026-01-31T12:00:00Z",
  "updated_at": "2026-01-31T12:00:00Z"
}
"#;
    fs::write(&path, text).unwrap();
    Workspace::open(workspace.path()).unwrap();
    let cases = [
        (text.replace("\"created\"", "\"creatd\""), (6, 19), "`state`: unknown variant `creatd`"),
        (text.replace("\"generation\": 1", "\"generation\": -1"), (5, 18), "`generation`: invalid value"),
        (text.replace("{},", "{\n    \"a\": 1\n  },"), (8, 10), "`labels`: invalid type"),
        (
            text.replace("created_at\": \"2", "created_at\": \"x2"),
            (8, 17),
            "`created_at`: this is not a time",
        ),
        (text.replace("\"id\": \"task\",", ""), (1, 1), "the field `id` is missing"),
        (text.replace("\"kind\": \"work\",", ""), (1, 1), "the field `kind` is missing"),
        (text.replace("\"id\"", "\"state\""), (6, 9), "the field `state` occurs twice"),
        (text.replace("\"task\"", "\"../task\""), (3, 9), "`id`: \"../task\" is not the id of a workspace"),
        (text.replace("\"version\": 1", "\"version\": \"1\""), (2, 16), "`version`: invalid type"),
        (text.replace("\"version\": 1", "\"version\": 0"), (1, 1), "there is no version 0"),
        (text[..40].to_owned(), (4, 6), "EOF while parsing a string"),
        (format!("{text}x"), (11, 1), "trailing characters"),
        (String::new(), (1, 1), "EOF while parsing a value"),
        ("[]".to_owned(), (1, 1), "invalid type: sequence, expected an object"),
    ];
    for (text, (line, column), words) in cases {
        fs::write(&path, &text).unwrap();
        let error = refused(&workspace);
        let message = error.to_string();
        assert!(message.contains(words) && message.contains("status.json is malformed at line"), "{message}");
        assert_eq!(error.kind(), Kind::Malformed { line, column }, "{message}");
    }
    fs::write(&path, b"{\n\"a\": \"\xff\"}").unwrap();
    assert_eq!(refused(&workspace).kind(), Kind::Malformed { line: 2, column: 7 });
}

#[test]
fn what_is_no_workspace_is_told_from_what_is_not_there() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    let kind = |path: &Path| Workspace::open(path).unwrap_err().kind();
    assert_eq!(workspaces.open(&id("other")).unwrap_err().kind(), Kind::NotFound);
    let plain = workspaces.path().join("plain");
    fs::create_dir(&plain).unwrap();
    assert_eq!(kind(&plain), Kind::NotAWorkspace);
    fs::create_dir(plain.join("status.json")).unwrap();
    assert_eq!(kind(&plain), Kind::NotAWorkspace);
    fs::write(workspaces.path().join("file"), "").unwrap();
    assert_eq!(kind(&workspaces.path().join("file")), Kind::NotAWorkspace);
    assert_eq!(kind(&workspace.path().join("..")), Kind::NotAWorkspace);
    let renamed = workspaces.path().join("renamed");
    fs::rename(workspace.path(), &renamed).unwrap();
    let error = Workspace::open(&renamed).unwrap_err();
    assert_eq!(error.kind(), Kind::NotAWorkspace);
    assert!(error.to_string().ends_with("its status.json belongs to task"), "{error}");
    assert_eq!(workspace.append("x", Value::Null).unwrap_err().kind(), Kind::NotFound);
    assert_eq!(workspace.events().unwrap_err().kind(), Kind::NotFound);
    assert_eq!(workspace.update(|_| ()).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn two_of_one_id_cannot_be_created() {
    let (_folder, workspaces) = place();
    let first = named(&workspaces, "task");
    first.update(|status| status.data = json!("kept")).unwrap();
    let error = workspaces.create(NewWorkspace::new(Work::Created).with_id(id("task"))).unwrap_err();
    assert_eq!(error.kind(), Kind::AlreadyExists);
    assert_eq!(first.status().unwrap().data, "kept");
    let names: Vec<_> =
        fs::read_dir(workspaces.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["task"], "nothing else is left");
    let wanting = NewWorkspace::new(Work::Created).with_parent(id("nobody"));
    assert_eq!(workspaces.create(wanting).unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn of_eight_creators_of_one_id_one_succeeds() {
    let (_folder, workspaces) = place();
    for round in 0..20 {
        let id = id(&format!("task-{round}"));
        let made = std::thread::scope(|scope| {
            let create = || workspaces.create(NewWorkspace::new(Work::Created).with_id(id.clone()));
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        assert!(
            made.iter().flat_map(|made| made.as_ref().err()).all(|error| error.kind() == Kind::AlreadyExists)
        );
    }
    assert_eq!(workspaces.list().unwrap().entries.len(), 20);
}

#[test]
fn children_are_found() {
    let (_folder, workspaces) = place();
    assert!(workspaces.list().unwrap().entries.is_empty(), "the place is not there yet");
    let parent = named(&workspaces, "parent");
    for name in ["b", "a"] {
        workspaces
            .create(NewWorkspace::new(Work::Created).with_id(id(name)).with_parent(id("parent")))
            .unwrap();
    }
    let ids = |list: WorkspaceList<Work>| {
        list.entries.iter().map(|entry| entry.workspace.id().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(workspaces.list().unwrap()), ["parent", "b", "a"], "the oldest first");
    assert_eq!(ids(parent.children().unwrap()), ["b", "a"]);
    assert!(ids(workspaces.children(&id("a")).unwrap()).is_empty());

    let status = parent.status().unwrap();
    assert_eq!((status.linked_workspace_ids(), status.generation()), (&[id("a"), id("b")].into(), 3));
}

#[test]
fn what_is_wrong_with_one_workspace_hides_no_other() {
    let (_folder, workspaces) = place();
    named(&workspaces, "good");
    let bad = named(&workspaces, "bad");
    fs::write(bad.path().join("status.json"), "{").unwrap();
    fs::create_dir(workspaces.path().join("empty")).unwrap();
    fs::create_dir(workspaces.path().join("no workspace")).unwrap();
    fs::write(workspaces.path().join("notes"), "").unwrap();
    let list = workspaces.list().unwrap();
    assert_eq!(list.entries.len(), 1);
    let kinds: Vec<_> = list.unreadable.iter().map(WorkspaceError::kind).collect();
    assert!(matches!(kinds[..], [Kind::Malformed { line: 1, .. }, Kind::NotAWorkspace]), "{kinds:?}");
}

#[test]
fn events_are_numbered_from_one() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    assert_eq!(workspace.events().unwrap().events, []);
    let appended: Vec<_> =
        (0..3).map(|n| workspace.append("step", json!({ "n": n, "text": "a\nb" })).unwrap()).collect();
    let log = workspace.events().unwrap();
    assert_eq!(log.events, appended);
    assert_eq!(log.events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [1, 2, 3]);
    fs::remove_file(workspace.path().join("events.jsonl")).unwrap();
    assert_eq!(workspace.events().unwrap().events, []);
    assert_eq!(workspace.append("again", Value::Null).unwrap().sequence, 1);
}

#[test]
fn a_torn_tail_is_reported_kept_and_written_behind() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    let path = workspace.path().join("events.jsonl");
    workspace.append("first", Value::Null).unwrap();
    workspace.append("second", json!({ "text": "é".repeat(10_000) })).unwrap();
    let whole = fs::read(&path).unwrap();
    let first_end = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for end in [first_end + 1, first_end + 30, whole.len() - 20_000, whole.len() - 2] {
        fs::write(&path, &whole[..end]).unwrap();
        let log = workspace.events().unwrap();
        assert_eq!(log.events.len(), 1);
        let torn = log.torn_tail().unwrap();
        assert_eq!((torn.line, torn.offset, &*torn.bytes), (2, first_end as u64, &whole[first_end..end]));

        let next = workspace.append("next", Value::Null).unwrap();
        assert_eq!(next.sequence, 2);
        assert!(fs::read(&path).unwrap().starts_with(&whole[..end]), "the torn bytes are where they were");
        let log = workspace.events().unwrap();
        assert_eq!((log.events.len(), log.events[1].kind.as_str()), (2, "next"));
        assert!(log.torn_tail().is_none());
        assert_eq!(log.torn[0].bytes, &whole[first_end..end]);
    }
    // Only the end of the line is missing: the event is whole.
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(workspace.events().unwrap().events.len(), 2);
    assert_eq!(workspace.append("third", Value::Null).unwrap().sequence, 3);
    let log = workspace.events().unwrap();
    assert_eq!((log.events.len(), log.torn.len()), (3, 0));
}

#[test]
fn a_gap_in_the_numbers_is_no_log() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    for _ in 0..3 {
        workspace.append("step", Value::Null).unwrap();
    }
    let path = workspace.path().join("events.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let without_second: String =
        text.lines().enumerate().filter(|(n, _)| *n != 1).map(|(_, l)| format!("{l}\n")).collect();
    fs::write(&path, without_second).unwrap();
    let error = workspace.events().unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed { line: 2, column: 1 });
    assert!(error.to_string().ends_with("events.jsonl has event 3 in line 2, but 2 is expected"), "{error}");
}

#[test]
fn what_could_not_be_read_back_is_not_written() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    let deep = (0..200).fold(Value::Null, |inner, _| json!([inner]));
    let large = Value::String("x".repeat(17 << 20));
    for data in [deep, large] {
        let error = workspace.update(|status| status.data = data.clone()).unwrap_err();
        assert_eq!(error.kind(), Kind::Unwritable, "{error}");
        let error = workspace.append("step", data).unwrap_err();
        assert_eq!(error.kind(), Kind::Unwritable, "{error}");
    }
    assert_eq!(workspaces.open(workspace.id()).unwrap().status().unwrap().generation(), 1);
    assert_eq!(workspace.events().unwrap().events, []);
}

#[test]
fn what_a_dead_writer_left_is_ignored_and_removed() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    let left = workspace.path().join(".status.json.abc.new");
    let foreign = workspace.path().join(".status.jsonx.new");
    for path in [&left, &foreign] {
        fs::write(path, "{ \"version\":").unwrap();
    }
    assert_eq!(workspace.status().unwrap().generation(), 1);
    workspace.update(|_| workspaces.open(&id("task")).unwrap()).unwrap();
    assert!(left.exists(), "somebody is writing");
    workspaces.open(&id("task")).unwrap();
    assert!(!left.exists() && foreign.exists(), "opening removes it, and nothing else");
}

#[test]
fn writers_whose_lock_fails_lose_changes_and_mix_nothing() {
    let (_folder, workspaces) = place();
    let workspace = named(&workspaces, "task");
    let lock = workspace.path().join(".lock");
    std::thread::scope(|scope| {
        let write = |letter: char| {
            for round in 0..10 * effort::rounds() {
                let text = String::from(letter).repeat(1_000 + round * 50);
                workspace.update(|status| status.data = json!([text, text])).unwrap();
            }
        };
        let writers = ['a', 'b', 'c'].map(|letter| scope.spawn(move || write(letter)));
        while writers.iter().any(|writer| !writer.is_finished()) {
            // Others lock another file from now on.
            let _ = fs::remove_file(&lock);
            let data = workspace.status().unwrap().data;
            assert_eq!(data[0], data[1]);
        }
        for writer in writers {
            writer.join().unwrap();
        }
    });
    assert!(fs::read_dir(workspace.path()).unwrap().count() <= 3, "nothing is left");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn only_the_owner_may_enter_and_read() {
        let (_folder, workspaces) = place();
        let workspace = named(&workspaces, "task");
        workspace.update(|status| status.state = Work::Running).unwrap();
        fs::remove_file(workspace.path().join("events.jsonl")).unwrap();
        workspace.append("step", Value::Null).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(workspaces.path()), mode(workspace.path())), (0o700, 0o700));
        let mut files = 0;
        for entry in fs::read_dir(workspace.path()).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600);
            files += 1;
        }
        assert_eq!(files, 3);
    }

    #[test]
    fn links_lead_nowhere() {
        let (folder, workspaces) = place();
        let workspace = named(&workspaces, "task");
        let outside = folder.path().join("outside");
        fs::write(&outside, "precious").unwrap();
        symlink(workspace.path(), workspaces.path().join("alias")).unwrap();
        assert_eq!(workspaces.open(&id("alias")).unwrap_err().kind(), Kind::NotAWorkspace);
        for name in ["events.jsonl", ".lock", "status.json"] {
            let path = workspace.path().join(name);
            fs::remove_file(&path).unwrap();
            symlink(&outside, &path).unwrap();
            let error =
                workspace.append("step", Value::Null).err().or_else(|| workspace.status().err()).unwrap();
            assert_eq!(error.kind(), Kind::NotAWorkspace, "{name}: {error}");
            fs::remove_file(&path).unwrap();
        }
        let workspace = named(&workspaces, "other");
        symlink(&outside, workspace.path().join(".status.json.abc.new")).unwrap();
        workspaces.open(&id("other")).unwrap();
        assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 3);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    }
}
