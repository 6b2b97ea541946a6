//! Every subcommand before output that is not taken, and at the end of its terminal.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::ExitStatusExt as _,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nexus_testkit::{effort, sim::Reply};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    PATIENCE,
    stage::{CLOSED_PIPE, Stage, full},
    text, until,
};

/// Command lines that answer on standard output and need no person. Each has a task, a debate and a record of a turn of its own.
const ANSWERING: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help"],
    &["run", "--help"],
    &["run", "talker", "hello"],
    &["run", "talker", "hello", "--quiet"],
    &["run", "talker", "hello", "--json"],
    &["run", "judges", "hello"],
    &["run", "judges", "hello", "--quiet"],
    &["run", "judges", "hello", "--json"],
    &["show", "turns"],
    &["show", "turns", "--json"],
    &["forget", "turns"],
    &["forget", "turns", "--json"],
    &["run", "talker", "hello", "--conversation", "talk"],
    &["conversation", "list"],
    &["conversation", "list", "--json"],
    &["conversation", "show", "talk"],
    &["conversation", "show", "talk", "--json"],
    &["explain"],
    &["explain", "--json"],
    &["check"],
    &["check", "--json"],
    &["check", "--probe"],
    &["check", "--example"],
    &["check", "--print"],
    &["check", "--print", "--json"],
    &["trust"],
    &["trust", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["completions", "bash"],
    &["completions", "bash", "--json"],
    &["manual"],
    &["manual", "--json"],
    &["schema", "output"],
    &["schema", "output", "task", "list"],
    &["status"],
    &["status", "--json"],
    &["agent", "add", "mine", "--command", "my-agent --acp", "--force"],
    &["agent", "add", "mine", "--command", "my-agent --acp", "--force", "--json"],
    &["agent", "list"],
    &["agent", "list", "--json"],
    &["agent", "show", "opencode"],
    &["agent", "show", "opencode", "--json"],
    &["usage"],
    &["usage", "--json"],
    &["service", "status"],
    &["service", "status", "--json"],
    &["models"],
    &["models", "--json"],
    &["models", "--providers"],
    &["models", "--providers", "--json"],
    #[cfg(feature = "login")]
    &["logout", "codex"],
    #[cfg(feature = "login")]
    &["logout", "codex", "--json"],
    &["task", "new", "Mend it.", "--project", "project"],
    &["task", "new", "Mend it.", "--project", "project", "--json"],
    &["task", "run", "last", "--json"],
    &["task", "status", "last"],
    &["task", "status", "last", "--json"],
    &["task", "log", "last"],
    &["task", "log", "last", "--json"],
    &["task", "list"],
    &["task", "list", "--json"],
    &["task", "land", "last"],
    &["task", "land", "last", "--json"],
    &["task", "report", "last"],
    &["task", "cancel", "last"],
    &["task", "cancel", "last", "--json"],
    &["debate", "new", "Why?"],
    &["debate", "new", "Why?", "--json"],
    &["debate", "advance", "last", "--json"],
    &["debate", "list"],
    &["debate", "list", "--json"],
    &["debate", "show", "last"],
    &["debate", "show", "last", "--json"],
    &["debate", "report", "last"],
    &["debate", "cancel", "last"],
    &["debate", "cancel", "last", "--json"],
    &["testbed", "list"],
    &["testbed", "list", "--json"],
    &["clean"],
    &["clean", "--json"],
    &["project", "init"],
    &["project", "init", "--json"],
    &["project", "status"],
    &["project", "status", "--json"],
    &["project", "plan", "Notes", "--issue", "where?"],
    &["project", "plan", "Notes", "--issue", "where?", "--json"],
    &["project", "add", "write it"],
    &["project", "add", "write it", "--json"],
    &["project", "roles"],
    &["project", "roles", "--json"],
    &["project", "roles", "engineer"],
    &["project", "schema", "plan.json"],
    &["broker", "send", "clerk", "hello"],
    &["broker", "send", "clerk", "hello", "--json"],
    &["broker", "status"],
    &["broker", "status", "--json"],
    &["init", "place"],
    &["init", "place", "--json"],
    &["artifact", "lint", "--json"],
    &["artifact", "rules"],
    &["artifact", "rules", "--json"],
    &["artifact", "schema"],
    &["artifact", "schema", "--json"],
    &["artifact", "schema", "verification"],
    &["artifact", "new", "milestone", "Sign-in"],
    &["artifact", "new", "milestone", "Sign-in", "--json"],
    &["artifact", "handoff", "new", "Mind it", "--from", "a", "--to", "b"],
    &["artifact", "handoff", "new", "Mind it", "--from", "a", "--to", "b", "--json"],
];

