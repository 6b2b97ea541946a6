//! Folder with the output of one child, for a bug report: redacted, and written only on request.
//!
//! `stdout.jsonl` and `stderr.txt` contain the output byte for byte, except for secrets. `invocation.json` contains the
//! executable, the redacted arguments, and the *names* of the variables. `exit.json` contains the exit status. The
//! folder has mode 0700, the files 0600. Output may still contain text that a person typed or a model read, so check it
//! before you share it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::json;

use crate::environment::Environment;
use crate::executable::Executable;
use crate::private_home::private_file;
use crate::process_tree::LiveProcess;
use crate::spawn::Exit;
use nexus_core::redact::{Redactor, StreamRedactor};
use nexus_files::make_private_folder;

/// Recording of one running process.
#[derive(Debug)]
pub(crate) struct Capture {
    stdout: Recorded,
    stderr: Recorded,
    exit: File,
}

#[derive(Debug)]
struct Recorded {
    file: File,
    redactor: StreamRedactor,
    /// First error, after which nothing more is written.
    failed: Option<io::ErrorKind>,
    bytes: u64,
}

/// Output stream of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

impl Capture {
    pub(crate) fn begin(
        folder: &Path,
        executable: &Executable,
        arguments: &[OsString],
        environment: &Environment,
        redactor: &Redactor,
    ) -> io::Result<Self> {
        make_private_folder(folder)?;
        let redacted =
            |text: &OsString| String::from_utf8_lossy(&redactor.redact(text.as_bytes())).into_owned();
        // Record only the names of the variables, because their values may be secrets.
        let invocation = json!({
            "executable": executable.path().to_string_lossy(),
            "arguments": arguments.iter().map(redacted).collect::<Vec<_>>(),
            "environment_names": environment.names().map(|name| name.to_string_lossy()).collect::<Vec<_>>(),
        });
        write_json(private_file(&folder.join("invocation.json"))?, &invocation)?;
        let recorded = |name: &str| -> io::Result<Recorded> {
            Ok(Recorded {
                file: private_file(&folder.join(name))?,
                redactor: StreamRedactor::new(redactor.clone()),
                failed: None,
                bytes: 0,
            })
        };
        Ok(Self {
            stdout: recorded("stdout.jsonl")?,
            stderr: recorded("stderr.txt")?,
            exit: private_file(&folder.join("exit.json"))?,
        })
    }

    pub(crate) fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        match stream {
            OutputStream::Stdout => self.stdout.write(bytes),
            OutputStream::Stderr => self.stderr.write(bytes),
        }
    }

    pub(crate) fn finish(mut self, exit: &Exit) {
        self.stdout.finish();
        self.stderr.finish();
        let processes = |processes: &[LiveProcess]| {
            processes
                .iter()
                .map(|process| json!({ "pid": process.identity.pid, "name": process.name }))
                .collect::<Vec<_>>()
        };
        let written = json!({
            "status": format!("{:?}", exit.status),
            "ended_by": format!("{:?}", exit.ended_by),
            "output_held_open": exit.output_held_open,
            "left_behind": processes(&exit.left_behind),
            "survivors": processes(&exit.survivors),
            "elapsed_ms": u64::try_from(exit.elapsed.as_millis()).unwrap_or(u64::MAX),
            "stdout_bytes": self.stdout.bytes,
            "stderr_bytes": self.stderr.bytes,
            "stdout_failed": self.stdout.failed.map(|kind| kind.to_string()),
            "stderr_failed": self.stderr.failed.map(|kind| kind.to_string()),
        });
        if let Err(error) = write_json(self.exit, &written) {
            tracing::warn!(%error, "the end of a recording could not be written");
        }
    }
}

impl Recorded {
    fn write(&mut self, bytes: &[u8]) {
        // Count the bytes that a failed recording misses too.
        self.bytes += bytes.len() as u64;
        if self.failed.is_none() {
            let shown = self.redactor.push(bytes);
            self.append(&shown);
        }
    }

    fn finish(&mut self) {
        if self.failed.is_none() {
            // The redactor may still withhold the end of the stream as the beginning of a secret.
            let shown = self.redactor.finish();
            self.append(&shown);
        }
    }

    fn append(&mut self, shown: &[u8]) {
        if let Err(error) = self.file.write_all(shown) {
            // A full disk must not end the run, so only the recording stops.
            tracing::warn!(%error, "a recording stopped early because of an error");
            self.failed = Some(error.kind());
        }
    }
}

fn write_json(mut file: File, value: &serde_json::Value) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    file.write_all(&text)
}
