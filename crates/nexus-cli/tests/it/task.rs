//! `nexus task`: a goal walked to reviewed work from a shell, on a simulated model.

use std::{
    fs,
    ops::Deref,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use nexus_testkit::sim::{Conversation, Reply};
use serde_json::Value;

use crate::{
    support::{
        text,
        two_vendors::{TwoVendors, task_stage},
        until,
    },
    task_model,
};

/// A home with a configuration, a project, and a simulated model.
struct Stage {
    vendors: TwoVendors,
    project: PathBuf,
}

impl Deref for Stage {
    type Target = TwoVendors;

    fn deref(&self) -> &TwoVendors {
        &self.vendors
    }
}

impl Stage {
    /// `None` where there is no git.
    fn new(reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static) -> Option<Self> {
        let (vendors, project) = task_stage(reply)?;
        Some(Self { vendors, project })
    }

    /// A new task, by its id.
    fn created(&self) -> String {
        self.new_task(self.project.to_str().unwrap())
    }
}

#[test]
fn a_goal_is_walked_to_a_commit_in_the_branch() {
    let Some(stage) = Stage::new(task_model::reply) else { return };
    let id = stage.created();
    assert!(stage.said(&["task", "status", "last"]).contains("framing"));
    let walked = stage.nexus(&["task", "run", "last"]);
    let (said, beside) = (text(&walked.stdout), text(&walked.stderr));
    assert!(walked.status.success(), "{said}\n{beside}");
    assert!(said.contains("complete") && said.contains("pass  signs"), "{said}");
    assert!(beside.contains("1. next  executor: sum.sh prints the sum"), "{beside}");
    assert!(beside.contains("entry 1: completed, commit "), "{beside}");

    assert!(stage.said(&["task", "status", &id[..6]]).contains("complete"));
    let log = stage.said(&["task", "log", &id, "--json"]);
    let kinds: Vec<String> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].as_str().unwrap().to_owned())
        .collect();
    for kind in ["created", "framing_ended", "turn_ended", "voted", "verdict_reached", "step_settled"] {
        assert!(kinds.iter().any(|found| found == kind), "{kind}: {kinds:?}");
    }
    let listed: Value = serde_json::from_str(stage.said(&["task", "list", "--json"]).trim()).unwrap();
    assert_eq!(listed["task_id"], id);
    assert!(stage.said(&["task", "watch", &id]).contains("spent no reported cost, "));
    let page = stage.folder.path().join("task.html");
    stage.said(&["task", "report", &id, "-o", page.to_str().unwrap()]);
    assert!(fs::read_to_string(page).unwrap().contains("default-src 'none'"));

    // A person reads words, a program the record.
    let step = stage.said(&["task", "show", &id, "step-1"]);
    for words in ["end: completed", "claim: ", "vote of ", "decision: advance", "evidence: "] {
        assert!(step.contains(words), "{words}: {step}");
    }
    let record: Value =
        serde_json::from_str(stage.said(&["task", "show", &id, "step-1", "--json"]).trim()).unwrap();
    assert!(record["text"].as_str().unwrap().starts_with('{'), "{record}");

    // The patch is as git takes it, and the branch moves.
    let patch = stage.said(&["task", "show", &id, "patch"]);
    assert!(patch.contains("+echo $(( $1 + $2 ))"), "{patch}");
    assert!(fs::read_to_string(stage.project.join("sum.sh")).unwrap().contains("#-"));
    let landed = stage.said(&["task", "land", &id]);
    assert!(
        landed.starts_with("landed: your branch main has the commits of the task, and is now at "),
        "{landed}"
    );
    assert_eq!(fs::read_to_string(stage.project.join("sum.sh")).unwrap(), "echo $(( $1 + $2 ))\n");
    assert!(!stage.model.main_calls().is_empty());
}

