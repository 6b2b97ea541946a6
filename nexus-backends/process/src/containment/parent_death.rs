//! Asks the kernel to end a program when its host is killed, for containment without a namespace.
//!
//! `PR_SET_PDEATHSIG` belongs to one process: its own children stay for the next sweep. But the program sends
//! no further request to a model, so it costs no more money. The kernel watches the *thread* that started the
//! program, so that thread has to serve it too. A program with a set-user-id bit loses the setting. Source:
//! `PR_SET_PDEATHSIG(2const)`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::attempt::CachedTrial;
use super::tag::RunTag;
use crate::run_id::RunId;

/// `setpriv` of util-linux: sets the signal and becomes the program, under the same process id.
///
/// Where the mark is all that tells whose a process is, `prlimit` of util-linux goes before it: the program has the mark before
/// its first instruction, and not some microseconds after, in which it may start what has none.
#[derive(Clone, Debug)]
pub(crate) struct ParentDeath {
    setpriv: PathBuf,
    prlimit: Option<PathBuf>,
}

impl ParentDeath {
    /// The programs, if this machine has them and they work; others of this name cannot do it.
    ///
    /// # Errors
    ///
    /// In a want of descriptors, processes or memory.
    pub(crate) fn find() -> io::Result<Option<Self>> {
        static FOUND: CachedTrial<ParentDeath> = CachedTrial::new();
        FOUND.get_or_try(|| {
            let Some(setpriv) = program_of_the_system("setpriv") else { return Ok(None) };
            let prlimit = program_of_the_system("prlimit");
            let with = |prlimit| Self { setpriv: setpriv.clone(), prlimit };
            if prlimit.is_some()
                && let Some(found) = with(prlimit).tried()?
            {
                return Ok(Some(found));
            }
            with(None).tried()
        })
    }

    fn tried(self) -> io::Result<Option<Self>> {
        let (program, arguments) = self.command(Some(RunTag::of(&RunId::new())));
        let mut command = Command::new(program);
        command.args(arguments).args(["/bin/sh", "-c", ":"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status()?.success().then_some(self))
    }

    /// The program to start, and its arguments before those of the child, which is to have the mark `tag`.
    pub(crate) fn command(&self, tag: Option<RunTag>) -> (&Path, Vec<OsString>) {
        let setpriv = ["--pdeathsig", "KILL", "--"].map(OsString::from);
        match (&self.prlimit, tag.and_then(RunTag::limit)) {
            (Some(prlimit), Some((soft, hard))) => {
                let limits = ["--core=0:0".into(), format!("--rttime={soft}:{hard}").into()];
                let own = limits.into_iter().chain([self.setpriv.clone().into()]);
                (prlimit, own.chain(setpriv).collect())
            }
            _ => (&self.setpriv, setpriv.into()),
        }
    }
}

/// Returns a program of the system's own folders. `PATH` is not used: another user may have written a folder of
/// it.
pub(crate) fn program_of_the_system(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/run/current-system/sw/bin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}
