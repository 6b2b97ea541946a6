//! What is told where there is no sandbox, or nothing to run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nexus_process::sandbox::{SandboxCommand, SandboxError};
use nexus_testkit::child_test;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::support::{has_sandbox, refused, runs_alone_through, sandbox, shell};
use crate::program;

/// A program that says something and ends with an error.
fn saying(folder: &Path, words: &str) -> PathBuf {
    let program = folder.join("bwrap");
    program::write(&program, &format!("#!/bin/sh\necho \"{words}\" >&2\nexit 1\n"));
    program
}

#[tokio::test]
async fn without_bubblewrap_it_is_said_how_to_install_it() {
    let error = refused(&sandbox().bubblewrap("/nowhere/bwrap"), shell(":")).await;
    assert!(matches!(error, SandboxError::BubblewrapMissing), "{error:?}");
    assert!(error.to_string().contains("apt-get install bubblewrap"), "{error}");
}

#[tokio::test]
async fn what_bubblewrap_says_is_told_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    for (words, kind) in [
        ("bwrap: Unknown option --disable-userns", "BubblewrapTooOld"),
        ("bwrap: setting up uid map: Permission denied", "NamespacesForbidden"),
        (
            "bwrap: No permissions to create new namespace, likely because the kernel does not",
            "NamespacesForbidden",
        ),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "NamespacesForbidden"),
        ("bwrap: Creating new namespace failed: Resource temporarily unavailable", "is_scarcity: true"),
        ("bwrap: execvp nope: No such file or directory", "DidNotStart"),
        ("bwrap: Can't chdir to /x: No such file or directory", "FolderMissing"),
        ("bwrap: Can't do something else", "is_scarcity: false"),
        ("", "is_scarcity: false"),
    ] {
        let error = refused(&sandbox().bubblewrap(saying(folder.path(), words)), shell(":")).await;
        assert!(format!("{error:?}").contains(kind), "{words}: {error:?}");
        assert_eq!(error.is_scarcity(), kind == "is_scarcity: true");
    }
}

#[tokio::test]
async fn what_is_missing_inside_is_named() {
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    program::write(&folder.path().join("script"), "#!/nowhere/python9\n");
    fs::write(folder.path().join("plain"), "x").unwrap();
    let sandbox = sandbox().read_only(folder.path(), "/work");
    for (program, said) in [
        ("no-such-program", "No such file"),
        ("/work/nothing", "No such file"),
        ("/work/script", "No such file"),
        ("/work/plain", "Permission denied"),
        ("/work", "Permission denied"),
    ] {
        let error = refused(&sandbox, SandboxCommand::new([program])).await;
        assert!(matches!(error, SandboxError::DidNotStart { .. }), "{program}: {error:?}");
        assert!(error.to_string().contains(program) && error.to_string().contains(said), "{error}");
    }
    let error = refused(&sandbox, shell(":").folder("/work/nowhere")).await;
    assert!(
        matches!(&error, SandboxError::FolderMissing { folder, .. } if folder == Path::new("/work/nowhere")),
        "{error:?}"
    );
    for folder in ["work", "", "/work\0--bind\0/\0/host"] {
        let error = refused(&sandbox, shell(":").folder(folder)).await;
        assert!(matches!(error, SandboxError::FolderMissing { .. }), "{folder:?}: {error:?}");
    }
    let nothing: [&str; 0] = [];
    assert!(matches!(refused(&sandbox, SandboxCommand::new(nothing)).await, SandboxError::NoCommand));
    assert!(matches!(refused(&sandbox, SandboxCommand::new([""])).await, SandboxError::NoCommand));
    assert!(matches!(refused(&sandbox, SandboxCommand::new(["true", "a\0b"])).await, SandboxError::Spawn(_)));
}

#[tokio::test]
async fn where_namespaces_are_forbidden_it_is_said_what_forbids_them() {
    let launcher = |_: &Path| {
        let mut launcher = Command::new("unshare");
        let script = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"";
        launcher.args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", script, "sh"]);
        launcher
    };
    if !runs_alone_through(launcher, where_namespaces_are_forbidden_it_is_said_what_forbids_them).await {
        return;
    }
    let error = refused(&sandbox(), shell(":")).await;
    assert!(matches!(error, SandboxError::NamespacesForbidden { .. }), "{error:?}");
    assert!(error.to_string().contains("sysctl user.max_user_namespaces"), "{error}");
}

#[tokio::test]
async fn with_any_number_of_descriptors_it_runs_or_is_refused_for_want() {
    let this = with_any_number_of_descriptors_it_runs_or_is_refused_for_want;
    if !has_sandbox().await || !child_test::runs_alone(this) {
        return;
    }
    let before = getrlimit(Resource::Nofile);
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let (mut ran, mut was_refused) = (0, 0);
    let count = open();
    for free in 0..20 {
        setrlimit(Resource::Nofile, Rlimit { current: Some((count + free) as u64), ..before }).unwrap();
        let outcome = sandbox().run(shell("echo here")).await;
        setrlimit(Resource::Nofile, before).unwrap();
        match outcome {
            Ok(outcome) => {
                assert!(outcome.is_success() && outcome.stdout.text() == "here\n", "{free}: {outcome:?}");
                ran += 1;
            }
            Err(error) => {
                assert!(error.is_scarcity(), "{free}: {error:?}");
                was_refused += 1;
            }
        }
        // The thread of one that was refused may end a moment later.
        for _ in 0..6000 {
            if open() == count {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(open(), count, "{free}");
    }
    assert!(ran > 0 && was_refused > 0, "{ran} ran, {was_refused} were refused");
}

#[tokio::test]
async fn a_full_disk_is_named() {
    let launcher = |folder: &Path| {
        let mut launcher = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            launcher.args(["--user", "--map-root-user"]);
        }
        let script = "mount -t tmpfs -o size=16k none \"$TMPDIR\" && dd if=/dev/zero of=\"$TMPDIR/full\" bs=4k 2>/dev/null; exec \"$@\"";
        launcher.args(["--mount", "/bin/sh", "-c", script, "sh"]).env("TMPDIR", folder);
        launcher
    };
    if !runs_alone_through(launcher, a_full_disk_is_named).await {
        return;
    }
    let error = refused(&sandbox(), shell(":")).await;
    assert!(
        matches!(error, SandboxError::Prepare { .. }) && error.to_string().contains("the disk is full"),
        "{error}"
    );
}
