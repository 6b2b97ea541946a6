//! The command at a terminal: help, input, activity, escape codes, empty lists and completions.

use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
};

use nexus_testkit::sim::Reply;

use crate::support::{
    Folder,
    stage::{CLOSED_PIPE, Stage},
    terminal::Terminal,
    text,
    two_vendors::task_stage,
};

/// The command at a terminal that understands escape codes.
fn at_terminal(mut command: Command, columns: u16) -> Terminal {
    if !command.get_envs().any(|(name, _)| name == "TERM") {
        command.env("TERM", "xterm-256color");
    }
    Terminal::start(command, columns)
}

#[test]
fn help_is_wrapped_between_words_at_the_width_of_the_terminal() {
    let folder = Folder::empty();
    for arguments in [&["--help"][..], &["run", "--help"], &["task", "new", "--help"], &["-h"]] {
        let pages = [60, 90].map(|columns| {
            let (code, page) = at_terminal(folder.command(arguments), columns).end();
            assert_eq!(code, Some(0), "{page}");
            for line in page.lines().filter(|line| !line.starts_with("    nexus ")) {
                assert!(line.trim_end().chars().count() <= usize::from(columns), "{arguments:?}: {line:?}");
            }
            page.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(pages[0], pages[1], "{arguments:?}");
    }
}

#[test]
fn a_command_that_waits_for_input_says_what_it_waits_for() {
    let stage = Stage::new(Reply::text("Here."));
    fs::create_dir_all(stage.folder.nexus_home()).unwrap();
    fs::rename(stage.path().join("nexus.yaml"), stage.folder.nexus_home().join("nexus.yaml")).unwrap();
    let told = [
        (&["run", "talker"][..], "type the prompt, and end it with Enter and Ctrl-D"),
        (&["debate", "new"], "type the question, and end it"),
        (&["task", "new"], "type the goal, and end it"),
        (&["artifact", "append", "M001"], "type the entry, and end it"),
        (&["broker", "send", "clerk", "-"], "type the message, and end it"),
        (&["hook", "session_start", "--harness", "claude"], "type the event, in the JSON of the program"),
        (&["acp"], "waiting for an editor on standard input; Ctrl-C ends this"),
        (&["mcp", "spawn"], "waiting for a client of the Model Context Protocol"),
        (&["mcp", "debate"], "waiting for a client of the Model Context Protocol"),
        (&["mcp", "project"], "waiting for a client of the Model Context Protocol"),
    ];
    let started = told.map(|(arguments, what)| (at_terminal(stage.command(arguments), 80), what));
    for (terminal, what) in &started {
        terminal.until(what);
    }
    let [(mut run, _), ..] = started;
    run.send("Say hello.\n\u{4}");
    let (code, shown) = run.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Here."), "{shown}");
}

#[test]
fn the_first_tests_of_a_task_show_their_time_and_ctrl_c_leaves_nothing() {
    let Some((vendors, project)) = task_stage(|_| None) else { return };
    let new = ["task", "new", "Mend it.", "--project", project.to_str().unwrap(), "--test", "sleep 600"];
    let terminal = at_terminal(vendors.folder.command(&new), 80);
    terminal.until("running the project's tests: sleep 600 \u{2026} ");
    terminal.interrupt();
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("the task is removed again"), "{shown}");
    let listed = vendors.nexus(&["task", "list"]);
    assert_eq!((text(&listed.stdout), listed.status.code()), ("", Some(0)));
    let last = vendors.nexus(&["task", "status", "last"]);
    assert!(text(&last.stderr).contains("there is no task yet"), "{}", text(&last.stderr));
}

#[test]
fn a_dumb_terminal_and_one_without_colours_get_no_escape_codes() {
    let stage = Stage::new(Reply::text("Here."));
    for arguments in [&["doctor"][..], &["status"], &["run", "talker", "hello"], &["run", "judges", "hello"]]
    {
        for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1")] {
            let mut command = stage.command(arguments);
            command.env(name, value);
            let (_, shown) = at_terminal(command, 80).end();
            assert!(!shown.contains('\u{1b}') && !shown.is_empty(), "{arguments:?} with {name}: {shown:?}");
        }
    }
    let (_, shown) = at_terminal(stage.command(&["doctor"]), 80).end();
    assert!(shown.contains("\u{1b}[32mok"), "{shown:?}");
}

