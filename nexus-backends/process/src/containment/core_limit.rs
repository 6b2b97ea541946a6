//! Core dumps are forbidden, because a dump is a file, and the child has a token in its environment or its memory.

/// Forbids core dumps to a process, and to all processes that it starts from now on.
///
/// The child has already run for some microseconds. A spawn must not use `pre_exec`, so an earlier moment is
/// impossible. A child that crashes while it is being loaded may dump.
#[cfg(target_os = "linux")]
pub(crate) fn forbid_core_dumps(child: u32) {
    use rustix::{
        io::Errno,
        process::{Pid, Resource, Rlimit, prlimit},
    };

    let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) else { return };
    match prlimit(Some(pid), Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }) {
        // The process has ended, so it cannot dump.
        Ok(_) | Err(Errno::SRCH) => {}
        // The limits of a program with another user, such as a bubblewrap owned by root, cannot be changed. By default
        // the kernel does not let such a program dump.
        Err(error) => tracing::warn!(pid = child, %error, "the child may dump core"),
    }
}

/// Other systems do not let a program limit another one.
#[cfg(not(target_os = "linux"))]
pub(crate) fn forbid_core_dumps(_child: u32) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::BufRead as _;

    use super::*;
    use crate::process_tree::for_each_from;

    /// On a busy machine a child has started others before anybody limits it.
    #[test]
    fn what_was_started_before_the_limit_may_dump_nothing_either() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 20 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        for_each_from(child.id(), forbid_core_dumps);
        let below: u32 = line.trim().parse().unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{below}/limits")).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert!(core.split_whitespace().skip(4).take(2).eq(["0", "0"]), "{core}");
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(below.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        child.wait().unwrap();
    }
}
