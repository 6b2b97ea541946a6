//! Everything that can be wrong with `nexus.yaml`: where it stands, and what was probably meant.

use std::{fs, path::Path, time::Instant};

use nexus_core::Registry;
use nexus_router::{ConfigError, MAX_FILE_BYTES, Problem, Router};

use super::support::{answering, builder, context, registry};

/// A file without fault, to break in one place.
const GOOD: &str = "\
groups:
  one: [alpha-cli]
  two: [beta-cli, beta-native]
backends:
  beta-cli: { max_turns_at_once: 2 }
  local: { kind: beta-native, base_url: \"http://127.0.0.1\" }
models:
  strong: { one: big, two: large }
types:
  writer: { tier: execution, phase: implement, group: one, model: strong, effort: high }
  checker: { tier: execution, phase: review, panel: review }
panels:
  review:
    - { group: one, model: strong, lens: edges }
    - { group: two, effort: max, lens: promises }
lenses:
  edges: Look at the edges.
  promises: Look at the promises.
";

fn load(text: &str) -> Result<Router, ConfigError> {
    Router::from_str(text, registry(), context())
}

fn problems(text: &str) -> Vec<Problem> {
    load(text).expect_err("the text was accepted").all().to_vec()
}

/// The only problem of `GOOD` with `from` replaced by `to`, once.
#[track_caller]
fn broken(from: &str, to: &str) -> Problem {
    assert_eq!(GOOD.matches(from).count(), 1, "{from:?} is not unique");
    let all = problems(&GOOD.replace(from, to));
    let [problem] = all.as_slice() else { panic!("{all:?}") };
    problem.clone()
}

#[track_caller]
fn assert_problem(problem: &Problem, line: usize, column: usize, says: &str, suggests: Option<&str>) {
    assert_eq!((problem.position.line, problem.position.column), (line, column), "{problem}");
    assert!(problem.message.contains(says), "{problem}");
    assert_eq!(problem.suggestion.as_deref(), suggests, "{problem}");
}

#[test]
fn a_model_has_a_name_for_each_backend_that_may_run_it() {
    let text = |names: &str| {
        let text = GOOD.replace("{ group: two, effort", "{ group: two, model: strong, effort");
        text.replace("strong: { one: big, two: large }", &format!("strong: {{ {names} }}"))
    };
    let of = |names: &str| {
        let all = problems(&text(names));
        let [problem] = all.as_slice() else { panic!("{all:?}") };
        (problem.message.clone(), problem.suggestion.clone())
    };
    let (message, _) = of("one: big, beta-cli: large");
    assert!(message.contains("\"beta-native\"") && message.contains("\"two\""), "{message}");
    let (_, suggestion) = of("one: big, two: large, beta-clii: x");
    assert_eq!(suggestion.as_deref(), Some("beta-cli"));
    load(&text("alpha: big, beta: large")).unwrap();
}

#[test]
fn the_good_file_is_good() {
    load(GOOD).unwrap();
}

/// A name for the fault, the text of [`GOOD`] and its replacement, and the only problem that is found: its line and column,
/// part of its message, and the suggested name.
type Fault = (&'static str, &'static str, &'static str, usize, usize, &'static str, Option<&'static str>);

#[rustfmt::skip]
const FAULTS: &[Fault] = &[
    ("a typo in a key of the file", "lenses:", "lensse:", 16, 1, "unknown key of the file", Some("lenses")),
    ("a typo in a key of a type", "effort: high", "efort: high", 10, 75, "unknown key of a type \"efort\"", Some("effort")),
    ("a typo in a key of a seat", "lens: promises", "lense: promises", 15, 34, "unknown key of a seat \"lense\"", Some("lens")),
    ("a typo in a key of a backend", "max_turns_at_once", "max_turn_at_once", 5, 15, "unknown setting of beta-cli", Some("max_turns_at_once")),
    ("a typo in a setting of a kind", "base_url", "base_ulr", 6, 31, "unknown setting of beta-native", Some("base_url")),
    ("a typo inside a setting and in one of its choices", "base_url: \"http://127.0.0.1\"", "credential: { evn: X }", 6, 45, "unknown setting of beta-native.credential \"evn\"", Some("env")),
    ("a typo inside a setting and in one of its choices", "base_url: \"http://127.0.0.1\"", "billing: metred", 6, 40, "unknown beta-native.billing \"metred\"", Some("metered")),
    ("a typo in the key of an exact model", "group: one, model: strong, lens", "group: one, model: { exat: x }, lens", 14, 30, "unknown key of `model`", Some("exact")),
    ("an unknown backend", "[alpha-cli]", "[alpah-cli]", 2, 9, "unknown backend", Some("alpha-cli")),
    ("an unknown backend that is given settings", "  beta-cli: {", "  bta-cli: {", 5, 3, "unknown backend \"bta-cli\"", Some("beta-cli")),
    ("an unknown kind", "kind: beta-native", "kind: beta-nativ", 6, 18, "unknown kind of backend", Some("beta-native")),
    ("an unknown group of a type a seat and a model", "implement, group: one", "implement, group: onee", 10, 55, "unknown group \"onee\"", Some("one")),
    ("an unknown group of a type a seat and a model", "{ group: two, effort", "{ group: tow, effort", 15, 16, "unknown group", Some("two")),
    ("an unknown group of a type a seat and a model", "two: large", "too: large", 8, 23, "unknown group", Some("two")),
    ("an unknown model", "group: one, model: strong, effort", "group: one, model: stron, effort", 10, 67, "unknown model \"stron\"", Some("strong")),
    ("an unknown lens and an unknown panel", "lens: edges", "lens: edge", 14, 42, "unknown lens", Some("edges")),
    ("an unknown lens and an unknown panel", "panel: review", "panel: reviews", 11, 53, "unknown panel", Some("review")),
    ("an effort and a rule that do not exist", "effort: high", "effort: hihg", 10, 83, "unknown effort", Some("high")),
    ("an effort and a rule that do not exist", "panel: review }", "panel: review, fallback: continu }", 11, 71, "unknown rule of `fallback`", Some("continue")),
    ("an empty chain and an empty panel", "[alpha-cli]", "[]", 2, 8, "the chain is empty", None),
    ("a backend that is in its chain already", "[beta-cli, beta-native]", "[beta-cli, beta-cli]", 3, 19, "\"beta-cli\" is already in this chain", None),
    ("a group inside a group whether it goes round or not", "[alpha-cli]", "[alpha-cli, two]", 2, 20, "\"two\" is a group: a chain lists backends, not groups", None),
    ("a group inside a group whether it goes round or not", "[alpha-cli]", "[alpha-cli, one]", 2, 20, "\"one\" is a group (the same group)", None),
    ("a wrong type at every level", "[alpha-cli]", "alpha-cli", 2, 8, "a group must be a list, but this is text", None),
    ("a wrong type at every level", "[alpha-cli]", "[[alpha-cli]]", 2, 9, "text, but this is a list", None),
    ("a wrong type at every level", "[alpha-cli]", "[7]", 2, 9, "write \"7\" in quotation marks", None),
    ("a wrong type at every level", "at_once: 2", "at_once: two", 5, 34, "a whole number of at least 1", None),
    ("a wrong type at every level", "at_once: 2", "at_once: 0", 5, 34, "a whole number of at least 1", None),
    ("a wrong type at every level", "at_once: 2", "at_once: -1", 5, 34, "a whole number of at least 1", None),
    ("a wrong type at every level", "at_once: 2", "at_once: 1.5", 5, 34, "a whole number of at least 1", None),
    ("a wrong type at every level", "at_once: 2", "at_once: 2, parked: true", 5, 45, "the reason, as text", None),
    ("a wrong type at every level", "at_once: 2", "at_once: 2, parked: \"\"", 5, 45, "cannot be empty", None),
    ("a wrong type at every level", "edges: Look at the edges.", "edges: [x]", 17, 10, "text, but this is a list", None),
    ("a type is bound to a group or to a panel", "phase: review, panel: review", "phase: review", 11, 12, "a type needs a `group` or a `panel`", None),
    ("a type is bound to a group or to a panel", "panel: review }", "panel: review, group: one }", 11, 46, "a type cannot have both a `group` and a `panel`", None),
    ("a type is bound to a group or to a panel", "panel: review }", "panel: review, effort: max }", 11, 61, "write `effort` in each seat of the panel", None),
    ("a type is bound to a group or to a panel", "tier: execution, phase: review, panel", "phase: review, panel", 11, 14, "needs a `tier`", None),
    ("a type is bound to a group or to a panel", "phase: review, panel", "phase: implement, panel", 11, 20, "are already used by \"writer\"", None),
    ("a seat needs a group", "{ group: two, effort: max, lens", "{ effort: max, lens", 15, 7, "a seat needs a `group`", None),
    ("settings that a kind refuses are found in the file", "base_url: \"http://127.0.0.1\"", "base_url: \"ftp://127.0.0.1\"", 6, 41, "`base_url` of local: not an http address", None),
    ("settings that a kind refuses are found in the file", "base_url: \"http://127.0.0.1\"", "credential: { env: \"\" }", 6, 50, "`credential.env` of local: not the name of a variable", None),
    ("a setting of another type", "base_url: \"http://127.0.0.1\"", "credential: { env: 7 }", 6, 50, "beta-native.credential.env must be text, but this is a number", None),
    ("a setting of another type", "base_url: \"http://127.0.0.1\"", "credential: [x]", 6, 43, "beta-native.credential must be a mapping, but this is a list", None),
];

#[test]
fn each_fault_is_found_where_it_stands() {
    for &(fault, from, to, line, column, says, suggests) in FAULTS {
        println!("{fault}: {from:?} is {to:?}");
        assert_problem(&broken(from, to), line, column, says, suggests);
    }
}

/// A name for the fault, a whole file, and its first problem, as in [`Fault`].
type FaultyFile = (&'static str, &'static str, usize, usize, &'static str, Option<&'static str>);

#[rustfmt::skip]
const FAULTY_FILES: &[FaultyFile] = &[
    ("an empty chain and an empty panel", "groups: { one: [alpha-cli] }\npanels:\n  review: []\n", 3, 11, "the panel is empty", None),
    ("a backend that bears the name of another kind", "backends:\n  alpha-cli: { kind: beta-cli }\n", 2, 3, "\"alpha-cli\" is the name of a kind", None),
    ("a wrong type at every level", "types: [a]\n", 1, 8, "`types` must be a mapping, but this is a list", None),
    ("a wrong type at every level", "- groups\n", 1, 1, "the file must be a mapping, but this is a list", None),
    ("columns count characters", "lenses: { ä: \"日本語\", b: [] }\n", 1, 24, "a lens must be text", None),
];

#[test]
fn each_faulty_file_is_found_to_be_one() {
    for &(fault, text, line, column, says, suggests) in FAULTY_FILES {
        println!("{fault}: {text:?}");
        assert_problem(&problems(text)[0], line, column, says, suggests);
    }
}

#[test]
fn a_backend_of_the_programs_own_is_a_name_like_any_other() {
    let own = answering("my-agent");
    let error = builder(&[&own]).from_str("groups: { main: [my-agnet] }\n").unwrap_err();
    assert_problem(&error.all()[0], 1, 18, "unknown backend", Some("my-agent"));
    let text = "groups: { main: [my-agent] }\nbackends: { my-agent: { prked: x } }\n";
    let error = builder(&[&own]).from_str(text).unwrap_err();
    assert_problem(&error.all()[0], 2, 25, "unknown key", Some("parked"));
}

#[test]
fn a_vendors_own_model_is_named_as_such() {
    let exact = "group: one, model: { exact: \"big-5.5\" }, effort";
    let router = load(&GOOD.replace("group: one, model: strong, effort", exact)).unwrap();
    assert_eq!(router.binding("writer").unwrap().model, Some("big-5.5".into()));
    let problem = broken("group: one, model: strong, effort", "group: one, model: {}, effort");
    assert_problem(&problem, 10, 67, "exact", None);
}

#[test]
fn a_model_without_a_name_in_the_group() {
    let all = problems(&GOOD.replace("{ one: big, two: large }", "{ two: large }"));
    assert_eq!(all.len(), 2, "{all:?}");
    assert_problem(&all[0], 10, 67, "the model \"strong\" has no name in the group \"one\"", None);
    assert_problem(&all[1], 14, 28, "the model \"strong\" has no name in the group \"one\"", None);
}

#[test]
fn a_duplicate_key_at_every_level() {
    let problem = broken("  two: [beta-cli, beta-native]", "  one: [beta-cli, beta-native]");
    assert_problem(&problem, 3, 3, "the key \"one\" occurs twice", None);
    let problem = broken("effort: high", "model: strong");
    assert_problem(&problem, 10, 75, "the key \"model\" occurs twice", None);
    let problem = broken("lenses:\n", "lenses:\n  edges: x\n");
    assert_problem(&problem, 18, 3, "the key \"edges\" occurs twice", None);
    let all = problems(&format!("{GOOD}groups: {{}}\n"));
    assert_problem(&all[0], 19, 1, "the key \"groups\" occurs twice", None);
}

#[test]
fn a_kind_that_is_a_backend_whether_it_goes_round_or_not() {
    let text = "groups: { main: [a] }\nbackends:\n  a: { kind: b }\n  b: { kind: a }\n";
    let all = problems(text);
    assert_eq!(all.len(), 2, "{all:?}");
    assert_problem(&all[0], 3, 14, "\"b\" is a backend of this file", None);
    assert_problem(&all[1], 4, 14, "\"a\" is a backend of this file", None);
    let all = problems("backends:\n  a: { kind: a }\n");
    assert_problem(&all[0], 2, 14, "\"a\" is a backend of this file", None);
}

/// The one thing that a file which loads probably does not mean.
fn warning(text: &str) -> Problem {
    let warnings = load(text).unwrap().warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    warnings[0].clone()
}

#[test]
fn a_panel_of_one_vendor_is_warned_of() {
    assert!(load(GOOD).unwrap().warnings().is_empty());
    let one_vendor = GOOD.replacen("- { group: one, model: strong,", "- { group: two, model: strong,", 1);
    let warning = warning(&one_vendor);
    assert_eq!((warning.position.line, warning.position.column), (13, 3));
    assert_eq!(
        warning.message,
        "the panel \"review\" needs answers of 2 vendors, but its seats would be filled by beta: name \
         another vendor, or write `min_vendors: 1`"
    );
    assert!(warning.source_line.contains("review"), "{warning:?}");
}

#[test]
fn a_panel_that_is_of_one_vendor_once_the_parked_are_left_out_is_warned_of() {
    let text = GOOD
        .replace("one: [alpha-cli]", "one: [alpha-cli, local]")
        .replace("backends:\n", "backends:\n  alpha-cli: { parked: \"for now\" }\n");
    assert!(warning(&text).message.contains("would be filled by beta:"));
}

#[test]
fn a_panel_of_one_seat_is_a_panel_of_one_vendor() {
    let one_seat = "groups: { one: [alpha-cli] }\npanels: { p: [ { group: one } ] }\n";
    assert!(warning(one_seat).message.contains("would be filled by alpha:"));
    let meant = one_seat.replace("[ { group: one } ]", "{ min_vendors: 1, seats: [ { group: one } ] }");
    assert!(load(&meant).unwrap().warnings().is_empty());
}

#[test]
fn a_panel_with_a_seat_whose_vendor_is_not_part_of_the_build_may_have_that_vendor() {
    let text = "groups: { one: [alpha-cli], two: [gamma-cli] }\n\
                panels: { p: { min_vendors: 2, seats: [ { group: one }, { group: two } ] } }\n";
    assert!(load(text).unwrap().warnings().is_empty());
    let three = text
        .replace("{ group: two } ]", "{ group: two }, { group: one } ]")
        .replace("vendors: 2", "vendors: 3");
    let message = warning(&three).message;
    assert!(message.contains("filled by alpha, backends that this build leaves out: "), "{message}");
}

#[test]
fn a_panel_as_a_mapping() {
    let wrong =
        |panel: &str| problems(&format!("groups: {{ one: [alpha-cli] }}\npanels: {{ p: {panel} }}\n"));
    let seats = "seats: [ { group: one } ]";
    assert_problem(&wrong("{ min_vendors: 1 }")[0], 2, 14, "a panel needs its `seats`", None);
    assert_problem(&wrong("{ min_vendors: 1, seats: [] }")[0], 2, 39, "the panel is empty", None);
    assert_problem(
        &wrong(&format!("{{ min_vendor: 1, {seats} }}"))[0],
        2,
        16,
        "unknown key",
        Some("min_vendors"),
    );
    assert_problem(
        &wrong(&format!("{{ min_vendors: 0, {seats} }}"))[0],
        2,
        29,
        "whole number of at least 1",
        None,
    );
    assert_problem(
        &wrong(&format!("{{ min_vendors: 2, {seats} }}"))[0],
        2,
        29,
        "more vendors than the panel has seats",
        None,
    );
}

#[test]
fn a_secret_that_was_written_into_the_file_is_not_shown() {
    const SECRET: &str = "sk-Canary0123456789abcdef";
    let slips = [
        ("base_url: \"http://127.0.0.1\"", format!("credential: {SECRET}")),
        ("base_url: \"http://127.0.0.1\"", format!("credential: \"{SECRET}\"")),
        ("base_url: \"http://127.0.0.1\"", format!("api_key: {SECRET}")),
        ("base_url: \"http://127.0.0.1\"", format!("credential: {{ token: '{SECRET}' }}")),
        ("base_url: \"http://127.0.0.1\"", format!("credential: {{ env: [{SECRET}] }}")),
        ("at_once: 2 }", format!("at_once: 2, token: {SECRET} }}")),
    ];
    for (from, to) in slips {
        let text = GOOD.replace(from, &to);
        assert!(text.contains(SECRET));
        let error = load(&text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("Canary"), "{error}");
        assert!(error.to_string().contains("•"), "{error}");
    }
}

#[test]
fn a_kind_that_is_not_part_of_the_build_is_no_error() {
    let text = GOOD.replace("[alpha-cli]", "[gamma-cli, alpha-cli]").replace(
        "backends:\n",
        "backends:\n  gamma-cli: { anything: goes, parked: \"later\" }\n  mine: { kind: gamma-cli }\n",
    );
    load(&text).unwrap();
}

#[test]
fn a_tab_that_indents() {
    let problem = broken("  one: [alpha-cli]", "\tone: [alpha-cli]");
    assert_eq!(problem.position.line, 2);
    assert!(problem.message.contains("tab"), "{problem}");
}

#[test]
fn a_byte_order_mark_is_left_out_and_columns_stay_true() {
    load(&format!("\u{feff}{GOOD}")).unwrap();
    let all = problems("\u{feff}gruops: {}\n");
    assert_problem(&all[0], 1, 1, "unknown key of the file", Some("groups"));
}

#[test]
fn a_file_in_utf_16_is_named_as_such() {
    let bytes: Vec<u8> = GOOD.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, [&[0xff, 0xfe], &bytes[..]].concat()).unwrap();
    let error = Router::from_file(file.path(), registry(), context()).unwrap_err().to_string();
    assert!(error.contains("UTF-16") && error.contains("save it as UTF-8"), "{error}");
}

#[test]
fn a_key_of_the_writers_own_is_a_place_for_anchors() {
    load(&format!(
        "x-common: &common {{ max_turns_at_once: 3 }}\n{}",
        GOOD.replace("max_turns_at_once: 2", "<<: *common")
    ))
    .unwrap();
    load(&format!("{GOOD}x-1: [a]\nx-note: ${{HOME}}\n")).unwrap();
    let all = problems(&format!("{GOOD}xcommon: {{}}\n"));
    assert!(all[0].message.contains("unknown key of the file \"xcommon\""), "{all:?}");
    // Below the top level such a key is a typo as any other.
    let all = problems(&GOOD.replace("max_turns_at_once: 2", "x-turns: 2"));
    assert!(all[0].message.contains("unknown setting"), "{all:?}");
}

#[test]
fn an_alias_in_its_own_anchor_is_named_in_plain_words() {
    for text in ["a: &a [*a]\n", "groups: &g { one: *g }\n"] {
        let all = problems(text);
        assert!(all[0].message.contains("no value can contain itself"), "{all:?}");
    }
}

#[test]
fn a_variable_in_a_value_is_named_as_not_supported() {
    for value in ["\"${URL}\"", "\"http://${HOST}:80/v1\"", "'${URL:-http://127.0.0.1}'", "${URL}"] {
        let all = problems(&GOOD.replace("\"http://127.0.0.1\"", value));
        let said = all.iter().any(|problem| problem.message.contains("is not supported: write the value"));
        assert!(said, "{value}: {all:?}");
    }
    load(&GOOD.replace("Look at the edges.", "\"${EDGES}\"")).unwrap();
    load(&GOOD.replace("[alpha-cli]", "[alpha-cli] # ${HOME}")).unwrap();
}

#[test]
fn line_ends_of_another_system() {
    load(&GOOD.replace('\n', "\r\n")).unwrap();
    let all = problems(&GOOD.replace("effort: high", "effort: hihg").replace('\n', "\r\n"));
    assert_problem(&all[0], 10, 83, "unknown effort", Some("high"));
    assert!(!all[0].to_string().contains('\r'));
}

#[test]
fn an_empty_file() {
    for text in ["", "\n\n", "# nothing but a comment\n", "---\n", "~\n"] {
        assert_problem(&problems(text)[0], 1, 1, "the file is empty", None);
    }
}

#[test]
fn a_second_document() {
    let all = problems(&format!("{GOOD}---\n{GOOD}"));
    assert_problem(&all[0], 20, 1, "a second document begins here", None);
}

#[test]
fn broken_yaml() {
    let problem = broken("two: [beta-cli, beta-native]", "two: [beta-cli, beta-native");
    assert_problem(&problem, 4, 9, "is a bracket or a quotation mark before it not closed?", None);
    let problem = broken("[alpha-cli]", "*nowhere");
    assert_problem(&problem, 2, 8, "unknown anchor", None);
    let all = problems("a: \"never closed\n");
    assert!(all[0].position.line >= 1);
}

#[test]
fn everything_that_is_wrong_is_said_at_once_and_in_order() {
    let text = GOOD
        .replace("[alpha-cli]", "[alpah-cli]")
        .replace("effort: high", "effort: hihg")
        .replace("lens: edges", "lens: edge");
    let all = problems(&text);
    let lines: Vec<usize> = all.iter().map(|problem| problem.position.line).collect();
    assert_eq!(lines, [2, 10, 14]);
}

fn file_error(path: &Path) -> ConfigError {
    Router::from_file(path, registry(), context()).unwrap_err()
}

#[test]
fn an_error_shows_the_file_the_place_and_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nexus.yaml");
    fs::write(&path, GOOD.replace("[alpha-cli]", "[alpah-cli]")).unwrap();
    let error = file_error(&path);
    assert_eq!(error.path(), Some(path.as_path()));
    assert_eq!(
        error.to_string(),
        format!(
            "{}:2:9: unknown backend \"alpah-cli\"; did you mean \"alpha-cli\"?\n 2 |   one: [alpah-cli]\n   |         ^",
            path.display()
        )
    );
}

