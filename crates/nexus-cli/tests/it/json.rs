//! Every command with `--json`: each line is as its schema says, and an error is the last one.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Stdio},
};

use nexus_testkit::sim::Reply;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    debate_model,
    support::{
        Folder,
        answers::{checked, commands, named},
        stage::Stage,
        text,
        two_vendors::{NEW_DEBATE, debate_stage, task_stage},
    },
    task_model,
};

/// Commands that need what is not here, each with whose tests have their lines checked.
const ELSEWHERE: &[(&str, &str)] = &[
    ("agent judge", "an installed agent: the lane `agents` of .ci/deep"),
    ("broker clean", "a worker of an agent"),
    ("broker land", "a worker of an agent"),
    ("diff", "a turn that wrote: `chat`"),
    ("fleet setup", "a server of the fleet: `fleet_command`"),
    ("fleet status", "a server of the fleet: `fleet_command`"),
    ("key list", "a keyring: `key`"),
    ("key remove", "a keyring: `key`"),
    ("key set", "a keyring: `key`"),
    ("setup", "a machine: `setup`"),
    ("undo", "a turn that wrote: `chat`"),
    ("uninstall", "an installation: `uninstall`"),
    ("login", "an issuer: `login`"),
    ("testbed prove", "programs of a trap, which take seconds: `testbed`"),
    ("testbed report", "an experiment: `testbed`"),
    ("testbed run", "an experiment: `testbed`"),
];

/// Commands of which a line was seen that is no error.
#[derive(Default)]
struct Seen(BTreeSet<&'static str>);

impl Seen {
    /// Runs a command, and checks its lines. Returns those that are no error.
    #[track_caller]
    fn run(&mut self, folder: &Folder, arguments: &[&str]) -> Vec<Value> {
        let output = folder.command(&[arguments, &["--json"]].concat()).output().unwrap();
        self.check(arguments, text(&output.stdout), text(&output.stderr))
    }

    #[track_caller]
    fn check(&mut self, arguments: &[&str], stdout: &str, stderr: &str) -> Vec<Value> {
        let mut lines = checked(arguments, stdout);
        lines.retain(|line| line.get("error").is_none_or(|error| error.get("kind").is_none()));
        assert!(!lines.is_empty(), "{arguments:?} answers nothing: {stdout}{stderr}");
        self.0.insert(named(arguments).unwrap());
        lines
    }

    /// Runs commands that need nothing of one another's answers.
    #[track_caller]
    fn run_all(&mut self, folder: &Folder, lines: &[&[&str]]) {
        for arguments in lines {
            self.run(folder, arguments);
        }
    }
}

/// A command that goes on until it is ended.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    read: String,
}

impl Running {
    /// Starts it, and waits for its first line.
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut read = String::new();
        stdout.read_line(&mut read).unwrap();
        Self { child, stdout, read }
    }

    /// Ends it, and returns all that it printed.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.stdout.read_to_string(&mut self.read).unwrap();
        self.child.wait().unwrap();
        self.read
    }
}

#[test]
fn every_line_of_every_command_is_as_its_schema_says() {
    let mut seen = Seen::default();
    turns(&mut seen);
    tasks(&mut seen);
    debates(&mut seen);
    projects(&mut seen);
    agents(&mut seen);
    let elsewhere: BTreeSet<&str> = ELSEWHERE.iter().map(|(command, _)| *command).collect();
    let unseen: BTreeSet<&str> =
        commands().iter().map(String::as_str).filter(|command| !seen.0.contains(command)).collect();
    let missing: Vec<_> = unseen.difference(&elsewhere).collect();
    assert_eq!(missing, Vec::<&&str>::new(), "no line of these was seen");
}

