//! Files that others wrote, disks that are full, folders that may not be written to.

use std::{fs, path::PathBuf, process::Command};

use nexus_testkit::child_test;
use nexus_work::{NewWorkspace, WorkspaceErrorKind as Kind};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::Work;

type Workspace = nexus_work::Workspace<Work>;
type Workspaces = nexus_work::Workspaces<Work>;

/// The folder on a small disk, for the process that was started there.
const SMALL_DISK: &str = "NEXUS_TEST_SMALL_DISK";

fn new_workspace() -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspaces::below(folder.path()).create(NewWorkspace::new(Work::Created)).unwrap();
    workspace.append("first", json!({ "a": [1, 2.5, "é"] })).unwrap();
    workspace.append("second", Value::Null).unwrap();
    (folder, workspace)
}

/// Uses the workspace in every way; whatever its files say, that ends with an answer.
fn use_it(workspace: &Workspace) -> bool {
    let is_good = Workspace::open(workspace.path()).is_ok();
    assert_eq!(workspace.update(|status| status.state = Work::Failed("tried".to_owned())).is_ok(), is_good);
    let before = workspace.events();
    let appended = workspace.append("third", Value::Null);
    if let Ok(before) = before {
        let after = workspace.events().unwrap();
        assert_eq!(appended.unwrap().sequence, before.events.len() as u64 + 1);
        assert_eq!(after.events[..before.events.len()], before.events);
        assert!(after.torn_tail().is_none());
    }
    let workspaces = Workspaces::below(workspace.path().parent().unwrap());
    assert_eq!(workspaces.list().unwrap().entries.len(), usize::from(is_good));
    is_good
}

/// Changes some bytes, and cuts the end off.
fn damaged(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)], end: prop::sample::Index) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    bytes.truncate(end.index(bytes.len() + 1));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_an_answer(status in any::<Vec<u8>>(), events in any::<Vec<u8>>()) {
        let (_folder, workspace) = new_workspace();
        fs::write(workspace.path().join("events.jsonl"), events).unwrap();
        use_it(&workspace);
        fs::write(workspace.path().join("status.json"), status).unwrap();
        prop_assert!(!use_it(&workspace), "random bytes were a status");
    }

    #[test]
    fn damaged_files_give_an_answer(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let (_folder, workspace) = new_workspace();
        for name in ["events.jsonl", "status.json"] {
            let path = workspace.path().join(name);
            fs::write(&path, damaged(fs::read(&path).unwrap(), &changes, end)).unwrap();
            use_it(&workspace);
        }
    }

    #[test]
    fn data_is_read_back_as_it_was_written(number in any::<f64>(), large in any::<i64>(), text in ".*") {
        let (_folder, workspace) = new_workspace();
        let data = json!({ "number": number, "large": large, &text: [&text] });
        workspace.update(|status| status.data = data.clone()).unwrap();
        for _ in 0..2 {
            workspace.update(|status| status.labels.insert(text.clone(), text.clone())).unwrap();
        }
        let event = workspace.append(text, data.clone()).unwrap();
        prop_assert_eq!(workspace.status().unwrap().data, data);
        prop_assert_eq!(workspace.events().unwrap().events.pop(), Some(event));
    }
}

#[test]
fn every_cut_of_the_log_is_read_whole_up_to_the_cut() {
    let (_folder, workspace) = new_workspace();
    let path = workspace.path().join("events.jsonl");
    let whole = fs::read(&path).unwrap();
    let log = workspace.events().unwrap();
    for end in 0..=whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let cut = workspace.events().unwrap();
        assert_eq!(cut.events[..], log.events[..cut.events.len()]);
        let torn: usize = cut.torn_tail().map_or(0, |torn| torn.bytes.len());
        let read = whole[..end - torn].iter().filter(|byte| **byte == b'\n').count();
        assert!(cut.events.len() == read || (torn == 0 && cut.events.len() == read + 1), "cut at {end}");
    }
}

