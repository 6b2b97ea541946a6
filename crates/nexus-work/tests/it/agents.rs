//! The registry of tiers and agent types: what is built in, what may be added, and what is refused.

use nexus_core::{
    Overlay, ParticipantScope, PathAccess,
    scope::{Brief, PathRule},
};
use nexus_work::{
    AgentType, AgentTypes,
    agent::{AgentNameKind, AgentTypeError, Surface},
};
use serde_json::json;

fn overlay(tool: &str) -> Overlay {
    Overlay::new().tool(tool.parse().unwrap())
}

fn tools(overlay: &Overlay) -> Vec<&str> {
    overlay.tools.iter().map(|tool| tool.as_str()).collect()
}

#[test]
fn four_types_in_two_tiers_are_built_in() {
    let types = AgentTypes::built_in();
    assert_eq!(types.tiers().collect::<Vec<_>>(), ["operations", "execution"]);
    let all: Vec<String> =
        types.types().map(|known| format!("{} {}/{}", known.name, known.tier, known.phase)).collect();
    assert_eq!(
        all,
        [
            "orchestrator operations/orchestrate",
            "executor execution/implement",
            "reviewer operations/review",
            "reflector operations/reflect",
        ]
    );
    for known in types.types() {
        assert_eq!(types.overlay_of(&known.name).unwrap(), Overlay::new());
    }
    assert_eq!(AgentTypes::default(), types);
}

