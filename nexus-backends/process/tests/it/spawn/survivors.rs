//! Who is left of what a model's shell may start: how it hides, what held it, and how the process ended.
//!
//! The whole is printed as a table. Nobody is left by any kind of containment; a killed host leaves what the kernel does
//! not end by itself to the next sweep.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nexus_process::containment::{Containment, ContainmentPolicy, available};
use nexus_process::run_registry::{RunEntry, sweep};
use nexus_process::spawn::{Process, Stop};
use nexus_testkit::child_test;

use super::support::{contained_shell, pids};

/// What a hidden process is: each way with what the child's shell runs (`$0` is the program, `$1` a folder that stands
/// in the arguments of whoever stays), and how many stay.
const WAYS: [(&str, &str, usize); 11] = [
    ("double fork, environment kept", "\"$0\" kept \"$1\"", 1),
    ("double fork, environment scrubbed", "\"$0\" escape \"$1\"", 1),
    ("environment overwritten in place", "\"$0\" overwritten \"$1\"", 1),
    ("undumpable", "\"$0\" undumpable \"$1\"", 1),
    ("late double fork", "\"$0\" late \"$1\" 300", 1),
    ("stopped, deaf to SIGTERM", "\"$0\" stopped \"$1\"", 1),
    ("holds the pipe, deaf to SIGTERM", "\"$0\" holds-pipe \"$1\"", 1),
    ("200 children, half in sessions", "\"$0\" many \"$1\"", 201),
    (
        "env -i setsid -f",
        "env -i setsid -f /bin/sh -c 'echo >\"$0/x.1\"; sleep 300; :' \"$1\" </dev/null >/dev/null 2>&1",
        1,
    ),
    (
        "ssh-agent",
        "env -i \"$(command -v ssh-agent)\" -a \"$1/socket\" </dev/null >/dev/null 2>&1; echo >\"$1/x.1\"",
        1,
    ),
    (
        "gpg-agent",
        "env -i \"$(command -v gpg-agent)\" --homedir \"$1\" --daemon </dev/null >/dev/null 2>&1; echo >\"$1/x.1\"",
        1,
    ),
];
/// Forks until it is killed or has forked 300 times.
const FORK_LOOP: &str = "i=0; while [ $i -lt 300 ]; do i=$((i+1)); (setsid /bin/sh -c 'echo >\"$0/x.1\"; sleep 300; :' \"$1\" &) ; done";

/// Tells the host that is killed what holds its processes.
const KIND: &str = "NEXUS_TEST_KIND";
/// Tells the host that is killed where to work.
const FOLDER: &str = "NEXUS_TEST_FOLDER";

/// The ways of this machine: not everyone has the agents, and only the kernel ends a fork loop for sure.
fn ways(kind: Containment) -> Vec<(&'static str, &'static str, usize)> {
    let is_there = |way: &&str| {
        !way.ends_with("-agent")
            || Command::new("sh")
                .args(["-c", &format!("command -v {way}")])
                .output()
                .unwrap()
                .status
                .success()
    };
    let mut all: Vec<_> = WAYS.into_iter().filter(|(way, ..)| is_there(way)).collect();
    if kind >= Containment::Cgroup {
        all.push(("fork loop", FORK_LOOP, 1));
    }
    all
}

/// Builds the program that hides, and makes a folder for each way.
fn stage(kind: Containment) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("hostile.c");
    fs::write(&source, include_str!("../../fixtures/hostile.c")).unwrap();
    let built = Command::new("cc").arg("-O1").arg("-o").args([&program(folder.path()), &source]).status();
    assert!(built.expect("a C compiler").success());
    for number in 0..ways(kind).len() {
        fs::create_dir(place(folder.path(), number)).unwrap();
    }
    folder
}

fn program(folder: &Path) -> PathBuf {
    folder.join("hostile")
}

fn place(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("way-{number:02}"))
}

