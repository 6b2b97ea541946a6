//! A child writes no core dump: there is a token in its environment or its memory, and a dump is a file.

/// Takes from a child, and so from all that it will start, the right to dump core.
///
/// The child has been running for some microseconds. Without `pre_exec`, which a spawn must not use, there is no
/// way to be earlier; a child that crashes while it is being loaded may dump.
#[cfg(target_os = "linux")]
pub(super) fn forbid_core_dumps(child: u32) {
    use rustix::{
        io::Errno,
        process::{Pid, Resource, Rlimit, prlimit},
    };

    let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) else { return };
    match prlimit(Some(pid), Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }) {
        // Gone already: nobody is left to dump.
        Ok(_) | Err(Errno::SRCH) => {}
        // A program with a user of its own, such as a bubblewrap that is root's, takes no limit from us. The kernel
        // keeps it from dumping where the system is not told otherwise.
        Err(error) => tracing::warn!(pid = child, %error, "the child may dump core"),
    }
}

/// Only Linux lets a program limit another.
#[cfg(not(target_os = "linux"))]
pub(super) fn forbid_core_dumps(_child: u32) {}
