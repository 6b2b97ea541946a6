//! `nexus project` and `nexus hook`, from a shell.

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Folder, text};

/// A project beside the home of Nexus.
struct Stage {
    folder: Folder,
    project: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let folder = Folder::empty();
        let project = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&project).unwrap();
        Self { folder, project }
    }

    fn said(&self, arguments: &[&str]) -> String {
        let output = self.folder.command(arguments).current_dir(&self.project).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout).to_owned()
    }

    /// What is said of a failure, and the exit code.
    fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.folder.command(arguments).current_dir(&self.project).output().unwrap();
        (output.status.code().unwrap(), text(&output.stderr).to_owned())
    }

    /// Answers an event.
    fn hook(&self, event: &str, input: &str) -> (i32, String, String) {
        self.hook_with(event, input, |_| {})
    }

    fn hook_with(
        &self,
        event: &str,
        input: &str,
        change: impl FnOnce(&mut Command),
    ) -> (i32, String, String) {
        let mut command = self.folder.command(&["hook", event, "--harness", "claude"]);
        command
            .current_dir(&self.project)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    }
}

#[test]
fn a_cycle_by_hand_as_the_help_has_it() {
    let stage = Stage::new();
    let help = stage.said(&["project", "--help"]);
    let lines: Vec<_> = help.lines().filter_map(|line| line.trim().strip_prefix("nexus ")).collect();
    let cycle: Vec<_> = lines.iter().filter(|line| line.starts_with("project ")).collect();
    assert!(cycle.len() >= 12, "{help}");
    let mut last = String::new();
    for line in cycle {
        // Quoted words are one.
        let words = line.split('"').enumerate().flat_map(|(place, part)| match place % 2 {
            0 => part.split_whitespace().collect::<Vec<_>>(),
            _ => vec![part],
        });
        last = stage.said(&words.collect::<Vec<_>>());
    }
    assert!(
        last.contains("Faster reads") && last.contains("in memory") && last.contains("check it"),
        "{last}"
    );
    assert!(!stage.project.join(".nexus/state/plan.json").exists());
    assert_eq!(fs::read_to_string(stage.project.join(".nexus/.gitignore")).unwrap(), "state/\n");
    let cycle: Value = serde_json::from_str(&stage.said(&["project", "history", "--json"])).unwrap();
    assert_eq!(cycle["decisions"][1]["decision"], "in memory");
    assert!(stage.said(&["project", "roles"]).contains("strategist"));
    let schema: Value = serde_json::from_str(&stage.said(&["project", "schema", "tasks.json"])).unwrap();
    assert_eq!(schema["title"], "tasks.json");
}

#[test]
fn what_cannot_be_done_says_what_can() {
    let stage = Stage::new();
    // A look makes nothing.
    for look in ["status", "tasks", "history"] {
        stage.said(&["project", look]);
        assert!(!stage.project.join(".nexus").exists(), "{look}");
    }
    let (code, said) = stage.refused(&["project", "begin", "1"]);
    assert!(code == 1 && said.contains("first add a task with `nexus project add`"), "{code} {said}");
    stage.said(&["project", "add", "one"]);
    let (code, said) = stage.refused(&["project", "begin", "7"]);
    assert!(code == 2 && said.contains("write one of these numbers: 1"), "{code} {said}");
    let (code, said) = stage.refused(&["project", "--project", "nowhere", "status"]);
    assert!(code == 2 && said.contains("nowhere"), "{code} {said}");
    let (code, said) = stage.refused(&["project", "install", "vi"]);
    assert!(code == 2 && said.contains("claude, codex, grok"), "{code} {said}");
    // Nexus's own folder is no project.
    let mut command = stage.folder.command(&["project", "init", "--project", "."]);
    let output = command.env_remove("NEXUS_HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("Nexus's own files"), "{}", text(&output.stderr));
}

#[test]
fn a_hook_never_stops_a_program_by_an_accident() {
    let stage = Stage::new();
    let edit = json!({
        "session_id": "s", "cwd": stage.project, "tool_name": "Write",
        "tool_input": { "file_path": stage.project.join("a.txt"), "content": "" },
    })
    .to_string();
    // Where there is no project, there is nothing to say.
    assert_eq!(stage.hook("pre_tool_use", &edit), (0, String::new(), String::new()));
    stage.said(&["project", "init"]);
    let (code, said, _) = stage.hook("pre_tool_use", &edit);
    assert!(code == 0 && said.contains("First call task_add") && said.contains("deny"), "{said}");
    let read = edit.replace("Write", "Read");
    assert_eq!(stage.hook("pre_tool_use", &read), (0, String::new(), String::new()));
    // What is broken is told, and stops nothing.
    fs::write(stage.project.join(".nexus/state/plan.json"), "{").unwrap();
    let (code, said, _) =
        stage.hook("session_start", &json!({ "session_id": "s", "cwd": stage.project }).to_string());
    assert!(code == 0 && said.contains("plan.json"), "{said}");
    assert_eq!(fs::read_to_string(stage.project.join(".nexus/state/plan.json")).unwrap(), "{");
}

#[test]
fn an_edit_is_refused_wherever_the_program_says_that_it_is() {
    let stage = Stage::new();
    stage.said(&["project", "init"]);
    let edit = |cwd: Value| {
        json!({ "cwd": cwd, "tool_name": "Write", "tool_input": { "file_path": "a" } }).to_string()
    };
    for cwd in [Value::Null, json!(""), json!("."), json!(stage.project), json!(stage.project.join("sub"))] {
        let (code, said, _) = stage.hook("pre_tool_use", &edit(cwd.clone()));
        assert!(code == 0 && said.contains("deny"), "{cwd}: {said}");
    }
    // The folder of Nexus's own files is no project, whoever asks, and by whatever name.
    let other = Stage::new();
    let home = other.project.join(".nexus");
    fs::create_dir(&home).unwrap();
    let link = other.folder.path().join("link");
    std::os::unix::fs::symlink(&other.project, &link).unwrap();
    let start = json!({ "session_id": "s", "cwd": other.project }).to_string();
    for named in [home.clone(), link.join(".nexus")] {
        let command = |command: &mut Command| {
            command.env("NEXUS_HOME", &named);
        };
        assert_eq!(other.hook_with("session_start", &start, command), (0, String::new(), String::new()));
    }
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
}

#[test]
fn a_fixture_never_leads_out_of_its_project() {
    let stage = Stage::new();
    fs::write(
        stage.project.join("out.json"),
        r#"{ "about": "x", "fixtures": [{ "name": "out", "precondition": { "files": { "../x": "" } }, "steps": [] }] }"#,
    )
    .unwrap();
    let (code, said) = stage.refused(&["project", "conformance", "--server", "true", "out.json"]);
    assert!(code == 2 && said.contains("leads out"), "{code} {said}");
    assert!(!stage.project.parent().unwrap().join("x").exists());
}

#[test]
fn installing_says_what_is_missing_and_refuses_what_starts_nothing() {
    let stage = Stage::new();
    let output =
        stage.folder.command(&["project", "install", "claude"]).current_dir(&stage.project).output().unwrap();
    assert!(output.status.success() && text(&output.stderr).contains("nexus project init"));
    let (code, said) = stage.refused(&["project", "install", "claude", "--command", " "]);
    assert!(code == 2 && said.contains("the command is empty"), "{code} {said}");
    let (code, said) = stage.refused(&["project", "schema", "x.json"]);
    assert!(code == 2 && said.contains("tool-log.jsonl"), "{code} {said}");
}