/// Starts one process for each way, and waits until everyone is hidden.
fn start(folder: &Path, kind: Containment, registry: Option<&RunEntry>) -> Vec<Process> {
    let processes: Vec<_> = ways(kind)
        .into_iter()
        .enumerate()
        .map(|(number, (_, script, _))| {
            // As a vendor's program does, it takes a moment before it starts anything.
            let script = format!("sleep 0.05; {script}; sleep 300");
            let mut shell = contained_shell(&script)
                .argument(program(folder))
                .argument(place(folder, number))
                .containment(ContainmentPolicy::Exactly(kind));
            if let Some(registry) = registry {
                shell = shell.entry(registry);
            }
            shell.spawn().unwrap()
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(60);
    for (number, (way, _, expected)) in ways(kind).into_iter().enumerate() {
        let notes = || fs::read_dir(place(folder, number)).unwrap().flatten().filter(is_note).count();
        while notes() < expected {
            assert!(Instant::now() < until, "{way}: {} of {expected} are there", notes());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert!(processes.iter().all(|process| process.containment() == kind));
    processes
}

/// Each process that stays leaves a file `WAY.PID`.
fn is_note(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().rsplit_once('.').is_some_and(|(_, pid)| pid.parse::<u32>().is_ok())
}

/// How many processes have each folder in their arguments. Zombies have none.
fn left(folder: &Path, kind: Containment) -> Vec<usize> {
    let lines: Vec<Vec<u8>> =
        pids().map(|pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).collect();
    let has = |number: usize| {
        let place = place(folder, number);
        let place = place.as_os_str().as_encoded_bytes().to_vec();
        lines.iter().filter(|line| line.windows(place.len()).any(|part| part == place)).count()
    };
    (0..ways(kind).len()).map(has).collect()
}

/// The same once all are zero, and after this time at the latest.
fn left_after(folder: &Path, kind: Containment, patience: Duration) -> Vec<usize> {
    let until = Instant::now() + patience;
    loop {
        let counts = left(folder, kind);
        if counts.iter().all(|count| *count == 0) || Instant::now() >= until {
            return counts;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Adds a column, and fails if somebody is left.
fn note(
    table: &mut BTreeMap<&'static str, Vec<String>>,
    columns: usize,
    kind: Containment,
    shown: &[String],
) {
    for ((way, ..), shown) in ways(kind).into_iter().zip(shown) {
        let row = table.entry(way).or_default();
        row.resize(columns, "not run".to_owned());
        row.push(shown.clone());
    }
}

fn print(title: &str, columns: &[String], table: &BTreeMap<&'static str, Vec<String>>) {
    let mut text = format!(
        "\n{title}\n| how it hides | {} |\n|{} --- |\n",
        columns.join(" | "),
        " --- |".repeat(columns.len())
    );
    for (way, cells) in table {
        let mut cells = cells.clone();
        cells.resize(columns.len(), "not run".to_owned());
        writeln!(text, "| {way} | {} |", cells.join(" | ")).unwrap();
    }
    println!("{text}");
}

fn user() -> &'static str {
    if rustix::process::geteuid().is_root() { "root" } else { "an ordinary user" }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_left_however_it_hides_and_whatever_holds_it() {
    let (mut table, mut columns, mut failures) = (BTreeMap::new(), Vec::new(), Vec::new());
    for kind in available() {
        for end in ["stopped", "dropped"] {
            let folder = stage(kind);
            let processes = start(folder.path(), kind, None);
            let before = left(folder.path(), kind);
            assert!(before.iter().all(|count| *count > 0), "the test means to see them: {before:?}");
            if end == "stopped" {
                // A killed process of a busy machine takes a while to be gone.
                let stop = Stop::new()
                    .terminate_grace(Duration::from_millis(200))
                    .kill_grace(Duration::from_secs(30));
                let stops: Vec<_> = processes.iter().map(|process| process.stop(stop.clone())).collect();
                for exit in futures_of(stops).await {
                    assert!(exit.survivors.is_empty(), "{kind}: {exit:?}");
                }
            }
            drop(processes);
            let after = left_after(folder.path(), kind, Duration::from_secs(60));
            let shown: Vec<_> = after.iter().map(usize::to_string).collect();
            note(&mut table, columns.len(), kind, &shown);
            columns.push(format!("{kind}, {end}"));
            failures
                .extend(after.iter().any(|count| *count > 0).then(|| format!("{kind}, {end}: {after:?}")));
        }
    }
    print(&format!("Survivors, as {}", user()), &columns, &table);
    assert!(failures.is_empty(), "{failures:?}");
}

/// All of them at once.
async fn futures_of<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

fn play_host(folder: &Path) {
    let kind = std::env::var(KIND).unwrap();
    let kind = available().into_iter().find(|one| one.to_string() == kind).unwrap();
    let entry = RunEntry::begin(&folder.join("home")).unwrap();
    let processes = start(folder, kind, Some(&entry));
    fs::write(folder.join("ready"), "").unwrap();
    std::thread::sleep(Duration::from_secs(120));
    drop(processes);
}

struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_host_leaves_nobody_once_it_is_swept() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return play_host(Path::new(&folder));
    }
    let (mut table, mut columns, mut failures) = (BTreeMap::new(), Vec::new(), Vec::new());
    for kind in available() {
        let folder = stage(kind);
        let mut host = child_test::command(a_killed_host_leaves_nobody_once_it_is_swept);
        host.env(FOLDER, folder.path()).env(KIND, kind.to_string()).stdout(Stdio::null());
        let host = Host(host.spawn().unwrap());
        let until = Instant::now() + Duration::from_secs(90);
        while !folder.path().join("ready").exists() {
            assert!(Instant::now() < until, "{kind}: the host is not ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(host);
        let is_kernels = kind >= Containment::UserNamespace;
        // The kernel needs no sweep, and has no hurry either.
        let patience = if is_kernels { Duration::from_secs(60) } else { Duration::ZERO };
        let killed = left_after(folder.path(), kind, patience);
        // A sweep is over after a while, and the next one goes on with it.
        let until = Instant::now() + Duration::from_secs(60);
        let swept = loop {
            let swept = sweep(&folder.path().join("home")).unwrap();
            if swept.survivors.is_empty() && swept.failures.is_empty() || Instant::now() >= until {
                break swept;
            }
        };
        assert!(swept.survivors.is_empty() && swept.failures.is_empty(), "{kind}: {swept:?}");
        let after = left(folder.path(), kind);
        let shown: Vec<_> =
            killed.iter().zip(&after).map(|(killed, after)| format!("{killed}, then {after}")).collect();
        note(&mut table, columns.len(), kind, &shown);
        columns.push(format!("{kind}, host killed, then swept"));
        let is_clean =
            after.iter().all(|count| *count == 0) && (!is_kernels || killed.iter().all(|count| *count == 0));
        failures.extend((!is_clean).then(|| format!("{kind}: {killed:?}, then {after:?}")));
    }
    print(&format!("Survivors of a killed host, as {}", user()), &columns, &table);
    assert!(failures.is_empty(), "{failures:?}");
}
