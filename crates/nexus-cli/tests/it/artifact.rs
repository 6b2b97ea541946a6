//! `nexus artifact`, from a milestone to its verification.

use std::{
    fs,
    io::Write as _,
    process::{Output, Stdio},
};

use serde_json::Value;

use crate::support::{Folder, text};

const CONFIG: &str = "\
groups: { openai: [codex-sub-token] }
models: { strong: { openai: gpt } }
types: { writer: { tier: execution, phase: implement, group: openai, model: strong } }
";

/// What a command that succeeds says on standard output.
fn said(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.nexus(&[&["artifact"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout).trim_end().to_owned()
}

/// The exit code of a command that does not, and what it complains of.
fn refused(folder: &Folder, arguments: &[&str]) -> (i32, String) {
    let output = folder.nexus(&[&["artifact"], arguments].concat());
    (output.status.code().unwrap(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
}

fn piped(folder: &Folder, arguments: &[&str], input: &str) -> Output {
    let mut command = folder.command(&[&["artifact"], arguments].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_milestone_is_walked_from_its_name_to_its_status() {
    let folder = Folder::with(CONFIG);
    assert_eq!(said(&folder, &["new", "milestone", "Sign-in", "--criterion", "It is shown"]), "M001");
    assert_eq!(said(&folder, &["new", "slice", "M001", "Form"]), "M001-S001");
    let task = ["new", "task", "M001-S001", "Write it", "--tier"];
    assert_eq!(said(&folder, &[&task[..], &["strong"]].concat()), "M001-S001-T0001");
    let (code, words) = refused(&folder, &[&task[..], &["stronk"]].concat());
    assert!(code == 1 && words.contains("haiku, sonnet, opus, strong"), "{code} {words}");
    assert_eq!(said(&folder, &["scaffold", "M001"]), "M001-S001: 1 task, 2 files created, 0 unchanged");
    assert_eq!(
        said(&folder, &["mark", "M001-S001-T0001", "done"]),
        "M001-S001-T0001 was pending and is now done"
    );
    said(&folder, &["todo", "M001"]);
    let todo = folder.path().join(".nubos-pilot/milestones/M001/slices/S001/TODO.md");
    assert!(fs::read_to_string(&todo).unwrap().contains("- [x] **M001-S001-T0001** — Write it"));
    assert_eq!(said(&folder, &["lint", "--enforce"]), "");
    assert_eq!(said(&folder, &["status", "M001"]), "M001  not verified yet\n  M001-S001  1 done");
    let status: Value = serde_json::from_str(&said(&folder, &["status", "M001", "--json"])).unwrap();
    assert_eq!(status["slices"][0]["slice"], "M001-S001");
}

#[test]
fn the_lint_says_where_and_fails_if_it_is_to() {
    let folder = Folder::with(CONFIG);
    said(&folder, &["new", "milestone", "Sign-in"]);
    let context = ".nubos-pilot/milestones/M001/M001-CONTEXT.md";
    let path = folder.path().join(context);
    fs::write(
        &path,
        fs::read_to_string(&path).unwrap().replace("<domain>\n_None._", "<domain>\n[object Object]"),
    )
    .unwrap();
    let line = said(&folder, &["lint", context]);
    assert!(line.starts_with(&format!("{context}:10:1: object-object: ")), "{line}");
    assert!(said(&folder, &["lint"]).contains(": object-object: "));
    assert_eq!(refused(&folder, &["lint", "--enforce"]).0, 1);
    let report: Value = serde_json::from_str(&said(&folder, &["lint", "--json"])).unwrap();
    assert_eq!(report["findings"][0]["rule"], "object-object");
    fs::write(folder.path().join("draft.md"), "x").unwrap();
    let (code, words) = refused(&folder, &["lint", "draft.md"]);
    assert!(code == 2 && words.contains("--schema"), "{code} {words}");
    assert_eq!(refused(&folder, &["lint", "draft.md", "--schema", "uat", "--enforce"]).0, 1);
    let (code, words) = refused(&folder, &["lint", "draft.md", "--schema", "nothing"]);
    assert!(code == 2 && words.contains("verification"), "{code} {words}");
}

#[test]
fn a_review_grows_by_the_hash_of_what_was_read() {
    let folder = Folder::empty();
    said(&folder, &["new", "milestone", "Sign-in"]);
    let first = piped(&folder, &["append", "M001"], "## Iteration 1\n\npassed\n");
    let sha256 = text(&first.stdout).trim().to_owned();
    assert_eq!(sha256.len(), 64, "{}", text(&first.stderr));
    let second = piped(&folder, &["append", "M001", "--expect", &sha256], "## Iteration 2\n");
    assert!(second.status.success());
    let third = piped(&folder, &["append", "M001", "--expect", &sha256], "## Iteration 3\n");
    assert_eq!(third.status.code(), Some(1), "{}", text(&third.stderr));
    assert_eq!(piped(&folder, &["append", "M001"], "").status.code(), Some(2));
    let review = folder.path().join(".nubos-pilot/milestones/M001/M001-PLAN-REVIEW.md");
    fs::write(&review, fs::read_to_string(&review).unwrap() + "by hand").unwrap();
    assert_eq!(refused(&folder, &["lint", "--enforce"]).0, 1);
    said(&folder, &["append", "M001", "--seal"]);
    said(&folder, &["lint", "--enforce"]);
    fs::write(&review, fs::read_to_string(&review).unwrap().replace("passed", "failed")).unwrap();
    assert_eq!(refused(&folder, &["append", "M001", "--seal"]).0, 1);
}

#[test]
fn handoffs_are_written_listed_and_marked() {
    let folder = Folder::empty();
    let id =
        said(&folder, &["handoff", "new", "Mind it", "--from", "planner", "--to", "*", "--body", "Now."]);
    assert_eq!(id.len(), 8);
    assert!(said(&folder, &["handoff", "list", "--agent", "executor"]).contains("planner to *: Mind it"));
    said(&folder, &["handoff", "mark", &id, "acted"]);
    assert_eq!(said(&folder, &["handoff", "list", "--status", "open"]), "");
    let line: Value =
        serde_json::from_str(&said(&folder, &["handoff", "list", "--global", "--json"])).unwrap();
    assert_eq!((&line["id"], &line["status"]), (&Value::from(id), &Value::from("acted")));
    let (code, words) = refused(&folder, &["handoff", "mark", "nothing", "read"]);
    assert!(code == 2 && words.contains("handoff list"), "{code} {words}");
}

#[test]
fn the_gate_is_in_the_exit_code() {
    let folder = Folder::empty();
    said(&folder, &["new", "milestone", "Sign-in"]);
    assert_eq!(refused(&folder, &["gate", "M001"]).0, 2);
    let research = folder.path().join(".nubos-pilot/milestones/M001/research");
    fs::create_dir(&research).unwrap();
    let good = include_str!(
        "../../../nexus-artifacts/tests/fixtures/good/.nubos-pilot/milestones/M001/research/spawn-0.md"
    );
    fs::write(research.join("spawn-0.md"), good).unwrap();
    assert_eq!(said(&folder, &["gate", "M001"]), "issues_flagged");
    let other =
        good.replace("spawn_index: 0", "spawn_index: 1").replace("D-1: Use `jose`", "D-1: Use no library");
    fs::write(research.join("spawn-1.md"), other).unwrap();
    let (code, words) = refused(&folder, &["gate", "M001"]);
    assert!(code == 1 && words.starts_with("needs_re_spawn\n"), "{code} {words}");
    said(&folder, &["reconcile", "M001"]);
    said(&folder, &["lint", "--enforce"]);
}