/// Subcommands that do not answer there, or not without what is not here.
const OTHERS: &[(&str, &str)] = &[
    ("setup", "it writes the configuration, which its own tests have"),
    ("chat", "prompts on standard input, which its own tests have"),
    ("diff", "a turn that wrote, which the tests of `chat` have"),
    ("undo", "a turn that wrote, which the tests of `chat` have"),
    ("uninstall", "it removes an installed program"),
    ("conversation fork", "it is another command the second time; its own tests have it"),
    ("conversation delete", "it is another command the second time; its own tests have it"),
    ("debate remove", "a debate that ended, which its own tests have"),
    ("hold list", "a hold, which its own tests have"),
    ("hold release", "a hold, which its own tests have"),
    ("task reopen", "a task that ended, which its own tests have"),
    ("task show", "something that a task made, which its own tests have"),
    ("testbed prove", "programs of a trap, which take seconds; its own tests have it"),
    ("testbed run", "an experiment, which its own tests have"),
    ("testbed report", "an experiment, which its own tests have"),
    ("project decide", "a plan, which its own tests have"),
    ("project reopen", "a plan, which its own tests have"),
    ("project prompt", "a task, which its own tests have"),
    ("project tasks", "a task, which its own tests have"),
    ("project history", "a cycle, which its own tests have"),
    ("project begin", "a task, which its own tests have"),
    ("project done", "a task, which its own tests have"),
    ("project back", "a task, which its own tests have"),
    ("project close", "a task, which its own tests have"),
    ("project install", "a program, which its own tests have"),
    ("project uninstall", "a program, which its own tests have"),
    ("project conformance", "a server, which its own tests have"),
    ("demo turn", "children of its own, which its own tests have"),
    ("demo task", "children of its own, which its own tests have"),
    ("demo server", "it goes on until it is ended, which its own tests have"),
    ("hook", "a program that starts it, which its own tests have"),
    ("mcp project", "it answers a client, as `mcp spawn` does"),
    ("agent judge", "an installed agent, which the lane `agents` of .ci/deep has"),
    ("broker start", "an agent that is there, which its own tests have"),
    ("broker stop", "an agent that is there, which its own tests have"),
    ("trigger cron", "it is another command the second time; its own tests have it"),
    ("trigger at", "a time that is still to come, which its own tests have"),
    ("trigger event", "an agent, which its own tests have"),
    ("trigger file", "an agent, which its own tests have"),
    ("trigger webhook", "an agent, which its own tests have"),
    ("trigger completion", "an agent, which its own tests have"),
    ("trigger list", "a trigger, which its own tests have"),
    ("trigger fire", "a trigger, which its own tests have"),
    ("trigger enable", "a trigger, which its own tests have"),
    ("trigger disable", "a trigger, which its own tests have"),
    ("trigger delete", "a trigger, which its own tests have"),
    ("skills list", "skills, which their own tests have"),
    ("skills use", "a skill, which their own tests have"),
    ("skills info", "a skill, which their own tests have"),
    ("skills install", "a hub, which their own tests have"),
    ("skills update", "a hub, which their own tests have"),
    ("skills remove", "a skill, which their own tests have"),
    ("onboard", "somebody who logs in"),
    ("session list", "a session, which the tests of the broker have"),
    ("session show", "a session, which the tests of the broker have"),
    ("session fork", "a session, which the tests of the broker have"),
    ("session export", "a session, which the tests of the broker have"),
    ("session search", "a session, which the tests of the broker have"),
    ("broker run", "it goes on until it is ended, which its own tests have"),
    ("broker watch", "it goes on until it is ended, which its own tests have"),
    ("broker inbox", "messages, which its own tests have"),
    ("broker log", "messages, which its own tests have"),
    ("broker land", "a worker, which its own tests have"),
    ("broker clean", "a worker, which its own tests have"),
    ("artifact new slice", "artifacts, which its own tests have"),
    ("artifact new task", "artifacts, which its own tests have"),
    ("artifact scaffold", "artifacts, which its own tests have"),
    ("artifact mark", "artifacts, which its own tests have"),
    ("artifact todo", "artifacts, which its own tests have"),
    ("artifact status", "artifacts, which its own tests have"),
    ("artifact append", "artifacts, which its own tests have"),
    ("artifact reconcile", "artifacts, which its own tests have"),
    ("artifact gate", "artifacts, which its own tests have"),
    ("artifact handoff list", "artifacts, which its own tests have"),
    ("artifact handoff mark", "artifacts, which its own tests have"),
    ("task watch", "it shows on standard error"),
    ("task attach", "a task that another process runs, which its own tests have"),
    ("task queue", "a queued task, which its own tests have"),
    ("serve", "it goes on until it is ended, which its own tests have"),
    ("service install", "it writes a unit, which its own tests have"),
    ("service uninstall", "a unit, which its own tests have"),
    ("task remove", "a task that ended, which its own tests have"),
    ("debate watch", "it shows on standard error"),
    ("acp", "it answers an editor, and its own tests have that"),
    ("mcp spawn", "it answers a client, and its own tests have that"),
    ("mcp debate", "it answers a client, as `mcp spawn` does"),
    ("worker", "a server of the fleet, which its own tests have"),
    ("fleet status", "a server of the fleet, which its own tests have"),
    ("fleet setup", "a server of the fleet, which its own tests have"),
    ("fleet key", "a section `fleet`, which its own tests have"),
    ("login", "somebody who logs in"),
    ("key set", "a keyring and somebody who types"),
    ("key list", "a keyring, which its own tests have"),
    ("key remove", "a keyring"),
];

