//! `nexus demo`: this program's own commands on simulated vendors.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{DEAD, Folder, text, until, until_handled};

/// A home for the demo in a folder of one test. `None` where there is no git.
fn stage() -> Option<Folder> {
    if Command::new("git").arg("--version").output().is_err() {
        assert!(std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
        println!("NOT TESTED: there is no git");
        return None;
    }
    Some(Folder::empty())
}

/// Runs a demo that has to succeed, and returns what it showed.
#[track_caller]
fn shown(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.nexus(&[&["demo"], arguments].concat());
    let all = both(&output);
    assert!(output.status.success(), "{all}");
    all
}

fn both(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Runs a command on the home of the demo.
fn on_home(folder: &Folder, arguments: &[&str]) -> Output {
    folder.command(arguments).env("NEXUS_HOME", home(folder)).output().unwrap()
}

fn home(folder: &Folder) -> PathBuf {
    folder.nexus_home().join("demo")
}

/// Returns true if bubblewrap works here.
fn has_sandbox() -> bool {
    let run = Command::new("bwrap").args(["--dev-bind", "/", "/", "true"]).output();
    let works = run.is_ok_and(|run| run.status.success());
    assert!(works || std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "bubblewrap is required here");
    works
}

/// Runs a demo, on request without a sandbox: then bubblewrap itself hides the program.
fn demo(folder: &Folder, arguments: &[&str], is_sandboxed: bool) -> Output {
    let mut command = folder.command(&[&["demo"], arguments].concat());
    if is_sandboxed || !has_sandbox() {
        return command.output().unwrap();
    }
    let mut hidden = Command::new("bwrap");
    hidden.args(["--dev-bind", "/", "/", "--ro-bind", "/dev/null", "/usr/bin/bwrap"]);
    hidden.arg(command.get_program()).args(command.get_args()).env_clear();
    hidden.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    hidden.current_dir(folder.path()).output().unwrap()
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let settings = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").args(settings).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// A running `nexus demo server` and its address.
fn server(folder: &Folder) -> (Child, SocketAddr, BufReader<ChildStdout>) {
    let mut server = folder
        .command(&["demo", "server", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.split_once("http://").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    (server, address, output)
}

/// Address in the configuration of the demo.
fn address_of(folder: &Folder) -> String {
    let configuration = fs::read_to_string(home(folder).join("nexus.yaml")).unwrap();
    configuration.split_once("--listen ").unwrap().1.lines().next().unwrap().to_owned()
}

fn answered(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_turn_needs_no_git_and_a_task_names_how_to_install_it() {
    let folder = Folder::empty();
    let bare = folder.path().join("bin");
    fs::create_dir(&bare).unwrap();
    let without_git = |arguments: &[&str]| folder.command(arguments).env("PATH", &bare).output().unwrap();
    let turn = without_git(&["demo", "turn"]);
    let shown = both(&turn);
    assert!(turn.status.success(), "{shown}");
    assert!(shown.contains("$ nexus run executor 'What does Nexus do?'"), "{shown}");
    assert!(shown.contains("This is a simulation") && shown.contains("Try next:"), "{shown}");
    let task = without_git(&["demo"]);
    let shown = both(&task);
    assert_eq!(task.status.code(), Some(1), "{shown}");
    assert!(shown.contains("apt-get install git") && shown.contains("nexus demo turn"), "{shown}");
}

#[test]
fn a_task_goes_from_its_goal_to_a_report_on_a_home_for_every_other_command() {
    let Some(folder) = stage() else { return };
    let all = shown(&folder, &[]);
    for line in ["$ nexus task new ", "$ nexus task run last", "$ nexus task report last -o "] {
        assert!(all.contains(line), "{line}: {all}");
    }
    assert!(
        all.lines()
            .filter(|line| line.starts_with('$'))
            .all(|line| line.len() <= 80 || line.contains(folder.path().to_str().unwrap())),
        "{all}"
    );
    let report = fs::read_to_string(home(&folder).join("report.html")).unwrap();
    assert!(report.contains("amber") && report.contains("blue"));
    let status = on_home(&folder, &["task", "status", "last"]);
    assert!(text(&status.stdout).contains("complete"), "{}", both(&status));
    let landed = on_home(&folder, &["task", "land", "last"]);
    assert!(landed.status.success(), "{}", both(&landed));
    let total = fs::read_to_string(home(&folder).join("project/total.sh")).unwrap();
    assert!(total.contains("left=$1\nright=$2\n"), "{total}");
    // The user's own home has only the folder of the demo.
    assert_eq!(fs::read_dir(folder.nexus_home()).unwrap().count(), 1);
    // With one changed line the project is wrong again, and the same reviewers reject it.
    fs::write(home(&folder).join("project/total.sh"), total.replace("left + right", "right + right"))
        .unwrap();
    // The old port may belong to another process now.
    let (mut server, address, _output) = server(&folder);
    let configuration = home(&folder).join("nexus.yaml");
    let moved =
        fs::read_to_string(&configuration).unwrap().replace(&address_of(&folder), &address.to_string());
    fs::write(configuration, moved).unwrap();
    let project = home(&folder).join("project");
    let new = ["task", "new", "Repair total.sh.", "--include-uncommitted", "--retries", "0", "--project"];
    let created = on_home(&folder, &[&new[..], &[project.to_str().unwrap()]].concat());
    assert!(created.status.success(), "{}", both(&created));
    let walked = on_home(&folder, &["task", "run", "last"]);
    let all = both(&walked);
    assert_eq!(walked.status.code(), Some(1), "{all}");
    assert!(all.contains("(amber): retry; seat 2 (bounds) (blue): retry"), "{all}");
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(143));
}

#[test]
fn a_mistake_that_the_tests_pass_is_rejected_by_both_reviewers_with_and_without_a_sandbox() {
    let Some(folder) = stage() else { return };
    let has_sandbox = has_sandbox();
    for is_sandboxed in [has_sandbox, false] {
        let wrong = demo(&folder, &["task", "--wrong"], is_sandboxed);
        let all = both(&wrong);
        assert!(wrong.status.success(), "{all}");
        assert!(all.contains("(amber): retry") && all.contains("(blue): retry"), "{all}");
        assert!(all.contains("prints 8, and the sum is -2"), "{all}");
        assert_eq!(all.contains("Without a sandbox no probes"), !is_sandboxed, "{all}");
        assert_eq!(all.contains("concern (probe-"), is_sandboxed, "{all}");
        let status = on_home(&folder, &["task", "status", "last"]);
        assert!(!text(&status.stdout).contains("complete"), "{}", both(&status));
    }
    // Without a sandbox, the same reviewers accept the right change by its diff. A changed project stays, and a new one is made.
    fs::write(home(&folder).join("project/total.sh"), "echo mine\n").unwrap();
    let right = demo(&folder, &[], false);
    assert!(right.status.success() && both(&right).contains("demo/project-2,"), "{}", both(&right));
}

#[test]
fn a_users_repository_stays_as_it_is() {
    let Some(folder) = stage() else { return };
    let repository = folder.path().join("my work");
    fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "-q", "-b", "trunk"]);
    for (name, content) in [("README.md", "# Mine\n"), ("NEXUS_DEMO.md", "Also mine.\n")] {
        fs::write(repository.join(name), content).unwrap();
    }
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "-qm", "First"]);
    fs::write(repository.join("README.md"), "# Mine, not committed\n").unwrap();
    fs::write(repository.join("new"), "untracked\n").unwrap();
    let state = || {
        let refs = git(
            &repository,
            &["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags"],
        );
        let status = git(&repository, &["status", "--porcelain=v2", "--branch", "--ignored"]);
        (
            refs,
            status,
            git(&repository, &["rev-parse", "HEAD"]),
            fs::read(repository.join("README.md")).unwrap(),
        )
    };
    let before = state();
    let all = shown(&folder, &["task", "--repo", repository.to_str().unwrap()]);
    assert!(all.contains("Nothing was landed"), "{all}");
    assert_eq!(state(), before);
    let patch = on_home(&folder, &["task", "show", "last", "patch"]);
    let added: Vec<&str> = text(&patch.stdout).lines().filter(|line| line.starts_with('+')).collect();
    assert_eq!(added, ["+++ b/NEXUS_DEMO_2.md", "+A simulated agent of `nexus demo` wrote this."]);
    assert!(on_home(&folder, &["task", "remove", "last"]).status.success());
    assert_eq!(git(&repository, &["for-each-ref"]).lines().count(), 1);
    let below = folder.nexus(&["demo", "task", "--repo", folder.path().to_str().unwrap()]);
    assert_eq!(below.status.code(), Some(2), "{}", both(&below));
}

#[test]
fn a_folder_of_the_user_is_no_home_of_the_demo() {
    let Some(folder) = stage() else { return };
    let own = folder.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("nexus.yaml"), "groups: {}\n").unwrap();
    let refused = folder.nexus(&["demo", "--home", own.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{}", both(&refused));
    assert_eq!(fs::read_dir(&own).unwrap().count(), 1);
    let json = folder.nexus(&["demo", "--json"]);
    assert_eq!(json.status.code(), Some(2), "{}", both(&json));
}

#[test]
fn the_lines_that_the_server_prints_point_a_configuration_at_it() {
    let folder = Folder::empty();
    let (mut server, _, output) = server(&folder);
    let mut lines = output.lines().map(Result::unwrap).skip_while(|line| !line.is_empty());
    let mut configuration = String::new();
    while !configuration.ends_with("executor: { group: amber }\n") {
        configuration += &(lines.next().unwrap() + "\n");
    }
    fs::write(folder.path().join("own.yaml"), configuration).unwrap();
    // A proxy of the environment is not used.
    let mut turn = folder.command(&["run", "executor", "Hello", "--quiet", "--config", "own.yaml"]);
    let turn = turn.env("http_proxy", DEAD).env("ALL_PROXY", DEAD).output().unwrap();
    assert!(text(&turn.stdout).contains("the simulated vendor amber"), "{}", both(&turn));
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn the_server_ends_with_its_parent_and_with_a_signal() {
    let folder = Folder::empty();
    let (mut server, address, output) = server(&folder);
    assert!(TcpStream::connect(address).is_ok());
    // The reader of a killed parent goes away like this.
    drop(output);
    server.wait().unwrap();
    assert!(TcpStream::connect(address).is_err());
    let (mut server, address, _output) = self::server(&folder);
    until_handled(server.id(), Signal::INT);
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(130));
    assert!(TcpStream::connect(address).is_err());
    let refused = folder.nexus(&["demo", "server", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2), "{}", both(&refused));
}

#[test]
fn a_signal_ends_the_demo_with_its_children() {
    let Some(folder) = stage() else { return };
    let mut demo = folder.command(&["demo"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let begins = |line: &std::io::Result<String>| line.as_ref().unwrap().contains("nexus task run last");
    assert!(lines.any(|line| begins(&line)));
    kill_process(Pid::from_child(&demo), Signal::TERM).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(143));
    // The children have the other ends of the pipe.
    lines.for_each(drop);
    let address = address_of(&folder);
    until("the end of the server", || TcpStream::connect(&address).is_err());
    // An interrupted demo can run again.
    shown(&folder, &[]);
}

#[test]
fn the_server_rejects_what_is_not_for_it() {
    let folder = Folder::empty();
    let (mut server, address, _output) = server(&folder);
    let head = |line: &str, host: &str| format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    let own = address.to_string();
    let cases = [
        (format!("{}\r\n", head("GET /amber/v1/models", &own)), "200"),
        (format!("{}\r\n", head("GET /amber/v1/models", "attacker.example")), "403"),
        (format!("{}\r\n", head("GET /red/v1/models", &own)), "404"),
        (format!("{}\r\n", head("DELETE /blue/v1/responses", &own)), "405"),
        (format!("{}content-length: 3\r\n\r\n[1,", head("POST /blue/v1/responses", &own)), "400"),
        (format!("{}content-length: 4\r\n\r\nnull", head("POST /blue/v1/responses", &own)), "200"),
        (format!("{}content-length: 99999999\r\n\r\n", head("POST /blue/v1/responses", &own)), "413"),
    ];
    for (request, expected) in cases {
        let answer = answered(address, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{request}: {answer}");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
