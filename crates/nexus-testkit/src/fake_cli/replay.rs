//! Replay of a real CLI's output, with its timing.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{misbehaviour, stage::Stage};

/// Output of a CLI, and its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replay {
    /// Standard output, in order.
    pub stdout: Vec<Chunk>,
    /// Standard error, written at the start.
    pub stderr: String,
    /// End of the process.
    pub end: End,
    /// Factor for all times. 0 writes everything at once.
    pub time_scale: f64,
    /// True if it writes nothing before the first line of its standard input arrives.
    pub waits_for_input: bool,
    /// True if it waits at the end until its standard input is closed.
    pub waits_for_end_of_input: bool,
    /// Files that it wrote, such as its own record of the conversation.
    pub files: Vec<WrittenFile>,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunk {
    /// Time of the piece, in milliseconds from the start.
    pub at_ms: u64,
    /// The piece, with its line end if it had one.
    pub text: String,
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Exit with this code.
    Code(i32),
    /// Death by this signal, which the fake sends to itself.
    Signal(i32),
}

impl Default for End {
    fn default() -> Self {
        Self::Code(0)
    }
}

/// A file that a CLI writes under a folder that a variable of its environment names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenFile {
    /// The variable, such as that of the CLI's home.
    pub under: String,
    /// The path in that folder.
    pub path: PathBuf,
    /// Contents of the file.
    pub text: String,
}

impl Replay {
    /// A recording: standard output, one line after the other, and the run data beside it, of which `line_ms`,
    /// `exit_code`, `signal` and `stderr_tail` are read. At full speed: see [`Replay::at_scale`].
    pub fn from_recording(stdout: &str, run: &Value) -> Self {
        let times = run.get("line_ms").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut at_ms = 0;
        let chunk = |(index, line): (usize, &str)| {
            // A line without a time belongs to the line before.
            at_ms = times.get(index).and_then(Value::as_u64).unwrap_or(at_ms);
            Chunk { at_ms, text: line.to_owned() }
        };
        let number =
            |key: &str| run.get(key).and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok());
        let end = match number("signal") {
            Some(signal) => End::Signal(signal),
            None => End::Code(number("exit_code").unwrap_or(0)),
        };
        Self {
            stdout: stdout.split_inclusive('\n').enumerate().map(chunk).collect(),
            stderr: run.get("stderr_tail").and_then(Value::as_str).unwrap_or_default().to_owned(),
            end,
            time_scale: 0.0,
            ..Self::default()
        }
    }

    /// Lines that come at once, then exit code 0.
    pub fn lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let chunk = |line: &str| Chunk { at_ms: 0, text: format!("{line}\n") };
        Self { stdout: lines.into_iter().map(|line| chunk(line.as_ref())).collect(), ..Self::default() }
    }

    /// Multiplies all times: 1 is the recorded speed.
    #[must_use]
    pub fn at_scale(mut self, time_scale: f64) -> Self {
        self.time_scale = time_scale;
        self
    }

    /// Sets another end.
    #[must_use]
    pub fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// Writes nothing before the first line of its standard input arrives.
    #[must_use]
    pub fn after_input(mut self) -> Self {
        self.waits_for_input = true;
        self
    }

    /// Waits, at the end, for its standard input to be closed.
    #[must_use]
    pub fn until_end_of_input(mut self) -> Self {
        self.waits_for_end_of_input = true;
        self
    }

    /// Writes a file as well.
    #[must_use]
    pub fn with_file(mut self, file: WrittenFile) -> Self {
        self.files.push(file);
        self
    }

    /// Says everything. Returns how to end.
    pub(super) fn play(&self, stage: &mut Stage) -> End {
        stage.error(&self.stderr);
        for file in &self.files {
            file.write(stage);
        }
        if self.waits_for_input {
            stage.wait_for_line();
        }
        let mut now = 0;
        for chunk in &self.stdout {
            let gap = chunk.at_ms.saturating_sub(now);
            now = chunk.at_ms;
            // A scale that is negative or not a number gives no pause.
            let gap = Duration::try_from_secs_f64(gap as f64 * self.time_scale / 1000.0).unwrap_or_default();
            if !gap.is_zero() {
                std::thread::sleep(gap);
            }
            stage.write(chunk.text.as_bytes());
        }
        if self.waits_for_end_of_input {
            stage.wait_for_end_of_input();
        }
        self.end
    }
}

impl WrittenFile {
    fn write(&self, stage: &Stage) {
        let Some(folder) = stage.given().variable(&self.under) else { return };
        let path = PathBuf::from(folder).join(&self.path);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, &self.text));
        if let Err(error) = written {
            misbehaviour::complain(&format!("{} cannot be written: {error}", path.display()));
        }
    }
}
