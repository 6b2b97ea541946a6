//! A turn that somebody ends: by Ctrl-C, by the system, by the end of the terminal. All of it ends, and the exit code says
//! how.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nexus_testkit::sim::{Dialect, Reply, Sim};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::PATIENCE;

/// A turn whose model stops in mid-sentence.
struct Turn {
    child: Child,
    _model: Sim,
    _folder: tempfile::TempDir,
}

impl Turn {
    fn start(before: &str) -> Self {
        let model = Sim::start(Dialect::Responses, Reply::text("Half of an ans").stalled()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "groups: {{ main: [local] }}\nmodels: {{ simulated: {{ main: simulated }} }}\n\
             backends: {{ local: {{ kind: responses, base_url: {:?}, vendor: one }} }}\n\
             types: {{ talker: {{ tier: execution, phase: talk, group: main, model: simulated }} }}\n",
            model.base_url()
        );
        fs::write(folder.path().join("nexus.yaml"), config).unwrap();
        let script = format!("{before} exec \"$0\" run talker Hello --json");
        let mut child = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_nexus")])
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", folder.path())
            .env("NEXUS_HOME", folder.path().join("nexus-home"))
            .env("NEXUS_CONFIG", "nexus.yaml")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("Half of an ans")), "the model speaks");
        // Read to the end, so that it is no closed pipe that ends the turn.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, _model: model, _folder: folder }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    fn code(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "it goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn each_signal_ends_a_turn_with_its_usual_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut turn = Turn::start("");
        turn.send(signal);
        assert_eq!(turn.code(), Some(code), "{signal:?}");
    }
}

#[test]
fn a_turn_that_was_told_to_outlive_the_terminal_does() {
    let mut turn = Turn::start("trap '' HUP;");
    turn.send(Signal::HUP);
    std::thread::sleep(Duration::from_millis(300));
    assert!(turn.child.try_wait().unwrap().is_none(), "`nohup` asks for more");
    turn.send(Signal::TERM);
    assert_eq!(turn.code(), Some(143));
}

/// A delegated turn, whose program and what it started are other processes.
#[test]
fn the_end_of_the_terminal_ends_the_program_and_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    // It says that it is Claude Code, and then nothing more.
    let program = folder.path().join("claude");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && { echo '2.1.329 (Claude Code)'; exit; }\n\
                  (env -i setsid /bin/sh -c 'echo up > \"$0\"; sleep 600; :' \"$PWD/hidden\" </dev/null >/dev/null 2>&1 &)\n\
                  trap '' HUP TERM INT; sleep 600\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let config = "groups: { main: [local] }\nmodels: { strong: { main: opus } }\n\
                  backends: { local: { kind: claude-cli, executable: ./claude } }\n\
                  types: { talker: { tier: execution, phase: talk, group: main, model: strong } }\n";
    fs::write(folder.path().join("nexus.yaml"), config).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nexus"))
        .args(["run", "talker", "Hello", "--access", "unrestricted", "--cd"])
        .arg(folder.path())
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .env("NEXUS_HOME", folder.path().join("nexus-home"))
        .env("NEXUS_CONFIG", "nexus.yaml")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let hidden = folder.path().join("hidden");
    let until = Instant::now() + PATIENCE;
    while with_argument(&hidden) == 0 {
        if child.try_wait().unwrap().is_some() || Instant::now() > until {
            let _ = child.kill();
            panic!("{}", String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(129));
    assert_eq!(with_argument(&hidden), 0);
}

/// How many processes have `path` among their arguments.
fn with_argument(path: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let arguments = processes.map(|process| fs::read(process.path().join("cmdline")).unwrap_or_default());
    arguments
        .filter(|line| line.split(|byte| *byte == 0).any(|one| one == path.as_os_str().as_encoded_bytes()))
        .count()
}
