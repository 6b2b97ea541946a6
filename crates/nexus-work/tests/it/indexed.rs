//! Lists from the index of a home say what the workspaces say.

use std::{fs, sync::Arc};

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};
use nexus_files::{HomeIndex, Journal};
use nexus_work::{IndexedList, NewWorkspace, ShownWork, WorkData, WorkSnapshot, WorkspaceState, Workspaces};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::Work;

/// Kinds of failure of a service that tells none apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AnyFault;

impl ServiceErrorKind for AnyFault {
    const FIND: &'static str = "";
    const RESTORE: &'static str = "";

    fn of(_fault: ServiceFault) -> Self {
        Self
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Goal {
    version: u32,
    goal: String,
}

impl WorkData<Work> for Goal {
    const VERSION: u32 = 1;

    fn fault(&self, _state: &Work) -> Option<String> {
        None
    }
}

/// A state of another service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Talk {
    round: u32,
}

impl WorkspaceState for Talk {
    const KIND: &'static str = "talk";

    fn is_final(&self) -> bool {
        false
    }
}

fn list(workspaces: &Workspaces<Work>, index: &HomeIndex) -> IndexedList<u64, AnyFault> {
    let show = |snapshot: &WorkSnapshot<Work, Goal>| ShownWork {
        title: snapshot.data.goal.clone(),
        status: format!("{:?}", snapshot.state),
        details: snapshot.generation,
    };
    let listed: Result<_, ServiceError<AnyFault>> = workspaces.list_indexed(index, show);
    listed.unwrap()
}

#[test]
fn a_list_has_the_work_of_its_kind_with_status_cost_and_times() {
    let home = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::in_home(home.path()));
    let index = HomeIndex::in_home(home.path(), Arc::clone(&journal));
    let workspaces = Workspaces::<Work>::below(home.path().join("tasks")).with_journal(journal);
    assert!(list(&workspaces, &index).entries.is_empty());
    let create = |goal: &str| {
        let data = json!({ "version": 1, "goal": goal });
        workspaces.create(NewWorkspace::new(Work::Created).with_data(data)).unwrap()
    };
    let [first, second, third] = ["first", "second", "third"].map(create);
    workspaces.of::<Talk>().create(NewWorkspace::new(Talk { round: 1 })).unwrap();
    let costs = [json!({ "usd": 0.25 }), json!({ "usd": -1.0 }), json!(null), json!({ "usd": 0.5 })];
    for cost in costs {
        second.append("turn_ended", json!({ "cost": cost })).unwrap();
    }
    second.append("created", json!({ "cost": { "usd": 9.0 } })).unwrap();
    third.update(|status| status.state = Work::Running).unwrap();
    let listed = list(&workspaces, &index);
    assert!(listed.unreadable.is_empty());
    let shown: Vec<_> = listed
        .entries
        .iter()
        .map(|entry| (entry.title.as_str(), entry.status.as_str(), entry.cost_usd, entry.details))
        .collect();
    let expected = [
        ("first", "Created", None, Some(1)),
        ("second", "Created", Some(0.75), Some(1)),
        ("third", "Running", None, Some(2)),
    ];
    assert_eq!(shown, expected);
    for (entry, workspace) in listed.entries.iter().zip([&first, &second, &third]) {
        let status = workspace.status().unwrap();
        assert_eq!((entry.id.as_str(), entry.kind.to_string()), (workspace.id().as_str(), "work".to_owned()));
        assert_eq!((entry.created_at, entry.updated_at), (Some(status.created_at()), status.updated_at()));
    }
    // What changed since is read again, and what cannot be read hides no other.
    second.append("turn_ended", json!({ "cost": { "usd": 0.25 } })).unwrap();
    fs::write(first.path().join("status.json"), "{").unwrap();
    workspaces.remove(third.id()).unwrap();
    let listed = list(&workspaces, &index);
    assert_eq!((listed.entries.len(), listed.unreadable.len()), (1, 1));
    assert_eq!(listed.entries[0].cost_usd, Some(1.0));
}
