//! What is not changed stays byte for byte.

use nexus_artifacts::{Artifact, Artifacts, HandoffStatus, Kind, LintOptions, Place, lint};
use proptest::prelude::*;

use super::support::{empty, files, fixtures};

/// Pieces that documents are made of, and that mislead who reads them.
const PIECES: &[&str] = &[
    "---\n",
    "---\r\n",
    "--- \n",
    "\u{feff}",
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "## Changes\n",
    "## Success Criteria\r\n",
    "### SC-1: x\n",
    "### D-1: é\n",
    "#### deep\n",
    "# Title\n",
    "- **Status:** Pass\n",
    "* **Reasoning:** why\n",
    "  more\n",
    "```\n",
    "```md\n",
    "~~~\n",
    "<!-- \n",
    "-->\n",
    "<!-- one -->\n",
    "<tasks>\n",
    "</tasks>\n",
    "<task id=\"M001-S001-T0001\">",
    "<task",
    "</task>\n",
    "<goal>",
    "</goal>",
    "_None._",
    "status: open\n",
    "status: \"open\"\n",
    "status: 'open' # c\n",
    "a: [1,\n",
    "a: &x b\n",
    "b: *x\n",
    "status: *x\n",
    "schema_version: 1\n",
    "<!-- seal 1: 0 bytes, sha256 00 -->\n",
    "日本語\n",
    "\0",
    "[object Object]",
    "{\"id\":",
    "}",
    ": :",
    "- - -\n",
    "|\n  text\n",
];

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(PIECES.to_vec()), 0..40)
        .prop_map(|pieces| pieces.concat())
}

fn kind() -> impl Strategy<Value = Kind> {
    proptest::sample::select(Kind::all().collect::<Vec<_>>())
}

/// Spans lie in the text, in order, at whole characters.
fn check_spans(document: &Artifact) {
    let text = document.text();
    for section in document.sections() {
        assert!(
            text.get(section.start..section.body.start).is_some() && text.get(section.body.clone()).is_some()
        );
    }
    for entry in document.entries() {
        assert!(text.get(entry.start..entry.body.start).is_some() && text.get(entry.body.clone()).is_some());
        let section = &document.sections()[entry.section];
        assert!(section.body.start <= entry.start && entry.body.end <= section.body.end);
        for field in document.fields(entry) {
            assert!(text.is_char_boundary(field.start));
        }
    }
    if let Some(frontmatter) = document.frontmatter() {
        assert!(text.contains(frontmatter));
    }
}

/// All but one part of the text is as it was.
fn assert_spliced(before: &str, after: &str, removed: &str, added: &str) {
    let prefix = before.bytes().zip(after.bytes()).take_while(|(one, other)| one == other).count();
    let limit = before.len().min(after.len()) - prefix;
    let suffix = before
        .bytes()
        .rev()
        .zip(after.bytes().rev())
        .take_while(|(one, other)| one == other)
        .count()
        .min(limit);
    assert!(removed.len() >= before.len() - prefix - suffix, "{before:?} {after:?}");
    assert!(added.len() >= after.len() - prefix - suffix, "{before:?} {after:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parsing_and_rendering_gives_the_same_bytes(kind in kind(), text in text()) {
        let document = Artifact::parse(kind, text.clone());
        check_spans(&document);
        prop_assert_eq!(document.to_string(), text);
    }

    #[test]
    fn any_text_is_linted_without_a_panic(kind in kind(), text in text()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.md");
        std::fs::write(&path, &text).unwrap();
        let options = LintOptions { kind: Some(kind), ..LintOptions::default() };
        let report = lint(&[path], &options).unwrap();
        let lines = text.split('\n').count();
        for finding in report.findings {
            prop_assert!((1..=lines).contains(&finding.line), "{finding}");
            prop_assert!(finding.column >= 1);
        }
    }

    #[test]
    fn a_value_changes_alone(before in text(), body in text(), quote in proptest::sample::select(vec!["", "\"", "'"])) {
        let end = if body.contains('\r') { "\r\n" } else { "\n" };
        let frontmatter = format!("---{end}x: é{end}status: {quote}open{quote} # why{end}---{end}");
        let text = format!("{frontmatter}{before}{body}");
        let mut document = Artifact::parse(Kind::Handoff, text.clone());
        document.set_value("status", "archived").unwrap();
        let expected = text.replacen(&format!("{quote}open{quote}"), &format!("{quote}archived{quote}"), 1);
        prop_assert_eq!(document.text(), expected);
    }

    #[test]
    fn a_section_grows_at_its_end_alone(before in text(), inside in "[a-zé \r\n]{0,20}", after in text()) {
        let text = format!("{before}\n<goal>{inside}</goal>\n{after}");
        let mut document = Artifact::parse(Kind::Context, text.clone());
        let section = document.section("goal").cloned();
        if document.add_to_section("goal", "one\ntwo").is_ok() {
            let section = section.unwrap();
            let old = &text[section.body];
            assert_spliced(&text, document.text(), old, &format!("{old}\r\none\r\ntwo\r\n"));
            let new = document.section("goal").unwrap();
            prop_assert!(document.text()[new.body.clone()].replace('\r', "").contains("one\ntwo"));
        }
    }
}

