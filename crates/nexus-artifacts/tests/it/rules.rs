//! Every rule has a project that breaks it alone.

use std::{collections::BTreeSet, fs};

use nexus_artifacts::{Kind, LintOptions, Rule, lint};

use super::support::{files, findings, fixtures, good, overlay};

#[test]
fn nothing_is_found_in_a_good_project() {
    let (folder, _) = good();
    assert_eq!(findings(folder.path()), Vec::<String>::new());
    let report = lint(&[folder.path().to_owned()], &LintOptions::default()).unwrap();
    // All of them were looked at.
    assert_eq!(report.files, files(folder.path()).len());
}

#[test]
fn the_good_project_has_every_kind() {
    let (folder, _) = good();
    let kinds: BTreeSet<Kind> = files(folder.path())
        .iter()
        .filter_map(|path| nexus_artifacts::Place::of(path))
        .map(|place| place.kind)
        .collect();
    assert_eq!(kinds, Kind::all().collect());
}

/// `NEXUS_WRITE_FINDINGS=1` writes what is found as what is expected; read it in `git diff`.
#[test]
fn every_rule_has_a_file_that_breaks_it_alone() {
    for rule in Rule::ALL {
        let (folder, _) = good();
        let broken = fixtures().join("rules").join(rule.id());
        overlay(&broken.join(".nubos-pilot"), &folder.path().join(".nubos-pilot"));
        if *rule == Rule::HandoffName {
            // The same handoff under its right name is another file.
            let handoffs = folder.path().join(".nubos-pilot/milestones/M001/handoffs");
            fs::remove_file(&files(&handoffs)[0]).unwrap();
        }
        let found = findings(folder.path());
        let path = broken.join("expected");
        if std::env::var_os("NEXUS_WRITE_FINDINGS").is_some() {
            fs::write(&path, found.join("\n") + "\n").unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap();
        assert_eq!(found, expected.lines().collect::<Vec<_>>(), "{rule}");
        // A count that is too high and one that is too low are two findings.
        let is_alone = found.iter().all(|finding| finding.contains(&format!(": {rule}: ")));
        assert!(is_alone && (1..=2).contains(&found.len()), "{rule}: {found:?}");
    }
}

#[test]
fn no_folder_of_a_rule_is_left_over() {
    let names: BTreeSet<String> = fs::read_dir(fixtures().join("rules"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, Rule::ALL.iter().map(|rule| rule.id().to_owned()).collect());
}

#[test]
fn a_file_alone_is_linted_by_its_name_or_by_the_kind_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(
        fixtures().join("rules/sc-total/.nubos-pilot/milestones/M001/M001-VERIFICATION.md"),
    )
    .unwrap();
    let path = folder.path().join("M001-VERIFICATION.md");
    fs::write(&path, &text).unwrap();
    let by_name = lint(&[path], &LintOptions::default()).unwrap();
    assert_eq!(by_name.findings[0].rule, Rule::CriterionTotal);
    let path = folder.path().join("draft.md");
    fs::write(&path, &text).unwrap();
    let error = lint(std::slice::from_ref(&path), &LintOptions::default()).unwrap_err();
    assert!(error.to_string().contains("--schema"), "{error}");
    let options = LintOptions { kind: Some(Kind::Verification), ..LintOptions::default() };
    assert_eq!(lint(&[path], &options).unwrap().findings[0].rule, Rule::CriterionTotal);
    assert!(lint(&[folder.path().join("absent.md")], &LintOptions::default()).is_err());
}

#[test]
fn a_portable_model_is_a_tier_if_the_configuration_has_it() {
    let (folder, _) = good();
    let plan = folder.path().join(".nubos-pilot/milestones/M001/slices/S001/S001-PLAN.md");
    let text = fs::read_to_string(&plan).unwrap().replace("tier=\"sonnet\"", "tier=\"strong\"");
    fs::write(&plan, text).unwrap();
    let without = lint(std::slice::from_ref(&plan), &LintOptions::default()).unwrap();
    assert_eq!(without.findings[0].rule, Rule::TaskTier);
    let options = LintOptions { models: vec!["strong".to_owned()], ..LintOptions::default() };
    assert_eq!(lint(&[plan], &options).unwrap().findings, []);
}
