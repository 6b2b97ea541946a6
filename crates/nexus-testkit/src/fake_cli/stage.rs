//! Environment of a fake: its input, its output, signals, and time.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead as _, BufReader, Read, Write as _},
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    imitation::Heard,
    misbehaviour::{Misbehaviour, complain},
    notes::Given,
    servers::{Handshake, Server, Servers},
};

/// Environment of a fake.
#[derive(Debug)]
pub struct Stage {
    given: Given,
    misbehaviour: Vec<Misbehaviour>,
    heard: Receiver<Heard>,
    put_back: VecDeque<Heard>,
    written: u64,
    held_back: Vec<u8>,
    input_is_over: bool,
}

impl Stage {
    /// Begins to listen. `stdin_notes` stores the bytes of standard input.
    pub(super) fn new(given: Given, misbehaviour: Vec<Misbehaviour>, stdin_notes: Option<PathBuf>) -> Self {
        let (sender, heard) = channel();
        if !misbehaviour.contains(&Misbehaviour::NeverReadsStdin) {
            let sender = sender.clone();
            std::thread::spawn(move || read_input(&sender, stdin_notes));
        }
        listen_to_signals(sender);
        Self {
            given,
            misbehaviour,
            heard,
            put_back: VecDeque::new(),
            written: 0,
            held_back: Vec::new(),
            input_is_over: false,
        }
    }

    /// Inputs of the program.
    pub fn given(&self) -> &Given {
        &self.given
    }

    /// Writes one line of JSON to standard output.
    pub fn line(&mut self, value: &serde_json::Value) {
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        self.write(&line);
    }

    /// Writes to standard output. A missing reader does not end the program.
    pub fn write(&mut self, bytes: &[u8]) {
        let bytes = if self.misbehaviour.contains(&Misbehaviour::NoLastLine) {
            self.but_the_last_line(bytes)
        } else {
            bytes.to_vec()
        };
        let mut rest = bytes.as_slice();
        for what in self.misbehaviour.clone() {
            let (Misbehaviour::DiesAfter { bytes: limit }
            | Misbehaviour::ClosesStdout { after_bytes: limit }) = what
            else {
                continue;
            };
            let room = usize::try_from(limit.saturating_sub(self.written)).unwrap_or(usize::MAX);
            if rest.len() <= room {
                continue;
            }
            rest = rest.get(..room).unwrap_or_default();
            self.put(rest);
            if matches!(what, Misbehaviour::DiesAfter { .. }) {
                end_by(Signal::KILL);
            }
            close_stdout();
            self.misbehaviour.retain(|other| *other != what);
            return;
        }
        self.put(rest);
    }

