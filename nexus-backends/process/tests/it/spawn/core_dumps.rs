//! No child leaves a core dump, whatever the host may.

use std::fs;

use nexus_process::containment::{Containment, ContainmentPolicy, available};
use nexus_process::spawn::StdinMode;
use nexus_testkit::child_test;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::support::{contained_shell, lines, shell};

/// The soft and the hard limit of a process on core dumps, as the kernel tells them.
fn core_limits(pid: u32) -> Vec<String> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    core.split_whitespace().skip(4).take(2).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_child_and_its_children_may_dump_nothing() {
    if !child_test::runs_alone(a_child_and_its_children_may_dump_nothing) {
        return;
    }
    // The host may dump as much as it can be allowed, so that the zeros below are ours.
    let most = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most }).unwrap();
    assert!(most == Some(0) || core_limits(std::process::id())[0] != "0");

    let script = "read go; sh -c 'echo $$; sleep 60' & wait";
    let process = shell(script).stdin(StdinMode::Open).spawn().unwrap();
    assert_eq!(core_limits(process.pid()), ["0", "0"]);
    process.stdin().write("go\n").await.unwrap();
    let first = process.next_line().await.unwrap();
    let grandchild: u32 = std::str::from_utf8(&first.bytes).unwrap().parse().unwrap();
    assert_eq!(core_limits(grandchild), ["0", "0"]);
}

/// A launcher is there before the program, and forbids it. Any other child has been running for some microseconds.
#[tokio::test]
async fn no_kind_of_containment_lets_a_child_dump() {
    if !child_test::runs_alone(no_kind_of_containment_lets_a_child_dump) {
        return;
    }
    let most = getrlimit(Resource::Core).maximum;
    setrlimit(Resource::Core, Rlimit { current: most, maximum: most }).unwrap();
    for kind in available() {
        let first = if kind >= Containment::Cgroup { "" } else { "read go; " };
        let script = format!("{first}ulimit -Sc; ulimit -Hc; sh -c 'ulimit -Hc'");
        let shell = contained_shell(&script).containment(ContainmentPolicy::Exactly(kind));
        let process = shell.stdin(StdinMode::Open).spawn().unwrap();
        // It may have ended, where it reads nothing.
        let _ = process.stdin().write("go\n").await;
        assert_eq!(lines(&process).await, ["0", "0", "0"], "{kind}");
    }
}
