//! A line at the terminal that shows what a command does, and for how long.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use crate::{printable::printable, terminal};

/// Silence after which the line appears. Shorter work shows nothing.
const SILENCE: Duration = Duration::from_secs(2);
/// Pause between two updates of the line.
const PAUSE: Duration = Duration::from_secs(1);

/// Text of the line.
static TEXT: Mutex<String> = Mutex::new(String::new());
/// Number of characters of the line on the terminal; 0 without a line.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

/// Shows the current activity on standard error until it is dropped, if standard error is a terminal that can move its cursor.
#[derive(Debug)]
pub(crate) struct Activity(Option<JoinHandle<()>>);

impl Activity {
    /// Starts to show `text`, after two seconds, with the elapsed time.
    pub(crate) fn start(text: &str) -> Self {
        set(text);
        if !io::stderr().is_terminal() || terminal::is_dumb() {
            return Self(None);
        }
        let began = Instant::now();
        Self(Some(tokio::spawn(async move {
            tokio::time::sleep(SILENCE).await;
            loop {
                draw(began.elapsed());
                tokio::time::sleep(PAUSE).await;
            }
        })))
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
        clear();
    }
}

/// Replaces the text of the line.
pub(crate) fn set(text: &str) {
    *TEXT.lock().unwrap_or_else(PoisonError::into_inner) = printable(text);
}

/// Removes the line from the terminal. Every other output calls this first.
pub(crate) fn clear() {
    if SHOWN.load(Ordering::Relaxed) > 0 {
        // The lock orders this write after that of a line that is being drawn.
        let _text = TEXT.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = SHOWN.swap(0, Ordering::Relaxed);
        let _ = io::stderr().lock().write_all(format!("\r{:shown$}\r", "").as_bytes());
    }
}

fn draw(elapsed: Duration) {
    let text = TEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let line = line(&text, elapsed, terminal::columns().unwrap_or(80));
    // Spaces overwrite a longer line, so no escape code is needed.
    let before = SHOWN.swap(line.chars().count(), Ordering::Relaxed);
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(format!("\r{line:before$}").as_bytes()).and_then(|()| stderr.flush());
}

/// Builds the line. It leaves the last column free, since a terminal would wrap there.
fn line(text: &str, elapsed: Duration, columns: usize) -> String {
    let seconds = elapsed.as_secs();
    let elapsed = match seconds {
        0..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    };
    let room = columns.saturating_sub(elapsed.len() + " \u{2026} ".chars().count() + 1);
    format!("{} \u{2026} {elapsed}", text.chars().take(room).collect::<String>().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits_the_terminal_with_its_time() {
        let text = "running the project's tests: cargo test --workspace --offline --all-features --locked";
        let shown = line(text, Duration::from_secs(75), 60);
        assert!(shown.ends_with(" \u{2026} 1 min 15 s"), "{shown}");
        assert_eq!(shown.chars().count(), 59);
        assert_eq!(line("reading", Duration::from_secs(2), 80), "reading \u{2026} 2 s");
    }
}