#[test]
fn an_empty_list_says_so_and_names_the_command_that_adds_to_it() {
    let stage = Stage::new(Reply::text("Here."));
    fs::create_dir_all(stage.folder.nexus_home()).unwrap();
    fs::rename(stage.path().join("nexus.yaml"), stage.folder.nexus_home().join("nexus.yaml")).unwrap();
    stage.nexus(&["project", "init"]);
    let lists = [
        (&["task", "list"][..], "no tasks yet; `nexus task new GOAL` creates one"),
        (&["task", "list", "--status", "active"], "no such task; `nexus task list` lists all"),
        (&["debate", "list"], "no debates yet; `nexus debate new QUESTION` creates one"),
        (&["debate", "list", "--status", "done"], "no debate is done"),
        (&["conversation", "list"], "no conversations yet; `nexus run --conversation NAME` starts one"),
        (
            &["session", "list"],
            "no sessions yet; `nexus broker send AGENT TEXT` starts the session of an agent",
        ),
        (&["session", "search", "word"], "no message contains these words"),
        (&["trigger", "list"], "no triggers yet; `nexus trigger cron AGENT EXPRESSION ACTION` creates one"),
        (&["hold", "list"], "no backend is suspended"),
        (&["hold", "release", "--all"], "no backend is suspended"),
        (&["skills", "list"], "no skills in skills; `nexus skills install NAME --hub HUB` installs one"),
        (&["broker", "log"], "no message was sent yet; `nexus broker send AGENT TEXT` sends one"),
        (&["broker", "inbox"], "no message waits in the inbox of me"),
        (&["project", "tasks"], "no tasks yet; `nexus project add TITLE` adds one"),
        (&["project", "history"], "no such cycle; `nexus project close` ends one"),
        (&["artifact", "handoff", "list"], "no such handoff; `nexus artifact handoff new` creates one"),
    ];
    for (arguments, told) in lists {
        let output = stage.nexus(arguments);
        let shown = (text(&output.stdout), text(&output.stderr), output.status.code());
        assert_eq!(shown, ("", format!("nexus: {told}\n").as_str(), Some(0)), "{arguments:?}");
        let output = stage.nexus(&[arguments, &["--json"]].concat());
        assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_has_read_enough_of_an_answer_ends_it_quietly() {
    let stage = Stage::new(Reply::text("a long answer ".repeat(100_000)));
    for arguments in [&["run", "talker", "hello", "--quiet"][..], &["run", "judges", "hello", "--quiet"]] {
        let mut command = stage.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut some = [0; 100];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((text(&output.stderr), output.status.code()), ("", Some(CLOSED_PIPE)), "{arguments:?}");
    }
}

/// What a shell offers for the last word of a line.
fn offered(mut command: Command) -> Vec<String> {
    let words = command.get_args().count();
    let line: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut completing = Command::new(command.get_program());
    completing.arg("--").arg("nexus").args(line).current_dir(command.get_current_dir().unwrap()).env_clear();
    completing.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    completing
        .env("NEXUS_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", words.to_string())
        .env("_CLAP_IFS", "\n");
    let output = completing.stdin(Stdio::null()).output().unwrap();
    assert_eq!((text(&output.stderr), output.status.code()), ("", Some(0)), "{:?}", command.arg(""));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn completions_offer_the_names_of_this_machine() {
    let Some((vendors, project)) = task_stage(|_| None) else { return };
    let folder = &vendors.folder;
    let home = folder.nexus_home().join("nexus.yaml");
    let config = fs::read_to_string(&home).unwrap();
    fs::write(&home, format!("{config}broker: {{ agents: {{ clerk: {{ type: executor }} }} }}\n")).unwrap();
    assert_eq!(offered(folder.command(&["run", ""])).iter().filter(|word| !word.starts_with('-')).count(), 3);
    assert_eq!(offered(folder.command(&["run", "exec"])), ["executor"]);
    assert_eq!(offered(folder.command(&["broker", "send", "cl"])), ["clerk"]);
    assert_eq!(offered(folder.command(&["trigger", "at", "cl"])), ["clerk"]);
    assert!(offered(folder.command(&["task", "run", "l"])).is_empty(), "there is no task yet");

    let new = ["task", "new", "Mend it.", "--project", project.to_str().unwrap()];
    let id = vendors.said(&new).trim().to_owned();
    assert_eq!(offered(folder.command(&["task", "run", "last"])), ["last"]);
    assert_eq!(offered(folder.command(&["task", "log", &id[..4]])), [id.as_str()]);
    vendors.said(&["trigger", "at", "clerk", "2099-01-01T00:00:00Z", "Begin.", "--id", "new-year"]);
    assert_eq!(offered(folder.command(&["trigger", "disable", "new"])), ["new-year"]);
}

#[test]
fn completions_in_a_hostile_folder_offer_nothing_that_a_shell_would_run() {
    let folder = Folder::empty();
    let file = folder.path().join("nexus.yaml");
    fs::write(&file, "types: { '$(touch owned)': {}, 'a b': {}, '-x': {}, \"new\\nline\": {}, good: {} }\n")
        .unwrap();
    let types = |folder: &Folder| {
        let mut offered = offered(folder.command(&["explain", ""]));
        offered.retain(|word| !word.starts_with("--") && word != "-h");
        offered
    };
    assert_eq!(types(&folder), ["good"]);
    for broken in ["types: [", "types: 7\n", "\u{0}", ""] {
        fs::write(&file, broken).unwrap();
        assert!(types(&folder).is_empty(), "{broken:?}");
    }
    fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &file,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert!(types(&folder).is_empty(), "a pipe has no writer");
    assert!(!folder.nexus_home().exists(), "completing wrote something");
}

#[test]
fn a_variable_that_is_set_to_nothing_counts_as_unset() {
    let folder =
        Folder::with("groups: { anthropic: [claude-cli] }\ntypes: { executor: { group: anthropic } }\n");
    let output = folder.command(&["explain"]).env("NEXUS_COMPLETE", "").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
