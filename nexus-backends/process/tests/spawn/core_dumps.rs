//! No child leaves a core dump, whatever the host may.

#![cfg(target_os = "linux")]

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::shell;

/// The soft and the hard limit of a process on core dumps, as the kernel tells them.
fn core_limits(pid: u32) -> Vec<String> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    core.split_whitespace().skip(4).take(2).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_child_and_its_children_may_dump_nothing() {
    // The host may dump as much as it can be allowed, so that the zeros below are ours.
    let most = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most }).unwrap();
    assert!(most == Some(0) || core_limits(std::process::id())[0] != "0");

    let process = shell("sleep 0.2; sh -c 'echo $$; sleep 60' & wait").spawn().unwrap();
    assert_eq!(core_limits(process.pid()), ["0", "0"]);
    let first = process.next_line().await.unwrap();
    let grandchild: u32 = std::str::from_utf8(&first.bytes).unwrap().parse().unwrap();
    assert_eq!(core_limits(grandchild), ["0", "0"]);
}