#[test]
fn nothing_passes_for_what_is_built_in() {
    for name in ["executor", "Executor", "EXECUTOR", "exe_cutor", "execut0r", "executor-"] {
        let error =
            AgentTypes::built_in().with_type(AgentType::new(name, "execution", "implement")).unwrap_err();
        let AgentTypeError::ShadowsBuiltIn { what: AgentNameKind::Type, built_in, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(built_in, "executor");
        assert_eq!(
            error.to_string(),
            format!(
                "the agent type {name:?} looks like the built-in \"executor\": choose another name, or write \
                 an overlay for its tier and phase"
            )
        );
    }
    for name in ["operations", "Operations", "operati0ns"] {
        let error = AgentTypes::built_in().with_tier(name, "operations", Surface::all()).unwrap_err();
        assert!(matches!(error, AgentTypeError::ShadowsBuiltIn { what: AgentNameKind::Tier, .. }), "{error}");
    }
    let error =
        AgentTypes::built_in().with_type(AgentType::new("second", "operations", "Review")).unwrap_err();
    assert!(matches!(error, AgentTypeError::ShadowsBuiltIn { what: AgentNameKind::Phase, .. }), "{error}");
    // A letter of another script is no letter of a name.
    let error = AgentTypes::built_in()
        .with_type(AgentType::new("\u{435}xecutor", "execution", "implement"))
        .unwrap_err();
    assert!(matches!(error, AgentTypeError::InvalidName { what: AgentNameKind::Type, .. }), "{error}");
    let error = AgentTypes::built_in()
        .with_replaced_type(AgentType::new("executor", "operations", "review"))
        .unwrap_err();
    assert!(matches!(error, AgentTypeError::ShadowsBuiltIn { .. }), "{error}");
}

#[test]
fn a_custom_type_is_replaced_only_where_that_is_said() {
    let types = AgentTypes::built_in()
        .with_tier("research", "operations", Surface::all())
        .unwrap()
        .with_type(AgentType::new("surveyor", "research", "survey"))
        .unwrap();
    let again = AgentType::new("Surveyor", "operations", "review");
    let error = types.clone().with_type(again.clone()).unwrap_err();
    assert!(
        error.to_string().ends_with("which already exists: choose another name, or replace the existing one"),
        "{error}"
    );
    let error = types.clone().with_replaced_type(again).unwrap_err();
    assert!(error.to_string().ends_with("did you mean \"surveyor\"?"), "{error}");
    let replaced =
        types.clone().with_replaced_type(AgentType::new("surveyor", "execution", "survey")).unwrap();
    assert_eq!(replaced.find("surveyor").unwrap().tier, "execution");
    assert_eq!(replaced.types().count(), 5);
    assert!(types.clone().with_tier("re-search", "execution", Surface::all()).is_err());
    assert!(types.with_type(AgentType::new("mapper", "research", "sur-vey")).is_err());
}

#[test]
fn slips_are_answered_with_the_name_that_was_meant() {
    let types = AgentTypes::built_in();
    let cases = [
        (types.find("reviwer").map(|_| ()), "unknown agent type \"reviwer\"; did you mean \"reviewer\"?"),
        (
            types.overlay("operation", "review").map(|_| ()),
            "unknown tier \"operation\"; did you mean \"operations\"?",
        ),
        (
            types.overlay("operations", "reveiw").map(|_| ()),
            "unknown phase \"reveiw\"; did you mean \"review\"?",
        ),
        (types.overlay("execution", "review").map(|_| ()), "unknown phase \"review\"; valid: implement"),
        (
            types.with_tier_overlay("Execution", Overlay::new()).map(|_| ()),
            "unknown tier \"Execution\"; did you mean \"execution\"?",
        ),
    ];
    for (result, words) in cases {
        assert_eq!(result.unwrap_err().to_string(), words);
    }
}

#[test]
fn the_overlay_of_the_tier_comes_before_that_of_its_phase() {
    let types = AgentTypes::built_in()
        .with_phase_overlay("operations", "review", overlay("read_*"))
        .unwrap()
        .with_tier_overlay("operations", overlay("list"))
        .unwrap()
        .with_tier_overlay("operations", overlay("note").do_not_touch("keys".parse::<PathRule>().unwrap()))
        .unwrap();
    let review = types.overlay("operations", "review").unwrap();
    assert_eq!(tools(&review), ["list", "note", "read_*"]);
    assert_eq!(review.do_not_touch.len(), 1);
    assert_eq!(tools(&types.overlay_of("reflector").unwrap()), ["list", "note"]);
    assert_eq!(types.overlay_of("executor").unwrap(), Overlay::new());
}

#[test]
fn a_scope_is_assembled_from_a_brief_and_the_overlay_of_a_type() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let types = AgentTypes::built_in()
        .with_tier_overlay("execution", overlay("read_*").reading("."))
        .unwrap()
        .with_phase_overlay("execution", "implement", overlay("write_file").writing("src"))
        .unwrap();
    let brief = Brief::new(&root).do_not_touch("src/keys".parse().unwrap());
    let scope =
        ParticipantScope::assemble(&brief, Some(&types.overlay("execution", "implement").unwrap()), None)
            .unwrap();
    assert!(scope.allows_tool("read_file") && scope.allows_tool("write_file") && !scope.allows_tool("run"));
    assert!(scope.check_path("src/a.rs", PathAccess::Write).is_ok());
    assert!(scope.check_path("docs/a.md", PathAccess::Write).is_err());
    assert!(scope.check_path("src/keys/a", PathAccess::Read).is_err());
}

#[test]
fn a_registry_is_read_from_a_file_and_written_back() {
    let written = json!({
        "tiers": {
            "operations": { "overlay": { "tools": ["list"] }, "phases": { "review": { "tools": ["read_*"] } } },
            "research": { "like": "operations", "surface": ["read_*"], "overlay": { "read": ["docs"] } },
        },
        "types": {
            "surveyor": {
                "tier": "research", "phase": "survey", "description": "Looks.\nTells.", "topics": ["b", "a"],
                "prompt": "Draw nothing.", "surface": ["*_file"],
            },
        },
    });
    let types: AgentTypes = serde_json::from_value(written).unwrap();
    assert_eq!(tools(&types.overlay_of("reviewer").unwrap()), ["list", "read_*"]);
    assert_eq!(types.find("surveyor").unwrap().phase, "survey");
    let surveyor = types.find("surveyor").unwrap();
    assert_eq!(surveyor.topics, ["a".to_owned(), "b".to_owned()].into());
    assert_eq!(
        (surveyor.description.as_str(), surveyor.prompt.as_deref()),
        ("Looks.\nTells.", Some("Draw nothing."))
    );
    assert_eq!(types.tools_of("surveyor", ["read_file", "read_diff", "edit_file"]).unwrap(), ["read_file"]);
    let text = serde_json::to_string(&types).unwrap();
    assert!(!text.contains("executor"), "what is built in is not written: {text}");
    assert_eq!(serde_json::from_str::<AgentTypes>(&text).unwrap(), types);
    assert_eq!(serde_json::to_value(AgentTypes::built_in()).unwrap(), json!({}));
}

