//! The scenarios that have a name.

use std::collections::HashSet;

use nexus_testkit::sim::{Dialect, GALLERY, Scenario, Sim};

use super::client::{End, messages};

#[test]
fn every_name_is_its_own_and_finds_its_scenario() {
    let names: HashSet<&str> = GALLERY.iter().map(|known| known.name).collect();
    assert_eq!(names.len(), GALLERY.len());
    assert!(GALLERY.len() > 30);
    for known in GALLERY {
        assert!(Scenario::named(known.name).is_some());
        assert!(!known.summary.is_empty());
    }
    assert!(Scenario::named("no such weather").is_none());
}

#[test]
fn every_scenario_survives_being_written_down() {
    for known in GALLERY {
        let scenario = known.scenario();
        let written = serde_json::to_string(&scenario).expect("JSON");
        let read: Scenario = serde_json::from_str(&written).expect(known.name);
        assert_eq!(read, scenario, "{}", known.name);
    }
}

#[test]
fn a_scenario_can_be_written_by_hand() {
    let scenario: Scenario = serde_json::from_str(
        r#"{"replies": [{"parts": [{"part": "call", "call": "shell", "command": "date"}]},
                        {"fault": {"kind": "torn", "cut": "fin"}, "parts": [{"part": "text", "text": "Hal"}]}],
            "rules": [{"when_prompt_contains": "no", "replies": [{"fault": {"kind": "status", "status": 403}}]}]}"#,
    )
    .expect("a scenario");
    assert!(scenario.replies[0].usage.is_some());
    let sim = Sim::start(Dialect::Anthropic, scenario).expect("a simulator");
    assert_eq!(
        messages(sim.address(), "hi").events_of("content_block_start")[0]["content_block"]["name"],
        "Bash"
    );
    assert_eq!(messages(sim.address(), "hi").end, End::Fin);
    assert_eq!(messages(sim.address(), "no").status, Some(403));
    let wrong = serde_json::from_str::<Scenario>(r#"{"replys": []}"#);
    assert!(wrong.is_err_and(|error| error.to_string().contains("replys")));
}
