//! `nexus setup` on machines of every sort: what it says, what it writes, and the turns that the written configuration then runs.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use nexus_files::FileLock;
use nexus_testkit::sim::{Dialect, Reply, Scenario, Sim};
use serde_json::Value;

use crate::{
    detection::{CLAUDE, Person, program, usual_ports},
    support::{DEAD, PATIENCE, answers, text},
};

/// Asks the server that poses as the vendor, where one is named.
const ASKING: &str = r#"#!/bin/bash
answer='Hello from a plan.'
account='"subscriptionType":"Claude Max"'
source=none
if [ -n "$ANTHROPIC_BASE_URL" ]; then
  account=
  source=ANTHROPIC_API_KEY
  rest=${ANTHROPIC_BASE_URL#http://}
  host=${rest%%/*}
  body='{"model":"m","messages":[{"role":"user","content":"hello"}]}'
  exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
  printf 'POST /%s/v1/messages HTTP/1.1\r\nhost: %s\r\ncontent-type: application/json\r\ncontent-length: %s\r\nconnection: close\r\n\r\n%s' \
    "${rest#*/}" "$host" "${#body}" "$body" >&3
  while read -r line <&3 || [ -n "$line" ]; do
    case "$line" in *'"text":"'*) answer=${line#*'"text":"'}; answer=${answer%%'","type"'*}; answer=${answer%%'"}'*};; esac
  done
fi
"#;

/// A program that poses as Claude Code, and asks its vendor.
fn asking_claude() -> String {
    let rest = CLAUDE.strip_prefix("#!/bin/sh\n").unwrap();
    let rest = rest
        .replace("Hello from a plan.", "'\"$answer\"'")
        .replace(r#""subscriptionType":"Claude Max""#, "'\"$account\"'")
        .replace(r#""apiKeySource":"none""#, r#""apiKeySource":"'"$source"'""#);
    format!("{ASKING}{rest}")
}

/// What a machine lacks without which its words would differ from another's.
fn alike(person: &Person, output: &Output) -> String {
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    let said = said.replace(person.root().to_str().unwrap(), "[ROOT]");
    let mut lines = Vec::new();
    let mut is_of_the_machine = false;
    for line in said.lines() {
        // The programs of tasks have tests of their own.
        is_of_the_machine = line.contains("for tasks: ") || is_of_the_machine && line.starts_with("      ");
        if !is_of_the_machine {
            lines.push(line);
        }
    }
    format!("exit code {:?}\n{}", output.status.code(), lines.join("\n"))
}

fn setup(person: &Person, arguments: &[&str]) -> Command {
    let mut command = person.command("", &["setup"]);
    // A key is never sent to its vendor by a test.
    command.args(arguments).env("HTTPS_PROXY", DEAD);
    command
}

fn written(person: &Person) -> String {
    let text = fs::read_to_string(person.config()).unwrap();
    text.replace(person.root().to_str().unwrap(), "[ROOT]")
}

/// Whether the machine that runs the tests has a model server of its own, which would be found.
fn has_servers() -> bool {
    [11434, 1234, 8080, 8000].iter().any(|port| std::net::TcpStream::connect(("127.0.0.1", *port)).is_ok())
}

#[test]
fn a_machine_with_nothing_is_told_the_ways_to_get_something() {
    let person = Person::new();
    if has_servers() {
        return;
    }
    let output = setup(&person, &["--yes"]).output().unwrap();
    insta::assert_snapshot!("setup_nothing", alike(&person, &output));
    assert!(!person.root().join("nexus-home").exists());
}

#[test]
fn one_program_with_a_login_is_tried_and_written_and_then_runs_a_turn() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    if has_servers() {
        return;
    }
    let output = setup(&person, &["--yes"]).output().unwrap();
    insta::assert_snapshot!("setup_one_program", alike(&person, &output));
    insta::assert_snapshot!("setup_one_program_written", written(&person));
    let mode = fs::metadata(person.config()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let run = person.nexus(&["run", "executor", "Say hello."]);
    assert_eq!(text(&run.stdout), "Hello from a plan.\n", "{}", text(&run.stderr));
    // The second run changes nothing.
    let before = fs::read(person.config()).unwrap();
    let modified = fs::metadata(person.config()).unwrap().modified().unwrap();
    let again = setup(&person, &["--yes"]).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stdout));
    assert!(text(&again.stdout).contains("unchanged: "), "{}", text(&again.stdout));
    assert_eq!(fs::read(person.config()).unwrap(), before);
    assert_eq!(fs::metadata(person.config()).unwrap().modified().unwrap(), modified);
}

#[test]
fn two_programs_with_keys_are_a_panel_and_a_program_that_runs_no_turn_is_found_out() {
    let person = Person::new();
    program(&person.bin().join("claude"), &asking_claude());
    program(&person.bin().join("codex"), "#!/bin/sh\n[ \"$1\" = --version ] && echo codex-cli 0.169.0\n");
    if has_servers() {
        return;
    }
    let mut command = setup(&person, &["--yes"]);
    command.env("ANTHROPIC_API_KEY", "sk-canary").env("OPENAI_API_KEY", "sk-canary");
    let output = command.output().unwrap();
    let said = alike(&person, &output);
    assert!(!said.contains("canary") && !written(&person).contains("canary"), "{said}");
    assert!(said.contains("simulated turn codex-cli: a turn on a simulated vendor failed: "), "{said}");
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!("setup_two_programs_written", written(&person));
}

#[test]
fn a_key_alone_is_named_by_its_variable_and_never_shown() {
    let person = Person::new();
    if has_servers() {
        return;
    }
    let output = setup(&person, &["--yes"]).env("OPENAI_API_KEY", "sk-canary").output().unwrap();
    let said = alike(&person, &output);
    assert!(!said.contains("canary"), "{said}");
    insta::assert_snapshot!("setup_only_a_key", said);
    insta::assert_snapshot!("setup_only_a_key_written", written(&person));
}

#[test]
fn a_local_server_alone_is_asked_for_its_models_and_runs_the_turn() {
    let person = Person::without_ports();
    // No other test looks at the usual ports meanwhile.
    let _alone = FileLock::lock(&usual_ports(), PATIENCE * 4).unwrap().expect("the usual ports");
    if has_servers() {
        return;
    }
    let scenario = Scenario::new([Reply::text("From here.")]).models(["qwen3:8b", "other"]);
    let Ok(server) = Sim::builder(Dialect::Responses, scenario).port(11434).start() else { return };
    let output = setup(&person, &["--yes"]).output().unwrap();
    insta::assert_snapshot!("setup_only_a_local_server", alike(&person, &output));
    assert!(written(&person).contains("model: \"qwen3:8b\""), "{}", written(&person));
    assert!(server.main_calls().is_empty(), "a model was called");
    let run = person.nexus(&["run", "executor", "Say hello."]);
    assert_eq!(text(&run.stdout), "From here.\n", "{}", text(&run.stderr));
}

#[test]
fn without_a_sandbox_its_install_command_is_printed_and_never_run() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    let mark = format!("#!/bin/sh\ntouch '{}'\n", person.root().join("installed").display());
    program(&person.bin().join("apt-get"), &mark);
    let mut command = setup(&person, &["--yes", "--json"]);
    // Neither git nor bubblewrap is there.
    command.env("PATH", person.bin());
    let output = command.output().unwrap();
    let report = &answers::checked(&["setup", "--json"], text(&output.stdout))[0];
    let check = |subject: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks
            .iter()
            .find(|check| check["subject"] == subject)
            .unwrap_or_else(|| panic!("{report:#}"))
            .clone()
    };
    for (subject, package) in [("git for tasks", "git"), ("sandbox for tasks", "bubblewrap")] {
        let check = check(subject);
        if package == "bubblewrap" && check["outcome"] == "ok" {
            continue;
        }
        assert_eq!(check["outcome"], "missing", "{check:#}");
        // Turns run without it.
        assert_eq!(check["severity"], "note", "{check:#}");
        let command = check["command"].as_str().unwrap();
        assert!(command.ends_with(&format!("apt-get install {package}")), "{command}");
    }
    assert!(!person.root().join("installed").exists());
    assert_eq!(report["configuration"]["state"], "written");
    assert_eq!(report["ready"], true, "{report:#}");
}

