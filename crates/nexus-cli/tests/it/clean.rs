//! `nexus clean`, on the recorded home of an earlier version and on one that it has to leave alone.

use std::{fs, process::Output};

use serde_json::Value;

use crate::{
    recorded::{HOME_16C3DB7D, files, printed, unpacked},
    support::{Folder, text},
};

/// Runs `nexus clean` with JSON output, and returns its lines.
fn cleaned(folder: &Folder, arguments: &[&str]) -> (Output, Vec<Value>) {
    let all = [&["clean", "--json"], arguments].concat();
    let output = folder.command(&all).env("DBUS_SESSION_BUS_ADDRESS", folder.no_bus()).output().unwrap();
    let lines = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output, lines)
}

/// Names of the items of one kind with an outcome.
fn names<'l>(lines: &'l [Value], kind: &str, outcome: &str) -> Vec<&'l str> {
    let is_meant = |line: &&Value| line["kind"] == kind && line["outcome"] == outcome;
    lines.iter().filter(is_meant).map(|line| line["name"].as_str().unwrap()).collect()
}

#[test]
fn everything_in_the_home_is_listed_with_its_size_and_nothing_is_changed() {
    let folder = unpacked(HOME_16C3DB7D);
    let before = files(folder.path());
    let (output, lines) = cleaned(&folder, &[]);
    assert!(output.status.success(), "{output:?}");
    for kind in ["task", "debate", "conversation", "session", "state"] {
        assert!(!names(&lines, kind, "listed").is_empty(), "{kind}: {lines:?}");
    }
    let task = lines.iter().find(|line| line["status"] == "complete").unwrap();
    assert!(
        task["title"].as_str().unwrap().contains("is to print -3") && task["bytes"].as_u64().unwrap() > 0
    );
    let listed = printed(&folder, "", &["clean", "task", "conversation"]);
    assert!(listed.contains("talk") && listed.contains("complete") && !listed.contains("debate"), "{listed}");
    let (output, lines) = cleaned(&folder, &["--older-than", "1s", "--dry-run"]);
    assert!(output.status.success() && names(&lines, "task", "removed").is_empty(), "{output:?}");
    assert!(names(&lines, "conversation", "selected").contains(&"talk"), "{lines:?}");
    // The commands write the index and the journal of the home.
    let after = files(folder.path());
    for (path, content) in before {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".db") && !name.contains("lock") && !path.ends_with("broker") {
            assert_eq!(after.get(&path).map(Vec::len), Some(content.len()), "{}", path.display());
        }
    }
}