#[test]
fn bytes_that_are_no_text_are_in_the_patch_as_they_are() {
    let Some(stage) = Stage::new(task_model::reply) else { return };
    fs::write(stage.project.join("sum.sh"), b"echo $(( ${1#-} + ${2#-} )) # \xff\n").unwrap();
    let project = stage.project.to_str().unwrap();
    let new =
        ["task", "new", "mend it", "--project", project, "--include-uncommitted", "--test", "sh test.sh"];
    stage.said(&new);
    let walked = stage.nexus(&["task", "run", "last"]);
    assert!(walked.status.success(), "{}", text(&walked.stderr));
    let patch = stage.nexus(&["task", "show", "last", "patch"]).stdout;
    assert!(patch.contains(&0xff));
    let applied = Command::new("git")
        .args(["apply", "--check", "-"])
        .current_dir(&stage.project)
        .stdin(Stdio::piped())
        .spawn()
        .and_then(|mut git| {
            std::io::Write::write_all(&mut git.stdin.take().unwrap(), &patch)?;
            git.wait()
        });
    assert!(applied.unwrap().success());
}

#[test]
fn what_is_asked_is_answered_on_the_command_line() {
    let asked = |conversation: &Conversation| {
        let is_framing = conversation.system.contains("You turn a goal into a brief");
        let is_answered = conversation.user_texts().concat().contains("the caller's answer to it");
        match is_framing && !is_answered {
            true => Some(Reply::call(nexus_testkit::sim::ToolCall::function(
                "request_clarification",
                serde_json::json!({ "questions": ["Which sign?\u{1b}[2J"] }),
            ))),
            false => task_model::reply(conversation),
        }
    };
    let Some(stage) = Stage::new(asked) else { return };
    let id = stage.created();
    let walked = stage.nexus(&["task", "run", &id]);
    let beside = text(&walked.stderr);
    assert_eq!(walked.status.code(), Some(1), "{beside}");
    assert!(beside.contains("question: Which sign?") && !beside.contains('\u{1b}'), "{beside}");
    assert!(beside.contains("--answer TEXT"), "{beside}");
    let walked = stage.nexus(&["task", "run", &id, "--answer", "That of the sum."]);
    assert!(walked.status.success(), "{}", text(&walked.stderr));
}

#[test]
fn a_step_that_is_interrupted_is_put_back_and_done_by_the_next_run() {
    // The executor thinks for long the first time.
    let began = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = began.clone();
    let slow = move |conversation: &Conversation| {
        let works = conversation.system.contains("You do one step of a task");
        let is_first = works
            && !seen.swap(
                works || seen.load(std::sync::atomic::Ordering::SeqCst),
                std::sync::atomic::Ordering::SeqCst,
            );
        match is_first {
            true => Some(Reply::text("").after(Duration::from_secs(600))),
            false => task_model::reply(conversation),
        }
    };
    let Some(stage) = Stage::new(slow) else { return };
    let id = stage.created();
    let mut walking = stage.folder.command(&["task", "run", &id]);
    let walking = walking.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the step begins", || began.load(std::sync::atomic::Ordering::SeqCst));
    let child = rustix::process::Pid::from_raw(i32::try_from(walking.id()).unwrap()).unwrap();
    rustix::process::kill_process(child, rustix::process::Signal::INT).unwrap();
    let ended = walking.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert!(stage.said(&["task", "log", &id]).contains("step interrupted"));
    assert!(stage.said(&["task", "status", &id]).contains("active"));
    let walked = stage.nexus(&["task", "run", &id, "--step"]);
    assert!(walked.status.success(), "{}", text(&walked.stderr));
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let Some(stage) = Stage::new(task_model::reply) else { return };
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let output = stage.nexus(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    };
    refused(&["task", "run", "last"], 2, "there is no task yet; create one by `nexus task new`");
    refused(&["task", "status", "../../etc"], 2, "`nexus task list`");
    refused(&["task", "new", "x", "--project", "/nowhere/at/all"], 2, "/nowhere/at/all");
    refused(&["task", "new", " ", "--project", stage.project.to_str().unwrap()], 2, "`goal` is empty");
    refused(
        &["task", "new", "x", "--project", stage.project.to_str().unwrap(), "--label", "odd"],
        2,
        "NAME=VALUE",
    );
    let id = stage.created();
    refused(&["task", "reopen", &id, "again"], 1, "only a task that has ended can be reopened");
    refused(&["task", "reopen", &id, "again", "--from", "0"], 2, "counts the entries of the plan from 1");
    refused(&["task", "show", &id, "step-9"], 2, "has no step-9");
    refused(&["task", "show", &id, "../status.json"], 2, "is not the name of an artifact");
    stage.said(&["task", "cancel", &id]);
    let reopened: Value =
        serde_json::from_str(&stage.said(&["task", "reopen", &id, "go on", "--json"])).unwrap();
    assert_eq!(reopened["status"], "framing");
    let error = stage.nexus(&["task", "status", "0000", "--json"]);
    let error: Value = serde_json::from_slice(&error.stdout).unwrap();
    assert_eq!(error["error"]["kind"], "usage");
}

