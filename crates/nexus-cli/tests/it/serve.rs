//! `nexus serve`, `nexus task queue`, `--detach` and `attach`, and `nexus service`.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use nexus_testkit::sim::{Conversation, Reply, ToolCall};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    support::{
        Folder, text,
        two_vendors::{TwoVendors, task_stage},
        until,
    },
    task_model,
};

/// A server that a test ends.
struct Server {
    process: Child,
    output: PathBuf,
}

impl Server {
    /// Starts `nexus serve`, and waits until it serves.
    fn start(stage: &TwoVendors, arguments: &[&str]) -> Self {
        let output = stage.folder.path().join("serve.out");
        let file = fs::File::create(&output).unwrap();
        let process = stage
            .folder
            .command(&[&["serve", "--json"], arguments].concat())
            .stdout(file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, output };
        until("the server serves", || !server.events("started").is_empty());
        server
    }

    /// Events of one type so far.
    fn events(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(&self.output).unwrap_or_default();
        // The last line may be incomplete.
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["type"] == name).collect()
    }

    fn tasks_of(&self, name: &str) -> Vec<String> {
        self.events(name).iter().map(|event| event["task_id"].as_str().unwrap().to_owned()).collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Drains the server, and returns its exit code.
    fn drained(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.process.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn queued(stage: &TwoVendors) -> Vec<String> {
    let listed = stage.said(&["task", "queue", "--json"]);
    listed.lines().map(|line| json_id(line)).collect()
}

fn json_id(line: &str) -> String {
    serde_json::from_str::<Value>(line).unwrap()["task_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_detached_task_is_run_by_a_server_that_ends_with_the_queue() {
    let Some((stage, project)) = task_stage(task_model::reply) else { return };
    let id = stage.new_task(project.to_str().unwrap());
    let detached = stage.nexus(&["task", "run", "--detach", &id]);
    let said = text(&detached.stdout);
    assert!(detached.status.success(), "{said}{}", text(&detached.stderr));
    assert!(said.contains(&format!("follow it with `nexus task attach {id}`")), "{said}");
    let attached = stage.nexus(&["task", "attach", &id]);
    let (said, beside) = (text(&attached.stdout), text(&attached.stderr));
    assert!(attached.status.success(), "{said}{beside}");
    assert!(said.contains("complete") && said.contains("pass  signs"), "{said}");
    assert!(beside.contains("verdict reached"), "{beside}");
    assert_eq!(queued(&stage), [""; 0]);
    let output = stage.folder.nexus_home().join("serve/output.log");
    until("the server has ended", || {
        fs::read_to_string(&output).unwrap().contains(&format!("{id}  is complete")) && can_serve(&stage)
    });
    assert_eq!(fs::metadata(&output).unwrap().permissions().mode() & 0o777, 0o600);
    // A task that has ended cannot be queued.
    let again = stage.nexus(&["task", "queue", &id]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("the task is complete"), "{}", text(&again.stderr));
}

/// Returns true if no server has claimed the home: another one can start and end.
fn can_serve(stage: &TwoVendors) -> bool {
    stage.nexus(&["serve", "--until-idle"]).status.success()
}

#[test]
fn tasks_run_by_priority_and_then_by_age() {
    let Some((stage, project)) = task_stage(task_model::reply) else { return };
    let ids: Vec<String> = (0..3).map(|_| stage.new_task(project.to_str().unwrap())).collect();
    for (id, priority) in ids.iter().zip(["0", "-5", "7"]) {
        stage.said(&["task", "queue", id, "--priority", priority]);
    }
    let order = [&ids[2], &ids[0], &ids[1]].map(Clone::clone);
    assert_eq!(queued(&stage), order);
    let server = Server::start(&stage, &["--until-idle", "--tasks", "1"]);
    until("all tasks have ended", || server.tasks_of("task_ended").len() == 3);
    assert_eq!(server.tasks_of("task_began"), order);
    assert_eq!(server.tasks_of("task_ended"), order);
    assert!(server.events("task_ended").iter().all(|event| event["status"] == "complete"));
}

#[test]
fn a_second_server_is_refused_and_a_task_is_taken_off_the_queue() {
    let Some((stage, project)) = task_stage(task_model::reply) else { return };
    let server = Server::start(&stage, &[]);
    until("the tools are served", || server.events("tools").len() == 2);
    let second = stage.nexus(&["serve"]);
    let said = text(&second.stderr);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        said.contains(&format!("already runs for this home in process {}", server.process.id())),
        "{said}"
    );
    assert_eq!(server.drained(), Some(0));

    let id = stage.new_task(project.to_str().unwrap());
    let noted = stage.nexus(&["task", "queue", &id]);
    assert!(text(&noted.stderr).contains("no server runs the queue now"), "{}", text(&noted.stderr));
    assert!(stage.said(&["task", "status", &id]).contains("priority 0"));
    stage.said(&["task", "queue", &id, "--remove"]);
    assert_eq!(queued(&stage), [""; 0]);
    // No process runs it, so nothing can be followed.
    let attached = stage.nexus(&["task", "attach", &id]);
    assert_eq!(attached.status.code(), Some(1));
    assert!(text(&attached.stderr).contains("it is not queued"), "{}", text(&attached.stderr));
    for wrong in [&["task", "queue", &id, "--priority", "101"][..], &["task", "queue", "--priority", "1"]] {
        assert!(!stage.nexus(wrong).status.success(), "{wrong:?}");
    }
}

#[test]
fn a_killed_server_continues_the_task_at_its_next_start_and_commits_once() {
    let is_slow = Arc::new(AtomicBool::new(true));
    let slow = Arc::clone(&is_slow);
    let reply = move |conversation: &Conversation| {
        let is_work = ["You turn a goal into a brief", "You do one step of a task"]
            .iter()
            .any(|text| conversation.system.contains(text));
        match is_work || !slow.load(Ordering::SeqCst) {
            true => task_model::reply(conversation),
            // The reviewers never answer.
            false => Some(Reply::text("").stalled()),
        }
    };
    let Some((stage, project)) = task_stage(reply) else { return };
    let id = stage.new_task(project.to_str().unwrap());
    stage.said(&["task", "queue", &id]);
    let mut server = Server::start(&stage, &[]);
    until("the reviewers are at work", || stage.said(&["task", "log", &id]).contains("seat 2"));
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    is_slow.store(false, Ordering::SeqCst);
    assert_eq!(queued(&stage), [id.clone()]);
    let server = Server::start(&stage, &["--until-idle"]);
    until("the task has ended", || server.tasks_of("task_ended").len() == 1);
    let result = stage.json(&["task", "status", &id]);
    assert_eq!(result["status"], "complete");
    let log = stage.said(&["task", "log", &id, "--json"]);
    let settled = log.lines().filter(|line| line.contains("\"step_settled\"")).count();
    assert_eq!(settled, 1, "{log}");
}

#[test]
fn a_queued_task_that_asks_waits_for_its_answer_and_then_runs() {
    let asks = |conversation: &Conversation| {
        let is_framing = conversation.system.contains("You turn a goal into a brief");
        let is_answered = conversation.user_texts().concat().contains("the caller's answer to it");
        match is_framing && !is_answered {
            true => Some(Reply::call(ToolCall::function(
                "request_clarification",
                json!({ "questions": ["Which sign?"] }),
            ))),
            false => task_model::reply(conversation),
        }
    };
    let Some((stage, project)) = task_stage(asks) else { return };
    let id = stage.new_task(project.to_str().unwrap());
    stage.said(&["task", "queue", &id]);
    let server = Server::start(&stage, &[]);
    until("the task asks", || server.tasks_of("task_asks") == [id.clone()]);
    let attached = stage.nexus(&["task", "attach", &id]);
    assert_eq!(attached.status.code(), Some(1));
    assert!(text(&attached.stderr).contains("question: Which sign?"), "{}", text(&attached.stderr));
    // `task run` answers, and runs the task or waits for the server that does.
    let answered = stage.nexus(&["task", "run", &id, "--answer", "both"]);
    assert!(answered.status.success(), "{}", text(&answered.stderr));
    until("the queue is empty", || queued(&stage).is_empty());
    assert_eq!(stage.json(&["task", "status", &id])["status"], "complete");
    assert_eq!(server.drained(), Some(0));
}

#[test]
fn a_unit_is_written_without_secrets_and_one_of_a_person_stays() {
    let folder = Folder::empty();
    let home = folder.path().join("my home");
    fs::create_dir(&home).unwrap();
    let nexus = |arguments: &[&str]| {
        // No systemctl: a test must not change the units of this machine.
        let mut command = folder.command(&[&["service"], arguments].concat());
        command.env("HOME", &home).env_remove("XDG_CONFIG_HOME").env("PATH", "/nowhere");
        command.env("OPENAI_API_KEY", "sk-canary").output().unwrap()
    };
    let unit = home.join(".config/systemd/user/nexus-serve.service");
    let installed = nexus(&["install", "--", "--tasks", "3", "50% $HOME"]);
    assert!(installed.status.success(), "{}", text(&installed.stderr));
    assert!(text(&installed.stderr).contains("no systemd"), "{}", text(&installed.stderr));
    let written = fs::read_to_string(&unit).unwrap();
    assert!(written.contains("serve --tasks 3 \"50%% $$HOME\"\n"), "{written}");
    assert!(!written.contains("sk-canary"), "{written}");
    verify(&unit);
    assert!(text(&nexus(&["status"]).stdout).contains("nexus-worker.service is not installed"));
    assert!(nexus(&["uninstall"]).status.success());
    assert!(!unit.exists());
    assert!(nexus(&["uninstall"]).status.success());
    fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    for arguments in [&["install"][..], &["uninstall"]] {
        let refused = nexus(arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        assert!(text(&refused.stderr).contains("not from this command"), "{}", text(&refused.stderr));
    }
    assert!(fs::read_to_string(&unit).unwrap().contains("/bin/true"));
}

/// Lets systemd check a unit, where it is installed.
fn verify(unit: &std::path::Path) {
    let runtime = unit.parent().unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--user"]).arg(unit).env("XDG_RUNTIME_DIR", runtime);
    match command.output() {
        // A machine without a user session cannot check a unit.
        Ok(checked) if text(&checked.stderr).contains("Failed to initialize manager") => {
            println!("NOT TESTED: {}", text(&checked.stderr));
        }
        Ok(checked) => assert!(checked.status.success(), "{}", text(&checked.stderr)),
        Err(_) => println!("NOT TESTED: there is no systemd-analyze"),
    }
}