#[test]
fn a_home_that_cannot_be_written_is_an_error_with_the_path_and_nothing_is_lost() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    let home = person.root().join("closed");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o500)).unwrap();
    // Permissions do not stop root.
    let is_root = fs::write(home.join("probe"), "").is_ok();
    let file = person.root().join("a-file");
    fs::write(&file, "mine").unwrap();
    let mut homes = vec![file.join("nexus")];
    if !is_root {
        homes.push(home);
    }
    for home in homes {
        let mut command = setup(&person, &["--yes"]);
        let output = command.env("NEXUS_HOME", &home).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        let said = text(&output.stderr);
        assert!(said.contains(&format!("{}/nexus.yaml cannot be written: ", home.display())), "{said}");
        assert!(said.contains("nothing was changed"), "{said}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_written() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    let output = setup(&person, &[]).output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not written: ") && said.contains("\nbackends:\n"), "{said}");
    assert!(said.contains("`nexus setup --yes` writes the file"), "{said}");
    assert!(!person.config().exists());
    let output = setup(&person, &["--json"]).output().unwrap();
    let report = &answers::checked(&["setup", "--json"], text(&output.stdout))[0];
    assert_eq!(report["configuration"]["state"], "proposed");
    assert!(report["configuration"]["text"].as_str().unwrap().contains("claude-cli"));
    assert!(!person.config().exists());
}