/// A command that is told where its configuration is: not every one takes that of the folder.
fn command(stage: &Stage, arguments: &[&str]) -> Command {
    let mut command = stage.command(arguments);
    command.env("NEXUS_CONFIG", stage.path().join("nexus.yaml"));
    command
}

fn nexus(stage: &Stage, arguments: &[&str]) -> Output {
    command(stage, arguments).output().unwrap()
}

/// The lines that a test tries: every fourth, beginning at `first`, so that the four tests together try each line. All in a deep run.
fn tried(first: usize) -> impl Iterator<Item = &'static [&'static str]> {
    let (first, step) = if effort::is_deep() { (0, 1) } else { (first, 4) };
    ANSWERING.iter().copied().skip(first).step_by(step)
}

/// A stage with a task, a debate and a record of a turn.
fn stage(reply: Reply) -> Stage {
    let stage = Stage::new(Reply::text("Here."));
    let kept = nexus(&stage, &["run", "talker", "hello", "--keep", "turns"]);
    assert!(kept.status.success(), "{}", text(&kept.stderr));
    let kept = nexus(&stage, &["run", "talker", "hello", "--conversation", "talk"]);
    assert!(kept.status.success(), "{}", text(&kept.stderr));
    let project = stage.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("sum.sh"), "echo 3\n").unwrap();
    let created = nexus(&stage, &["task", "new", "Mend it.", "--project", "project"]);
    assert!(created.status.success(), "{}", text(&created.stderr));
    let created = nexus(&stage, &["debate", "new", "Why?"]);
    assert!(created.status.success(), "{}", text(&created.stderr));
    stage.answering(reply)
}

/// The subcommands that have none of their own, by the help.
fn leaves(stage: &Stage, above: &[&str]) -> BTreeSet<String> {
    let help = nexus(stage, &[above, &["--help"]].concat());
    // The overview has five headings in place of one.
    let is_first = |line: &str| match above.is_empty() {
        true => line.ends_with(':') && !line.starts_with(' '),
        false => line == "Commands:",
    };
    let is_last = |line: &str| match above.is_empty() {
        true => line == "Global options:",
        false => line.is_empty(),
    };
    let names = text(&help.stdout)
        .lines()
        .skip_while(|line| !is_first(line))
        .skip(1)
        .take_while(|line| !is_last(line))
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    let found: BTreeSet<String> = names.flat_map(|name| leaves(stage, &[above, &[name]].concat())).collect();
    if found.is_empty() { BTreeSet::from([above.join(" ")]) } else { found }
}

