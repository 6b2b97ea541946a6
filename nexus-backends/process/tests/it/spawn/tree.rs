//! The whole tree of a process ends with it, whatever its members do to stay.

use std::task::Poll;
use std::time::{Duration, Instant};

use nexus_process::spawn::{EndedBy, ExitStatus, Polite, Process, StdinMode, Stop};
use nexus_testkit::{child_test, effort};

use super::support::{
    assert_gone, exists, interruptible_shell, is_alive, lines, marked, pids, shell, written_pids,
};

/// Deaf to polite signals, in a session of its own, holding the pipes, and with its parent gone.
const RUNAWAY: &str =
    "setsid sh -c 'trap \"\" TERM INT HUP; echo $$ >> \"$0\"; while :; do sleep 1; done' \"$0\" & ";

fn brief() -> Stop {
    Stop::new().terminate_grace(Duration::from_millis(200)).kill_grace(Duration::from_secs(30))
}

#[tokio::test]
async fn a_polite_step_is_enough_for_the_polite() {
    let process = interruptible_shell("trap 'echo bye; exit 5' INT; echo up; while :; do sleep 0.01; done")
        .spawn()
        .unwrap();
    assert_eq!(process.next_line().await.unwrap().bytes, "up");
    let exit = process.stop(brief().politely(Polite::Interrupt, Duration::from_secs(60))).await;
    assert_eq!((exit.status, exit.ended_by), (ExitStatus::Code(5), EndedBy::Stop));
    assert_eq!(lines(&process).await, ["bye"]);

    let process =
        shell("read -r line; echo \"got $line\"; cat; echo end").stdin(StdinMode::Open).spawn().unwrap();
    let stop = brief()
        .politely(Polite::Write("please\n".into()), Duration::from_millis(50))
        .politely(Polite::CloseStdin, Duration::from_secs(60));
    assert_eq!(process.stop(stop).await.status, ExitStatus::Code(0));
    assert_eq!(lines(&process).await, ["got please", "end"]);
}

#[tokio::test]
async fn the_interrupt_reaches_the_child_alone() {
    let process = interruptible_shell(
        "(trap 'echo hit' INT; sleep 0.5; echo untouched) & trap 'wait; exit 0' INT; echo up; wait",
    )
    .spawn()
    .unwrap();
    assert_eq!(process.next_line().await.unwrap().bytes, "up");
    process.stop(brief().politely(Polite::Interrupt, Duration::from_secs(60))).await;
    assert_eq!(lines(&process).await, ["untouched"]);
}

#[tokio::test]
async fn the_deaf_are_killed_within_the_graces() {
    let process = shell("trap '' INT TERM HUP; echo up; while :; do sleep 1; done")
        .stdin(StdinMode::Open)
        .spawn()
        .unwrap();
    assert_eq!(process.next_line().await.unwrap().bytes, "up");
    let started = Instant::now();
    let stop = brief()
        .politely(Polite::Interrupt, Duration::from_millis(100))
        .politely(Polite::CloseStdin, Duration::from_millis(100));
    let exit = process.stop(stop).await;
    assert_eq!((exit.status, exit.ended_by), (ExitStatus::Signal(9), EndedBy::Stop));
    assert!((400..60_000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert_gone(process.run(), &[process.pid()]);
}

#[tokio::test]
async fn termination_reaches_those_that_left_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = "setsid sh -c 'trap \"echo told; exit\" TERM; echo $$ >> \"$0\"; while :; do sleep 0.01; done' \"$0\" & wait";
    let process = shell(script).argument(&file).spawn().unwrap();
    let members = written_pids(&file, 1);
    let exit = process.stop(Stop::new().terminate_grace(Duration::from_secs(60))).await;
    assert_eq!(exit.status, ExitStatus::Signal(15));
    assert_eq!(lines(&process).await, ["told"]);
    assert_gone(process.run(), &members);
}

#[tokio::test]
async fn a_runaway_that_holds_the_pipe_cannot_hang_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let process =
        shell(&format!("{RUNAWAY} echo answer; while ! [ -s \"$0\" ]; do sleep 0.01; done; exit 0"))
            .argument(&file)
            .spawn()
            .unwrap();
    let started = Instant::now();
    assert_eq!(process.next_line().await.unwrap().bytes, "answer");
    assert!(process.next_line().await.is_none());
    let exit = process.wait().await;
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!((exit.status, exit.ended_by), (ExitStatus::Code(0), EndedBy::Itself));
    assert!(exit.output_held_open);
    assert!(!exit.left_behind.is_empty() && exit.survivors.is_empty());
    assert_gone(process.run(), &written_pids(&file, 1));
}

#[tokio::test]
async fn a_silent_job_left_behind_is_found_by_its_marker() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = "(setsid nohup sh -c 'echo $$ >> \"$0\"; exec sleep 300' \"$0\" </dev/null >/dev/null 2>&1 &) ; exit 0";
    let process = shell(script).argument(&file).spawn().unwrap();
    let exit = process.wait().await;
    assert!(!exit.output_held_open);
    assert_gone(process.run(), &[process.pid()]);
    wait_until(|| !pids().any(|pid| command_line(pid).contains(&*file.to_string_lossy())));
}

