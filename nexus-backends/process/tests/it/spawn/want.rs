//! A machine in want while processes run: nobody is left, nothing is left behind unknown, and what was missing once decides
//! nothing for good.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nexus_process::containment::{Containment, ContainmentPolicy, available, strongest};
use nexus_process::executable::Executable;
use nexus_process::run_registry::{RunEntry, sweep};
use nexus_process::spawn::{Invocation, Process, SpawnError, Stop};
use nexus_testkit::child_test;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use super::support::{contained_shell, pids};
use crate::program;

/// Tells a process that this program starts where to work.
const FOLDER: &str = "NEXUS_TEST_FOLDER";

/// Leaves this program few descriptors while it lives.
struct Descriptors(Vec<File>, Rlimit);

impl Descriptors {
    fn few(free: usize) -> Self {
        let before = getrlimit(Resource::Nofile);
        let limit = fs::read_dir("/proc/self/fd").unwrap().count() + 16 + free;
        setrlimit(Resource::Nofile, Rlimit { current: Some(limit as u64), ..before }).unwrap();
        let mut taken: Vec<File> = std::iter::from_fn(|| File::open("/").ok()).collect();
        taken.truncate(taken.len() - free);
        Self(taken, before)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        self.0.clear();
        setrlimit(Resource::Nofile, self.1).unwrap();
    }
}

/// How many processes have `place` in their arguments.
fn alive(place: &Path) -> usize {
    let place = place.as_os_str().as_encoded_bytes();
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(place.len()).any(|part| part == place)
    };
    pids().filter(has).count()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// A program that has started another, which hides from everything but its mark.
