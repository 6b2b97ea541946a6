//! The `nexus` command in a folder of one test, with an environment that holds nothing of the caller's.

#[cfg(feature = "otlp")]
pub(crate) mod collector;
pub(crate) mod debaters;
pub(crate) mod stage;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

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
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn nexus(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}