fn wait_until(holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "it never came to hold");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn command_line(pid: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

#[tokio::test]
async fn one_that_forked_twice_and_scrubbed_its_environment_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    // The one in the middle lives for 300 ms, as a shell does that starts a server.
    let script = "env -i setsid /bin/sh -c '/bin/sh -c \"trap \\\"\\\" TERM; echo \\$\\$ >> \\\"\\$0\\\"; while :; do /bin/sleep 1; done\" \"$0\" </dev/null >/dev/null 2>&1 & /bin/sleep 0.3' \"$0\"; echo middle gone; sleep 300";
    let process = shell(script).argument(&file).spawn().unwrap();
    assert_eq!(process.next_line().await.unwrap().bytes, "middle gone");
    let members = written_pids(&file, 1);
    assert!(!marked(process.run()).contains(&members[0]), "the test means to scrub the marker");
    let exit = process.stop(brief()).await;
    assert!(exit.survivors.is_empty());
    assert_gone(process.run(), &members);
}

#[tokio::test]
async fn a_group_is_known_although_nobody_saw_its_member_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    // Scrubbed and orphaned within a millisecond, yet still in the child's own process group.
    let script = "(env -i /bin/sh -c 'echo $$ >> \"$0\"; exec /bin/sleep 300' \"$0\" </dev/null >/dev/null 2>&1 &) ; exit 0";
    let process = shell(script).argument(&file).spawn().unwrap();
    process.wait().await;
    std::thread::sleep(Duration::from_millis(100));
    let left: Vec<u32> = std::fs::read_to_string(&file)
        .unwrap_or_default()
        .lines()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    assert_gone(process.run(), &left);
}

fn runaways(count: usize) -> (tempfile::TempDir, Process, Vec<u32>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let script = format!("trap '' TERM INT; {} sleep 300 & sleep 300 | sleep 300", RUNAWAY.repeat(count));
    let process = shell(&script).argument(&file).spawn().unwrap();
    let mut members = written_pids(&file, count);
    members.push(process.pid());
    (folder, process, members)
}

/// Drops a process: no member is alive when the drop returns, unless it waited a second for that.
fn assert_dropped(process: Process, members: &[u32]) {
    let run = process.run().clone();
    let began = Instant::now();
    drop(process);
    let is_patience_over = began.elapsed() >= Duration::from_secs(1);
    let alive: Vec<u32> = members.iter().copied().filter(|pid| is_alive(*pid)).collect();
    let marked = marked(&run);
    let is_gone = alive.is_empty() && marked.is_empty();
    assert!(is_gone || is_patience_over, "alive: {alive:?}; marked: {marked:?}");
    assert_gone(&run, members);
}

#[tokio::test]
async fn a_drop_inside_a_runtime_ends_the_tree_before_it_returns() {
    let (_folder, process, members) = runaways(3);
    assert_dropped(process, &members);
}

#[test]
fn a_drop_after_the_runtime_is_gone_ends_the_tree_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (_folder, process, members) = runtime.block_on(async { runaways(2) });
    drop(runtime);
    std::thread::spawn(move || assert_dropped(process, &members)).join().unwrap();
}

#[test]
fn a_drop_right_after_the_spawn_leaves_nothing() {
    for _ in 0..effort::rounds() {
        let process = shell("setsid sleep 300 & sleep 300").spawn().unwrap();
        let pid = process.pid();
        assert_dropped(process, &[pid]);
    }
}

#[tokio::test]
async fn a_stop_goes_on_when_nobody_waits_for_it() {
    let (_folder, process, members) = runaways(1);
    let mut stop = Box::pin(process.stop(brief()));
    let first = std::future::poll_fn(|context| Poll::Ready(stop.as_mut().poll(context))).await;
    assert!(first.is_pending(), "the test means to give up early");
    drop(stop);
    assert_eq!(process.wait().await.ended_by, EndedBy::Stop);
    assert_gone(process.run(), &members);
}

#[tokio::test]
async fn a_tree_that_grows_while_it_is_killed_is_killed_to_the_last() {
    let process = shell("trap '' TERM; grow() { while :; do setsid sleep 300 & sleep 0.001; done; }; grow & grow & grow & echo up; wait").spawn().unwrap();
    assert_eq!(process.next_line().await.unwrap().bytes, "up");
    std::thread::sleep(Duration::from_millis(100));
    assert_dropped(process, &[]);
}

#[tokio::test]
async fn one_end_does_not_touch_another_run() {
    let (_first_folder, first, first_members) = runaways(1);
    let (_second_folder, second, second_members) = runaways(1);
    first.stop(brief()).await;
    assert_gone(first.run(), &first_members);
    assert!(second_members.iter().all(|pid| exists(*pid)));
    drop(second);
}

#[test]
fn descriptors_and_threads_do_not_pile_up() {
    if !child_test::runs_alone(descriptors_and_threads_do_not_pile_up) {
        return;
    }
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let open = || (count("/proc/self/fd"), count("/proc/self/task"));
    let once = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let process = shell("echo x").spawn().unwrap();
            lines(&process).await;
            process.wait().await;
        });
    };
    once();
    let before = open();
    for _ in 0..50 {
        once();
    }
    // A thread ends a moment after its work.
    wait_until(|| open() == before);
}