/// Turns, panels, debates, and what says how things are.
fn turns(seen: &mut Seen) {
    let stage = Stage::new(Reply::text("Here."));
    let folder = &stage.folder;
    fs::create_dir(folder.nexus_home()).unwrap();
    fs::copy(folder.path().join("nexus.yaml"), folder.nexus_home().join("nexus.yaml")).unwrap();
    seen.run_all(
        folder,
        &[
            &["run", "talker", "hello", "--keep", "turns"],
            &["run", "judges", "hello"],
            &["check", "--print"],
            &["trust"],
            &["trust", "--list"],
            &["trust", "--remove"],
            &["run", "talker", "hello", "--conversation", "talk"],
            &["show", "turns"],
            &["forget", "turns"],
            &["conversation", "list"],
            &["conversation", "show", "talk"],
            &["conversation", "fork", "talk", "other"],
            &["conversation", "delete", "talk"],
            &["explain"],
            &["check"],
            &["check", "--probe"],
            &["check", "--example"],
            &["doctor"],
            &["status"],
            &["agent", "add", "mine", "--command", "my-agent --acp"],
            &["agent", "list"],
            &["agent", "show", "opencode"],
            &["models"],
            &["models", "local"],
            &["models", "--providers"],
            &["completions", "bash"],
            &["manual"],
            &["schema", "output"],
            &["schema", "output", "task", "list"],
            &["debate", "new", "Why?"],
            &["debate", "list"],
            &["debate", "show", "last"],
            &["debate", "report", "last"],
            &["debate", "report", "last", "--output", "page.html"],
            &["debate", "cancel", "last"],
            &["debate", "watch", "last"],
            &["clean"],
            &["service", "install", "--no-start"],
            &["service", "status"],
            &["service", "uninstall"],
            &["serve", "--until-idle"],
            &["debate", "remove", "last"],
            &["testbed", "list"],
            &["init", "place"],
        ],
    );
    #[cfg(feature = "login")]
    seen.run(folder, &["logout", "codex"]);
    let time = |seconds: u64| json!({ "secs_since_epoch": seconds, "nanos_since_epoch": 0 });
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let hold = json!({
        "backend": "local", "since": time(now), "until": time(now + 600), "guessed": true, "named_until": null,
        "kind": "rate_limited", "reason": "slow down", "probing": false,
    });
    fs::create_dir_all(folder.nexus_home().join("holds")).unwrap();
    let holds = json!({ "holds": [{ "hold": hold, "revision": 1 }] }).to_string();
    fs::write(folder.nexus_home().join("holds/holds.json"), holds).unwrap();
    seen.run_all(folder, &[&["hold", "list"], &["hold", "release", "--all"]]);
    let explaining = Running::start(folder.command(&["explain", "--watch", "--json"]));
    seen.check(&["explain"], &explaining.end(), "");
}

/// A task, walked to its end.
fn tasks(seen: &mut Seen) {
    let Some((stage, project)) = task_stage(task_model::reply) else { return };
    let folder = &stage.folder;
    let goal = "`sh sum.sh -1 -2` is to print -3";
    let project = project.to_str().unwrap();
    let new = ["task", "new", goal, "--project", project, "--test", "sh test.sh"];
    seen.run(folder, &new);
    let walked = seen.run(folder, &["task", "run", "last"]);
    let spent = seen.run(folder, &["usage", "--by", "task,type"]);
    assert!(spent.iter().all(|row| row["task"].is_string() && row["turns"].as_u64() > Some(0)), "{spent:?}");
    let types: BTreeSet<_> = spent.iter().map(|row| row["type"].as_str().unwrap()).collect();
    assert_eq!(types, BTreeSet::from(["executor", "orchestrator", "reviewer"]), "{spent:?}");
    let types: BTreeSet<_> = walked.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, BTreeSet::from(["plan", "progress", "result", "step"]));
    seen.run_all(
        folder,
        &[
            &["task", "status", "last"],
            &["task", "log", "last"],
            &["task", "list"],
            &["task", "watch", "last"],
            &["task", "show", "last", "brief"],
            &["task", "show", "last", "patch"],
            &["task", "report", "last"],
            &["task", "land", "last"],
            &["task", "reopen", "last", "go on"],
            &["task", "queue", "last"],
            &["task", "queue"],
            &["task", "queue", "last", "--remove"],
            &["task", "cancel", "last"],
            &["task", "attach", "last"],
            &["task", "remove", "last"],
        ],
    );
}

/// A debate, a stage further.
fn debates(seen: &mut Seen) {
    let stage = debate_stage(debate_model::reply);
    seen.run_all(&stage.folder, &[&NEW_DEBATE, &["debate", "advance", "last"]]);
    let spent = seen.run(&stage.folder, &["usage", "--by", "debate,type"]);
    assert!(spent.iter().all(|row| row["debate"].is_string()), "{spent:?}");
    // No server is asked for the key of a machine.
    let fleet = Folder::with("fleet: { servers: ['nats://127.0.0.1:1'] }\n");
    seen.run(&fleet, &["fleet", "key"]);
}