/// A configuration of a person, with comments and odd spaces.
const MINE: &str = "# My own file.\ngroups:\n    mine: [ local ]   # the first\n\nbackends:\n    # At home.\n    local: {kind: responses,  model: m, base_url: 'http://127.0.0.1:1/v1'}\n\n# Only these.\ntypes:\n    executor: { group: mine, effort: low } # slow is fine\n";

#[test]
fn a_configuration_of_a_person_is_only_added_to() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    if has_servers() {
        return;
    }
    fs::create_dir_all(person.root().join("nexus-home")).unwrap();
    fs::write(person.config(), MINE).unwrap();
    let output = setup(&person, &["--yes"]).output().unwrap();
    let said = text(&output.stdout);
    let edited = written(&person);
    insta::assert_snapshot!("setup_added", edited);
    let mut rest = edited.lines();
    for line in MINE.lines() {
        assert!(rest.any(|other| other == line), "{line:?} is lost or moved:\n{edited}");
    }
    assert!(said.contains("backends.claude-cli") && said.contains("types.reviewer"), "{said}");
    // The executor still runs on the backend that the person chose, which does not answer.
    assert!(said.contains("FAIL  type executor: no backend could run it"), "{said}");
    let explained = person.nexus(&["explain", "executor"]);
    assert!(text(&explained.stdout).contains("local"), "{}", text(&explained.stdout));
    let again = setup(&person, &["--yes"]).output().unwrap();
    assert!(text(&again.stdout).contains("unchanged: "), "{}", text(&again.stdout));
    assert_eq!(written(&person), edited);
}

