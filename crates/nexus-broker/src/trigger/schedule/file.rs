//! Triggers that fire by files.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::is_text;
use crate::error::BrokerError;

/// Shortest and longest quiet time, in milliseconds.
const QUIET_MILLISECONDS: std::ops::RangeInclusive<u64> = 50..=3_600_000;

/// A file, or the files of a folder. They fire when they were written and have been quiet.
///
/// The unit is the state of the file, or of all matching files of the folder: path, time of change, size and number of each,
/// and the SHA-256 of a single file of up to 64 MiB. A change of the state fires when nothing has changed for the quiet
/// time, however often it changed before. Files that never stop changing never fire. The state is also the name of the
/// occurrence, so two brokers that watch the same files fire once.
///
/// | event | result |
/// | --- | --- |
/// | a file is written, appended to or touched, once or 1,000 times | fires once it is quiet |
/// | another file takes its name, as editors save | one change, as the name has another file |
/// | a file comes and goes within the quiet time | nothing |
/// | a file is deleted | nothing, or with `deleted` a firing; a later file of its name is a change |
/// | the mode or a name that does not match changes | nothing |
/// | the folder is missing, or is deleted | it is looked for every two seconds; its content when it appears is a change |
/// | a change while no broker ran | fires once when one runs again, for a folder without a list of files; not if files were only deleted and none is left |
/// | a network file system | the system does not report the changes of other machines: set `poll_milliseconds` |
/// | a link | a single file is followed; links in a folder are skipped |
/// | more than 10,000 matching files, or folders 32 deep | nothing fires, and a warning is logged |
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSchedule {
    /// Absolute path. It need not exist yet.
    pub path: PathBuf,
    /// True if `path` is a folder.
    #[serde(default)]
    pub folder: bool,
    /// Glob that selects files of the folder by their path below it, such as `*.csv` or `in/**/*.json`. All by
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// True if the folders below it are watched, too.
    #[serde(default)]
    pub recursive: bool,
    /// Time without a change before it fires, in milliseconds: 50 to 3,600,000. 500 by default.
    #[serde(default = "quiet_milliseconds")]
    pub quiet_milliseconds: u64,
    /// Interval between two looks, in milliseconds, where the system does not report changes, as on a network
    /// file system: 100 to 3,600,000. By default, the system reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_milliseconds: Option<u64>,
    /// True if a deleted file fires, too.
    #[serde(default)]
    pub deleted: bool,
    /// Machine of the path: brokers with another machine name ignore the trigger. If missing, every broker of the store
    /// watches the path on its own machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn quiet_milliseconds() -> u64 {
    500
}

impl FileSchedule {
    /// Creates a schedule for one file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            folder: false,
            pattern: None,
            recursive: false,
            quiet_milliseconds: quiet_milliseconds(),
            poll_milliseconds: None,
            deleted: false,
            machine: None,
            other: Map::new(),
        }
    }

    /// Creates a schedule for the files of a folder, without the folders below it.
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self { folder: true, ..Self::file(path) }
    }

    pub(super) fn check(&self) -> Result<(), BrokerError> {
        let path: &Path = &self.path;
        if !path.is_absolute() || path.as_os_str().len() > 4096 || path.to_str().is_none() {
            return Err(BrokerError::invalid(
                "the path of the trigger is not absolute",
                "write it from the root, in UTF-8",
            ));
        }
        if path.components().any(|part| part == std::path::Component::ParentDir) {
            return Err(BrokerError::invalid(
                "the path of the trigger has `..` in it",
                "write the path that it resolves to, without `..`",
            ));
        }
        if !self.folder && (path.file_name().is_none() || self.pattern.is_some() || self.recursive) {
            return Err(BrokerError::invalid(
                "`pattern` and `recursive` apply only to folders",
                "name the folder as `path`, and set `folder`",
            ));
        }
        if let Some(pattern) = &self.pattern {
            self.glob(pattern)?;
        }
        if !QUIET_MILLISECONDS.contains(&self.quiet_milliseconds) {
            return Err(BrokerError::invalid(
                format!("`quiet_milliseconds` is {}", self.quiet_milliseconds),
                "take 50 to 3600000: an hour",
            ));
        }
        if self.poll_milliseconds.is_some_and(|poll| !(100..=3_600_000).contains(&poll)) {
            return Err(BrokerError::invalid(
                "`poll_milliseconds` is out of bounds",
                "take 100 to 3600000: an hour",
            ));
        }
        if self.machine.as_deref().is_some_and(|machine| !is_text(machine)) {
            return Err(BrokerError::invalid(
                "`machine` is not a valid name of a machine",
                "write the name that the configuration gives its broker",
            ));
        }
        Ok(())
    }

    /// Compiles `pattern` as a glob.
    pub(in super::super) fn glob(&self, pattern: &str) -> Result<globset::GlobMatcher, BrokerError> {
        if !is_text(pattern) {
            return Err(BrokerError::invalid("`pattern` must be one line of 1 to 256 bytes", "shorten it"));
        }
        let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| {
            BrokerError::invalid(
                format!("`pattern` cannot be read: {}", error.kind()),
                "write a glob, such as *.csv",
            )
        })?;
        Ok(glob.compile_matcher())
    }
}