/// A project, and its artifacts.
fn projects(seen: &mut Seen) {
    let folder = Folder::empty();
    fs::create_dir(folder.path().join(".git")).unwrap();
    seen.run_all(
        &folder,
        &[
            &["project", "init"],
            &["project", "plan", "Notes", "--issue", "where?"],
            &["project", "decide", "1", "here"],
            &["project", "reopen", "1"],
            &["project", "decide", "1", "there"],
            &["project", "add", "write it"],
            &["project", "tasks"],
            &["project", "prompt", "1"],
            &["project", "begin", "1"],
            &["project", "back", "1"],
            &["project", "begin", "1"],
            &["project", "done", "1"],
            &["project", "status"],
            &["project", "close"],
            &["project", "history"],
            &["project", "roles"],
            &["project", "roles", "engineer"],
            &["project", "roles", "--register"],
            &["project", "schema", "plan.json"],
            &["project", "install", "claude"],
            &["project", "uninstall", "claude"],
            &["artifact", "new", "milestone", "Sign-in"],
            &["artifact", "new", "slice", "M001", "Form"],
            &["artifact", "new", "task", "M001-S001", "Write it", "--tier", "sonnet"],
            &["artifact", "scaffold", "M001"],
            &["artifact", "mark", "M001-S001-T0001", "done"],
            &["artifact", "todo", "M001"],
            &["artifact", "status", "M001"],
            &["artifact", "lint"],
            &["artifact", "rules"],
            &["artifact", "schema"],
            &["artifact", "schema", "verification"],
            &["artifact", "append", "M001", "--seal"],
            &["artifact", "handoff", "new", "Mind it", "--from", "a", "--to", "b"],
        ],
    );
    let handoffs = seen.run(&folder, &["artifact", "handoff", "list"]);
    seen.run(&folder, &["artifact", "handoff", "mark", handoffs[0]["id"].as_str().unwrap(), "read"]);
    let research = folder.path().join(".nubos-pilot/milestones/M001/research");
    fs::create_dir(&research).unwrap();
    let output = include_str!(
        "../../../nexus-artifacts/tests/fixtures/good/.nubos-pilot/milestones/M001/research/spawn-0.md"
    );
    fs::write(research.join("spawn-0.md"), output).unwrap();
    let other =
        output.replace("spawn_index: 0", "spawn_index: 1").replace("D-1: Use `jose`", "D-1: Use no library");
    fs::write(research.join("spawn-1.md"), other).unwrap();
    seen.run_all(&folder, &[&["artifact", "reconcile", "M001"], &["artifact", "gate", "M001"]]);
    let server = concat!(env!("CARGO_BIN_EXE_nexus"), " mcp project");
    seen.run(&folder, &["project", "conformance", "--server", server]);
    skills(seen, &folder);
}

fn skills(seen: &mut Seen, folder: &Folder) {
    let hub = folder.path().join("hub");
    fs::create_dir_all(hub.join("links")).unwrap();
    fs::write(hub.join("links/SKILL.md"), "# Links\n").unwrap();
    let hash = Command::new("sha256sum").arg(hub.join("links/SKILL.md")).output().unwrap();
    let hash = text(&hash.stdout).split_whitespace().next().unwrap();
    let skill =
        json!({ "description": "Links.", "kind": "guides", "version": "1", "files": { "SKILL.md": hash } });
    let index = json!({ "skills": { "links": skill }, "packs": { "writing": ["links"] } });
    fs::write(hub.join("hub.json"), index.to_string()).unwrap();
    seen.run_all(
        folder,
        &[
            &["skills", "list", "--hub", "hub"],
            &["skills", "install", "writing", "--hub", "hub"],
            &["skills", "list"],
            &["skills", "info", "links"],
            &["skills", "use", "links"],
            &["skills", "update", "--hub", "hub"],
            &["skills", "remove", "links"],
        ],
    );
}