#[test]
fn tasks_are_looked_at_without_a_configuration() {
    let Some(stage) = Stage::new(task_model::reply) else { return };
    let id = stage.created();
    fs::write(stage.folder.nexus_home().join("nexus.yaml"), "groups: [\n").unwrap();
    for arguments in
        [&["task", "status", &id][..], &["task", "list"], &["task", "log", &id], &["task", "report", &id]]
    {
        stage.said(arguments);
    }
    assert_eq!(stage.nexus(&["task", "run", &id]).status.code(), Some(2));
}

#[test]
fn a_configuration_of_the_folder_that_it_is_started_in_is_not_taken_unless_it_is_named() {
    let Some(stage) = Stage::new(task_model::reply) else { return };
    let (mine, project) = (stage.folder.nexus_home().join("nexus.yaml"), stage.project.to_str().unwrap());
    let new = ["task", "new", "mend it", "--project", project, "--test", "sh test.sh"];
    // A stranger's file: whoever reads it fails.
    fs::write(stage.folder.path().join("nexus.yaml"), "groups: 7\n").unwrap();
    let created = stage.nexus(&new);
    let said = text(&created.stderr);
    assert!(created.status.success(), "{said}");
    assert!(said.contains("./nexus.yaml is not used") && said.contains("--config nexus.yaml"), "{said}");
    assert!(said.contains(mine.to_str().unwrap()), "it names the one that is used: {said}");
    let named = stage.nexus(&[&["--config", "nexus.yaml"][..], &new].concat());
    assert_eq!(named.status.code(), Some(2), "it was read: {}", text(&named.stderr));
    // Without one of the home nothing is done, and the way out is named.
    let good = fs::read(&mine).unwrap();
    fs::remove_file(&mine).unwrap();
    for command in [&new[..], &["task", "run", "last"]] {
        let refused = stage.folder.command(command).env_remove("NEXUS_CONFIG").output().unwrap();
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("does not exist") && said.contains("./nexus.yaml is not used"), "{said}");
    }
    fs::write(stage.folder.path().join("nexus.yaml"), good).unwrap();
    stage.said(&[&["--config", "nexus.yaml"][..], &new].concat());
}

