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
    /// Returns the default options: the base is `HEAD`, with the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Includes uncommitted files in the base.
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

    /// Sets the size limits.
    #[must_use]
    pub fn with_limits(mut self, limits: TreeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the number of files, and their total size in bytes, that may be read without consent. Unlimited by default.
    ///
    /// Files of the project are read if it is a plain folder, or if uncommitted files are included.
    #[must_use]
    pub fn with_read_bound(mut self, files: usize, bytes: u64) -> Self {
        self.read_bound = Some(ReadBound { files, bytes });
        self
    }

    /// Calls a function with the files that will be read, before the first byte is read.
    #[must_use]
    pub fn on_reading(mut self, call: impl Fn(&TreeReading) + Send + Sync + 'static) -> Self {
        self.on_reading = Some(OnReading(Arc::new(call)));
        self
    }

    pub(super) fn limits(&self) -> &TreeLimits {
        &self.limits
    }

    /// Calls the function of [`on_reading`](Self::on_reading). Fails if the files exceed the bound.
    pub(super) fn announce(&self, folder: &Path, reading: &TreeReading) -> Result<(), TreeError> {
        self.read_bound.map_or(Ok(()), |bound| bound.check(folder, reading))?;
        if let Some(OnReading(call)) = &self.on_reading {
            call(reading);
        }
        Ok(())
    }

    /// Sets the clock for the time of the base commit. The system's clock by default.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}