/// Agents, their messages and sessions, and triggers.
fn agents(seen: &mut Seen) {
    let stage = Stage::new(Reply::text("Here."));
    let folder = &stage.folder;
    fs::create_dir(folder.nexus_home()).unwrap();
    fs::copy(folder.path().join("nexus.yaml"), folder.nexus_home().join("nexus.yaml")).unwrap();
    let running = Running::start(folder.command(&["broker", "run", "--json"]));
    let answer = seen.run(folder, &["broker", "send", "clerk", "hello", "--wait", "60"]);
    assert_eq!(answer[0]["type"], "message", "{answer:?}");
    let spent = seen.run(folder, &["usage", "--by", "agent,conversation"]);
    assert_eq!((&spent[0]["agent"], &spent[0]["turns"]), (&json!("clerk"), &json!(1)), "{spent:?}");
    let watching = Running::start(folder.command(&["broker", "watch", "--json"]));
    seen.check(&["broker", "watch"], &watching.end(), "");
    let events = seen.check(&["broker", "run"], &running.end(), "");
    let types: BTreeSet<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, BTreeSet::from(["message", "started"]));
    let main = "agent:clerk:main";
    seen.run_all(
        folder,
        &[
            &["broker", "status"],
            &["broker", "log"],
            &["broker", "stop", "clerk"],
            &["broker", "start", "clerk"],
            &["session", "list"],
            &["session", "show", main],
            &["session", "fork", main, "agent:clerk:other"],
            &["session", "export", main],
            &["session", "search", "hello"],
            &["trigger", "cron", "clerk", "30 9 * * 1-5", "look", "--id", "cron"],
            &["trigger", "at", "clerk", "2999-01-31T12:00:00Z", "look"],
            &["trigger", "event", "clerk", "rain", "look"],
            &["trigger", "file", "clerk", "nexus.yaml", "look"],
            &["trigger", "webhook", "clerk", "look"],
            &["trigger", "completion", "clerk", "look", "--of-task", "t1"],
            &["trigger", "list"],
            &["trigger", "fire", "rain"],
            &["trigger", "disable", "cron"],
            &["trigger", "enable", "cron"],
            &["trigger", "delete", "cron"],
        ],
    );
    // An answer without a waiting caller.
    let running = Running::start(folder.command(&["broker", "run", "--json"]));
    seen.run(folder, &["broker", "send", "clerk", "again", "--id", "again"]);
    crate::support::until("the answer is in the inbox", || {
        let status = folder.nexus(&["broker", "status"]);
        text(&status.stdout).lines().any(|line| line.starts_with("inbox of me: ") && !line.contains(" 0 "))
    });
    running.end();
    seen.run(folder, &["broker", "inbox"]);
}

#[test]
fn an_error_is_the_last_line_whatever_is_wrong() {
    let stage = Stage::new(Reply::text("Here."));
    for (arguments, code, kind, place) in [
        (&["task", "status", "0000", "--json"][..], 2, "usage", None),
        (&["run", "talkr", "hello", "--json"], 2, "usage", None),
        (&["--json", "rum"], 2, "usage", Some("rum")),
        (&["rum", "--json"], 2, "usage", Some("rum")),
        (&["run", "--json"], 2, "usage", None),
        (&["task", "--json"], 2, "usage", None),
        (&["task", "list", "--jsn", "--json"], 2, "usage", Some("--jsn")),
        (&["explain", "--config", "absent.yaml", "--json"], 2, "configuration", Some("absent.yaml")),
        (&["schema", "output", "taks", "--json"], 2, "usage", None),
        (&["worker", "--pool", "a", "--json"], 2, "usage", None),
        (&["mcp", "spawn", "--json"], 2, "usage", None),
        (&["acp", "--json"], 2, "usage", None),
        (&["onboard", "--json"], 2, "usage", None),
        (&["artifact", "gate", "M009", "--json"], 2, "usage", None),
    ] {
        let output = stage.nexus(arguments);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}{}", text(&output.stderr));
        let error: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        let error = &error["error"];
        assert_eq!(error["kind"], kind, "{arguments:?}: {error}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{arguments:?}: {error}");
        assert!(error.get("advice").is_some(), "{arguments:?}: {error}");
        if let Some(place) = place {
            assert!(error["place"].as_str().is_some_and(|told| told.contains(place)), "{error}");
        }
    }
    // Words of a prompt are none of the command line.
    let output = stage.nexus(&["run", "talker", "--jsn", "--", "--json"]);
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_turn_that_fails_ends_with_its_error() {
    let stage = Stage::new(Reply::status(401));
    let output = stage.nexus(&["run", "talker", "hello", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let last: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
    let error = &last["error"];
    assert_eq!((&error["kind"], &error["place"]), (&json!("unauthenticated"), &json!("local")), "{last}");
    assert_eq!(error["turn"]["backend"], "local", "{last}");
}

#[test]
fn a_schema_of_an_unknown_command_names_those_that_may_be_meant() {
    let folder = Folder::empty();
    for (command, words) in [
        (&["task"][..], "task list"),
        (&["task", "lst"], "task list"),
        (&["worker"], "it serves other machines"),
        (&["nothing"], "`nexus schema output` lists the commands"),
    ] {
        let output = folder.nexus(&[&["schema", "output"], command].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        assert!(text(&output.stderr).contains(words), "{command:?}: {}", text(&output.stderr));
    }
}
