//! Converts an error of the operating system into the turn's failure. Distinguishes a temporary shortage from a wrong
//! set-up.

use std::{fmt, io, path::Path};

use nexus_core::{ErrorKind, Phase, harness::Failure};
use nexus_process::scarcity::{is_scarcity, way_out};
use nexus_process::spawn::SpawnError;
use nexus_process::version::VersionError;
use rustix::io::Errno;

/// Returns the failure for a folder or file of the turn that could not be written.
pub(crate) fn unwritable(place: impl fmt::Display, error: io::Error) -> Failure {
    let kind = if is_scarcity(&error) { ErrorKind::Crashed } else { ErrorKind::InvalidRequest };
    let way_out = way_out(&error).unwrap_or("choose another NEXUS_HOME");
    Failure::new(kind, format!("{place} cannot be written: {way_out}")).with_source(error)
}

/// Returns the failure for a program that did not report its version. `install` is the advice for getting a working
/// one.
pub(crate) fn untold(program: &Path, error: &VersionError, install: &str) -> Failure {
    let mut failure = match error {
        VersionError::Spawn(error) => not_started(error),
        error if error.is_scarcity() => Failure::of(ErrorKind::Crashed, error),
        VersionError::TooSlow => {
            let reason = format!("{}: {error}: the machine is busy, or the program hangs", program.display());
            Failure::new(ErrorKind::Starved(Phase::Start), reason).with_named_retry(None)
        }
        error => Failure::of(ErrorKind::NotInstalled, error),
    };
    if failure.kind == ErrorKind::NotInstalled {
        let (program, reason) = (program.display(), failure.message.unwrap_or_default());
        failure.message = Some(format!("{program} does not report its version: {reason}: {install}"));
    }
    failure
}

/// Texts on standard error of programs that hit a resource limit of the machine, and the matching errors. Source: the
/// system's messages, as C, Rust, Node.js and shells print them.
const WANTS: [(&str, Errno); 6] = [
    ("Resource temporarily unavailable", Errno::AGAIN),
    ("EAGAIN", Errno::AGAIN),
    ("Cannot fork", Errno::AGAIN),
    ("Too many open files", Errno::MFILE),
    ("EMFILE", Errno::MFILE),
    ("Cannot allocate memory", Errno::NOMEM),
];

/// Returns the failure of a process that crashed or fell silent. If standard error reports a resource shortage, the
/// failure names that shortage.
pub(super) fn of_want(failure: Failure, stderr_tail: &str) -> Failure {
    // Other failures already have a reason of their own.
    let is_explained = matches!(
        failure.kind,
        ErrorKind::Crashed | ErrorKind::Starved(Phase::Start | Phase::FirstByte | Phase::Model)
    );
    let want = WANTS.into_iter().find(|(words, _)| is_explained && stderr_tail.contains(words));
    let Some((words, errno)) = want else { return failure };
    let way_out = way_out(&errno.into()).unwrap_or_default();
    let reason = failure.message.map(|message| format!("{message}: ")).unwrap_or_default();
    Failure::new(ErrorKind::Crashed, format!("{reason}{words}: {way_out}"))
}

/// Returns the failure for a process that did not start.
pub(super) fn not_started(error: &SpawnError) -> Failure {
    let kind = match error {
        error if error.is_scarcity() => ErrorKind::Crashed,
        SpawnError::Executable(_) | SpawnError::WrongFormat { .. } => ErrorKind::NotInstalled,
        SpawnError::System { .. } | SpawnError::NullDevice(_) => ErrorKind::Crashed,
        SpawnError::NotContained(_) => ErrorKind::Unsupported,
        _ => ErrorKind::InvalidRequest,
    };
    Failure::of(kind, error)
}

#[cfg(test)]
mod tests {
    use nexus_process::executable::ExecutableError;

    use super::*;

    #[test]
    fn a_want_is_not_a_setting_to_mend() {
        let failure = |errno: i32| unwritable("/x", io::Error::from_raw_os_error(errno));
        let said = |errno| (failure(errno).kind, failure(errno).message.unwrap());
        let descriptors = "/x cannot be written: raise this program's limit on open files (`ulimit -n`), or run fewer turns at once";
        assert_eq!(said(24), (ErrorKind::Crashed, descriptors.to_owned()));
        let full = "/x cannot be written: the disk is full: free space, or choose another NEXUS_HOME";
        assert_eq!(said(28), (ErrorKind::InvalidRequest, full.to_owned()));
        assert_eq!(
            said(30),
            (ErrorKind::InvalidRequest, "/x cannot be written: choose another NEXUS_HOME".to_owned())
        );

        let refused = |errno| SpawnError::System {
            executable: "/x".into(),
            source: io::Error::from_raw_os_error(errno),
        };
        let untold = |errno| untold(Path::new("/x"), &VersionError::Spawn(refused(errno)), "install it");
        assert_eq!(untold(11).kind, ErrorKind::Crashed);
        assert!(untold(11).message.unwrap().contains("`ulimit -u`"), "{:?}", untold(11));
        let missing = ExecutableError::Directory { path: "/x".into() };
        let failure = super::untold(Path::new("/x"), &missing.into(), "install it");
        let words = "/x does not report its version: /x is a directory, not an executable: install it";
        assert_eq!((failure.kind, failure.message.as_deref()), (ErrorKind::NotInstalled, Some(words)));
    }

    #[test]
    fn a_program_that_is_slow_to_tell_its_version_is_there() {
        let failure = untold(Path::new("/x"), &VersionError::TooSlow, "install it");
        assert_eq!(failure.kind, ErrorKind::Starved(Phase::Start));
        assert!(failure.retry.is_guessed(), "{failure:?}");
        let words = failure.message.unwrap();
        assert!(words.contains("/x") && words.contains("20 s") && !words.contains("install it"), "{words}");
    }
}
