//! The `nexus` command in a folder of one test, with an environment that holds nothing of the caller's.

pub(crate) mod answers;
#[cfg(feature = "otlp")]
pub(crate) mod collector;
pub(crate) mod debaters;
#[cfg(target_os = "linux")]
pub(crate) mod nats;
pub(crate) mod stage;
#[cfg(all(feature = "keyring", feature = "login", feature = "otlp"))]
pub(crate) mod surface;
#[cfg(target_os = "linux")]
pub(crate) mod terminal;
#[cfg(target_os = "linux")]
pub(crate) mod two_vendors;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

#[cfg(target_os = "linux")]
use rustix::process::Signal;

/// Longest wait for what a command does, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An address at which nothing listens: no program is given so low a port by the system.
pub(crate) const DEAD: &str = "http://127.0.0.1:1";

/// A folder to run in, which is also the home.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// One with this `nexus.yaml`.
    pub(crate) fn with(config: &str) -> Self {
        let folder = Self::empty();
        fs::write(folder.path().join("nexus.yaml"), config).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Nexus's own folder. Nothing makes it but the command.
    pub(crate) fn nexus_home(&self) -> PathBuf {
        self.path().join("nexus-home")
    }

    /// An address for `DBUS_SESSION_BUS_ADDRESS` where no keyring answers.
    pub(crate) fn no_bus(&self) -> String {
        format!("unix:path={}", self.path().join("no-bus").display())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nexus"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path())
            .env("NEXUS_HOME", self.nexus_home())
            // The result must not depend on the machine, such as on its local model servers.
            .env("NEXUS_DETECTION", "off")
            .stdin(Stdio::null());
        // The folder is not trusted. Its file is the configuration, unless the home has another one.
        let (beside, at_home) = (self.path().join("nexus.yaml"), self.nexus_home().join("nexus.yaml"));
        if beside.is_file()
            && let Ok(config) = fs::read(beside)
            && fs::read(at_home).map_or(true, |at_home| at_home == config)
        {
            command.env("NEXUS_CONFIG", "nexus.yaml");
        }
        command
    }

    /// Runs a command to its end. With `--json`, what it prints has to be as its schema says.
    #[track_caller]
    pub(crate) fn nexus(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().unwrap();
        if arguments.contains(&"--json") {
            answers::checked(arguments, text(&output.stdout));
        }
        output
    }
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process has a handler of its own for a signal, which would end it before.
#[cfg(target_os = "linux")]
#[track_caller]
pub(crate) fn until_handled(process: u32, signal: Signal) {
    until("a handler", || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(caught, 16).unwrap() & 1 << (signal.as_raw() - 1) != 0
    });
}
