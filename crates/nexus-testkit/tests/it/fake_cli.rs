//! The frame of the fake CLIs, seen from the other side of the pipe.

use std::{
    io::{Read as _, Write as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use nexus_testkit::fake_cli::{End, FakeCli, FakeScript, Misbehaviour, Replay, Vendor, WrittenFile};
use serde_json::json;

fn install(script: &FakeScript) -> FakeCli {
    let program = Path::new(env!("CARGO_BIN_EXE_nexus-fake-cli"));
    FakeCli::install_program(program, Vendor::Claude, script).unwrap()
}

fn command(fake: &FakeCli) -> Command {
    let mut command = Command::new(fake.executable());
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(fake: &FakeCli) -> Output {
    command(fake).output().unwrap()
}

fn replay() -> Replay {
    Replay::lines(["{\"type\":\"one\"}", "{\"type\":\"two\"}", "{\"type\":\"result\"}"])
}

const ALL: &str = "{\"type\":\"one\"}\n{\"type\":\"two\"}\n{\"type\":\"result\"}\n";

fn is_alive(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn it_says_its_version_and_notes_no_turn() {
    let fake = install(&FakeScript::replay(replay()));
    let output = command(&fake).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "2.1.197 (Claude Code)\n");
    assert!(fake.invocations().is_empty());
}

#[test]
fn a_recording_comes_back_with_its_end() {
    let run_data = json!({ "line_ms": [5, 10, 15], "exit_code": 3, "stderr_tail": "careful\n" });
    let fake = install(&FakeScript::replay(Replay::from_recording(ALL, &run_data)));
    let output = run(&fake);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), ALL);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "careful\n");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_recorded_signal_is_died_of() {
    let fake = install(&FakeScript::replay(replay().ending(End::Signal(15))));
    let output = run(&fake);
    assert_eq!((output.status.code(), output.status.signal()), (None, Some(15)));
    assert_eq!(output.stdout.len(), ALL.len());
}

#[test]
fn timing_is_kept_to_scale() {
    let run_data = json!({ "line_ms": [0, 200, 400], "exit_code": 0 });
    let replay = Replay::from_recording(ALL, &run_data).at_scale(1.0);
    let fake = install(&FakeScript::replay(replay));
    let began = Instant::now();
    run(&fake);
    assert!(began.elapsed() >= Duration::from_millis(400));
}

#[test]
fn what_it_was_given_is_noted() {
    let fake = install(&FakeScript::replay(replay().until_end_of_input()));
    let mut child = command(&fake)
        .args(["-p", "--model=alpha", "--flag", "value"])
        .env("SEEN", "yes")
        .current_dir(fake.folder())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"first\nsecond, with no end").unwrap();
    assert!(child.wait().unwrap().success());
    let invocations = fake.invocations();
    let [invocation] = invocations.as_slice() else { panic!("one call: {invocations:?}") };
    assert_eq!(invocation.stdin, b"first\nsecond, with no end");
    assert_eq!(invocation.given.variable("SEEN"), Some("yes"));
    assert_eq!(invocation.given.environment.len(), 1, "{:?}", invocation.given.environment);
    assert_eq!(invocation.given.directory, fake.folder().canonicalize().unwrap());
    assert_eq!(invocation.given.value_of("--model"), Some("alpha"));
    assert_eq!(invocation.given.value_of("--flag"), Some("value"));
    assert!(invocation.given.has("-p"));
}

#[test]
fn it_waits_for_its_input() {
    let fake = install(&FakeScript::replay(replay().after_input()));
    let mut child = command(&fake).stdin(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(is_alive(&mut child));
    child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, ALL.as_bytes());
}

#[test]
fn it_writes_where_the_real_one_would() {
    let file =
        WrittenFile { under: "FAKE_HOME".into(), path: "deep/record.jsonl".into(), text: "{}\n".into() };
    let fake = install(&FakeScript::replay(replay().with_file(file)));
    command(&fake).env("FAKE_HOME", fake.folder()).output().unwrap();
    assert_eq!(std::fs::read_to_string(fake.folder().join("deep/record.jsonl")).unwrap(), "{}\n");
}

