//! What a namespace's first process says to its host: nobody else reads it, and without a reader nothing runs.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nexus_process::containment::{Containment, ContainmentPolicy, available};

use super::support::contained_shell;

#[tokio::test]
async fn a_program_has_standard_error_for_itself() {
    for kind in available() {
        let shell =
            contained_shell("printf '\\n\\nwords\\n' >&2").containment(ContainmentPolicy::Exactly(kind));
        let process = shell.spawn().unwrap();
        process.wait().await;
        assert_eq!(process.stderr_tail(), "\n\nwords\n", "{kind}");
        let silent = contained_shell(":").containment(ContainmentPolicy::Exactly(kind)).spawn().unwrap();
        silent.wait().await;
        assert_eq!(silent.stderr_tail(), "", "{kind}");
    }
}

/// The host is killed while the namespace is made: too late for its start, too early for the kernel to know of it.
#[tokio::test]
async fn a_namespace_whose_host_is_gone_runs_nothing() {
    let Some(kind) = available().into_iter().find(|kind| *kind >= Containment::UserNamespace) else { return };
    // The command line of a namespace, as this machine has it.
    let process = contained_shell("sleep 20").containment(ContainmentPolicy::Exactly(kind)).spawn().unwrap();
    let line = loop {
        let line = fs::read(format!("/proc/{}/cmdline", process.pid())).unwrap();
        if line.starts_with(b"/usr/bin/unshare\0") {
            break String::from_utf8(line).unwrap();
        }
        assert!(Path::new("/usr/bin/unshare").exists(), "the test means to see it");
        tokio::task::yield_now().await;
    };
    drop(process);
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let words: Vec<&str> = line.trim_end_matches('\0').split('\0').collect();
    let (script, launcher) = words.split_last().unwrap();
    assert_eq!(*script, "sleep 20");
    let start = |has_reader: bool| {
        let (reader, writer) = std::io::pipe().unwrap();
        let reader = has_reader.then_some(reader);
        let mut command = Command::new(launcher[0]);
        command.args(&launcher[1..]).arg("echo >\"$0\"").arg(&ran).stderr(writer).stdin(Stdio::null());
        let status = command.process_group(0).status().unwrap();
        drop(reader);
        (status.success(), ran.exists())
    };
    assert_eq!(start(false), (false, false));
    assert_eq!(start(true), (true, true));
}
