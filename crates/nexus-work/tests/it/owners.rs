//! Workspaces of several owners in one place, each with a type of state of its own.

use std::{collections::BTreeMap, fs};

use nexus_work::{NewWorkspace, WorkspaceErrorKind as Kind, WorkspaceState, Workspaces};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::support::Work;

/// A state that is more than a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Debate {
    round: u64,
    positions: BTreeMap<String, f64>,
    over: bool,
}

impl WorkspaceState for Debate {
    const KIND: &'static str = "debate";

    fn is_final(&self) -> bool {
        self.over
    }
}

fn debate() -> Debate {
    Debate { round: u64::MAX, positions: [("é \"1\"".to_owned(), 0.1 + 0.2)].into(), over: false }
}

#[test]
fn the_state_is_what_its_owner_says() {
    let folder = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::<Debate>::below(folder.path());
    let workspace = workspaces.create(NewWorkspace::new(debate())).unwrap();
    assert_eq!(workspace.status().unwrap().state, debate());
    assert!(!workspace.status().unwrap().is_final());
    workspace.update(|status| status.state.over = true).unwrap();
    let status = workspaces.open(workspace.id()).unwrap().status().unwrap();
    assert_eq!((status.state.over, status.is_final(), status.generation()), (true, true, 2));
    workspace.update(|status| status.state.over = true).unwrap();
    assert_eq!(workspace.status().unwrap().generation(), 2, "an equal state is not written");
    let file: Value =
        serde_json::from_slice(&fs::read(workspace.path().join("status.json")).unwrap()).unwrap();
    assert_eq!(file["kind"], "debate");
    assert_eq!(
        file["state"],
        json!({ "round": u64::MAX, "positions": { "é \"1\"": 0.1 + 0.2 }, "over": true })
    );
}

#[test]
fn a_workspace_of_another_kind_is_neither_opened_nor_listed_nor_changed() {
    let folder = tempfile::tempdir().unwrap();
    let debates = Workspaces::<Debate>::below(folder.path());
    let works = debates.of::<Work>();
    let argued = debates.create(NewWorkspace::new(debate())).unwrap();
    let done = works.create(NewWorkspace::new(Work::Running).with_parent(argued.id().clone())).unwrap();

    let error = works.open(argued.id()).unwrap_err();
    assert_eq!(error.kind(), Kind::OtherKind);
    assert!(
        error.to_string().ends_with("belongs to a \"debate\", not to a \"work\": open it as its own kind"),
        "{error}"
    );
    let list = debates.list().unwrap();
    assert_eq!((list.entries.len(), list.unreadable.len()), (1, 0));
    let list = works.list().unwrap();
    assert_eq!((list.entries.len(), list.unreadable.len()), (1, 0));
    assert_eq!(works.children(argued.id()).unwrap().entries[0].workspace.id(), done.id());
    assert!(argued.children().unwrap().entries.is_empty(), "none of its own kind");

    // A name is taken, whoever took it.
    let taken = NewWorkspace::new(Work::Running).with_id(argued.id().clone());
    assert_eq!(works.create(taken).unwrap_err().kind(), Kind::AlreadyExists);

    // What became of another kind under an open handle is not written over.
    let path = done.path().join("status.json");
    let text = fs::read_to_string(&path).unwrap().replace("\"work\"", "\"other\"");
    fs::write(&path, &text).unwrap();
    assert_eq!(done.update(|status| status.state = Work::Created).unwrap_err().kind(), Kind::OtherKind);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_whole_other_status_does_not_change_the_kind() {
    let folder = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::<Work>::below(folder.path());
    let one = workspaces.create(NewWorkspace::new(Work::Created)).unwrap();
    let two = workspaces.create(NewWorkspace::new(Work::Running)).unwrap();
    let other = two.status().unwrap();
    one.update(|status| *status = other).unwrap();
    let status = one.status().unwrap();
    assert_eq!((status.id(), &status.state, status.generation()), (one.id(), &Work::Running, 2));
}

/// A state that is written as what cannot be read back, or not at all.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Odd(String);

impl Serialize for Odd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_str() {
            "fails" => Err(serde::ser::Error::custom("on purpose")),
            "number" => serializer.serialize_u8(1),
            "panics" => panic!("on purpose"),
            text => serializer.serialize_str(text),
        }
    }
}

impl WorkspaceState for Odd {
    const KIND: &'static str = "odd";

    fn is_final(&self) -> bool {
        false
    }
}

#[test]
fn a_state_that_could_not_be_read_back_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::<Odd>::below(folder.path());
    let workspace = workspaces.create(NewWorkspace::new(Odd("good".to_owned()))).unwrap();
    for odd in ["fails", "number"] {
        let error = workspace.update(|status| status.state = Odd(odd.to_owned())).unwrap_err();
        assert_eq!(error.kind(), Kind::Unwritable, "{error}");
        let error = workspaces.create(NewWorkspace::new(Odd(odd.to_owned()))).unwrap_err();
        assert_eq!(error.kind(), Kind::Unwritable, "{error}");
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        workspace.update(|status| status.state = Odd("panics".to_owned()))
    }));
    assert!(panicked.is_err());
    assert_eq!(workspace.status().unwrap().state, Odd("good".to_owned()));
    workspace.update(|status| status.state = Odd("better".to_owned())).unwrap();
    assert_eq!(workspaces.list().unwrap().entries.len(), 1, "nothing is left of the others");
}