#[test]
fn a_file_that_says_what_cannot_be_is_refused() {
    let cases = [
        (
            r#"{ "types": { "Executor": { "tier": "execution", "phase": "implement" } } }"#,
            "looks like the built-in",
        ),
        (
            r#"{ "types": { "executor": { "tier": "execution", "phase": "implement" } } }"#,
            "looks like the built-in",
        ),
        (r#"{ "types": { "a": { "tier": "nowhere", "phase": "b" } } }"#, "unknown tier"),
        (
            r#"{ "types": { "a b": { "tier": "execution", "phase": "b" } } }"#,
            "is not a valid agent type name",
        ),
        (r#"{ "types": { "a": { "tier": "execution", "phase": "" } } }"#, "is not a valid phase name"),
        (r#"{ "tiers": { "Operations": {} } }"#, "looks like the built-in \"operations\""),
        (r#"{ "tiers": { "a": {}, "a": {} } }"#, "the name \"a\" occurs more than once"),
        (
            r#"{ "tiers": { "a": {} } }"#,
            "a tier must be like a built-in tier, operations or execution; \"\" is not",
        ),
        (
            r#"{ "tiers": { "operations": { "like": "execution" } } }"#,
            "looks like the built-in \"operations\"",
        ),
        (r#"{ "tiers": { "operations": { "surface": [] } } }"#, "looks like the built-in \"operations\""),
        (
            r#"{ "tiers": { "a": { "like": "operations", "overlay": { "tools": ["b"] } } } }"#,
            "can only remove tools",
        ),
        (r#"{ "types": { "Field": { "tier": "execution", "phase": "b" } } }"#, "which is reserved"),
        (
            r#"{ "types": { "a": { "tier": "execution", "phase": "b", "surface": ["a b"] } } }"#,
            "cannot match a tool",
        ),
        (r#"{ "types": { "a": { "tier": "execution", "phase": "b", "topics": [""] } } }"#, "the topics of"),
        (r#"{ "tiers": { "operations": { "overlays": {} } } }"#, "unknown field `overlays`"),
        (r#"{ "tier": {} }"#, "unknown field `tier`"),
        (r#"{ "tiers": { "operations": { "overlay": { "tools": ["a b"] } } } }"#, "cannot match a tool"),
    ];
    for (text, words) in cases {
        let error = serde_json::from_str::<AgentTypes>(text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn reserved_names_are_neither_tiers_nor_types() {
    for (name, reserved) in [
        ("cartographer", "cartographer"),
        ("Cart0grapher", "cartographer"),
        ("carto-grapher", "cartographer"),
        ("advisory", "advisory"),
        ("ADVISORY", "advisory"),
        ("field", "field"),
        ("f1eld", "field"),
    ] {
        let tier = AgentTypes::built_in().with_tier(name, "operations", Surface::all());
        let kind = AgentTypes::built_in().with_type(AgentType::new(name, "operations", "survey"));
        for (what, result) in [(AgentNameKind::Tier, tier), (AgentNameKind::Type, kind)] {
            let expected =
                AgentTypeError::Reserved { what, name: name.to_owned(), reserved: reserved.to_owned() };
            assert_eq!(result.unwrap_err(), expected);
        }
        let replaced =
            AgentTypes::built_in().with_replaced_type(AgentType::new(name, "operations", "review"));
        assert!(matches!(replaced.unwrap_err(), AgentTypeError::Unknown { .. }));
    }
    assert!(AgentTypes::built_in().with_type(AgentType::new("fielder", "execution", "implement")).is_ok());
}

#[test]
fn a_surface_and_a_custom_tier_only_take_tools_away() {
    let pattern = |text: &str| text.parse().unwrap();
    let types = AgentTypes::built_in()
        .with_tier_overlay("operations", overlay("list"))
        .unwrap()
        .with_phase_overlay("operations", "review", overlay("read_*"))
        .unwrap()
        .with_tier("research", "operations", Surface::only([pattern("read_*"), pattern("list")]))
        .unwrap()
        .with_phase_overlay("research", "survey", Overlay::new().reading("docs"))
        .unwrap()
        .with_type(AgentType::new("scout", "research", "review"))
        .unwrap()
        .with_type(AgentType::new("wide", "research", "survey").with_surface(Surface::only([pattern("*")])))
        .unwrap()
        .with_type(AgentType::new("none", "research", "survey").with_surface(Surface::only([])))
        .unwrap();
    let of_tier = ["list", "read_file", "run_tests"];
    assert_eq!(types.tools_of("reviewer", of_tier).unwrap(), of_tier);
    assert_eq!(types.tools_of("scout", of_tier).unwrap(), ["list", "read_file"]);
    assert_eq!(types.tools_of("wide", of_tier).unwrap(), ["list", "read_file"], "its tier takes away for it");
    assert!(types.tools_of("none", of_tier).unwrap().is_empty());
    assert!(types.tools_of("nobody", of_tier).is_err());
    assert_eq!(types.built_in_tier("research").unwrap(), "operations");
    assert_eq!(types.built_in_tier("execution").unwrap(), "execution");

    // What the tier that it is like has is inherited, phase by phase; tools of its own are refused.
    assert_eq!(tools(&types.overlay_of("scout").unwrap()), ["list", "read_*"]);
    let survey = types.overlay_of("wide").unwrap();
    assert_eq!((tools(&survey), survey.read.len()), (vec!["list"], 1));
    for refused in [
        types.clone().with_tier_overlay("research", overlay("run_tests")),
        types.clone().with_phase_overlay("research", "survey", overlay("run_tests")),
    ] {
        let expected =
            AgentTypeError::AddsTools { tier: "research".to_owned(), like: "operations".to_owned() };
        assert_eq!(refused.unwrap_err(), expected);
    }
    let twin = types.clone().with_type(AgentType::new("other", "research", "Review")).unwrap_err();
    assert!(matches!(twin, AgentTypeError::AlreadyThere { what: AgentNameKind::Phase, .. }), "{twin}");
    for like in ["research", "Operations", ""] {
        let error = types.clone().with_tier("other", like, Surface::all()).unwrap_err();
        assert!(matches!(error, AgentTypeError::NotBuiltIn { .. }), "{error}");
    }
}

#[test]
fn texts_about_a_type_are_held_to_their_bounds() {
    let plain = || AgentType::new("scout", "operations", "review");
    let many = |count: usize| (0..count).fold(plain(), |kind, n| kind.with_topic(format!("topic {n}")));
    let fit = [
        plain().with_description("é".repeat(1_024)),
        plain().with_description("one\n\ttwo"),
        many(32),
        plain().with_topic("x".repeat(64)),
        plain().with_prompt("x".repeat(64 << 10)),
    ];
    for kind in fit {
        let types = AgentTypes::built_in().with_type(kind.clone()).unwrap();
        let again: AgentTypes = serde_json::from_value(serde_json::to_value(&types).unwrap()).unwrap();
        assert_eq!(again.find("scout").unwrap(), &kind);
    }
    let unfit = [
        (plain().with_description("x".repeat(2_049)), "description"),
        (plain().with_description("a\u{1b}[2J"), "description"),
        (many(33), "topics"),
        (plain().with_topic("x".repeat(65)), "topics"),
        (plain().with_topic(""), "topics"),
        (plain().with_topic("a\nb"), "topics"),
        (plain().with_prompt("x".repeat((64 << 10) + 1)), "prompt"),
        (plain().with_prompt("a\0b"), "prompt"),
    ];
    let with_scout = AgentTypes::built_in().with_type(plain()).unwrap();
    for (kind, expected) in unfit {
        for result in
            [AgentTypes::built_in().with_type(kind.clone()), with_scout.clone().with_replaced_type(kind)]
        {
            let error = result.unwrap_err();
            assert!(matches!(error, AgentTypeError::UnfitText { field, .. } if field == expected), "{error}");
        }
    }
}
