//! Who holds a lock: one process, named so that its end can be told from its silence.

use std::{
    fmt, fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// A process, by everything that tells it from another one with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// The machine's name, for people.
    pub(super) host: String,
    /// Names this start of the machine; no two machines share one.
    pub(super) boot_id: String,
    /// The process numbers of containers are their own.
    pub(super) pid_namespace: String,
    pub(super) pid: u32,
    /// When the process began, in clock ticks since the machine did.
    pub(super) start_ticks: Option<u64>,
    /// Since when it holds the lock, in seconds of its own clock: for people.
    pub(super) since: u64,
}

impl Holder {
    /// This process, from now on.
    pub(super) fn here() -> Self {
        let pid = std::process::id();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            host: text_of("/proc/sys/kernel/hostname"),
            boot_id: text_of("/proc/sys/kernel/random/boot_id"),
            pid_namespace: namespace.to_string_lossy().into_owned(),
            pid,
            start_ticks: start_ticks(pid),
            since: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        }
    }

    /// Whether the process is known to have ended. Of another machine, or another container, nothing is known.
    pub(super) fn is_gone(&self, here: &Self) -> bool {
        let is_comparable = !self.boot_id.is_empty()
            && !self.pid_namespace.is_empty()
            && self.boot_id == here.boot_id
            && self.pid_namespace == here.pid_namespace
            && self.start_ticks.is_some()
            && here.start_ticks.is_some();
        is_comparable && start_ticks(self.pid) != self.start_ticks
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if !self.host.is_empty() {
            write!(f, " on {}", self.host)?;
        }
        let began = UNIX_EPOCH.checked_add(Duration::from_secs(self.since));
        match began.and_then(|began| SystemTime::now().duration_since(began).ok()) {
            Some(time) => write!(f, ", for {} s", time.as_secs()),
            None => Ok(()),
        }
    }
}

fn text_of(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// When a live process began; `None` if there is none with this number, or nothing can be known of it.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything; what follows the last bracket are fields 3 and up. Source: proc(5).
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(stat.get(end_of_name + 1..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_gone_and_one_that_lives_is_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let here = Holder::here();
        let holder = Holder { pid: child.id(), start_ticks: start_ticks(child.id()), ..here.clone() };
        assert!(!here.is_gone(&here));
        assert!(!holder.is_gone(&here));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(holder.is_gone(&here));
    }

    #[test]
    fn another_process_with_the_same_number_is_another_process() {
        let here = Holder::here();
        let earlier = Holder { start_ticks: here.start_ticks.map(|ticks| ticks - 1), ..here.clone() };
        assert!(earlier.is_gone(&here));
    }

    #[test]
    fn of_other_machines_and_containers_nothing_is_known() {
        let here = Holder::here();
        let gone = Holder { pid: u32::MAX, ..here.clone() };
        assert!(gone.is_gone(&here));
        for unknown in [
            Holder { boot_id: "another".into(), ..gone.clone() },
            Holder { boot_id: String::new(), ..gone.clone() },
            Holder { pid_namespace: "pid:[1]".into(), ..gone.clone() },
            Holder { start_ticks: None, ..gone },
        ] {
            assert!(!unknown.is_gone(&here), "{unknown:?}");
        }
    }
}
