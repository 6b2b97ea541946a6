//! Output that the consumer does not read yet: it waits in the pipe, and the child with it.

use std::fs;
use std::time::Duration;

use nexus_process::spawn::{Bounds, EndedBy, ExitStatus, Polite, Process, Stop};
use nexus_testkit::child_test;

use super::support::{assert_gone, interruptible_shell, lines, shell};

/// Longer than the pump takes to read all that the children below write.
const A_WHILE: Duration = Duration::from_secs(2);

/// Lines of the large output: 110 bytes each.
const LINES: usize = 500_000;

fn bounds(change: impl FnOnce(&mut Bounds)) -> Bounds {
    let mut bounds = Bounds::default();
    change(&mut bounds);
    bounds
}

fn small(bounds: &mut Bounds) {
    bounds.queue_bytes = 64 << 10;
}

/// Writes so many lines, each with its number.
fn flood(lines: usize) -> String {
    format!("awk 'BEGIN {{ for (i = 0; i < {lines}; i++) printf \"%07d %0102d\\n\", i, 0 }}'")
}

/// Reads what is left, and fails unless it is the flood from its line `first` on.
async fn read_flood(process: &Process, first: usize, lines: usize) {
    let mut next = first;
    while let Some(line) = process.next_line().await {
        let number: usize = std::str::from_utf8(&line.bytes[..7]).unwrap().parse().unwrap();
        assert_eq!(number, next, "lines are missing");
        next += 1;
    }
    assert_eq!(next, lines, "lines are missing at the end");
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10
}

#[tokio::test]
async fn a_child_whose_lines_nobody_reads_waits_and_loses_none() {
    if !child_test::runs_alone(a_child_whose_lines_nobody_reads_waits_and_loses_none) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ended = folder.path().join("ended");
    let before = resident_bytes();
    let process = shell(&format!("{}; : > \"$0\"", flood(LINES))).argument(&ended).spawn().unwrap();
    assert!(process.next_line().await.is_some());
    let exit = tokio::time::timeout(A_WHILE, process.wait()).await;
    let grown = resident_bytes().saturating_sub(before) >> 20;
    assert!(exit.is_err(), "the child wrote 55 MB while one line was read; {grown} MiB of memory hold them");
    assert!(!ended.exists());
    assert!(grown < 32, "{grown} MiB of memory hold what nobody has read");
    read_flood(&process, 1, LINES).await;
    assert_eq!(process.wait().await.status, ExitStatus::Code(0));
    assert!(ended.exists());
}

/// Numbers that look random and are the same in each run. Source: Knuth's MMIX generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

#[tokio::test]
async fn lines_of_any_length_arrive_whole_at_any_pace_within_any_bound() {
    const SEED: u64 = 0x28_04;
    let folder = tempfile::tempdir().unwrap();
    let (file, ended) = (folder.path().join("lines"), folder.path().join("ended"));
    let mut numbers = Numbers(SEED);
    for round in 0..12 {
        let mut expected = Vec::new();
        let mut bytes = 0;
        while bytes < 3 << 20 {
            let length = match numbers.below(10) {
                0 => 0,
                1 => numbers.below(300_000),
                2..=4 => numbers.below(5_000),
                _ => numbers.below(100),
            };
            let letter = b'a' + numbers.below(26) as u8;
            bytes += length + 1;
            expected.push(vec![letter; length]);
        }
        let mut text = expected.join(&b'\n');
        text.push(b'\n');
        fs::write(&file, &text).unwrap();
        let _ = fs::remove_file(&ended);
        let bound = numbers.below(200_000);
        let process = shell("cat \"$0\"; : > \"$1\"")
            .argument(&file)
            .argument(&ended)
            .bounds(bounds(|bounds| bounds.queue_bytes = bound))
            .spawn()
            .unwrap();
        let mut found = 0;
        while let Some(line) = process.next_line().await {
            let line = &line.bytes[..];
            assert!(line == &expected[found][..], "round {round} of seed {SEED}: line {found}");
            found += 1;
            if found == 3 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                assert!(
                    !ended.exists(),
                    "round {round} of seed {SEED}: the child wrote 3 MiB, of which {bound} bytes may wait"
                );
            }
            match numbers.below(200) {
                0 => tokio::time::sleep(Duration::from_millis(1)).await,
                1..=20 => tokio::task::yield_now().await,
                _ => {}
            }
        }
        assert_eq!(found, expected.len(), "round {round} of seed {SEED}");
        assert_eq!(process.wait().await.status, ExitStatus::Code(0));
    }
}

