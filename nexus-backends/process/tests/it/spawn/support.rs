//! What the tests of the spawn atom share. It looks at processes with its own eyes, not with the
//! library's.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nexus_process::containment::{Containment, ContainmentPolicy};
use nexus_process::environment::Environment;
use nexus_process::executable::Executable;
use nexus_process::run_id::RunId;
use nexus_process::spawn::{Invocation, Process};

/// A shell that runs `script`, held by what takes no namespace: the tests compare process ids from inside and outside.
pub(crate) fn shell(script: &str) -> Invocation {
    contained_shell(script).containment(ContainmentPolicy::Exactly(Containment::Subreaper))
}

/// As [`shell`], that takes SIGINT although this process ignores it, as one does that a script began with `&`.
pub(crate) fn interruptible_shell(script: &str) -> Invocation {
    Invocation::new(Executable::at("/usr/bin/env").expect("a system has env"), "/")
        .arguments(["--default-signal=INT", "sh", "-c", script])
        .environment(environment())
        .containment(ContainmentPolicy::Exactly(Containment::Subreaper))
}

/// A shell that runs `script`, held by the strongest that there is.
pub(crate) fn contained_shell(script: &str) -> Invocation {
    Invocation::new(Executable::at("/bin/sh").expect("a system has a shell"), "/")
        .arguments(["-c", script])
        .environment(environment())
}

pub(crate) fn environment() -> Environment {
    Environment::from_host([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())])
        .build()
        .expect("a plain path")
}

/// Every line that is still to come.
pub(crate) async fn lines(process: &Process) -> Vec<Bytes> {
    let mut lines = Vec::new();
    while let Some(line) = process.next_line().await {
        lines.push(line.bytes);
    }
    lines
}

/// Whoever carries the marker of `run`, as `ps` would show it. Zombies have no environment and are
/// found by [`exists`].
pub(crate) fn marked(run: &RunId) -> Vec<u32> {
    let marker = format!("NEXUS_RUN={run}");
    pids()
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes())
        })
        .collect()
}

/// Whether the process is there at all, be it a zombie. A zombie that the kernel has handed to the
/// first process of the machine is that one's to reap, and counts as gone.
pub(crate) fn exists(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    match (fields.next(), fields.next()) {
        (Some("Z" | "X"), Some("1")) => false,
        (state, _) => state.is_some_and(|state| !state.is_empty()),
    }
}

pub(crate) fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").expect("Linux").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Whether the process is there and no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

/// Fails unless soon nobody carries the marker and none of `pids` is left, zombies counted.
pub(crate) fn assert_gone(run: &RunId, pids: &[u32]) {
    assert_none(run, pids, exists);
}

/// The same for children of a host that was killed. Who adopted them reaps them: this program, where another test holds a
/// process as its subreaper, and nothing here waits for them.
pub(crate) fn assert_dead(run: &RunId, pids: &[u32]) {
    assert_none(run, pids, is_alive);
}

fn assert_none(run: &RunId, pids: &[u32], is_left: fn(u32) -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let marked = marked(run);
        let left: Vec<u32> = pids.iter().copied().filter(|pid| is_left(*pid)).collect();
        if marked.is_empty() && left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "still marked: {marked:?}; still there: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The process ids that a script wrote to `file`, once there are `count` of them.
pub(crate) fn written_pids(file: &Path, count: usize) -> Vec<u32> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let pids: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
        if pids.len() >= count {
            return pids;
        }
        assert!(Instant::now() < until, "waited for {count} processes, have {pids:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
