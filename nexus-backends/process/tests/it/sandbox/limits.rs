//! Each limit of a sandbox is reached, and what is beyond it is ended.

use std::fs;
use std::time::Duration;

use nexus_process::sandbox::{LimitedBy, SandboxEnd, SandboxLimit, SandboxLimits, SandboxOutcome};
use nexus_process::spawn::ExitStatus;

use super::support::{alive_with, assert_gone, has_sandbox, limits, ran, sandbox, shell, word};

/// Runs a script under limits that were changed, and says which was reached.
async fn reached(change: impl FnOnce(&mut SandboxLimits), script: &str) -> (SandboxEnd, SandboxOutcome) {
    let mut limits = limits();
    change(&mut limits);
    let outcome = ran(&sandbox().limits(limits), shell(script)).await;
    assert!(outcome.survivors.is_empty(), "{outcome:?}");
    (outcome.end, outcome)
}

#[tokio::test]
async fn who_sleeps_too_long_is_ended_with_all_it_started() {
    if !has_sandbox().await {
        return;
    }
    let word = word(11);
    let script = format!(
        "setsid sleep {word} & (setsid sleep {word} &) ; nohup sleep {word} >/dev/null 2>&1 & echo up; sleep {word}"
    );
    // A busy machine may take longer than the shortest of them to start it.
    let mut said = String::new();
    for seconds in [2, 10, 60] {
        let (end, outcome) = reached(|limits| limits.wall = Duration::from_secs(seconds), &script).await;
        assert_eq!((end, outcome.status), (SandboxEnd::Limit(SandboxLimit::Wall), ExitStatus::Signal(9)));
        assert_eq!(outcome.stderr.text(), "", "it said nothing, and neither do those around it");
        assert_eq!(alive_with(&word), 0);
        said = outcome.stdout.text();
        if !said.is_empty() {
            break;
        }
    }
    assert_eq!(said, "up\n");
}

#[tokio::test]
async fn processor_time_counts_for_all_together() {
    if !has_sandbox().await {
        return;
    }
    // Neither alone reaches it in this time, and those that have ended count too.
    let spin = "while :; do :; done";
    let script = format!("i=0; while :; do timeout 0.2 sh -c '{spin}'; done & {spin} & wait");
    let (end, outcome) = reached(|limits| limits.cpu = Duration::from_secs(1), &script).await;
    assert_eq!(end, SandboxEnd::Limit(SandboxLimit::Cpu));
    assert!(outcome.elapsed >= Duration::from_millis(400), "{outcome:?}");
}

/// The time of a child that nobody waits for is in no parent's account.
#[tokio::test]
async fn processor_time_of_children_that_the_kernel_reaps_counts() {
    if !has_sandbox().await {
        return;
    }
    if !std::path::Path::new("/usr/bin/perl").exists() {
        return eprintln!("SKIPPED, not shown here: no perl to ignore children with");
    }
    // It ends by itself, should nobody end it. Each child spins for a while and leaves its parent without any time.
    let script = "exec perl -e '$SIG{CHLD} = \"IGNORE\"; for (1..100) { my $child = fork; \
        if (!$child) { 1 while (times)[0] < 0.3; exit } waitpid $child, 0 }'";
    let (end, _) = reached(|limits| limits.cpu = Duration::from_secs(1), script).await;
    assert_eq!(end, SandboxEnd::Limit(SandboxLimit::Cpu));
}

#[tokio::test]
async fn a_flood_of_output_is_counted_and_ended() {
    if !has_sandbox().await {
        return;
    }
    for script in ["yes 0123456789abcde", "yes 0123456789abcde >&2", "yes >&2 & yes"] {
        let change = |limits: &mut SandboxLimits| (limits.output_bytes, limits.kept_bytes) = (4 << 20, 1000);
        let (end, outcome) = reached(change, script).await;
        assert_eq!(end, SandboxEnd::Limit(SandboxLimit::Output), "{script}");
        let total = outcome.stdout.total_bytes() + outcome.stderr.total_bytes();
        assert!((4 << 20..8 << 20).contains(&total), "{total}");
        for kept in [&outcome.stdout, &outcome.stderr] {
            assert!(kept.head().len() + kept.tail().len() <= 1000);
        }
    }
    // As much as it may say is no flood.
    let change = |limits: &mut SandboxLimits| (limits.output_bytes, limits.kept_bytes) = (1 << 20, 100);
    let (end, outcome) = reached(change, "head -c 1048576 /dev/zero").await;
    assert_eq!((end, outcome.stdout.omitted_bytes()), (SandboxEnd::Exited, (1 << 20) - 100));
}