#[test]
fn a_task_is_gone_on_with_under_a_larger_budget_and_removed_when_it_ended() {
    let Some(stage) = Stage::new(task_model::reply) else { return };
    let id = stage.created();
    let refs = || {
        let listed =
            Command::new("git").args(["for-each-ref", "refs/nexus"]).current_dir(&stage.project).output();
        text(&listed.unwrap().stdout).lines().count()
    };
    assert_eq!(refs(), 1);
    let refused = stage.nexus(&["task", "remove", &id]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("`nexus task cancel`"), "{}", text(&refused.stderr));
    stage.said(&["task", "cancel", &id]);
    let refused = stage.nexus(&["task", "reopen", &id, "go on", "--usd", "-1"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    stage.said(&["task", "reopen", &id, "go on", "--usd", "5", "--output-tokens", "100000"]);
    stage.said(&["task", "cancel", &id]);
    let listed = stage.nexus(&["task", "list", "--status", "nonsense"]);
    assert_eq!(listed.status.code(), Some(2));
    assert!(text(&listed.stderr).contains("clarification_needed"), "{}", text(&listed.stderr));
    assert_eq!(stage.said(&["task", "remove", &id]).trim(), format!("{id} is removed"));
    assert_eq!(refs(), 0);
    assert_eq!(stage.nexus(&["task", "status", &id]).status.code(), Some(2));
}

#[test]
fn a_folder_with_much_in_it_is_read_only_where_that_is_allowed() {
    let Some(stage) = Stage::new(task_model::reply) else { return };
    let large = stage.folder.path().join("large");
    fs::create_dir(&large).unwrap();
    // Sparse, and each within what a file of a task may have.
    for name in ["one.bin", "two.bin"] {
        fs::File::create(large.join(name)).unwrap().set_len(200 << 20).unwrap();
    }
    let new = |further: &[&str]| {
        stage.nexus(&[&["task", "new", "a goal", "--project", large.to_str().unwrap()], further].concat())
    };
    let refused = new(&[]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("2 files of 400.0 MiB") && said.contains("one.bin (200.0 MiB)"), "{said}");
    assert!(said.contains("--allow-large"), "{said}");
    let none = stage.nexus(&["task", "status", "last"]);
    assert!(text(&none.stderr).contains("there is no task yet"), "{}", text(&none.stderr));
    // What is ignored is not read.
    fs::write(large.join(".gitignore"), "*.bin\n").unwrap();
    let created = new(&[]);
    assert!(created.status.success(), "{}", text(&created.stderr));
    assert!(text(&created.stderr).contains("reading 1 file of 6 bytes"), "{}", text(&created.stderr));
    fs::write(large.join(".gitignore"), "two.bin\n").unwrap();
    fs::File::create(large.join("one.bin")).unwrap().set_len(300 << 20).unwrap();
    assert!(!new(&[]).status.success());
    let created = new(&["--allow-large"]);
    assert!(created.status.success(), "{}", text(&created.stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn a_creation_that_is_cut_off_leaves_nothing_that_last_names() {
    use rustix::process::{Pid, Signal, kill_process};

    let Some(stage) = Stage::new(task_model::reply) else { return };
    let kept = stage.created();
    // While the tests run, of which a shell tells.
    let begun = stage.folder.path().join("begun");
    fs::write(stage.project.join("slow.sh"), format!("echo > {}\nsleep 60\n", begun.display())).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let _ = fs::remove_file(&begun);
        let mut command = stage.folder.command(&["task", "new", "a goal", "--include-uncommitted"]);
        command.args(["--test", "sh slow.sh", "--project"]).arg(&stage.project);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("the tests", || begun.exists());
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        let status = stage.said(&["task", "status", "last"]);
        assert!(status.contains(&kept), "{signal:?}: {status}\n{}", text(&ended.stderr));
        if signal != Signal::KILL {
            assert_eq!(ended.status.code(), Some(128 + signal.as_raw()), "{}", text(&ended.stderr));
            assert!(text(&ended.stderr).contains("the task is removed again"), "{}", text(&ended.stderr));
            assert_eq!(stage.said(&["task", "list", "--json"]).lines().count(), 1, "{signal:?}");
        }
    }
    // What a killed one left goes with the next that is created.
    let next = stage.created();
    assert!(stage.said(&["task", "status", "last"]).contains(&next));
    assert_eq!(stage.said(&["task", "list", "--json"]).lines().count(), 2);
}
