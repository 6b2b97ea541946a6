//! The driver in a host that is slower than its program: the program waits, and that costs neither the turn nor a word.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use nexus_core::{
    CancelToken, ErrorKind, EventEnvelope, EventSink, ExecutionBackend as _, IdleLimits, Limits, NullSink,
    Phase, TurnEvent, TurnHost,
};

use super::driver_tests::{Bench, MINUTE, SHORT, Script, idle, let_pass, request};

/// Texts of the flood below, of 64 KiB each: more than may wait anywhere on its way.
const TEXTS: usize = 800;

/// Writes [`TEXTS`] texts, then `ended`, then an answer. With the first sixteen it writes `begun`.
fn flood() -> String {
    let text = "text=$(head -c 65536 /dev/zero | tr '\\0' x)";
    format!(
        "{text}; i=0; while [ $i -lt {TEXTS} ]; do i=$((i+1)); printf '{{\"text\":\"%s\"}}\\n' \"$text\"; \
         [ $i = 16 ] && : > begun; done; : > ended; echo '{{\"done\":\"ok\"}}'; cat > /dev/null"
    )
}

/// A sink that takes nothing until it is opened.
#[derive(Clone, Debug, Default)]
struct SinkGate(Arc<(AtomicBool, Mutex<Option<Waker>>)>);

impl SinkGate {
    fn open(&self) {
        self.0.0.store(true, Ordering::SeqCst);
        if let Some(waker) = self.0.1.lock().unwrap().take() {
            waker.wake();
        }
    }
}

#[derive(Debug, Default)]
struct HeldSink {
    gate: SinkGate,
    text_bytes: usize,
    warnings: Vec<String>,
}

impl EventSink for HeldSink {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        *self.gate.0.1.lock().unwrap() = Some(context.waker().clone());
        if self.gate.0.0.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn accept(&mut self, envelope: EventEnvelope) {
        match envelope.event {
            TurnEvent::TextDelta(delta) => self.text_bytes += delta.text.len(),
            TurnEvent::Warning(warning) => self.warnings.push(warning.text),
            _ => {}
        }
    }
}

fn work_folder(bench: &Bench) -> PathBuf {
    let folder = bench.path("work");
    std::fs::create_dir(&folder).unwrap();
    folder
}

/// Blocks the thread until there is a file.
fn block_until(file: &Path) {
    let until = Instant::now() + MINUTE;
    while !file.exists() {
        assert!(Instant::now() < until, "{} is not written", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_in_time_is_no_silence_however_late_it_is_read() {
    let bench = Bench::new(Script::new(
        r#"echo '{"text":"hal"}'; echo '{"text":"f"}'; echo '{"done":"half"}'; : > written; cat > /dev/null"#,
    ));
    let folder = work_folder(&bench);
    let written = folder.join("written");
    // The host has something else to do at the first word.
    let mut sink = |envelope: EventEnvelope| {
        if matches!(envelope.event, TurnEvent::TextDelta(_)) {
            block_until(&written);
            std::thread::sleep(3 * SHORT);
        }
    };
    let limits = IdleLimits::none().with(Phase::Model, SHORT);
    let turn = bench.backend.run_turn(idle(limits).in_directory(&folder), TurnHost::new(), &mut sink);
    assert_eq!(turn.await.unwrap().text, "half");
}

#[tokio::test]
async fn a_slow_sink_holds_the_program_up_and_costs_no_delta() {
    let bench = Bench::new(Script::new(&flood()));
    let folder = work_folder(&bench);
    let mut sink = HeldSink::default();
    let gate = sink.gate.clone();
    let turn = bench.backend.run_turn(request().in_directory(&folder), TurnHost::new(), &mut sink);
    let opening = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let ended = folder.join("ended").exists();
        gate.open();
        ended
    };
    let (outcome, ended) = tokio::join!(turn, opening);
    assert_eq!(outcome.unwrap().text, "ok");
    // The script's last message is shorter than its deltas.
    let shortened = "the text of a finished message differs from its deltas; the finished text counts";
    assert_eq!(sink.warnings, [shortened]);
    assert!(!ended, "50 MiB of text were taken in, and the sink had taken nothing");
    assert_eq!(sink.text_bytes, TEXTS << 16, "text is missing in the events");
}

#[tokio::test]
async fn a_program_that_waits_for_the_sink_is_not_silent() {
    let bench = Bench::new(Script::new(&flood()));
    let folder = work_folder(&bench);
    let mut sink = HeldSink::default();
    let gate = sink.gate.clone();
    let limits = IdleLimits::none().with(Phase::Model, MINUTE);
    let turn = bench.backend.run_turn(idle(limits).in_directory(&folder), TurnHost::new(), &mut sink);
    let begun = folder.join("begun");
    let opening = async {
        let until = Instant::now() + MINUTE;
        while !begun.exists() {
            assert!(Instant::now() < until, "it does not begin");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // More waits by now than the sink's turn takes in.
        for _ in 0..3 {
            let_pass(2 * MINUTE).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        gate.open();
    };
    let (outcome, ()) = tokio::join!(turn, opening);
    assert_eq!(outcome.unwrap().text, "ok");
}

#[tokio::test]
async fn a_program_that_waits_for_the_sink_ends_by_its_deadline_and_by_a_cancellation() {
    let bench = Bench::new(Script::new(&flood()));
    let folder = work_folder(&bench);
    let mut sink = HeldSink::default();
    let cancel = CancelToken::new();
    let host = TurnHost::new().with_cancel(cancel.clone());
    let turn = bench.backend.run_turn(request().in_directory(&folder), host, &mut sink);
    let cancelling = async {
        tokio::time::sleep(2 * SHORT).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(turn, cancelling);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);

    let limits = Limits::new().with_deadline(3 * SHORT);
    let limited = request().with_limits(limits).in_directory(&folder);
    let error = bench.backend.run_turn(limited, TurnHost::new(), &mut sink).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(nexus_core::Limit::Deadline));
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_program_that_hangs_is_silent_though_it_has_said_much() {
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo '{\"text\":\"x\"}'; done; sleep 300";
    let bench = Bench::new(Script::new(script));
    let limits = IdleLimits::none().with(Phase::Model, 4 * SHORT);
    let error = bench.backend.run_turn(idle(limits), TurnHost::new(), &mut NullSink).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Starved(Phase::Model));
    assert_eq!(error.partial().text.len(), 20_000);
}

#[tokio::test]
async fn a_program_that_says_much_after_its_answer_is_read_until_it_ends() {
    // 32 MB behind the answer: were they not read, the program could not end by itself.
    let script = "echo '{\"done\":\"ok\"}'; text=$(head -c 65536 /dev/zero | tr '\\0' x); i=0; \
        while [ $i -lt 500 ]; do i=$((i+1)); echo \"{\\\"more\\\":\\\"$text\\\"}\"; done; : > ended";
    let bench = Bench::new(Script::new(script));
    let folder = work_folder(&bench);
    let request = request().in_directory(&folder);
    let result = bench.backend.run_turn(request, TurnHost::new(), &mut NullSink).await.unwrap();
    assert_eq!(result.text, "ok");
    assert!(folder.join("ended").exists(), "it was stopped");
}