#[tokio::test]
async fn a_child_that_waits_for_a_reader_is_stopped_and_says_its_last_words() {
    let script = "trap 'echo bye; exit 7' INT; i=0; while :; do i=$((i+1)); echo \"line $i\"; done";
    let process = interruptible_shell(script).bounds(bounds(small)).spawn().unwrap();
    assert_eq!(process.next_line().await.unwrap().bytes, "line 1");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let exit = process.stop(Stop::new().politely(Polite::Interrupt, Duration::from_secs(60))).await;
    assert_eq!((exit.status, exit.ended_by), (ExitStatus::Code(7), EndedBy::Stop));
    let found = lines(&process).await;
    let (last, numbered) = found.split_last().unwrap();
    assert_eq!(last, "bye");
    for (number, line) in (2..).zip(numbered) {
        assert_eq!(*line, format!("line {number}"));
    }
}

#[tokio::test]
async fn a_stop_at_any_moment_leaves_the_lines_without_a_gap() {
    const SEED: u64 = 0x28_09;
    let mut numbers = Numbers(SEED);
    for round in 0..12 {
        let bound = 1 << (numbers.below(14) + 6);
        let process =
            shell(&flood(LINES)).bounds(bounds(|bounds| bounds.queue_bytes = bound)).spawn().unwrap();
        let mut next = 0;
        let mut check = |line: &[u8]| {
            let number = std::str::from_utf8(&line[..line.len().min(7)]).unwrap();
            let expected = format!("{next:07}");
            assert!(expected.starts_with(number), "round {round} of seed {SEED}: {number} is no {expected}");
            next += 1;
        };
        for _ in 0..numbers.below(3_000) {
            check(&process.next_line().await.unwrap().bytes);
        }
        tokio::time::sleep(Duration::from_millis(numbers.below(30) as u64)).await;
        let mut stop = Stop::new();
        if numbers.below(2) == 0 {
            stop = stop.politely(Polite::CloseStdin, Duration::from_millis(20));
        }
        if numbers.below(2) == 0 {
            stop = stop.terminate_grace(Duration::ZERO);
        }
        process.stop(stop).await;
        // The last one may be cut.
        lines(&process).await.iter().for_each(|line| check(line));
    }
}

#[tokio::test]
async fn a_child_that_waits_for_a_reader_is_killed_by_a_drop() {
    let process = shell("yes | cat").bounds(bounds(small)).spawn().unwrap();
    let (run, pid) = (process.run().clone(), process.pid());
    assert!(process.next_line().await.is_some());
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(process);
    assert_gone(&run, &[pid]);
}

#[tokio::test]
async fn a_child_that_waits_for_a_reader_is_ended_by_its_time_limit() {
    let process = shell("yes")
        .bounds(bounds(|bounds| {
            small(bounds);
            bounds.time_limit = Some(Duration::from_millis(300));
        }))
        .spawn()
        .unwrap();
    let exit = process.wait().await;
    assert_eq!((exit.status, exit.ended_by), (ExitStatus::Signal(9), EndedBy::TimeLimit));
    assert!(lines(&process).await.iter().all(|line| *line == "y"));
}

#[tokio::test]
async fn an_end_is_seen_though_the_last_lines_still_wait_in_the_pipe() {
    // More than may wait here, and with what the pipe takes enough for all of it.
    let script = "head -c 100000 /dev/zero | tr '\\0' x | fold -w 99; echo; echo last";
    let process = shell(script).bounds(bounds(small)).spawn().unwrap();
    let exit = process.wait().await;
    assert_eq!((exit.status, exit.ended_by), (ExitStatus::Code(0), EndedBy::Itself));
    let found = lines(&process).await;
    assert_eq!(found.last().unwrap(), "last");
    assert_eq!(
        found.iter().map(|line| line.iter().filter(|byte| **byte == b'x').count()).sum::<usize>(),
        100_000
    );
}

#[tokio::test]
async fn what_a_program_left_behind_may_write_on_while_it_waits_for_a_reader() {
    const GRACE: Duration = Duration::from_secs(2);
    // More than may wait here and in the pipe, and little enough to be written in no time.
    let lines = 5_000;
    let process = shell(&format!("{} & exit 3", flood(lines)))
        .bounds(bounds(|bounds| {
            small(bounds);
            bounds.drain_grace = GRACE;
        }))
        .spawn()
        .unwrap();
    // Longer than it might keep the output open without a word.
    tokio::time::sleep(GRACE + GRACE / 2).await;
    read_flood(&process, 0, lines).await;
    assert_eq!(process.wait().await.status, ExitStatus::Code(3));
}

#[tokio::test]
async fn standard_error_is_read_while_the_lines_wait() {
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    let lines = 20_000;
    let flood = flood(lines);
    let script = format!("({flood}) & head -c 5000000 /dev/zero >&2; echo heard >&2; : > \"$0\"; wait");
    let process = shell(&script).argument(&said).bounds(bounds(small)).spawn().unwrap();
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while !said.exists() || !process.stderr_tail().ends_with("heard\n") {
        assert!(tokio::time::Instant::now() < until, "the child waits for a reader of its standard error");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    read_flood(&process, 0, lines).await;
}
