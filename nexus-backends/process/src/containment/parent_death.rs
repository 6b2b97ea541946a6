//! The kernel ends a program whose host is killed, where no namespace does.
//!
//! `PR_SET_PDEATHSIG` belongs to one process: what the program has started stays for the next sweep. But it asks no model again,
//! and spends nothing. It counts the *thread* that started the program, so that has to be the one that serves it. A program with
//! a set-user-id bit loses it. Source: `PR_SET_PDEATHSIG(2const)`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// `setpriv` of util-linux: sets the signal and becomes the program, under the same process id.
#[derive(Clone, Debug)]
pub(crate) struct ParentDeath(PathBuf);

impl ParentDeath {
    /// The program, if this machine has it and it works; others of this name cannot do it.
    pub(crate) fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<ParentDeath>> = OnceLock::new();
        let tried = || {
            let found = Self(util_linux("setpriv")?);
            let (program, arguments) = found.command();
            let mut command = Command::new(program);
            command.args(arguments).args(["/bin/sh", "-c", ":"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success()).then_some(found)
        };
        FOUND.get_or_init(tried).as_ref()
    }

    /// The program to start, and its arguments before those of the child.
    pub(crate) fn command(&self) -> (&Path, Vec<OsString>) {
        (&self.0, ["--pdeathsig", "KILL", "--"].map(Into::into).into())
    }
}

/// A program where systems have it, never on a `PATH` that somebody else may have written.
pub(super) fn util_linux(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/run/current-system/sw/bin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}