#[tokio::test]
async fn no_file_grows_beyond_its_limit() {
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sandbox = sandbox().writable(folder.path(), "/tree");
    for script in [
        "exec dd if=/dev/zero of=/tree/file bs=1M count=1024",
        "dd if=/dev/zero of=/tree/file bs=1M count=1024; exit $?",
        "truncate -s 1G /tree/file",
    ] {
        let mut limits = limits();
        limits.file_bytes = 8 << 20;
        let outcome = ran(&sandbox.clone().limits(limits), shell(script)).await;
        assert_eq!(
            outcome.end,
            SandboxEnd::Limit(SandboxLimit::FileSize),
            "{script}: {outcome:?} {}",
            outcome.stderr.text()
        );
        assert!(folder.path().join("file").metadata().map_or(0, |file| file.len()) <= 8 << 20);
    }
}

#[tokio::test]
async fn room_on_the_disk_is_not_taken_without_being_written() {
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sandbox = sandbox().writable(folder.path(), "/tree");
    let script = "fallocate -l 64M /tree/one; echo $?; fallocate -l 64M /tree/two; echo $?";
    let outcome = ran(&sandbox, shell(script)).await;
    let taken: u64 = ["one", "two"]
        .iter()
        .filter_map(|name| folder.path().join(name).metadata().ok())
        .map(|file| std::os::unix::fs::MetadataExt::blocks(&file) * 512)
        .sum();
    assert_eq!(taken, 0, "{} {}", outcome.stdout.text(), outcome.stderr.text());
}

#[tokio::test]
async fn what_is_added_to_a_tree_is_bounded_over_all_of_its_files() {
    if !has_sandbox().await {
        return;
    }
    for (files, last, end) in [
        (3, "sleep 100", SandboxEnd::Limit(SandboxLimit::Disk)),
        // One that has ended before it is seen reached the limit, too.
        (3, ":", SandboxEnd::Limit(SandboxLimit::Disk)),
        (1, ":", SandboxEnd::Exited),
    ] {
        let folder = tempfile::tempdir().unwrap();
        // What was there before does not count.
        fs::write(folder.path().join("before"), vec![7; 40 << 20]).unwrap();
        let mut limits = limits();
        limits.disk_bytes = 32 << 20;
        let sandbox = sandbox().limits(limits).writable(folder.path(), "/tree");
        let script = format!(
            "for i in $(seq {files}); do dd if=/dev/zero of=/tree/$i bs=1M count=20 2>/dev/null; done; {last}"
        );
        let outcome = ran(&sandbox, shell(&script)).await;
        assert_eq!(outcome.end, end, "{files} files, then {last}: {}", outcome.stderr.text());
    }
}

#[tokio::test]
async fn a_fork_storm_is_bounded() {
    if !has_sandbox().await {
        return;
    }
    // It ends by itself, should nobody end it.
    let word = word(12);
    let script =
        format!("i=0; while [ $i -lt 300 ]; do i=$((i+1)); (setsid sleep {word} &) ; done; wait; sleep 60");
    let (end, outcome) = reached(|limits| limits.processes = 40, &script).await;
    assert_eq!(end, SandboxEnd::Limit(SandboxLimit::Processes), "{}", outcome.stderr.text());
    assert_gone(&word).await;
    // As many as may be are no storm.
    let script = "i=0; while [ $i -lt 30 ]; do i=$((i+1)); sleep 0.5 & done; wait";
    assert_eq!(reached(|limits| limits.processes = 40, script).await.0, SandboxEnd::Exited);
}