#[test]
fn the_texts_of_faults() {
    let texts: Vec<_> = [
        ("lenses:", "lensse:"),
        ("max_turns_at_once", "max_turn_at_once"),
        ("base_url: \"http://127.0.0.1\"", "credential: { evn: X }"),
        ("base_url: \"http://127.0.0.1\"", "credential: { env: 7 }"),
        ("[alpha-cli]", "[alpah-cli]"),
        ("[alpha-cli]", "[]"),
        ("[alpha-cli]", "alpha-cli"),
        ("kind: beta-native", "kind: beta-nativ"),
        ("beta-cli, beta-native]", "beta-cli, beta-cli]"),
        ("beta-cli, beta-native]", "beta-cli, one]"),
        ("implement, group: one", "implement, group: onee"),
        ("implement, group: one", "implement"),
        ("effort: high", "effort: hihg"),
        ("effort: high", "effort: high, fallback: allways"),
        ("model: strong, effort", "model: stron, effort"),
        ("panel: review", "panel: reviews"),
        ("lens: edges", "lens: edge"),
        ("  two: [", "  one: ["),
        ("at_once: 2", "at_once: 1.5"),
        ("at_once: 2", "at_once: 2, parked: true"),
    ]
    .iter()
    .map(|(from, to)| {
        assert_eq!(GOOD.matches(from).count(), 1, "{from:?} is not unique");
        let error = load(&GOOD.replace(from, to)).expect_err("the text was accepted");
        format!("{from} -> {to}\n\n{error}\n")
    })
    .collect();
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn a_file_that_cannot_be_read_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let missing = file_error(&folder.path().join("nexus.yaml"));
    assert!(missing.to_string().ends_with("nexus.yaml: there is no such file"), "{missing}");
    assert!(std::error::Error::source(&missing).is_some());
    let directory = file_error(folder.path());
    assert!(directory.to_string().ends_with("this is a folder; name the file in it"), "{directory}");
}