#[test]
fn every_fixture_is_rendered_as_it_is() {
    let mut count = 0;
    for path in files(&fixtures()) {
        let (Some(place), Ok(text)) = (Place::of(&path), std::fs::read_to_string(&path)) else { continue };
        for changed in
            [text.clone(), text.replace('\n', "\r\n"), format!("\u{feff}{text}"), text.trim_end().to_owned()]
        {
            let document = Artifact::parse(place.kind, changed.clone());
            check_spans(&document);
            assert_eq!(document.to_string(), changed);
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn other_line_ends_and_a_byte_order_mark_break_no_rule() {
    for change in [
        |text: &str| text.replace('\n', "\r\n"),
        |text: &str| format!("\u{feff}{text}"),
        |text: &str| text.trim_end().to_owned(),
    ] {
        let (folder, _) = empty();
        crate::support::overlay(&fixtures().join("good"), folder.path());
        for path in files(folder.path()) {
            // Seals are about bytes, and JSON has no mark.
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.ends_with("PLAN-REVIEW.md") && !name.ends_with(".json") && name != "TODO.md" {
                std::fs::write(&path, change(&std::fs::read_to_string(&path).unwrap())).unwrap();
            }
        }
        assert_eq!(crate::support::findings(folder.path()), Vec::<String>::new());
    }
}

#[test]
fn columns_count_characters() {
    let document = Artifact::parse(Kind::Verification, "\u{feff}é日x\nab\n");
    let at = document.text().find('x').unwrap();
    assert_eq!((document.position(at).line, document.position(at).column), (1, 3));
    let at = document.text().find('b').unwrap();
    assert_eq!((document.position(at).line, document.position(at).column), (2, 2));
}

#[test]
fn a_large_text_is_read_in_a_moment() {
    let began = std::time::Instant::now();
    for piece in [
        "### SC-1: x\n- **Status:** Pass\n",
        "<task id=\"1\">\n",
        "```\n",
        "<!--\n",
        "[object Object]",
        "## Success Criteria\n",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.md");
        std::fs::write(&path, piece.repeat((1 << 20) / piece.len())).unwrap();
        for kind in [Kind::Verification, Kind::SlicePlan, Kind::ResearcherOutput] {
            lint(std::slice::from_ref(&path), &LintOptions { kind: Some(kind), ..LintOptions::default() })
                .unwrap();
        }
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(600), "{:?}", began.elapsed());
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let (folder, artifacts) = empty();
    let path = folder.path().join("M001-CONTEXT.md");
    std::fs::File::create(&path).unwrap().set_len(5 << 20).unwrap();
    let report = lint(&[path], &LintOptions::default()).unwrap();
    assert_eq!(report.findings[0].rule.id(), "unreadable");
    let _: &Artifacts = &artifacts;
    assert!(artifacts.mark_handoff("0a1b2c3d", HandoffStatus::Read).is_err());
}
