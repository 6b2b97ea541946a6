//! A system that gives no thread and no descriptor: errors, never a panic.

use nexus_core::harness::run_blocking;
use nexus_process::spawn::SpawnError;
use nexus_testkit::child_test;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::support::contained_shell;

fn limit(resource: Resource, value: u64) {
    setrlimit(resource, Rlimit { current: Some(value), maximum: getrlimit(resource).maximum }).unwrap();
}

#[test]
fn work_that_blocks_is_done_also_where_there_is_no_thread() {
    // The limit does not hold root.
    if !child_test::runs_alone(work_that_blocks_is_done_also_where_there_is_no_thread) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    limit(Resource::Nproc, 1);
    assert_eq!(runtime.block_on(run_blocking(|| 7)).unwrap(), 7);
    if !rustix::process::geteuid().is_root() {
        let refused = contained_shell("true").spawn().unwrap_err();
        assert!(matches!(refused, SpawnError::System { .. }), "{refused}");
    }
}

#[test]
fn a_process_that_gets_no_descriptor_is_refused() {
    if !child_test::runs_alone(a_process_that_gets_no_descriptor_is_refused) {
        return;
    }
    // What this machine allows is found out while it still can be.
    assert!(!nexus_process::containment::available().is_empty());
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    for more in 0..8 {
        limit(Resource::Nofile, open + more);
        match contained_shell("true").spawn() {
            Ok(process) => drop(process),
            Err(
                SpawnError::System { .. }
                | SpawnError::WorkingDirectoryUnusable { .. }
                | SpawnError::WrongFormat { .. },
            ) => {}
            Err(other) => panic!("{more} more: {other}"),
        }
    }
    limit(Resource::Nofile, open + 64);
    drop(contained_shell("true").spawn().unwrap());
}