#[test]
fn what_is_selected_is_removed_and_work_that_would_be_lost_stays() {
    let folder = unpacked(HOME_16C3DB7D);
    let (output, lines) = cleaned(&folder, &["--older-than", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(lines[0]["error"]["message"].as_str().unwrap().contains("--yes"), "{lines:?}");
    let (output, lines) = cleaned(&folder, &["--older-than", "1s", "--yes"]);
    let reasons: Vec<_> = lines.iter().map(|line| line["reason"].as_str().unwrap_or_default()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("its work is not landed")), "{lines:?}");
    assert!(reasons.iter().any(|reason| reason.contains("nexus task cancel")), "{lines:?}");
    assert!(reasons.iter().any(|reason| reason.contains("nexus debate cancel")), "{lines:?}");
    assert_eq!(names(&lines, "task", "removed"), Vec::<&str>::new());
    assert_eq!(names(&lines, "debate", "removed").len(), 1, "{lines:?}");
    assert!(names(&lines, "conversation", "removed").contains(&"branch"), "{output:?}");
    assert_eq!(names(&lines, "session", "removed"), Vec::<&str>::new(), "only by name");
    let listed = printed(&folder, "", &["task", "list"]);
    assert!(listed.contains("complete") && listed.contains("framing"), "{listed}");
    assert!(!printed(&folder, "", &["debate", "list"]).contains("done"));
    assert!(!printed(&folder, "", &["conversation", "list"]).contains("branch ·"));
    assert!(printed(&folder, "", &["session", "list"]).contains("clerk"));
    let id =
        listed.lines().find(|line| line.contains("complete")).unwrap().split_whitespace().next().unwrap();
    let (output, lines) = cleaned(&folder, &["task", "--status", "complete", "--unlanded", "--yes"]);
    assert!(output.status.success() && names(&lines, "task", "removed") == [id], "{output:?}");
    assert!(!folder.nexus_home().join("tasks").join(id).exists());
}

#[test]
fn work_that_a_reopening_would_continue_and_what_no_command_made_stay() {
    let folder = unpacked(HOME_16C3DB7D);
    let listed = printed(&folder, "", &["task", "list"]);
    let id =
        listed.lines().find(|line| line.contains("complete")).unwrap().split_whitespace().next().unwrap();
    printed(&folder, "", &["task", "land", id]);
    let status = folder.nexus_home().join("tasks").join(id).join("status.json");
    let mut changed: Value = serde_json::from_slice(&fs::read(&status).unwrap()).unwrap();
    changed["data"]["work"] = changed["data"]["head"].clone();
    fs::write(&status, changed.to_string()).unwrap();
    let (output, lines) = cleaned(&folder, &["task", "--status", "complete", "--yes"]);
    assert!(
        names(&lines, "task", "left") == [id] && text(&output.stdout).contains("task reopen"),
        "{output:?}"
    );
    // A person's own folder of that name, and a link.
    let demo = folder.nexus_home().join("demo");
    fs::create_dir(&demo).unwrap();
    fs::write(demo.join("mine"), "").unwrap();
    let (_, lines) = cleaned(&folder, &["demo", "--keep", "0", "--yes"]);
    assert!(names(&lines, "demo", "left") == ["demo"] && demo.join("mine").exists(), "{lines:?}");
    fs::remove_dir_all(&demo).unwrap();
    std::os::unix::fs::symlink("../sums", &demo).unwrap();
    let (_, lines) = cleaned(&folder, &["demo", "--keep", "0", "--yes"]);
    assert!(names(&lines, "demo", "left") == ["demo"], "{lines:?}");
    assert!(demo.is_symlink() && !folder.path().join("sums/demo.lock").exists());
    // A damaged conversation is said, and hides nothing else.
    fs::write(folder.nexus_home().join("conversations/names/talk.json"), "{").unwrap();
    let (output, lines) = cleaned(&folder, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(names(&lines, "conversation", "listed").contains(&"branch"), "{lines:?}");
}

#[test]
fn the_newest_stay_and_a_landed_task_needs_no_consent() {
    let folder = unpacked(HOME_16C3DB7D);
    let listed = printed(&folder, "", &["task", "list"]);
    let id =
        listed.lines().find(|line| line.contains("complete")).unwrap().split_whitespace().next().unwrap();
    printed(&folder, "", &["task", "land", id]);
    let (_, lines) = cleaned(&folder, &["task", "conversation", "--keep", "100", "--yes"]);
    assert_eq!(lines, Vec::<Value>::new());
    let (_, lines) = cleaned(&folder, &["task", "--status", "complete", "--keep", "0", "--dry-run"]);
    assert_eq!(names(&lines, "task", "selected"), [id]);
    let (output, lines) = cleaned(&folder, &["task", "--status", "complete", "--yes"]);
    assert!(output.status.success() && names(&lines, "task", "removed") == [id], "{output:?}");
}

#[test]
fn a_wrong_command_line_removes_nothing() {
    let folder = unpacked(HOME_16C3DB7D);
    let before = files(&folder.nexus_home());
    for (arguments, words) in [
        (&["--status", "compleet", "--yes"][..], "is no status"),
        (&["--yes"], "--older-than"),
        (&["--unlanded"], "--older-than"),
        (&["--older-than", "30"], "30s"),
        (&["holds", "--keep", "1"], "holds"),
    ] {
        let output = folder.command(&[&["clean"], arguments].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(text(&output.stderr).contains(words), "{arguments:?}: {output:?}");
    }
    let after = files(&folder.nexus_home());
    assert!(before.keys().all(|path| after.contains_key(path)));
}

#[test]
fn an_empty_home_holds_nothing_and_a_running_demo_stays() {
    let folder = Folder::empty();
    let output = folder.command(&["clean", "task"]).output().unwrap();
    assert!(output.status.success() && text(&output.stderr).contains("holds none of it"), "{output:?}");
    let demo = folder.nexus_home().join("demo");
    fs::create_dir_all(&demo).unwrap();
    let lock = nexus_files::FileLock::try_lock(&demo.join("demo.lock")).unwrap();
    let (output, lines) = cleaned(&folder, &["demo", "--keep", "0", "--yes"]);
    assert_eq!((output.status.code(), names(&lines, "demo", "left")), (Some(1), vec!["demo"]), "{output:?}");
    drop(lock);
    let (output, _) = cleaned(&folder, &["demo", "--keep", "0", "--yes"]);
    assert!(output.status.success() && !demo.exists(), "{output:?}");
}
