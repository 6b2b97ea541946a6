//! The registry of agent types of a home.

use std::{fs, thread};

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};
use nexus_work::{AgentType, AgentTypes, agent::AgentTypeRegistry};

/// Kinds of failure of a service that reads the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind(ServiceFault);

impl ServiceErrorKind for Kind {
    const FIND: &'static str = "list them";
    const RESTORE: &'static str = "restore it";

    fn of(fault: ServiceFault) -> Self {
        Self(fault)
    }
}

fn register(registry: &AgentTypeRegistry, name: &str) -> Result<AgentTypes, ServiceError<Kind>> {
    let agent = AgentType::new(name, "operations", "survey");
    registry.change(|types| {
        types.with_custom_type(agent).map_err(|error| ServiceError::invalid(error.to_string(), "rename it"))
    })
}

fn custom(types: &AgentTypes) -> Vec<String> {
    types.custom_types().map(|known| known.name.clone()).collect()
}

#[test]
fn a_home_without_a_file_has_the_built_in_types() {
    let home = tempfile::tempdir().unwrap();
    let types = AgentTypeRegistry::in_home(home.path()).read::<Kind>().unwrap();
    assert_eq!(types, AgentTypes::built_in());
    assert!(fs::read_dir(home.path()).unwrap().next().is_none(), "reading writes nothing");
}

#[test]
fn types_that_threads_register_at_once_are_all_stored() {
    let home = tempfile::tempdir().unwrap();
    let names = ["ada", "ben", "cyd", "dov", "eve", "fay", "gus", "hal"];
    thread::scope(|scope| {
        for name in names {
            let registry = AgentTypeRegistry::in_home(home.path());
            scope.spawn(move || register(&registry, name).unwrap());
        }
    });
    let registry = AgentTypeRegistry::in_home(home.path());
    let mut stored = custom(&registry.read::<Kind>().unwrap());
    stored.sort();
    assert_eq!(stored, names);
    assert_eq!(custom(&register(&registry, "ada").unwrap()).len(), names.len(), "it is replaced");
}

#[test]
fn a_file_of_an_earlier_version_is_read_and_changed() {
    let home = tempfile::tempdir().unwrap();
    let written = include_str!("fixtures/agent-types.json");
    fs::write(home.path().join("agent-types.json"), written).unwrap();
    let registry = AgentTypeRegistry::in_home(home.path());
    let types = registry.read::<Kind>().unwrap();
    assert_eq!(types.find("surveyor").unwrap().prompt.as_deref(), Some("Look first."));
    assert_eq!(types.built_in_tier("research").unwrap(), "operations");
    register(&registry, "ada").unwrap();
    let changed = registry.read::<Kind>().unwrap();
    assert_eq!(changed.find("surveyor").unwrap(), types.find("surveyor").unwrap());
}

#[test]
fn a_change_that_fails_and_a_damaged_file_leave_the_file_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("agent-types.json");
    let registry = AgentTypeRegistry::in_home(home.path());
    register(&registry, "ada").unwrap();
    let before = fs::read_to_string(&file).unwrap();
    let error = register(&registry, "reviewer").unwrap_err();
    assert_eq!(error.kind, Kind(ServiceFault::Invalid));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    fs::write(&file, "{").unwrap();
    for error in [registry.read::<Kind>().unwrap_err(), register(&registry, "ben").unwrap_err()] {
        assert_eq!(error.kind, Kind(ServiceFault::Damaged));
        assert!(
            error.message.contains("agent-types.json") && error.advice.contains("move it away"),
            "{error}"
        );
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "{");
}
