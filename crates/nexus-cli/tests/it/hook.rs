//! `nexus hook`, as a program starts it: what it answers to inputs, states and command lines that are damaged.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use crate::support::{Folder, text};

const EVENTS: [&str; 8] = [
    "session_start",
    "user_message",
    "subagent_spawn",
    "subagent_complete",
    "pre_tool_use",
    "post_tool_use",
    "session_end",
    "context_compact",
];

/// A program, a tool of it that changes files, and one that reads.
const HARNESSES: [(&str, &str, &str); 3] = [
    ("claude", "Write", "Read"),
    ("codex", "apply_patch", "view_image"),
    ("grok", "search_replace", "read_file"),
];

/// What is written for the program.
#[derive(Debug)]
struct Answer {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Answer {
    /// The reason of a refusal, in the form that all three programs read.
    fn refusal(&self) -> Option<String> {
        let answer: Value = serde_json::from_str(&self.stdout).ok()?;
        let output = &answer["hookSpecificOutput"];
        let is_refusal = output["permissionDecision"] == "deny" && output["hookEventName"] == "PreToolUse";
        is_refusal.then(|| output["permissionDecisionReason"].as_str().unwrap().to_owned())
    }
}

/// A project beside the home of Nexus.
struct Stage {
    folder: Folder,
    project: PathBuf,
}

impl Stage {
    fn empty() -> Self {
        let folder = Folder::empty();
        let project = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&project).unwrap();
        Self { folder, project }
    }

    fn new() -> Self {
        let stage = Self::empty();
        stage.nexus(&["project", "init"]);
        fs::create_dir(stage.project.join("src")).unwrap();
        fs::write(stage.project.join("src/a.py"), "x").unwrap();
        stage
    }

    fn nexus(&self, arguments: &[&str]) {
        let output = self.folder.command(arguments).current_dir(&self.project).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    }

    fn started(&self, arguments: &[&str], input: &[u8]) -> Answer {
        let mut command = self.folder.command(&[&["hook"], arguments].concat());
        command.current_dir(&self.project);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        answer(command, input)
    }

    fn hook(&self, harness: &str, event: &str, input: &[u8]) -> Answer {
        self.started(&[event, "--harness", harness], input)
    }

    fn call(&self, tool: &str, path: &str) -> Value {
        let path = self.project.join(path);
        // One argument or the other, as the programs have it.
        let patch =
            format!("*** Begin Patch\n*** Update File: {}\n@@\n-x\n+y\n*** End Patch", path.display());
        json!({
            "session_id": "s", "cwd": self.project, "tool_name": tool,
            "tool_input": { "file_path": path, "command": patch, "content": "some text" },
        })
    }
}

fn answer(mut command: Command, input: &[u8]) -> Answer {
    let mut child = command.spawn().unwrap();
    // A hook that ends before it has read everything closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Answer {
        code: output.status.code().unwrap(),
        stdout: text(&output.stdout).to_owned(),
        stderr: text(&output.stderr).to_owned(),
    }
}

/// A call as its bytes, changed.
type Damage = fn(&str) -> Vec<u8>;

