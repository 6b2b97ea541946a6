//! `runs.jsonl`: the finished runs, one per line, in the order of their numbers.

use std::{
    fs::OpenOptions,
    path::{Path, PathBuf},
};

use nexus_files::JsonLinesLog;

use super::ExperimentDescription;
use crate::{error::TestbedError, run_record::RunRecord};

/// Maximum length of a line, in bytes.
const MOST_LINE_BYTES: u64 = 32 << 20;

/// The file of an experiment's finished runs. One process writes it at a time.
#[derive(Debug)]
pub(super) struct RunFile {
    log: JsonLinesLog<RunRecord>,
}

impl RunFile {
    /// Names the file at `path`, which may not exist yet.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { log: JsonLinesLog::at(path, MOST_LINE_BYTES) }
    }

    /// Reads the finished runs. A run whose line is torn counts as unfinished.
    pub(super) fn read(&self, description: &ExperimentDescription) -> Result<Vec<RunRecord>, TestbedError> {
        let path = self.log.path();
        let lines = self.log.read().map_err(|error| TestbedError::io(path, error))?;
        // A killed process tears only the last line. Any other torn line is a change from outside.
        if let Some(torn) = lines.torn.iter().find(|line| !line.is_tail) {
            return Err(odd(path, torn.line, &format!("is not a run: {}", torn.reason)));
        }
        let mut runs = Vec::with_capacity(lines.values.len());
        for (line, run) in lines.values {
            // The key of each line follows from its position, so a removed or repeated run is noticed.
            let expected = description.key(runs.len() as u64);
            if expected.as_ref() != Some(&run.key) {
                let expected = match expected {
                    Some(key) => {
                        format!("run {} of arm {:?} on {:?} ({})", key.repeat, key.arm, key.trap, key.answer)
                    }
                    None => "no further run".to_owned(),
                };
                let problem = format!("is a different run than expected: {expected}");
                return Err(odd(path, line, &problem));
            }
            runs.push(run);
        }
        Ok(runs)
    }

    /// Creates the file if it is missing, and removes a torn last line, so that the next run replaces it.
    pub(super) fn begin(&self) -> Result<(), TestbedError> {
        let path = self.log.path();
        let opened = nexus_files::open_regular(path, OpenOptions::new().append(true).create(true));
        let begun = opened.and_then(|_| self.log.remove_torn_tail());
        begun.map_err(|error| TestbedError::io(path, error))
    }

    /// Appends a run, and flushes it to the disk. If the write fails, no partial line remains.
    pub(super) fn add(&self, run: &RunRecord) -> Result<(), TestbedError> {
        self.log.append(run).map(drop).map_err(|error| TestbedError::io(self.log.path(), error))
    }
}

fn odd(path: &Path, line: u64, problem: &str) -> TestbedError {
    let problem = format!("line {line} {problem}; remove it and all lines after it to run them again");
    TestbedError::Experiment { path: path.to_owned(), problem }
}
