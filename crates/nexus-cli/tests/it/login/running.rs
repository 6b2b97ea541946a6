//! A command that waits for a person.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;

use super::home::Finished;
use crate::support::{PATIENCE, answers::checked};

/// A command under way. Dropped, it is ended.
pub(crate) struct Running {
    arguments: Vec<String>,
    child: Child,
    stdout: BufReader<ChildStdout>,
    read: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let arguments = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { arguments, child, stdout, read: String::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line of standard output.
    pub(crate) fn line(&mut self) -> String {
        if !self.stdout.buffer().contains(&b'\n') {
            let mut output = [PollFd::new(self.stdout.get_ref(), PollFlags::IN)];
            let patience = PATIENCE.try_into().unwrap();
            assert!(
                poll(&mut output, Some(&patience)).unwrap() > 0,
                "it prints nothing after {:?}",
                self.read
            );
        }
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut stderr = String::new();
            self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("it ended after {:?}, saying {stderr:?}", self.read);
        }
        self.read.push_str(&line);
        line
    }

    /// The next line, which is a JSON value and no note.
    pub(crate) fn line_of_json(&mut self) -> Value {
        loop {
            let value: Value = serde_json::from_str(&self.line()).unwrap();
            if value["type"] != "note" {
                return value;
            }
        }
    }

    /// Reads lines up to one that holds `words`; gives all of them.
    pub(crate) fn lines_to(&mut self, words: &str) -> String {
        let from = self.read.len();
        while !self.line().contains(words) {}
        self.read[from..].to_owned()
    }

    /// Presses Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.send(Signal::INT);
    }

    /// Ends it as a system does.
    pub(crate) fn terminate(&self) {
        self.send(Signal::TERM);
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn finish(mut self) -> Finished {
        self.stdout.read_to_string(&mut self.read).unwrap();
        let mut stderr = Vec::new();
        self.child.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        let status = self.child.wait().unwrap();
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        // A shell around the command prints lines of its own.
        if arguments.contains(&"--json") && arguments[0] != "-c" {
            checked(&arguments, &self.read);
        }
        Finished::of(Output { status, stdout: std::mem::take(&mut self.read).into_bytes(), stderr })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