fn hiding(place: &Path, kind: Containment) -> Process {
    // As a vendor's program does, it takes a moment before it starts anything.
    let script = "sleep 0.05; \
        (env -i setsid /bin/sh -c 'echo >\"$0\"; exec tail -f \"$0\"' \"$0\" </dev/null >/dev/null 2>&1 &); sleep 300";
    let shell = contained_shell(script).argument(place).containment(ContainmentPolicy::Exactly(kind));
    let process = shell.spawn().unwrap();
    wait_until("it hides", || place.exists());
    process
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_descriptor_nobody_is_left_either() {
    if !child_test::runs_alone(without_a_descriptor_nobody_is_left_either) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut left = Vec::new();
    for kind in available() {
        for end in ["stopped", "dropped", "ended by itself"] {
            let place = folder.path().join(format!("{kind}-{end}").replace(' ', "-"));
            let process = hiding(&place, kind);
            let want = Descriptors::few(0);
            let began = Instant::now();
            let patience = match end {
                "stopped" => {
                    let patience = Duration::from_secs(60);
                    let stop = Stop::new().terminate_grace(Duration::from_millis(100)).kill_grace(patience);
                    process.stop(stop).await;
                    patience
                }
                "dropped" => Duration::from_secs(1),
                _ => {
                    kill_process(Pid::from_raw(process.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
                    process.wait().await;
                    Duration::from_secs(3)
                }
            };
            drop(process);
            drop(want);
            // On a machine so busy that it takes so long, somebody may be left.
            if began.elapsed() >= patience {
                continue;
            }
            // A namespace whose outermost process was killed is ended by the kernel, which has no hurry.
            let until = Instant::now() + Duration::from_secs(60);
            while alive(&place) > 0 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            left.extend((alive(&place) > 0).then(|| format!("{kind}, {end}: {}", alive(&place))));
        }
    }
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_holds_a_process_is_not_decided_for_good_by_a_want() {
    if !child_test::runs_alone(what_holds_a_process_is_not_decided_for_good_by_a_want) {
        return;
    }
    let want = Descriptors::few(0);
    let refused = contained_shell("true").spawn().unwrap_err();
    assert!(refused.is_scarcity(), "{refused:?}");
    assert!(refused.to_string().contains("`ulimit -n`"), "{refused}");
    let _ = strongest(ContainmentPolicy::Auto, false);
    drop(want);
    let in_plenty =
        Command::new("sh").args(["-c", "unshare --pid --fork --mount-proc true"]).output().unwrap();
    if in_plenty.status.success() {
        assert_eq!(available()[0], Containment::PidNamespace);
    }
    let process = contained_shell("true").spawn().unwrap();
    assert_eq!(Ok(process.containment()), strongest(ContainmentPolicy::Auto, false));
}

#[test]
fn with_any_number_of_descriptors_a_process_is_held_as_ever_or_refused() {
    if !child_test::runs_alone(with_any_number_of_descriptors_a_process_is_held_as_ever_or_refused) {
        return;
    }
    let strongest = available()[0];
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let (mut spawned, before) = (0, open());
    for free in 0..16 {
        let want = Descriptors::few(free);
        let outcome = contained_shell("true").end_with_host().spawn();
        drop(want);
        match outcome {
            Ok(process) => {
                assert_eq!(process.containment(), strongest, "{free} free");
                spawned += 1;
            }
            Err(refused) => assert!(refused.is_scarcity(), "{free} free: {refused:?}"),
        }
        wait_until("all are closed again", || open() == before);
    }
    assert!((4..14).contains(&spawned), "{spawned}");
}

#[test]
fn a_home_that_cannot_be_removed_is_left_to_the_sweep() {
    if !child_test::runs_alone(a_home_that_cannot_be_removed_is_left_to_the_sweep) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (runs, homes) = (folder.path().join("runs"), folder.path().join("tmp"));
    let entry = RunEntry::begin(folder.path()).unwrap();
    let home = entry.home().unwrap();
    home.write("credential", "secret").unwrap();
    let want = Descriptors::few(0);
    drop(home);
    drop(entry);
    drop(want);
    assert_eq!((entries(&runs).len(), entries(&homes).len()), (1, 1));
    // Also while this program lives.
    let swept = sweep(folder.path()).unwrap();
    assert_eq!((swept.runs.len(), swept.failures.len()), (1, 0), "{swept:?}");
    assert_eq!((entries(&runs).len(), entries(&homes).len()), (0, 0));
}

#[test]
fn a_sweep_in_a_want_forgets_nobody() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let folder = PathBuf::from(folder);
        let entry = RunEntry::begin(&folder).unwrap();
        let shell = contained_shell("echo >\"$0\"; exec tail -f \"$0\" >/dev/null")
            .argument(folder.join("up"))
            .entry(&entry);
        let _process = shell.containment(ContainmentPolicy::Off).spawn().unwrap();
        return std::thread::sleep(Duration::from_secs(120));
    }
    if !child_test::runs_alone(a_sweep_in_a_want_forgets_nobody) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut host = child_test::command(a_sweep_in_a_want_forgets_nobody)
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it is up", || alive(&folder.join("up")) == 1);
    host.kill().unwrap();
    host.wait().unwrap();
    assert_eq!(alive(&folder.join("up")), 1);
    for free in 0..6 {
        let want = Descriptors::few(free);
        let swept = sweep(folder);
        drop(want);
        let is_gone = entries(&folder.join("runs")).is_empty();
        assert!(!is_gone || alive(&folder.join("up")) == 0, "{free} free: forgotten: {swept:?}");
    }
    sweep(folder).unwrap();
    assert_eq!(alive(&folder.join("up")), 0);
}

#[test]
fn a_program_that_cannot_be_read_is_held_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    // By another process, for the reason that `program` tells.
    let copied = Command::new("install").args(["--mode=111", "/bin/sh"]).arg(&path).status();
    assert!(copied.unwrap().success());
    for policy in [ContainmentPolicy::Auto, ContainmentPolicy::Required] {
        let invocation = Invocation::new(Executable::at(&path).unwrap(), "/").arguments(["-c", ":"]);
        match (invocation.containment(policy).spawn(), strongest(policy, false)) {
            (Ok(process), Ok(kind)) => assert_eq!(process.containment(), kind),
            (Err(SpawnError::NotContained(_)), Err(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// What is promised is kept, though whoever stands between says less of what is wrong with the program.
#[test]
fn what_is_no_program_is_held_as_required() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    program::write(&path, "no program");
    let invocation = Invocation::new(Executable::at(&path).unwrap(), "/");
    if let Ok(process) = invocation.containment(ContainmentPolicy::Required).spawn() {
        assert!(process.containment() >= Containment::Cgroup, "{}", process.containment());
    }
}

/// Runs `test` alone where `script` has changed what is mounted. Returns whether this is that run; where nobody may mount,
/// nothing runs.
fn in_mounts<T>(test: T, script: &str, folder: &Path) -> bool {
    if std::env::var_os(FOLDER).is_some() {
        return true;
    }
    let user: &[&str] =
        if rustix::process::geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] };
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(user).args(["--mount", "--propagation", "private", "/bin/sh", "-ec"]);
        command
    };
    if unshare().arg("mount -t tmpfs none /mnt").output().is_ok_and(|tried| tried.status.success()) {
        let mut launcher = unshare();
        launcher.arg(format!("{script}\nexec \"$0\" \"$@\"")).env(FOLDER, folder);
        child_test::runs_alone_through(launcher, test);
    }
    false
}

#[test]
fn a_full_home_keeps_no_piece_of_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        "mount -t tmpfs -o size=64k none \"$NEXUS_TEST_FOLDER\"; mkdir -m 700 \"$NEXUS_TEST_FOLDER/runs\"
        dd if=/dev/zero of=\"$NEXUS_TEST_FOLDER/full\" bs=4k 2>/dev/null || :";
    if !in_mounts(a_full_home_keeps_no_piece_of_an_entry, script, folder.path()) {
        return;
    }
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let refused = RunEntry::begin(&folder).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(entries(&folder.join("runs")), Vec::<PathBuf>::new());
    fs::remove_file(folder.join("full")).unwrap();
    assert_eq!(RunEntry::begin(&folder).unwrap().home().map(drop).ok(), Some(()));
}

#[test]
fn without_proc_the_program_and_its_group_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("up");
    let script = "mount -t tmpfs none /proc";
    if !in_mounts(without_proc_the_program_and_its_group_are_ended, script, folder.path()) {
        wait_until("it is ended", || alive(&place) == 0);
        return;
    }
    let place = PathBuf::from(std::env::var_os(FOLDER).unwrap()).join("up");
    let script = "tail -f \"$0\" & echo >\"$0\"; exec tail -f \"$0\"";
    fs::write(&place, "").unwrap();
    let process = contained_shell(script).argument(&place).spawn().unwrap();
    wait_until("it is up", || fs::read(&place).unwrap() == b"\n");
    let before = Instant::now();
    drop(process);
    assert!(before.elapsed() < Duration::from_secs(60), "{:?}", before.elapsed());
}

#[test]
fn without_a_null_device_it_is_that_which_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs none /dev";
    if !in_mounts(without_a_null_device_it_is_that_which_is_missing, script, folder.path()) {
        return;
    }
    let refused = contained_shell("true").spawn().unwrap_err();
    assert!(matches!(refused, SpawnError::NullDevice(_)), "{refused:?}");
}
