//! Inputs of hooks, damaged in ways that chance chooses.

use std::{fs, path::Path};

use nexus_project::{
    ProjectFolder,
    hook::{HookCall, HookEvent},
    tools::TaskAddRequest,
};
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

/// Pieces that no JSON has in a string, or that JavaScript and Python write and JSON does not know.
const PIECES: [&[u8]; 12] = [
    br"\ud83d",
    br"\ude00",
    br"\ude00\ud83d",
    br"\uD8",
    br"\x41",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\x00",
    b"\n",
    b"\xef\xbb\xbf",
    br"\ud83d\ude00",
];

/// A project with a task.
fn project() -> (tempfile::TempDir, ProjectFolder) {
    let folder = tempfile::tempdir().unwrap();
    let project = ProjectFolder::at(folder.path().canonicalize().unwrap());
    project.init().unwrap();
    project.task_add(TaskAddRequest { title: "a task".into(), ..Default::default() }).unwrap();
    (folder, project)
}

/// What is decided of a call: whether it is refused.
fn is_refused(project: &ProjectFolder, harness: &str, bytes: &[u8]) -> bool {
    let folder = project.root().to_owned();
    let call = HookCall {
        harness: Some(harness),
        event: HookEvent::PreToolUse,
        input: Ok(bytes),
        working_directory: &folder,
    };
    let answer = call.answer(|_: &Path| Ok(Some(project.clone()))).answer.unwrap_or_default();
    let output = &answer["hookSpecificOutput"];
    if answer.is_null() {
        return false;
    }
    assert_eq!(
        (&output["permissionDecision"], &output["hookEventName"]),
        (&json!("deny"), &json!("PreToolUse")),
        "{answer}"
    );
    true
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// An edit runs only where the whole input was read: then there is a task for it. A tool that reads always runs.
    #[test]
    fn an_edit_runs_only_where_its_whole_input_was_read(
        pieces in prop::collection::vec((0..PIECES.len(), any::<Index>()), 0..4),
        end in prop::option::of(any::<Index>()),
        (harness, edits, reads) in prop::sample::select(vec![
            ("claude", "Edit", "Grep"), ("codex", "apply_patch", "web_search"), ("grok", "write", "list_dir"),
        ]),
        deep in any::<bool>(),
    ) {
        let (_folder, project) = project();
        let damaged = |tool: &str| {
            let path = project.root().join("src/a.py");
            let content = "some text, and more of it: { \"tool_name\": \"Read\" }";
            let mut input = json!({ "tool_name": tool, "cwd": project.root(), "tool_input": { "file_path": path, "content": content } });
            if deep {
                input["tool_input"]["edits"] = json!([{ "old": content, "of": [[], {}] }, content]);
            }
            // The name first, as the programs write it.
            let rest = serde_json::to_string(&input["tool_input"]).unwrap();
            let mut bytes = format!(r#"{{"tool_name":{},"cwd":{},"tool_input":{rest}}}"#, input["tool_name"], input["cwd"]).into_bytes();
            let start = bytes.len() - rest.len();
            for (piece, place) in &pieces {
                // Inside of a string, as that is where texts of models are.
                let strings: Vec<_> = (start..bytes.len()).filter(|at| bytes[*at..].starts_with(b"some")).collect();
                let at = strings[place.index(strings.len())] + 4;
                bytes.splice(at..at, PIECES[*piece].iter().copied());
            }
            if let Some(end) = end {
                bytes.truncate(start + end.index(bytes.len() - start));
            }
            bytes
        };
        let bytes = damaged(edits);
        let is_read = serde_json::from_slice::<Value>(&bytes).is_ok();
        prop_assert_eq!(is_refused(&project, harness, &bytes), !is_read, "{}", String::from_utf8_lossy(&bytes));
        let bytes = damaged(reads);
        prop_assert!(!is_refused(&project, harness, &bytes), "{}", String::from_utf8_lossy(&bytes));
        fs::remove_file(project.root().join(".nexus/state/tasks.json")).unwrap();
        prop_assert!(is_refused(&project, harness, &damaged(edits)));
    }
}
