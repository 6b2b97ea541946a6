//! `runs.jsonl`: the finished runs, one a line, in the order of their numbers.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use super::ExperimentDescription;
use crate::{error::TestbedError, run_record::RunRecord};

/// Longest line, in bytes.
const MOST_LINE_BYTES: u64 = 32 << 20;

/// Reads the finished runs of an experiment, and how many bytes of the file they are. What is behind them was cut off.
pub(super) fn read(
    path: &Path,
    description: &ExperimentDescription,
) -> Result<(Vec<RunRecord>, u64), TestbedError> {
    let failed = |error| TestbedError::io(path, error);
    // A pipe would hold the call up, and a link leads elsewhere.
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file")));
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(failed(error)),
    };
    let (mut runs, mut bytes, mut lines) = (Vec::new(), 0, BufReader::new(file));
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(MOST_LINE_BYTES).read_until(b'\n', &mut line).map_err(failed)?;
        if line.last() != Some(&b'\n') {
            if read as u64 == MOST_LINE_BYTES {
                return Err(odd(path, runs.len(), "is too long for a run"));
            }
            return Ok((runs, bytes));
        }
        let run: RunRecord = serde_json::from_slice(&line)
            .map_err(|error| odd(path, runs.len(), &format!("is no run: {error}")))?;
        if description.key(runs.len() as u64).as_ref() != Some(&run.key) {
            let expected = match description.key(runs.len() as u64) {
                Some(key) => {
                    format!("run {} of arm {:?} on {:?} ({})", key.repeat, key.arm, key.trap, key.answer)
                }
                None => "no further run".to_owned(),
            };
            return Err(odd(
                path,
                runs.len(),
                &format!("is another run than the one that belongs here: {expected}"),
            ));
        }
        bytes += read as u64;
        runs.push(run);
    }
}

fn odd(path: &Path, line: usize, problem: &str) -> TestbedError {
    let problem =
        format!("line {} {problem}; remove it and all lines after it, and they are run again", line + 1);
    TestbedError::Experiment { path: path.to_owned(), problem }
}

/// The file, open for more.
#[derive(Debug)]
pub(super) struct RunFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl RunFile {
    /// Opens it to go on behind its first `bytes`. What was cut off behind them is removed.
    pub(super) fn open(path: PathBuf, bytes: u64) -> Result<Self, TestbedError> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true);
        let file =
            nexus_files::open_regular(&path, options).map_err(|error| TestbedError::io(&path, error))?;
        let mut opened = Self { path, file, bytes };
        opened.cut()?;
        Ok(opened)
    }

    fn cut(&mut self) -> Result<(), TestbedError> {
        let cut = self.file.set_len(self.bytes).and_then(|()| self.file.seek(SeekFrom::Start(self.bytes)));
        cut.map(drop).map_err(|error| TestbedError::io(&self.path, error))
    }

    /// Adds a run, and waits until the disk has it. Of one that could not be written as a whole nothing is left.
    pub(super) fn add(&mut self, run: &RunRecord) -> Result<(), TestbedError> {
        let failed = |error| TestbedError::io(&self.path, error);
        let mut line = serde_json::to_vec(run).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        if line.len() as u64 > MOST_LINE_BYTES {
            return Err(failed(io::Error::other("a run is too large to be written down")));
        }
        match self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            Ok(()) => {
                self.bytes += line.len() as u64;
                Ok(())
            }
            Err(error) => {
                let error = failed(error);
                // The first failure counts.
                let _ = self.cut();
                Err(error)
            }
        }
    }
}