#[test]
fn a_file_of_comments_alone_gets_the_configuration_below_them() {
    for comments in ["", "# to be filled", "# to be filled\n\n"] {
        let person = Person::new().with_claude();
        program(&person.bin().join("claude"), &asking_claude());
        fs::create_dir_all(person.root().join("nexus-home")).unwrap();
        fs::write(person.config(), comments).unwrap();
        let output = setup(&person, &["--yes"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(written(&person).starts_with(comments), "{}", written(&person));
        let run = person.nexus(&["run", "executor", "Say hello."]);
        assert_eq!(text(&run.stdout), "Hello from a plan.\n", "{}", text(&run.stderr));
    }
}

#[test]
fn a_configuration_that_cannot_be_edited_safely_stays_and_the_entries_are_printed() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    fs::create_dir_all(person.root().join("nexus-home")).unwrap();
    let flow = "{ groups: { g: [local] }, backends: { local: { kind: responses, model: m, base_url: 'http://127.0.0.1:1/v1' } }, types: { executor: { group: g } } }\n";
    fs::write(person.config(), flow).unwrap();
    let output = setup(&person, &["--yes"]).output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Add these entries by hand") && said.contains("  claude-cli:\n"), "{said}");
    assert_eq!(fs::read_to_string(person.config()).unwrap(), flow);
    // What is not a configuration is an error with its line.
    fs::write(person.config(), "groups: [\n").unwrap();
    let output = setup(&person, &["--yes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nexus.yaml:"), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(person.config()).unwrap(), "groups: [\n");
    fs::write(person.config(), b"groups: \xff\n").unwrap();
    assert_eq!(setup(&person, &["--yes"]).output().unwrap().status.code(), Some(2));
}

#[test]
fn a_read_only_configuration_stays_and_another_one_retains_its_permissions() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    fs::create_dir_all(person.root().join("nexus-home")).unwrap();
    let config = person.config();
    fs::write(&config, MINE).unwrap();
    let set = |mode| fs::set_permissions(&config, fs::Permissions::from_mode(mode)).unwrap();
    let mode = || fs::metadata(&config).unwrap().permissions().mode() & 0o777;
    set(0o444);
    let output = setup(&person, &["--yes"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nexus.yaml is read-only; nothing was changed: make the file writable"), "{said}");
    assert_eq!((written(&person).as_str(), mode()), (MINE, 0o444));
    set(0o640);
    let output = setup(&person, &["--yes"]).output().unwrap();
    assert!(written(&person).contains("claude-cli:"), "{}", text(&output.stderr));
    assert_eq!(mode(), 0o640);
}

#[test]
fn a_link_to_a_configuration_stays_a_link() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    let target = person.root().join("dotfiles.yaml");
    fs::write(&target, MINE).unwrap();
    fs::create_dir_all(person.root().join("nexus-home")).unwrap();
    std::os::unix::fs::symlink(&target, person.config()).unwrap();
    let output = setup(&person, &["--yes"]).output().unwrap();
    assert!(person.config().symlink_metadata().unwrap().is_symlink(), "{}", text(&output.stdout));
    assert!(fs::read_to_string(&target).unwrap().contains("claude-cli:"), "{}", text(&output.stdout));
    // A link to nowhere is no empty place.
    fs::remove_file(&target).unwrap();
    let output = setup(&person, &["--yes"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(!target.exists());
}

#[test]
fn nothing_of_a_hostile_folder_starts_during_setup() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    let project = person.project();
    let mark = format!("#!/bin/sh\ntouch '{}/started'\n", project.display());
    for place in ["claude", "node_modules/.bin/claude", "sh", "git", "bwrap", "codex"] {
        program(&project.join(place), &mark);
    }
    let config = "groups: { g: [claude-cli] }\nbackends: { claude-cli: { executable: ./claude } }\ntypes: { executor: { group: g } }\n";
    fs::write(project.join("nexus.yaml"), config).unwrap();
    let path = format!(".:node_modules/.bin:{}/node_modules/.bin:", project.display());
    let mut command = person.command(&path, &["setup", "--yes"]);
    let output = command.env("HTTPS_PROXY", DEAD).output().unwrap();
    assert!(!project.join("started").exists(), "{}", text(&output.stdout));
    let written = written(&person);
    let programs: Vec<_> = written.lines().filter(|line| line.contains("executable: ")).collect();
    assert_eq!(programs, ["    executable: \"[ROOT]/bin/claude\""], "{written}");
}

#[test]
fn a_trial_leaves_no_file_and_no_process() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    let temporary = person.root().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let output = setup(&person, &["--yes"]).env("TMPDIR", &temporary).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("ok    simulated turn claude-cli: "), "{}", text(&output.stdout));
    let left: Vec<_> = fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[cfg(target_os = "linux")]
mod at_a_terminal {
    use super::*;
    use crate::support::{terminal::Terminal, until_handled};

    fn started(person: &Person) -> Terminal {
        let mut command = setup(person, &[]);
        command.env("TERM", "dumb");
        Terminal::start(command, 200)
    }

    #[test]
    fn the_file_is_shown_and_written_after_yes() {
        let person = Person::new().with_claude();
        program(&person.bin().join("claude"), &asking_claude());
        let mut terminal = started(&person);
        answer_fixes_with_no(&mut terminal);
        assert!(terminal.shown().contains("claude-cli:"), "{}", terminal.shown());
        assert!(!person.config().exists());
        terminal.send("\n");
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(0), "{shown}");
        assert!(person.config().exists(), "{shown}");
    }

    #[test]
    fn no_writes_nothing_and_neither_does_ctrl_c() {
        let person = Person::new().with_claude();
        program(&person.bin().join("claude"), &asking_claude());
        let mut terminal = started(&person);
        answer_fixes_with_no(&mut terminal);
        terminal.send("n\n");
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(1), "{shown}");
        assert!(!person.config().exists(), "{shown}");
        let mut terminal = started(&person);
        answer_fixes_with_no(&mut terminal);
        terminal.interrupt();
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(130), "{shown}");
        assert!(!person.root().join("nexus-home/nexus.yaml").exists(), "{shown}");
    }

    #[test]
    fn a_fix_is_offered_run_and_checked_again() {
        let person = Person::new();
        // `claude auth login` logs in.
        let script = asking_claude().replacen(
            "answer=",
            "if [ \"$1 $2\" = 'auth login' ]; then echo '{}' > \"$HOME/.claude/.credentials.json\"; exit 0; fi\nanswer=",
            1,
        );
        program(&person.bin().join("claude"), &script);
        if has_servers() {
            return;
        }
        let mut terminal = started(&person);
        terminal.until("Run `claude auth login`? [y/N]");
        terminal.send("y\n");
        answer_fixes_with_no(&mut terminal);
        assert!(terminal.shown().contains("ok    found claude-cli: "), "{}", terminal.shown());
        terminal.send("y\n");
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(0), "{shown}");
        assert!(person.config().exists());
    }

    /// Declines the fixes that depend on the machine, up to the question about the file.
    fn answer_fixes_with_no(terminal: &mut Terminal) {
        let is_asked = |terminal: &Terminal, question: &str| terminal.shown().contains(question);
        let mut declined = 0;
        while !is_asked(terminal, "nexus.yaml? [Y/n]") {
            crate::support::until("a question", || {
                is_asked(terminal, "nexus.yaml? [Y/n]") || asked(terminal) > declined
            });
            if asked(terminal) > declined {
                declined += 1;
                terminal.send("n\n");
            }
        }
    }

    /// The number of installations that were offered.
    fn asked(terminal: &Terminal) -> usize {
        let shown = terminal.shown();
        shown.lines().filter(|line| line.contains("install") && line.contains("`? [y/N]")).count()
    }

    #[test]
    fn a_signal_during_a_trial_leaves_nothing() {
        let person = Person::new().with_claude();
        // It never answers a turn on a simulated vendor.
        let script = asking_claude().replacen("if [ -n", "if [ -n \"$ANTHROPIC_BASE_URL\" ] && [ \"$1\" != --version ]; then touch \"${0%/*}/asked\"; sleep 600; fi\nif [ -n", 1);
        program(&person.bin().join("claude"), &script);
        let temporary = person.root().join("tmp");
        fs::create_dir(&temporary).unwrap();
        let mut command = setup(&person, &["--yes"]);
        command
            .env("TMPDIR", &temporary)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        crate::support::until("a turn", || person.bin().join("asked").exists());
        until_handled(child.id(), rustix::process::Signal::INT);
        let process = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stdout));
        let left: Vec<_> = fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
        // The file was complete before.
        assert!(written(&person).contains("claude-cli"));
    }
}

