//! Sections of the file for programs above the router.

use std::sync::{Arc, mpsc};

use nexus_core::{ConfigSection, SettingsError, settings_schema};
use nexus_router::{ConfigError, Router, hold::MemoryHoldStore, json_schema};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::support::{context, registry};

/// What a program reads in its section `shop`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
#[allow(dead_code, reason = "it is read, and no more")]
struct Shop {
    /// Where it is open.
    places: Vec<Place>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "it is read, and no more")]
struct Place {
    town: String,
    hours: u8,
}

#[derive(Debug)]
struct ShopSection;

impl ConfigSection for ShopSection {
    fn name(&self) -> &'static str {
        "shop"
    }

    fn schema(&self) -> Value {
        settings_schema::of::<Shop>()
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        SettingsError::reading::<Shop>(value).map(drop)
    }
}

fn load(text: &str) -> Result<Router, ConfigError> {
    Router::from_str(text, registry().with_section(Arc::new(ShopSection)), context())
}

fn refusal(text: &str) -> String {
    load(text).unwrap_err().to_string()
}

#[test]
fn a_program_reads_its_section_from_the_configuration_in_force() {
    let router = load("shop: { places: [ { town: Ulm, hours: 8 } ] }\n").unwrap();
    assert_eq!(router.section("shop"), Some(json!({ "places": [{ "town": "Ulm", "hours": 8 }] })));
    let pinned = router.snapshot();
    router.replace("shop:\n").unwrap();
    assert_eq!(router.section("shop"), None);
    assert!(pinned.section("shop").is_some());
    assert_eq!(load("groups: {}\n").unwrap().section("shop"), None);
}

#[test]
fn what_is_wrong_in_a_section_is_told_with_its_place() {
    let unknown = refusal("groups: {}\nshop:\n  plcaes: []\n");
    assert!(
        unknown.contains(":3:3: unknown setting of `shop` \"plcaes\"; did you mean \"places\"?"),
        "{unknown}"
    );
    let deep = refusal("shop:\n  places:\n    - { town: Ulm, hours: 8 }\n    - { town: Bonn, hours: 900 }\n");
    assert!(deep.contains(":4:28: shop: places.1.hours: invalid value"), "{deep}");
    assert!(refusal("shop: [1]\n").contains("must be a mapping, but this is a list"));
    // It is one problem among those of the file.
    assert_eq!(load("gruops: {}\nshop: { places: 1 }\n").unwrap_err().all().len(), 2);
}

#[test]
fn a_section_that_is_nobodys_is_a_slip_and_one_of_another_program_of_ours_is_passed_over() {
    let error = Router::from_str("shop: {}\n", registry(), context()).unwrap_err();
    assert!(error.to_string().contains("unknown key of the file \"shop\""), "{error}");
    let router = Router::from_str("tasks: { whatever: [1] }\n", registry(), context()).unwrap();
    assert_eq!(router.section("tasks"), Some(json!({ "whatever": [1] })));
}

#[test]
fn a_section_is_in_the_schema_for_editors() {
    let schema = json_schema(&registry().with_section(Arc::new(ShopSection)));
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(
        validator.is_valid(&json!({ "shop": { "places": [{ "town": "Ulm", "hours": 8 }] }, "tasks": {} }))
    );
    assert!(!validator.is_valid(&json!({ "shop": { "place": [] } })));
}

#[test]
fn the_store_of_holds_may_come_from_a_section() {
    for (text, is_made) in [("shop: { places: [ { town: Ulm, hours: 8 } ] }\n", true), ("shop:\n", false)] {
        let (told, heard) = mpsc::channel();
        let builder = Router::builder(registry().with_section(Arc::new(ShopSection)), context());
        let builder = builder.hold_store_of_section("shop", move |shop| {
            told.send(shop.clone()).unwrap();
            Arc::new(MemoryHoldStore::new())
        });
        builder.from_str(text).unwrap();
        let seen = heard.try_iter().collect::<Vec<_>>();
        assert_eq!(seen, vec![json!({ "places": [{ "town": "Ulm", "hours": 8 }] }); usize::from(is_made)]);
    }
}