#[test]
fn a_file_that_is_not_utf_8() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nexus.yaml");
    fs::write(&path, b"groups:\n  caf\xe9: [alpha-cli]\n").unwrap();
    assert_problem(&file_error(&path).all()[0], 2, 6, "not UTF-8", None);
}

#[test]
fn ten_megabytes_of_aliases_cost_next_to_nothing() {
    let mut text = String::from("lenses:\n  a: &a [x, y, z]\n");
    while text.len() < 10 << 20 {
        text.push_str("  - *a\n");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nexus.yaml");
    fs::write(&path, text).unwrap();
    let begun = Instant::now();
    let error = file_error(&path);
    assert_eq!(error.all()[0].position.line, 149_795);
    assert!(error.all()[0].message.contains("the limit for a configuration"), "{error}");
    assert!(begun.elapsed().as_secs() < 30);
}

#[test]
fn aliases_within_the_size_limit_are_bounded_too() {
    let many = format!("lenses:\n  a: &a x\n  b: [{}]\n", "*a, ".repeat(200_000));
    assert!(many.len() as u64 <= MAX_FILE_BYTES);
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..40 {
        let alias = format!("*a{}, ", level - 1).repeat(9);
        laughs.push_str(&format!("a{level}: &a{level} [{alias}]\n"));
    }
    let deep = format!("a: {}", "[".repeat(500_000));
    let deep_blocks = (0..1_000).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
    let much = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(500_000), "*a, ".repeat(900));
    let flat = format!("lenses: [{}]\n", "x, ".repeat(300_000));
    for text in [many, laughs, deep, deep_blocks, much, flat] {
        let begun = Instant::now();
        let all = problems(&text);
        assert_eq!(all.len(), 1);
        let says = ["the document is too large here", "values are nested deeper", "recursion limit"];
        assert!(says.iter().any(|words| all[0].message.starts_with(words)), "{}", all[0]);
        // What grows with each level would take years.
        assert!(begun.elapsed().as_secs() < 600, "{}", all[0]);
    }
}

#[test]
fn a_million_problems_are_a_hundred() {
    let text = (0..50_000).map(|index| format!("k{index}: 1\n")).collect::<String>();
    let error = load(&text).unwrap_err();
    assert!(error.all().len() <= 100);
    assert!(error.to_string().len() < 100_000);
}

#[test]
fn anchors_and_merge_keys_may_be_used() {
    let text = "groups: { main: &chain [alpha-cli, beta-cli], other: *chain }\n\
                types:\n  a: &a { group: main, effort: high }\n  b: { <<: *a, group: other }\n";
    let router = load(text).unwrap();
    assert_eq!(router.binding("b").unwrap().group, "other");
    assert_eq!(router.binding("b").unwrap().effort, Some(nexus_core::Effort::High));
}

#[test]
fn a_registry_without_kinds_says_that_there_are_none() {
    let error = Router::from_str("groups: { main: [alpha-cli] }\n", Registry::new(), context()).unwrap_err();
    assert_problem(&error.all()[0], 1, 18, "unknown backend \"alpha-cli\"; there is none", None);
}