/// A configuration on which no turn starts, and words of the reason.
struct Stuck {
    config: String,
    reason: &'static str,
}

#[test]
fn a_configuration_of_which_every_turn_fails_is_nowhere_called_ready() {
    let models = || Scenario::new([Reply::text("Here.")]).models(["simulated"]);
    let server = Sim::start(Dialect::Responses, models()).unwrap();
    let url = server.base_url();
    let bare = answering(|head| match head[0].contains(" /v1/models ") {
        true => ("200 OK", LIST),
        false => ("404 Not Found", "{}"),
    });
    let unknown = Scenario::new([Reply::status(404)]).models(["simulated"]);
    let other = Sim::start(Dialect::Responses, unknown).unwrap();
    let config = |settings: &str| {
        format!(
            "groups: {{ main: [local] }}\nbackends: {{ local: {{ kind: responses, {settings} }} }}\ntypes: {{ executor: {{ group: main }} }}\n"
        )
    };
    let two = |rest: &str| {
        format!(
            "groups: {{ main: [local], other: [gone] }}\nbackends:\n  local: {{ kind: responses, model: simulated, base_url: {url:?} }}\n  \
             gone: {{ kind: responses, model: m, base_url: {:?} }}\n{rest}",
            format!("{DEAD}/v1")
        )
    };
    let cases = [
        Stuck { config: config(&format!("base_url: {url:?}")), reason: "no model is named" },
        Stuck {
            config: config(&format!("base_url: {:?}, model: simulatd", other.base_url())),
            reason: "does not have the model simulatd: it lists simulated",
        },
        Stuck { config: config(&format!("base_url: {bare:?}, model: simulated")), reason: "one level below" },
        Stuck {
            config: config(&format!("base_url: {url:?}, model: simulated, credential: {{ env: NOT_SET }}")),
            reason: "NOT_SET",
        },
        Stuck { config: config(&format!("base_url: \"{DEAD}/v1\", model: m")), reason: "127.0.0.1:1" },
        Stuck { config: two("types: { executor: { group: other } }\n"), reason: "no backend could run it" },
        Stuck {
            config: two(
                "types: { reviewer: { panel: jury } }\npanels: { jury: { min_vendors: 2, seats: [{ group: main }, { group: other }] } }\n",
            ),
            reason: "2 vendors must answer, but only 1 could",
        },
    ];
    for Stuck { config, reason } in cases {
        let folder = crate::support::Folder::with(&config);
        let run =
            folder.nexus(&["run", if config.contains("reviewer") { "reviewer" } else { "executor" }, "hi"]);
        assert_ne!(run.status.code(), Some(0), "{config}: the turn runs: {}", text(&run.stdout));
        let mut said_reason = false;
        for command in [&["doctor"][..], &["status"], &["check", "--probe"]] {
            let output = folder.nexus(command);
            let said = text(&output.stdout);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {config}: {said}");
            assert!(!said.contains("nothing is wrong"), "{command:?}: {config}: {said}");
            let is_ready = |line: &str| line.contains("local") && line.contains(" ready");
            assert!(config.contains("gone") || !said.lines().any(is_ready), "{command:?}: {config}: {said}");
            said_reason |= said.contains(reason);
        }
        assert!(said_reason, "no command names {reason:?} of {config}");
    }
}