    /// Writes to standard error.
    pub fn error(&mut self, text: &str) {
        // A missing reader does not end the program.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// Returns the next input or signal. `None` if nothing arrives within `patience`.
    pub fn hear(&mut self, patience: Duration) -> Option<Heard> {
        if let Some(heard) = self.put_back.pop_front() {
            return Some(heard);
        }
        match self.heard.recv_timeout(patience) {
            Ok(heard) => {
                self.input_is_over |= matches!(heard, Heard::EndOfInput);
                Some(heard)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(patience);
                None
            }
        }
    }

    /// Returns the next line of standard input, without its end; `None` at the end of input. Signals in the meantime are
    /// queued.
    pub fn wait_for_line(&mut self) -> Option<String> {
        let mut later = VecDeque::new();
        let line = loop {
            if self.input_is_over {
                break None;
            }
            // The bound has no meaning: the loop waits again until input or a signal arrives.
            match self.hear(Duration::from_secs(1)) {
                Some(Heard::Line(line)) => break Some(line),
                Some(Heard::EndOfInput) => break None,
                Some(Heard::Signal(number)) if !self.ignores_signals() => end_by_default(number),
                Some(other) => later.push_back(other),
                None => {}
            }
        };
        self.put_back.append(&mut later);
        line
    }

    /// The rest of standard input, to its end.
    pub fn wait_for_end_of_input(&mut self) -> String {
        let mut text = String::new();
        while let Some(line) = self.wait_for_line() {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    /// Returns true if the script ignores signals.
    pub fn ignores_signals(&self) -> bool {
        self.misbehaviour.contains(&Misbehaviour::IgnoresSignals)
    }

    /// Ends this process by signal `number`, as if it had no handler.
    pub fn die_by(&self, number: i32) -> ! {
        end_by_default(number)
    }

    /// Connects to MCP servers, unless the script makes them unreachable.
    pub(super) fn connect(&self, servers: Vec<Server>, handshake: &Handshake) -> Servers {
        match self.misbehaviour.contains(&Misbehaviour::ReachesNoServer) {
            true => Servers::out_of_reach(servers),
            false => Servers::connect(servers, handshake),
        }
    }

    /// Returns the tool list that the program reports, if it reports one.
    pub fn named_tools(&self, tools: &[String]) -> Option<Vec<String>> {
        let another =
            self.misbehaviour.contains(&Misbehaviour::NamesAnotherTool).then(|| "novelty".to_owned());
        let named = tools.iter().cloned().chain(another).collect();
        (!self.misbehaviour.contains(&Misbehaviour::NamesNoTools)).then_some(named)
    }

    pub(super) fn misbehaviour(&self) -> &[Misbehaviour] {
        &self.misbehaviour
    }

    /// Makes this process ignore all signals that can be ignored.
    pub(super) fn ignore_signals_of_this_process() {
        let (sender, _heard) = channel();
        listen_to_signals(sender);
    }

    /// Keeps the last whole line back until another one follows.
    fn but_the_last_line(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held_back.extend_from_slice(bytes);
        let end = self.held_back.strip_suffix(b"\n").unwrap_or(&self.held_back);
        // Ignore a line end at the very end: it belongs to the last line, which is held back.
        let last = end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let held = self.held_back.split_off(last);
        std::mem::replace(&mut self.held_back, held)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.written += bytes.len() as u64;
        let mut stdout = io::stdout().lock();
        // A missing reader does not end the program.
        let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    }
}

/// Reads lines until the end, and notes every byte.
fn read_input(sender: &Sender<Heard>, notes: Option<PathBuf>) {
    let mut notes = notes.and_then(|path| File::create(path).ok());
    let mut input = BufReader::new(io::stdin().lock());
    loop {
        let mut line = Vec::new();
        // Read bytes, not text: a host may send invalid UTF-8, and the notes must show it.
        match input.by_ref().read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if let Some(notes) = &mut notes {
            // Ignore an error, such as a full disk: the test that reads the notes fails then.
            let _ = notes.write_all(&line);
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        if sender.send(Heard::Line(String::from_utf8_lossy(line).into_owned())).is_err() {
            return;
        }
    }
    // An error means that the fake CLI has ended.
    let _ = sender.send(Heard::EndOfInput);
}

/// Handles SIGINT, SIGTERM and SIGHUP from now on, so that they do not kill this process.
fn listen_to_signals(sender: Sender<Heard>) {
    // Wait until the handlers exist. A signal before that would kill the process.
    let (ready, is_ready) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let Ok(runtime) = runtime else { return complain("no signals can be heard") };
        runtime.block_on(async {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let listen = |kind: SignalKind| {
                let sender = sender.clone();
                signal(kind).map(|mut signals| async move {
                    while signals.recv().await.is_some() {
                        // An error means that the fake CLI has ended.
                        let _ = sender.send(Heard::Signal(kind.as_raw_value()));
                    }
                })
            };
            let listeners: Vec<_> = kinds.into_iter().filter_map(|kind| listen(kind).ok()).collect();
            // The thread that started this one may have stopped waiting.
            let _ = ready.send(());
            futures::future::join_all(listeners).await;
        });
    });
    // Without a listener a signal kills this process, and the test fails.
    let _ = is_ready.recv_timeout(Duration::from_secs(5));
}

/// Ends this process by `signal`, even if a handler is set.
fn end_by(signal: Signal) -> ! {
    let _ = kill_process(getpid(), signal);
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::process::exit(1)
}

/// Ends this process as signal `number` would without a handler: it becomes a shell that dies of the signal.
fn end_by_default(number: i32) -> ! {
    use std::os::unix::process::CommandExt as _;

    let error =
        std::process::Command::new("/bin/sh").arg("-c").arg(format!("kill -{number} $$; exit 1")).exec();
    complain(&format!("cannot die by signal {number}: {error}"));
    std::process::exit(128 + number)
}

/// Closes standard output for good: the reader sees the end.
fn close_stdout() {
    // The descriptor is replaced, not closed, so that no other file takes its number.
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        // If this fails, standard output stays open, and the test fails.
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}