#[test]
fn it_floods_both_pipes() {
    let script = FakeScript::replay(replay())
        .with(Misbehaviour::FloodsStdout { bytes: 300_000 })
        .with(Misbehaviour::FloodsStderr { bytes: 300_000 })
        .with(Misbehaviour::HugeLine { bytes: 8 << 20 });
    let output = run(&install(&script));
    assert!(output.stderr.len() >= 300_000);
    let longest = output.stdout.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap();
    assert_eq!(longest, (8 << 20) - 1);
    assert!(output.stdout.ends_with(ALL.as_bytes()));
}

#[test]
fn it_dies_in_the_middle_of_a_line() {
    let output = run(&install(&FakeScript::replay(replay()).with(Misbehaviour::DiesAfter { bytes: 20 })));
    assert_eq!(output.status.signal(), Some(9));
    assert_eq!(output.stdout, ALL.as_bytes()[..20]);
}

#[test]
fn it_can_leave_out_the_terminal_record() {
    let output = run(&install(&FakeScript::replay(replay()).with(Misbehaviour::NoLastLine)));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"{\"type\":\"one\"}\n{\"type\":\"two\"}\n");
}

#[test]
fn it_can_close_its_output_and_live_on() {
    let script = FakeScript::replay(replay())
        .with(Misbehaviour::ClosesStdout { after_bytes: 15 })
        .with(Misbehaviour::NeverExits);
    let fake = install(&script);
    let mut child = command(&fake).spawn().unwrap();
    let mut stdout = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    assert_eq!(stdout, ALL.as_bytes()[..15]);
    assert!(is_alive(&mut child));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn it_can_be_deaf_to_signals() {
    let script =
        FakeScript::replay(replay()).with(Misbehaviour::IgnoresSignals).with(Misbehaviour::NeverExits);
    let fake = install(&script);
    let mut child = command(&fake).spawn().unwrap();
    let mut first = [0; 1];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        rustix::process::kill_process(pid, signal).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_alive(&mut child));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_grandchild_can_hold_the_pipe() {
    let fake = install(&FakeScript::replay(replay()).with(Misbehaviour::GrandchildHoldsThePipe));
    let mut child = command(&fake).process_group(0).spawn().unwrap();
    let group = rustix::process::Pid::from_child(&child);
    wait_for("the end of the program", || !is_alive(&mut child));
    let mut stdout = child.stdout.take().unwrap();
    let (sender, over) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).unwrap();
        sender.send(bytes).unwrap();
    });
    assert!(over.recv_timeout(Duration::from_millis(500)).is_err(), "the pipe is still open");
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    assert_eq!(over.recv_timeout(Duration::from_secs(60)).unwrap(), ALL.as_bytes());
    reader.join().unwrap();
}

/// The session's number in `/proc`: 0 where the leader is outside of this PID namespace.
fn session_of(process: &str) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, after_name) = status.rsplit_once(')').unwrap();
    after_name.split_whitespace().nth(3).unwrap().parse().unwrap()
}

#[test]
fn a_grandchild_can_leave_its_session() {
    let fake = install(&FakeScript::replay(replay()).with(Misbehaviour::ForksAway));
    let mark = fake.folder().to_string_lossy().into_owned();
    let output = command(&fake).env("MARK", &mark).output().unwrap();
    assert!(output.status.success());
    let marked = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&mark)
        })
        .collect::<Vec<_>>()
    };
    wait_for("the one that went away", || marked().len() == 1);
    let pid = rustix::process::Pid::from_raw(marked()[0]).unwrap();
    assert_ne!(session_of(&pid.to_string()), session_of("self"));
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(marked().len(), 1, "deaf to SIGTERM");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("its end", || marked().is_empty());
}