#[test]
fn no_subcommand_is_missing_here() {
    let stage = Stage::new(Reply::text("Here."));
    let known: Vec<String> = ANSWERING
        .iter()
        .map(|arguments| arguments.join(" "))
        .chain(OTHERS.iter().map(|(name, _)| (*name).to_owned()))
        .collect();
    let begins = |leaf: &str| known.iter().any(|line| line == leaf || line.starts_with(&format!("{leaf} ")));
    let missing: Vec<_> = leaves(&stage, &[]).into_iter().filter(|leaf| !begins(leaf)).collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn a_full_disk_on_standard_output_is_a_failure_of_every_command() {
    for arguments in tried(0) {
        let stage = stage(Reply::text("Here."));
        let output = command(&stage, arguments).stdout(full()).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("standard output cannot be written"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_is_gone_ends_every_command_quietly() {
    for arguments in tried(1) {
        let stage = stage(Reply::text("Here."));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command(&stage, arguments).stdout(writer).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(CLOSED_PIPE), "{arguments:?}: {said}");
        assert!(!said.contains("panic") && !said.contains("standard output"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_closed_standard_error_changes_no_outcome() {
    for arguments in tried(2) {
        let stage = stage(Reply::text("Here."));
        let expected = nexus(&stage, arguments).status.code();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        for stderr in [Stdio::from(writer), Stdio::from(full())] {
            let output = command(&stage, arguments).stderr(stderr).output().unwrap();
            assert_eq!(output.status.code(), expected, "{arguments:?}");
        }
    }
}

#[test]
fn the_end_of_the_terminal_ends_every_command() {
    let waiting: [&[&str]; 3] =
        [&["explain", "--watch"], &["task", "watch", "last"], &["mcp", "spawn", "--http", "0"]];
    for arguments in tried(3).chain(waiting) {
        let stage = stage(Reply::text("Half of an ans").stalled());
        let mut child =
            command(&stage, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // What answers at once is over by then.
        thread::sleep(Duration::from_millis(300));
        let pid = Pid::from_child(&child);
        // It is not waited for yet, so that the number is its own.
        kill_process(pid, Signal::HUP).unwrap();
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > end {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("{arguments:?} goes on");
            }
            thread::sleep(Duration::from_millis(10));
        };
        // What was over before has its own code, and a server that is ended has done what it should.
        let is_usual = status.code() == Some(129) || status.signal() == Some(1);
        let must_be = waiting.contains(&arguments) && arguments[0] != "mcp";
        assert!(is_usual || !must_be && status.code().is_some(), "{arguments:?}: {status}");
        until(&format!("{arguments:?} leaves nothing behind"), || left(&stage).is_empty());
    }
}

/// The programs that run with this home.
fn left(stage: &Stage) -> Vec<String> {
    let home = format!("HOME={}\0", stage.path().display());
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let of_stage = entries.filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&home)
    });
    of_stage.map(|entry| fs::read_to_string(entry.path().join("comm")).unwrap_or_default()).collect()
}

#[test]
fn what_a_killed_command_left_is_cleared_by_whatever_loads_a_configuration_to_run_something() {
    for arguments in [&["status"][..], &["check", "--probe"], &["run", "talker", "hello"], &["doctor"]] {
        let stage = stage(Reply::text("Here."));
        let asleep = ["task", "new", "Mend it.", "--project", "project", "--test", "sleep 7654"];
        let mut killed =
            command(&stage, &asleep).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let runs = || fs::read_dir(stage.folder.nexus_home().join("runs")).map_or(0, Iterator::count);
        until("the project's tests run", || runs() > 0 && asleep_below(&stage) > 0);
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert_ne!(runs(), 0, "it was killed: what it began is written down");
        let output = nexus(&stage, arguments);
        until("nothing of it is left", || runs() == 0 && asleep_below(&stage) == 0);
        assert_ne!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    }
}

/// How many programs sleep in a folder of the stage.
fn asleep_below(stage: &Stage) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let sleeps = entries.filter(|entry| {
        let is_asleep =
            fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.ends_with(b"sleep\x007654\0"));
        is_asleep && fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(stage.path()))
    });
    sleeps.count()
}
