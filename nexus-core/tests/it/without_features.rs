//! What the core refuses where a feature is left out: nothing goes unchecked or unprotected in silence. Each test is empty
//! with its feature: `cargo test -p nexus-turn-core --no-default-features --test it without_features` runs them.

#[cfg(not(feature = "schema"))]
#[test]
fn a_stored_request_with_an_output_schema_is_refused() {
    use nexus_core::TurnRequest;
    let mut stored = serde_json::to_value(TurnRequest::new("How many?")).unwrap();
    assert!(serde_json::from_value::<TurnRequest>(stored.clone()).is_ok());
    stored["output"] = serde_json::json!({ "schema": { "type": "integer" } });
    let refused = serde_json::from_value::<TurnRequest>(stored).unwrap_err();
    assert!(refused.to_string().contains("feature `schema`"), "{refused}");
}

#[cfg(not(feature = "globs"))]
#[test]
fn a_rule_that_is_a_glob_is_refused() {
    use nexus_core::{Brief, PathRule};
    for text in ["*.pem", "**/.env", "a?", "[ab]", "{a,b}"] {
        let refused = text.parse::<PathRule>().unwrap_err();
        assert!(refused.to_string().contains("feature `globs`"), "{refused}");
        let stored = serde_json::json!({ "root": "/ws", "do_not_touch": [text] });
        assert!(serde_json::from_value::<Brief>(stored).is_err(), "{text}");
    }
}

#[cfg(not(feature = "globs"))]
#[test]
fn a_path_is_kept_off_under_every_spelling() {
    use nexus_core::{Brief, ParticipantScope, PathAccess};
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let brief = Brief::new(root).reading(".").do_not_touch("café/.git".parse().unwrap());
    let scope = ParticipantScope::assemble(&brief, None, None).unwrap();
    for path in ["café/.git/config", "CAFE\u{301}/.GIT", "café/.g\u{200c}it"] {
        assert!(scope.check_path(path, PathAccess::Read).is_err(), "{path}");
    }
    assert!(scope.check_path("café/menu", PathAccess::Read).is_ok());
}
