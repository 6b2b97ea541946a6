//! Options for the creation of a tree.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_core::{Clock, SystemClock};

use super::{
    TreeError, TreeLimits, TreeReading,
    reading::{OnReading, ReadBound},
};

/// Options for the creation of a tree.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    pub(super) include_uncommitted: bool,
    pub(super) exclude_files: Vec<PathBuf>,
    pub(super) limits: TreeLimits,
    pub(super) clock: Arc<dyn Clock>,
    read_bound: Option<ReadBound>,
    on_reading: Option<OnReading>,
}

impl Default for TreeOptions {
    fn default() -> Self {
        let limits = TreeLimits::default();
        Self {
            include_uncommitted: false,
            exclude_files: Vec::new(),
            limits,
            clock: Arc::new(SystemClock),
            read_bound: None,
            on_reading: None,
        }
    }
}

impl TreeOptions {
    /// The base is `HEAD`, within the usual limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes along what is not committed.
    #[must_use]
    pub fn include_uncommitted(mut self) -> Self {
        self.include_uncommitted = true;
        self
    }

    /// Applies a file of ignore rules to the list of uncommitted files, in addition to the rules of the
    /// checkout: for example the person's `core.excludesFile`, which is not looked up. `info/exclude` of the
    /// repository always applies.
    #[must_use]
    pub fn with_exclude_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.exclude_files.push(path.into());
        self
    }

    /// Sets what is too large.
    #[must_use]
    pub fn with_limits(mut self, limits: TreeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how many files, and how many bytes of them together, are read without consent. No bound by default.
    ///
    /// Files of the project are read where it is a plain folder, and where what is not committed is taken along.
    #[must_use]
    pub fn with_read_bound(mut self, files: usize, bytes: u64) -> Self {
        self.read_bound = Some(ReadBound { files, bytes });
        self
    }

    /// Calls a function with what is about to be read, before the first byte is.
    #[must_use]
    pub fn on_reading(mut self, call: impl Fn(&TreeReading) + Send + Sync + 'static) -> Self {
        self.on_reading = Some(OnReading(Arc::new(call)));
        self
    }

    pub(super) fn limits(&self) -> &TreeLimits {
        &self.limits
    }

    /// Says what is about to be read. Fails if that is more than may be.
    pub(super) fn announce(&self, folder: &Path, reading: &TreeReading) -> Result<(), TreeError> {
        self.read_bound.map_or(Ok(()), |bound| bound.check(folder, reading))?;
        if let Some(OnReading(call)) = &self.on_reading {
            call(reading);
        }
        Ok(())
    }

    /// Takes the time of the base's own commit from another clock than the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}
