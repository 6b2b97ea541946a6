//! Ends a program when its host is killed, through the kernel, for containment without a namespace.
//!
//! `PR_SET_PDEATHSIG` applies to one process: its own children stay until the next sweep. But the program sends no
//! further request to a model, so it costs no more money. The kernel watches the *thread* that started the program, so
//! that thread must also serve it. A program with a set-user-id bit loses the setting. Source:
//! `PR_SET_PDEATHSIG(2const)`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::attempt::CachedTrial;
use super::tag::RunTag;
use crate::run_id::RunId;

/// `setpriv` of util-linux, which sets the signal and becomes the program, under the same process id.
///
/// If only the mark identifies the child's processes, `prlimit` of util-linux precedes `setpriv`. The program then has
/// the mark before its first instruction. Otherwise it could start unmarked processes in its first microseconds.
#[derive(Clone, Debug)]
pub(crate) struct ParentDeath {
    setpriv: PathBuf,
    prlimit: Option<PathBuf>,
}

impl ParentDeath {
    /// Returns the programs, if this machine has them and they work. Other programs of these names may lack the
    /// feature.
    ///
    /// # Errors
    ///
    /// The machine is short of descriptors, processes or memory.
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
            // Without `prlimit` the child is marked only after its start: see `Holding::take`.
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

    /// Returns the program to start, and its arguments before those of the child, which gets the mark `tag`.
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

/// Returns a program of the system's own folders. Ignores `PATH`, because another user may be able to write to one of
/// its folders.
pub(crate) fn program_of_the_system(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/run/current-system/sw/bin"];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists())
}