/// Starts a server that answers by the head of a request, and returns its address.
fn answering(answer: impl Fn(&[String]) -> (&'static str, &'static str) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let (status, body) = answer(&lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>());
            let length = body.len();
            let _ = write!(
                &stream,
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
        }
    });
    format!("http://{address}")
}

const LIST: &str = r#"{"data":[{"id":"simulated"}]}"#;

#[test]
fn a_key_that_its_server_rejects_is_no_login() {
    let url = answering(|head| match head.iter().any(|line| line.ends_with("Bearer sk-right")) {
        true => ("200 OK", LIST),
        false => ("401 Unauthorized", "{}"),
    });
    let config = format!(
        "groups: {{ main: [local] }}\nbackends: {{ local: {{ kind: responses, base_url: \"{url}/v1\", model: simulated, credential: {{ env: KEY }} }} }}\ntypes: {{ executor: {{ group: main }} }}\n"
    );
    let folder = crate::support::Folder::with(&config);
    for (key, code) in [("sk-wrong-canary", 1), ("sk-right", 0)] {
        let output = folder.command(&["check", "--probe"]).env("KEY", key).output().unwrap();
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(said.contains("rejects the credential: check "), code == 1, "{said}");
        assert!(!said.contains("canary"), "{said}");
    }
}

#[test]
fn a_file_of_the_command_line_is_the_one_that_is_written() {
    let person = Person::new().with_claude();
    program(&person.bin().join("claude"), &asking_claude());
    let file = person.root().join("mine/nexus.yaml");
    let output = setup(&person, &["--yes", "--json", "--config", file.to_str().unwrap()]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["configuration"]["path"], file.to_str().unwrap(), "{report:#}");
    assert!(Path::new(&file).exists() && !person.config().exists());
}
