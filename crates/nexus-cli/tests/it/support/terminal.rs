//! A command at a terminal of its own.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags, open},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use super::PATIENCE;

/// Question of an editor for the position of the cursor. Source: ECMA-48, DSR.
const CURSOR_QUESTION: &[u8] = b"\x1b[6n";

/// A command whose three streams are a terminal of 24 rows.
pub(crate) struct Terminal {
    child: Child,
    controller: File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts a command at a terminal with so many columns.
    pub(crate) fn start(mut command: Command, columns: u16) -> Self {
        // A child of another test would retain the terminal, and its close would reach nobody.
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let terminal =
            File::from(open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap());
        let stream = || Stdio::from(terminal.try_clone().unwrap());
        command.stdin(stream()).stdout(stream()).stderr(stream());
        let child = command.spawn().unwrap();
        // The reader sees the end of the terminal once no process has it open.
        drop((command, terminal));
        let controller = File::from(controller);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut from, into) = (controller.try_clone().unwrap(), Arc::clone(&shown));
        let mut answers = controller.try_clone().unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut asked = 0;
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                let mut shown = into.lock().unwrap();
                shown.extend_from_slice(&bytes[..read]);
                // A terminal tells an editor the position of its cursor.
                let asks =
                    shown.windows(CURSOR_QUESTION.len()).filter(|part| *part == CURSOR_QUESTION).count();
                for _ in asked..asks {
                    answers.write_all(b"\x1b[1;1R").unwrap();
                }
                asked = asks;
            }
        });
        Self { child, controller, shown, reader: Some(reader) }
    }

    /// Everything that the terminal has got so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Waits until the terminal shows a text.
    #[track_caller]
    pub(crate) fn until(&self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.shown().contains(text) {
            assert!(Instant::now() < until, "no {text:?} in {:?}", self.shown());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the terminal shows a text so often.
    #[track_caller]
    pub(crate) fn until_times(&self, text: &str, times: usize) {
        let until = Instant::now() + PATIENCE;
        while self.shown().matches(text).count() < times {
            assert!(Instant::now() < until, "{text:?} is not there {times} times: {:?}", self.shown());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a text is shown after the last `mark`.
    pub(crate) fn until_after(&self, mark: &str, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.shown().rsplit(mark).next().is_some_and(|rest| rest.contains(text)) {
            assert!(Instant::now() < until, "{text:?} does not follow {mark:?}: {:?}", self.shown());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Closes the terminal, as its window does. Returns the exit code of the command.
    pub(crate) fn close(mut self) -> Option<i32> {
        self.controller = File::open("/dev/null").unwrap();
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), Signal::HUP).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "it goes on without its terminal");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types a text.
    pub(crate) fn send(&mut self, text: &str) {
        self.controller.write_all(text.as_bytes()).unwrap();
    }

    /// Ends the command as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    }

    /// Waits for the end. Returns the exit code, and everything that was shown.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code();
            }
            assert!(Instant::now() < until, "it goes on: {:?}", self.shown());
            thread::sleep(Duration::from_millis(10));
        };
        self.reader.take().unwrap().join().unwrap();
        (code, self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
