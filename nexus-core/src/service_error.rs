//! Errors of the services above the engine: tasks, debates, conversations, projects, the broker.

use std::{error::Error, fmt, io, path::Path};

use nexus_files::FileFault;
use serde::{Deserialize, Serialize};

/// Longest reason why a file is damaged, in bytes. A reason may quote the file.
const MAX_REASON_BYTES: usize = 300;

/// Error of a service call: its kind, the failure and advice. Each service has kinds `K` of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceError<K> {
    /// Kind of the failure.
    pub kind: K,
    /// Description of the failure, with its position.
    pub message: String,
    /// Advice: a step or a call. Empty if repeating the call is the only option.
    #[serde(rename = "instead")]
    pub advice: String,
}

/// Faults that all services have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServiceFault {
    /// An argument is invalid.
    Invalid,
    /// Nothing with this name or id exists.
    Unknown,
    /// The status does not allow the call.
    WrongStatus,
    /// Another process or thread uses it.
    InUse,
    /// A file does not have the format of this version. Nothing was changed.
    Damaged,
    /// The disk is full, or a quota is reached.
    NoSpace,
    /// The operating system denies the access.
    PermissionDenied,
    /// The work was cancelled, or its process is ending.
    Interrupted,
    /// Another failure.
    Failed,
}

/// Error kinds of one service, with its advice.
pub trait ServiceErrorKind: Copy {
    /// Advice to repeat a failed call.
    const RETRY: &'static str = "make the same call again";
    /// Advice that names the call for listing existing names or ids.
    const FIND: &'static str;
    /// Advice for a damaged file.
    const RESTORE: &'static str;

    /// Returns this service's kind for a fault that all services have.
    fn of(fault: ServiceFault) -> Self;
}

/// Work that ended without a result: it panicked, or the runtime shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work ended unexpectedly: it panicked, or the runtime shut down")]
pub struct LostWork;

impl<K> ServiceError<K> {
    /// Creates an error of this kind.
    pub fn new(kind: K, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { kind, message: message.into(), advice: advice.into() }
    }

    /// Converts the error into one of another service.
    pub fn with_kind<L>(self, kind: L) -> ServiceError<L> {
        ServiceError { kind, message: self.message, advice: self.advice }
    }
}

impl<K: ServiceErrorKind> ServiceError<K> {
    /// Creates an error from a common fault, with the service's advice.
    pub fn of(fault: ServiceFault, message: impl Into<String>) -> Self {
        let retry = K::RETRY;
        let advice = match fault {
            ServiceFault::Invalid => format!("correct the argument, then {retry}"),
            ServiceFault::Unknown => K::FIND.to_owned(),
            ServiceFault::Damaged => K::RESTORE.to_owned(),
            ServiceFault::NoSpace => format!("free disk space, then {retry}"),
            ServiceFault::PermissionDenied => format!("correct the permissions of the file, then {retry}"),
            ServiceFault::Failed => format!("repair the file, then {retry}"),
            ServiceFault::WrongStatus | ServiceFault::InUse | ServiceFault::Interrupted => retry.to_owned(),
        };
        Self::new(K::of(fault), message, advice)
    }

    /// Creates an error from a common fault, with all causes in its message.
    pub fn with_causes(fault: ServiceFault, error: &(dyn Error + 'static)) -> Self {
        Self::of(fault, causes(error))
    }

    /// Creates the error about an invalid argument.
    pub fn invalid(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(K::of(ServiceFault::Invalid), message, advice)
    }

    /// Creates the error about an unknown name or id.
    pub fn unknown(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(K::of(ServiceFault::Unknown), message, advice)
    }

    /// Creates the error about a status that does not allow the call.
    pub fn wrong_status(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(K::of(ServiceFault::WrongStatus), message, advice)
    }

    /// Creates the error about a damaged file at `path`.
    pub fn damaged(path: &Path, reason: impl fmt::Display) -> Self {
        let reason = reason.to_string();
        let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
        Self::of(ServiceFault::Damaged, format!("{path:?} cannot be used: {reason}"))
    }

    /// Returns a function that converts an error about `path` with [`unusable`](Self::unusable).
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_, K> {
        move |error| Self::unusable(path, &error)
    }

    /// Creates the error about a file or folder at `path` that the system cannot read or write.
    pub fn unusable(path: &Path, error: &io::Error) -> Self {
        let fault = match FileFault::of(error) {
            FileFault::DiskFull | FileFault::QuotaReached => ServiceFault::NoSpace,
            FileFault::NotAllowed | FileFault::ReadOnly => ServiceFault::PermissionDenied,
            FileFault::Unexpected => return Self::damaged(path, error),
            FileFault::NotFound | FileFault::AlreadyExists | FileFault::Other => ServiceFault::Failed,
        };
        Self::of(fault, format!("{path:?} cannot be used: {error}"))
    }
}

impl<K: ServiceErrorKind> From<LostWork> for ServiceError<K> {
    fn from(lost: LostWork) -> Self {
        let advice = format!("{}, and report this", K::RETRY);
        Self::new(K::of(ServiceFault::Failed), lost.to_string(), advice)
    }
}

impl<K> fmt::Display for ServiceError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

impl<K: fmt::Debug> Error for ServiceError<K> {}

/// Formats an error and its causes on one line.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ServiceErrorKind for ServiceFault {
        const FIND: &'static str = "call list";
        const RESTORE: &'static str = "restore it";

        fn of(fault: ServiceFault) -> Self {
            fault
        }
    }

    #[test]
    fn a_failure_of_the_file_system_names_path_cause_and_advice() {
        let cases = [
            (io::ErrorKind::StorageFull, ServiceFault::NoSpace, "free disk space, then make"),
            (io::ErrorKind::QuotaExceeded, ServiceFault::NoSpace, "free disk space, then make"),
            (io::ErrorKind::FileTooLarge, ServiceFault::NoSpace, "free disk space, then make"),
            (
                io::ErrorKind::PermissionDenied,
                ServiceFault::PermissionDenied,
                "correct the permissions of the file",
            ),
            (
                io::ErrorKind::ReadOnlyFilesystem,
                ServiceFault::PermissionDenied,
                "correct the permissions of \
                the file",
            ),
            (io::ErrorKind::InvalidData, ServiceFault::Damaged, "restore it"),
            (io::ErrorKind::NotFound, ServiceFault::Failed, "repair the file, then make the same call again"),
        ];
        for (kind, fault, advice) in cases {
            let error = ServiceError::<ServiceFault>::unusable(Path::new("/x"), &kind.into());
            assert_eq!(error.kind, fault);
            let text = error.to_string();
            assert!(text.starts_with(&format!("\"/x\" cannot be used: {kind}; {advice}")), "{text}");
        }
    }

    #[test]
    fn a_reason_that_quotes_the_file_is_cut() {
        let error = ServiceError::<ServiceFault>::damaged(Path::new("/x"), "ä".repeat(1_000));
        assert!(error.message.len() < 330, "{error}");
    }
}