#[test]
fn a_full_disk_leaves_the_old_status_and_the_old_events() {
    if let Some(folder) = std::env::var_os(SMALL_DISK) {
        return fill_the_disk(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    // The disk is there for the started process alone, and gone with it.
    let script = "mount -t tmpfs -o size=256k small \"$1\" || exit 77; shift; exec \"$@\"";
    let mut launcher = Command::new("unshare");
    launcher.args(["--map-root-user", "--mount", "sh", "-c", script, "sh", disk]);
    let test = a_full_disk_leaves_the_old_status_and_the_old_events;
    match child_test::through(launcher, test).env(SMALL_DISK, disk).output() {
        Ok(output) if matches!(output.status.code(), Some(0 | 101)) => {
            child_test::assert_passed("the writer on a small disk", &output);
        }
        unable => eprintln!("skipped: no small disk can be mounted ({unable:?})"),
    }
}

fn fill_the_disk(folder: PathBuf) {
    let workspaces = Workspaces::below(folder);
    let workspace =
        workspaces.create(NewWorkspace::new(Work::Created).with_data(json!("x".repeat(100_000)))).unwrap();
    workspace.append("first", Value::Null).unwrap();
    let status = workspace.status().unwrap();

    let error = workspace.update(|status| status.data = json!("y".repeat(200_000))).unwrap_err();
    assert_eq!(error.kind(), Kind::NoSpace, "{error}");
    assert!(error.to_string().ends_with("status.json cannot be written: the disk is full; free space on it"));
    assert_eq!(workspace.status().unwrap(), status);

    let log = fs::read(workspace.path().join("events.jsonl")).unwrap();
    let error = workspace.append("large", json!("y".repeat(200_000))).unwrap_err();
    assert_eq!(error.kind(), Kind::NoSpace, "{error}");
    assert_eq!(fs::read(workspace.path().join("events.jsonl")).unwrap(), log);

    let large = NewWorkspace::new(Work::Created).with_data(json!("z".repeat(200_000)));
    assert_eq!(workspaces.create(large).unwrap_err().kind(), Kind::NoSpace);
    assert_eq!(fs::read_dir(workspaces.path()).unwrap().count(), 1, "nothing is left of it");

    // Where space is free again, everything goes on.
    workspace.update(|status| status.data = json!("small")).unwrap();
    assert_eq!(workspace.append("second", Value::Null).unwrap().sequence, 2);
    assert_eq!(workspace.status().unwrap().generation(), 2);
    link_with_ever_more_room(&workspaces);
}

/// Whichever of its writes finds no room, a link is on both sides in the end, or on neither.
fn link_with_ever_more_room(workspaces: &Workspaces) {
    const PAGE: usize = 4 << 10;
    let (mut failed, mut linked) = (0, 0);
    for free in 0..8 {
        let [one, other] = [(); 2].map(|()| workspaces.create(NewWorkspace::new(Work::Created)).unwrap());
        let filler = workspaces.path().join("filler");
        let mut pages: Vec<PathBuf> = Vec::new();
        fs::create_dir(&filler).unwrap();
        while let path = filler.join(pages.len().to_string())
            && fs::write(&path, [0; PAGE]).is_ok()
        {
            pages.push(path);
        }
        for page in pages.iter().take(free) {
            fs::remove_file(page).unwrap();
        }
        let result = one.link(other.id());
        let created = workspaces.create(NewWorkspace::new(Work::Created).with_link(one.id().clone()));
        fs::remove_dir_all(&filler).unwrap();
        for id in [one.id(), other.id()] {
            workspaces.open(id).unwrap();
        }
        let links = |workspace: &Workspace| workspace.status().unwrap().linked_workspace_ids().clone();
        let is_linked = links(&one).contains(other.id());
        assert_eq!(links(&other).contains(one.id()), is_linked);
        assert_eq!(result.is_ok(), is_linked, "{free} pages: {result:?}");
        match &created {
            Ok(created) => assert!(links(&one).contains(created.id()) && links(created).contains(one.id())),
            Err(error) => {
                assert_eq!(error.kind(), Kind::NoSpace, "{error}");
                assert_eq!(links(&one).len(), usize::from(is_linked));
            }
        }
        failed += usize::from(result.is_err());
        linked += usize::from(result.is_ok());
        for workspace in [Ok(one), Ok(other), created].into_iter().flatten() {
            fs::remove_dir_all(workspace.path()).unwrap();
        }
    }
    assert!(failed > 0 && linked > 0, "{failed} failed, {linked} were made");
}

#[cfg(unix)]
#[test]
fn what_may_not_be_written_can_be_read_and_says_so() {
    use std::os::unix::fs::PermissionsExt as _;

    let (folder, workspace) = new_workspace();
    let restrict = |mode| fs::set_permissions(workspace.path(), fs::Permissions::from_mode(mode)).unwrap();
    restrict(0o500);
    if fs::write(workspace.path().join("probe"), "").is_ok() {
        restrict(0o700);
        eprintln!("skipped: file modes mean nothing to this user");
        return;
    }
    let workspace = Workspace::open(workspace.path()).unwrap();
    assert_eq!(workspace.events().unwrap().events.len(), 2);
    let error = workspace.update(|status| status.state = Work::Failed("no".to_owned())).unwrap_err();
    assert_eq!(error.kind(), Kind::PermissionDenied, "{error}");
    assert!(
        error.to_string().contains("correct its permissions and the permissions of its folder"),
        "{error}"
    );
    restrict(0o000);
    assert_eq!(workspace.status().unwrap_err().kind(), Kind::PermissionDenied);
    restrict(0o700);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let error = Workspaces::below(folder.path()).create(NewWorkspace::new(Work::Created)).unwrap_err();
    assert_eq!(error.kind(), Kind::PermissionDenied, "{error}");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
}