/// What is wrong with an input, and whether the tool's name can still be read.
#[rustfmt::skip]
const INPUTS: [(&str, bool, Damage); 11] = [
    ("half of a character in the content", true, |call| call.replace("some text", r"cut \ud83d").into()),
    ("halves in the wrong order", true, |call| call.replace("some text", r"\ude00\ud83d").into()),
    ("NaN as an argument", true, |call| call.replace(r#""some text""#, "NaN").into()),
    ("an infinity", true, |call| call.replace(r#""some text""#, "-Infinity").into()),
    ("bytes that are no UTF-8", true, |call| {
        let (before, after) = call.split_once("some text").unwrap();
        [before.as_bytes(), &[0xff, 0xc3], after.as_bytes()].concat()
    }),
    ("the end is missing", true, |call| call.as_bytes()[..call.len() - 1].to_vec()),
    ("the name occurs twice", false, |call| format!(r#"{{"tool_name":"{}","x":NaN,{}"#, "Read", &call[1..]).into()),
    ("nothing", false, |_| Vec::new()),
    ("half of a character in the name", false, |call| call.replace(r#""tool_name":""#, r#""tool_name":"\udc00"#).into()),
    ("no object", false, |_| b"[]".to_vec()),
    ("deeper than is read", false, |call| format!("{}{call}", "[".repeat(100_000)).into()),
];

/// What is done to the folder `.nexus`.
type DamageOfState = fn(&Path);

/// What is wrong with the state, which has a task before.
#[rustfmt::skip]
const STATES: [(&str, DamageOfState); 10] = [
    ("tasks that are cut off", |nexus| fs::write(nexus.join("state/tasks.json"), "{").unwrap()),
    ("tasks of a newer version", |nexus| fs::write(nexus.join("state/tasks.json"), r#"{"version":99}"#).unwrap()),
    ("tasks that are no text", |nexus| fs::write(nexus.join("state/tasks.json"), [0xff; 9]).unwrap()),
    ("a folder in the place of the tasks", |nexus| {
        fs::remove_file(nexus.join("state/tasks.json")).unwrap();
        fs::create_dir(nexus.join("state/tasks.json")).unwrap();
    }),
    ("a link that leads nowhere", |nexus| {
        fs::remove_file(nexus.join("state/tasks.json")).unwrap();
        symlink("nowhere", nexus.join("state/tasks.json")).unwrap();
    }),
    ("a pipe", |nexus| {
        fs::remove_file(nexus.join("state/tasks.json")).unwrap();
        assert!(Command::new("mkfifo").arg(nexus.join("state/tasks.json")).status().unwrap().success());
    }),
    ("a change that was begun and cannot be read", |nexus| fs::write(nexus.join("state/.pending.json"), "{").unwrap()),
    ("a file in the place of the state", |nexus| {
        fs::remove_dir_all(nexus.join("state")).unwrap();
        fs::write(nexus.join("state"), "").unwrap();
    }),
    ("a file in the place of the folder", |nexus| {
        fs::remove_dir_all(nexus).unwrap();
        fs::write(nexus, "").unwrap();
    }),
    ("a folder that is a link to itself", |nexus| {
        fs::remove_dir_all(nexus).unwrap();
        symlink(".nexus", nexus).unwrap();
    }),
];

/// Runs each row by two threads.
fn each<T: Sync>(rows: &[T], run: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::SeqCst)) {
                    run(row);
                }
            });
        }
    });
}

#[test]
fn an_input_that_cannot_be_read_lets_no_edit_through_and_stops_nothing_else() {
    let rows: Vec<_> =
        HARNESSES.iter().flat_map(|harness| INPUTS.iter().map(move |input| (harness, input))).collect();
    each(&rows, |((harness, edits, reads), (what, is_named, damage))| {
        let stage = Stage::new();
        stage.nexus(&["project", "add", "a task"]);
        let input = |tool: &str| damage(&stage.call(tool, "src/a.py").to_string());
        let place = format!("{harness}: {what}");
        let edit = stage.hook(harness, "pre_tool_use", &input(edits));
        let reason = edit.refusal().unwrap_or_else(|| panic!("{place}: an edit is let through: {edit:?}"));
        assert!(edit.code == 0 && reason.contains("`nexus doctor`"), "{place}: {edit:?}");
        let read = stage.hook(harness, "pre_tool_use", &input(reads));
        assert_eq!((read.code, read.refusal().is_none()), (0, *is_named), "{place}: {read:?}");
        for event in EVENTS.into_iter().filter(|event| *event != "pre_tool_use") {
            let other = stage.hook(harness, event, &input(edits));
            assert_eq!((other.code, other.refusal()), (0, None), "{place}, {event}: {other:?}");
        }
    });
}

#[test]
fn a_state_that_cannot_be_read_lets_no_edit_through_and_stops_nothing_else() {
    let rows: Vec<_> =
        HARNESSES.iter().flat_map(|harness| STATES.iter().map(move |state| (harness, state))).collect();
    each(&rows, |((harness, edits, reads), (what, damage))| {
        let stage = Stage::new();
        stage.nexus(&["project", "add", "a task"]);
        let input = |tool: &str| stage.call(tool, "src/a.py").to_string().into_bytes();
        let place = format!("{harness}: {what}");
        let before = stage.hook(harness, "pre_tool_use", &input(edits));
        assert_eq!((before.code, before.refusal()), (0, None), "{place}: {before:?}");
        damage(&stage.project.join(".nexus"));
        let edit = stage.hook(harness, "pre_tool_use", &input(edits));
        let reason = edit.refusal().unwrap_or_else(|| panic!("{place}: an edit is let through: {edit:?}"));
        assert!(
            edit.code == 0 && (reason.contains("`mv ") || reason.contains("update Nexus")),
            "{place}: {edit:?}"
        );
        for tool in [reads, "a_tool_of_a_server"] {
            let read = stage.hook(harness, "pre_tool_use", &input(tool));
            assert_eq!((read.code, read.refusal()), (0, None), "{place}, {tool}: {read:?}");
        }
        for event in EVENTS.into_iter().filter(|event| *event != "pre_tool_use") {
            let other = stage.hook(harness, event, &input(edits));
            assert_eq!((other.code, other.refusal()), (0, None), "{place}, {event}: {other:?}");
        }
        // The command of the reason makes the project usable again.
        if let Some(command) = reason.split('`').find(|part| part.starts_with("mv ")) {
            assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
            stage.nexus(&["project", "init"]);
            let after = stage.hook(harness, "pre_tool_use", &input(edits)).refusal();
            // Without a task, or with the one that was there.
            assert!(after.is_none_or(|after| after.contains("First call task_add")), "{place}");
            stage.nexus(&["project", "add", "another task"]);
            let edit = stage.hook(harness, "pre_tool_use", &input(edits));
            assert_eq!((edit.code, edit.refusal()), (0, None), "{place}: {edit:?}");
        }
    });
}

/// The folder of the program is part of what is damaged: the hook was started in the project.
#[test]
fn an_input_whose_folder_is_damaged_lets_no_edit_through() {
    let stage = Stage::new();
    stage.nexus(&["project", "add", "a task"]);
    let call = stage.call("Write", "src/a.py").to_string();
    let folder = stage.project.to_str().unwrap();
    let (start, end) = folder.split_at(folder.len() / 2);
    for damage in ["\"", "\\", "\u{1}", r"\ud83d", "\", \"", "{", "elsewhere\":NaN,\""] {
        let input = call.replacen(folder, &format!("{start}{damage}{end}"), 1);
        if serde_json::from_str::<Value>(&input).is_ok() {
            continue;
        }
        let edit = stage.hook("claude", "pre_tool_use", input.as_bytes());
        assert!(edit.code == 0 && edit.refusal().is_some(), "{input}: an edit is let through: {edit:?}");
    }
}

#[test]
fn a_mark_at_the_start_of_the_input_is_passed_over() {
    let stage = Stage::new();
    let marked = |tool| format!("\u{feff}{}", stage.call(tool, "src/a.py")).into_bytes();
    let edit = stage.hook("claude", "pre_tool_use", &marked("Write"));
    assert!(edit.refusal().is_some_and(|reason| reason.contains("First call task_add")), "{edit:?}");
    stage.nexus(&["project", "add", "a task"]);
    let edit = stage.hook("claude", "pre_tool_use", &marked("Write"));
    assert_eq!((edit.code, &*edit.stdout), (0, ""), "{edit:?}");
}

/// Claude Code takes exit code 2 for a refusal of every tool.
#[test]
fn no_command_line_of_a_hook_ends_with_2() {
    let stage = Stage::new();
    let input = |tool| stage.call(tool, "src/a.py").to_string().into_bytes();
    #[rustfmt::skip]
    let lines: &[&[&str]] = &[
        &["pre_tool_use"],
        &["pre_tool_use", "--harness"],
        &["pre_tool_use", "--harness", "vi"],
        &["--harness", "claude", "--of-a-later-version", "pre_tool_use"],
        &["--of-a-later-version=x", "pre_tool_use", "--harness=claude"],
        &["pre_tool_use", "further", "words", "--harness", "claude"],
        &["pre_tool_use", "--harness", "claude", "--project", "nowhere"],
        &["pre_tool_use", "--harness", "claude", "--harness", "claude"],
    ];
    for line in lines {
        let edit = stage.started(line, &input("Write"));
        assert_eq!(edit.code, 0, "{line:?}: {edit:?}");
        assert!(edit.refusal().is_some() && !edit.stderr.is_empty(), "{line:?}: {edit:?}");
        let read = stage.started(line, &input("Read"));
        assert_eq!((read.code, &*read.stdout), (0, ""), "{line:?}: {read:?}");
        for event in EVENTS.into_iter().filter(|event| *event != "pre_tool_use") {
            let line: Vec<_> = line.iter().map(|word| word.replace("pre_tool_use", event)).collect();
            let line: Vec<_> = line.iter().map(String::as_str).collect();
            let other = stage.started(&line, &input("Write"));
            assert_eq!((other.code, other.refusal()), (0, None), "{line:?}: {other:?}");
        }
    }
    for line in [&["--harness", "claude"][..], &["--harness", "claude", "an_event"], &["an_event"], &[]] {
        let other = stage.started(line, &input("Write"));
        assert_eq!((other.code, &*other.stdout), (1, ""), "{line:?}: {other:?}");
        assert!(other.stderr.contains("post_tool_use"), "{line:?}: {other:?}");
    }
    // A variable of the environment that the parser refuses is part of the command line.
    let mut command = stage.folder.command(&["hook", "pre_tool_use", "--harness", "claude"]);
    command.current_dir(&stage.project).env("NEXUS_CONFIG", "");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let edit = answer(command, &input("Write"));
    assert!(edit.code == 0 && edit.refusal().is_some(), "{edit:?}");
    // An input that is no file, and a project that is none.
    let mut command = stage.folder.command(&["hook", "pre_tool_use", "--harness", "claude"]);
    command.current_dir(&stage.project).stdin(File::open(&stage.project).unwrap());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("deny"), "{}", text(&output.stdout));
    let nowhere = Stage::empty();
    let edit = nowhere.hook("claude", "pre_tool_use", b"{");
    assert_eq!((edit.code, &*edit.stdout), (0, ""), "{edit:?}");
}

#[test]
fn a_lock_of_another_writer_delays_notes_by_a_second_and_no_rule() {
    let stage = Stage::new();
    let lock = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(stage.project.join(".nexus/state/.lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    let edit = || stage.call("Write", "src/a.py");
    let refused = stage.hook("claude", "pre_tool_use", edit().to_string().as_bytes()).refusal();
    assert!(refused.is_some_and(|reason| reason.contains("First call task_add")));
    lock.unlock().unwrap();
    stage.nexus(&["project", "add", "a task"]);
    lock.lock().unwrap();
    let allowed = stage.hook("claude", "pre_tool_use", edit().to_string().as_bytes());
    assert_eq!((allowed.code, &*allowed.stdout, &*allowed.stderr), (0, "", ""), "{allowed:?}");
    let mut input = edit();
    input["prompt"] = json!("[plan] the next thing");
    input["agent_id"] = json!("agent");
    for (event, expected) in [
        ("post_tool_use", "not noted: the call in the log of tools"),
        ("session_start", "a task"),
        ("user_message", "Decide before anything is changed"),
        ("subagent_spawn", "not noted: the agent that begins"),
        ("context_compact", "a task"),
    ] {
        let told = stage.hook("claude", event, input.to_string().as_bytes());
        assert!(told.code == 0 && told.stdout.contains(expected), "{event}: {told:?}");
        let is_noted = event == "context_compact";
        assert_eq!(told.stdout.contains("another writer has locked"), !is_noted, "{event}: {told:?}");
        assert_eq!(told.stderr.is_empty(), is_noted, "{event}: {told:?}");
    }
    // A decision is no note: the person is told that it was not taken.
    input["prompt"] = json!("[m] a lesson");
    let told = stage.hook("claude", "user_message", input.to_string().as_bytes());
    assert!(told.stdout.contains("The tag was not executed") && told.stdout.contains("for 1 s"), "{told:?}");
    lock.unlock().unwrap();
    stage.hook("claude", "post_tool_use", input.to_string().as_bytes());
    assert!(
        fs::read_to_string(stage.project.join(".nexus/state/tool-log.jsonl")).unwrap().contains("src/a.py")
    );
}

#[test]
fn a_path_that_leads_out_of_what_the_project_knows_needs_a_task() {
    let stage = Stage::new();
    let path = |below: &str| stage.project.join(below);
    fs::create_dir_all(path("src/deep")).unwrap();
    symlink("../src", path(".nexus/ln")).unwrap();
    symlink("../../src", path(".nexus/memory/ln")).unwrap();
    symlink("../../src/deep", path(".nexus/memory/deep")).unwrap();
    symlink("../../src/new.py", path(".nexus/rules/new.md")).unwrap();
    fs::hard_link(path("src/a.py"), path(".nexus/context/a.md")).unwrap();
    symlink(path(".nexus/memory"), path("src/known")).unwrap();
    let edit = |below: &str| {
        stage.hook("claude", "pre_tool_use", stage.call("Write", below).to_string().as_bytes()).refusal()
    };
    for below in [
        "src/a.py",
        ".nexus/ln/a.py",
        ".nexus/history.json",
        ".nexus/HISTORY.json",
        ".nexus/.gitignore",
        ".nexus/memory",
        ".nexus/memory/ln/a.py",
        ".nexus/memory/ln/../b.py",
        ".nexus/memory/deep/../a.py",
        ".nexus/memory/none/../../../src/a.py",
        ".nexus/rules/new.md",
        ".nexus/context/a.md",
        ".nexus/state/tasks.json",
    ] {
        let reason = edit(below);
        assert!(
            reason.is_some_and(|reason| reason.contains("First call task_add")),
            "{below} is let through"
        );
    }
    for below in [".nexus/memory/a.md", ".nexus/context/of/a.md", ".nexus/rules/./a.md", "../elsewhere.py"] {
        assert_eq!(edit(below), None, "{below}");
    }
    // A place of the project by its name, and one of its knowledge by where it leads.
    assert!(edit("src/known/a.md").is_some());
}

#[test]
fn doctor_starts_each_installed_line_once() {
    let stage = Stage::new();
    fs::write(stage.folder.path().join("nexus.yaml"), "groups: {}\nbackends: {}\ntypes: {}\n").unwrap();
    let wrapper = stage.folder.path().join("wrapper");
    let seen = stage.folder.path().join("seen");
    let install = |script: &str| {
        // A shell of its own reads the file, so that it is never busy.
        fs::write(&wrapper, format!("echo \"$2\" >> {}\n{script}\n", seen.display())).unwrap();
        stage.nexus(&["project", "install", "claude", "--command", &format!("sh {}", wrapper.display())]);
        let _ = fs::remove_file(&seen);
        let output = stage.folder.command(&["doctor"]).current_dir(&stage.project).output().unwrap();
        text(&output.stdout).to_owned()
    };
    let state = || {
        let mut names: Vec<_> = fs::read_dir(stage.project.join(".nexus/state"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let before = state();
    let said = install(&format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_nexus")));
    assert!(said.contains("ok    hooks claude: 8 lines, and all their commands answer"), "{said}");
    let mut started: Vec<_> = fs::read_to_string(&seen).unwrap().lines().map(ToOwned::to_owned).collect();
    started.sort();
    let mut events = EVENTS.map(ToOwned::to_owned).to_vec();
    events.sort();
    assert_eq!((started, state()), (events, before));
    for (script, problem) in [
        ("exit 2", "ends with 2"),
        ("exec no-such-program", "ends with 127"),
        ("echo hello", "its answer is not valid JSON"),
        ("true", "allows an edit without a task"),
    ] {
        let said = install(script);
        let line = said
            .lines()
            .find(|line| line.starts_with("FAIL  hooks claude: "))
            .unwrap_or_else(|| panic!("{script}: {said}"));
        assert!(
            line.contains(problem) && line.contains("hook pre_tool_use --harness claude"),
            "{script}: {line}"
        );
        assert!(said.contains("to fix it: run `nexus project install claude` in "), "{script}: {said}");
    }
}

/// Number of threads of a process.
#[cfg(target_os = "linux")]
fn threads(process: &std::process::Child) -> usize {
    fs::read_dir(format!("/proc/{}/task", process.id())).unwrap().count()
}

/// Waits, at most a minute, until a pipe has the wanted number of bytes.
#[cfg(target_os = "linux")]
fn wait_for_bytes(pipe: &std::io::PipeReader, is_wanted: impl Fn(u64) -> bool) {
    let began = std::time::Instant::now();
    while !is_wanted(rustix::io::ioctl_fionread(pipe).unwrap()) {
        assert!(
            began.elapsed() < std::time::Duration::from_secs(60),
            "the command does not come to its pipe"
        );
        thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_hook_has_one_thread_while_it_waits_for_its_input() {
    let stage = Stage::new();
    for event in EVENTS {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut command = stage.folder.command(&["hook", event, "--harness", "claude"]);
        command.current_dir(&stage.project).stdin(reader.try_clone().unwrap()).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        drop(command);
        let input = stage.call("Write", "src/a.py").to_string();
        let (first, rest) = input.split_at(1);
        writer.write_all(first.as_bytes()).unwrap();
        // Once the first byte is read, the hook waits for the others.
        wait_for_bytes(&reader, |bytes| bytes == 0);
        assert_eq!(threads(&child), 1, "{event}");
        writer.write_all(rest.as_bytes()).unwrap();
        drop(writer);
        assert!(child.wait_with_output().unwrap().status.success(), "{event}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_only_prints_has_one_thread() {
    let stage = Stage::empty();
    // Its report names each path that it created.
    let folder = vec!["x".repeat(250); 8].join("/");
    let rows: [&[&str]; 3] = [&["manual"], &["check", "--example"], &["init", &folder]];
    for arguments in rows {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let room = rustix::pipe::fcntl_setpipe_size(&writer, rustix::pipe::PIPE_BUF).unwrap();
        let mut command = stage.folder.command(arguments);
        command.current_dir(&stage.project).stdin(Stdio::null()).stdout(writer);
        let mut child = command.spawn().unwrap();
        drop(command);
        // The command cannot end before the test reads the rest, which the pipe has no room for.
        wait_for_bytes(&reader, |bytes| bytes > 0);
        assert_eq!(threads(&child), 1, "{arguments:?}");
        let output = std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
        assert!(child.wait().unwrap().success(), "{arguments:?}");
        assert!(output > room as u64, "{arguments:?} prints {output} bytes, which fit into the pipe");
    }
}