#[tokio::test]
async fn memory_counts_for_all_together_and_once_where_it_is_shared() {
    if !has_sandbox().await {
        return;
    }
    let mib = |bytes: u64| move |limits: &mut SandboxLimits| limits.memory_bytes = bytes << 20;
    // One line that `tail` keeps whole.
    let (end, _) = reached(mib(64), "(head -c 400M /dev/zero; sleep 60) | tail -n 1 | wc -c").await;
    assert_eq!(end, SandboxEnd::Limit(SandboxLimit::Memory));
    // Four with a part each.
    let part = "(head -c 40M /dev/zero; sleep 60) | tail -n 1 >/dev/null";
    let (end, _) = reached(mib(64), &format!("{part} & {part} & {part} & {part} & wait")).await;
    assert_eq!(end, SandboxEnd::Limit(SandboxLimit::Memory));
    // The same pages in twelve processes.
    let shared = "x=$(head -c 20M /dev/zero | tr '\\0' x); i=0; while [ $i -lt 12 ]; do i=$((i+1)); (sleep 1; :) & done; wait; echo ${#x}";
    let (end, outcome) = reached(mib(150), shared).await;
    assert_eq!(end, SandboxEnd::Exited, "{outcome:?}");
    assert_eq!(outcome.stdout.text(), "20971520\n");
}

#[tokio::test]
async fn a_full_scratch_folder_is_an_error_inside() {
    if !has_sandbox().await {
        return;
    }
    let mut limits = limits();
    limits.scratch_bytes = 1 << 20;
    let sandbox = sandbox().limits(limits).scratch("/home/sandbox/build");
    for place in ["/tmp", "/run", "/dev/shm", "/home/sandbox", "/home/sandbox/build"] {
        let outcome =
            ran(&sandbox, shell(&format!("dd if=/dev/zero of={place}/file bs=64k count=100"))).await;
        assert_eq!((outcome.end, outcome.status), (SandboxEnd::Exited, ExitStatus::Code(1)), "{place}");
        assert!(outcome.stderr.text().contains("No space left"), "{}", outcome.stderr.text());
    }
}

#[tokio::test]
async fn the_answer_says_what_kept_the_limits() {
    if !has_sandbox().await {
        return;
    }
    let (end, outcome) = reached(|_| {}, "ulimit -c; ulimit -Hc").await;
    assert_eq!((end, outcome.stdout.text()), (SandboxEnd::Exited, "0\n0\n".to_owned()));
    assert!(matches!(outcome.limited_by, LimitedBy::Cgroup | LimitedBy::Watchdog));
    println!("limited by {}, contained by {}", outcome.limited_by, outcome.containment);
}

#[tokio::test]
async fn the_least_and_the_most_are_limits_too() {
    if !has_sandbox().await {
        return;
    }
    let most = |limits: &mut SandboxLimits| {
        (limits.wall, limits.cpu) = (Duration::MAX, Duration::MAX);
        (limits.processes, limits.kept_bytes) = (usize::MAX, usize::MAX);
        (limits.memory_bytes, limits.output_bytes) = (u64::MAX, u64::MAX);
        (limits.file_bytes, limits.scratch_bytes) = (u64::MAX, u64::MAX);
    };
    let (end, outcome) = reached(most, "echo here; echo x >/tmp/x").await;
    assert_eq!(
        (end, outcome.stdout.text(), outcome.is_success()),
        (SandboxEnd::Exited, "here\n".to_owned(), true)
    );
    let least = |limits: &mut SandboxLimits| {
        limits.kept_bytes = 0;
        (limits.file_bytes, limits.scratch_bytes) = (0, 0);
    };
    let (end, outcome) = reached(least, "echo here; echo x >/tmp/x").await;
    assert_eq!((end, outcome.stdout.omitted_bytes(), outcome.is_success()), (SandboxEnd::Exited, 5, true));
    for (change, limit) in [
        ((|limits| limits.wall = Duration::ZERO) as fn(&mut SandboxLimits), SandboxLimit::Wall),
        (|limits| limits.processes = 0, SandboxLimit::Processes),
        (|limits| limits.memory_bytes = 0, SandboxLimit::Memory),
        (|limits| limits.output_bytes = 0, SandboxLimit::Output),
    ] {
        let (end, _) = reached(change, "echo here; sleep 100").await;
        assert_eq!(end, SandboxEnd::Limit(limit));
    }
}
