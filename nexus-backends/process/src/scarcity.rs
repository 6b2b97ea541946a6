//! Errors of a machine that is short of a resource. They are temporary, and no fault of the program.

use std::io;

use rustix::io::Errno;

/// Returns true if the system rejected an operation because descriptors, processes, threads or memory ran out.
#[must_use]
pub fn is_scarcity(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM))
}

/// Returns advice for the scarce resource, as a phrase; `None` for any other error.
#[must_use]
pub fn way_out(error: &io::Error) -> Option<&'static str> {
    Some(match errno(error)? {
        Errno::MFILE => "raise this program's limit on open files (`ulimit -n`), or run fewer turns at once",
        Errno::NFILE => "the machine has no free file descriptors: run fewer programs at once",
        Errno::AGAIN => {
            "raise the limits on processes (`ulimit -u`, `pids.max` of the cgroup), or run fewer turns at once"
        }
        Errno::NOMEM => "the machine or this program's limit has no free memory: run fewer turns at once",
        Errno::NOSPC | Errno::DQUOT => "the disk is full: free space, or choose another NEXUS_HOME",
        _ => return None,
    })
}

fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}
