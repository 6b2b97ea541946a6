//! Agent types of a home: the built-in ones, and the registered ones of one file.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_core::{ServiceError, ServiceErrorKind, ServiceFault};
use nexus_files::FileLock;

use super::AgentTypes;

/// Name of the file in a home.
const FILE: &str = "agent-types.json";
/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Longest wait for another process that changes the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// The agent types of a home. All services of the home use this registry. Every call reads the file again.
///
/// ```
/// use nexus_core::{ServiceError, ServiceFault};
/// use nexus_work::{AgentType, agent::AgentTypeRegistry};
/// # use nexus_core::ServiceErrorKind;
/// # #[derive(Clone, Copy, Debug)]
/// # struct Kind;
/// # impl ServiceErrorKind for Kind {
/// #     const FIND: &'static str = "";
/// #     const RESTORE: &'static str = "";
/// #     fn of(_: ServiceFault) -> Self {
/// #         Self
/// #     }
/// # }
///
/// # let home = tempfile::tempdir()?;
/// # let home = home.path();
/// let registry = AgentTypeRegistry::in_home(home);
/// registry.change::<Kind>(|types| {
///     let surveyor = AgentType::new("surveyor", "operations", "survey");
///     types.with_custom_type(surveyor).map_err(|error| ServiceError::invalid(error.to_string(), ""))
/// })?;
/// assert_eq!(registry.read::<Kind>()?.custom_types().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AgentTypeRegistry {
    path: PathBuf,
}

impl AgentTypeRegistry {
    /// Opens the registry of the home at this path. Reads nothing yet.
    pub fn in_home(home: &Path) -> Self {
        Self { path: home.join(FILE) }
    }

    /// Reads the built-in and the registered types.
    ///
    /// # Errors
    ///
    /// Damaged, if the file is not a valid registry; errors of the file system.
    pub fn read<K: ServiceErrorKind>(&self) -> Result<AgentTypes, ServiceError<K>> {
        let bytes =
            nexus_files::read_bounded(&self.path, MAX_FILE_BYTES).map_err(ServiceError::at(&self.path))?;
        let Some(bytes) = bytes else { return Ok(AgentTypes::built_in()) };
        serde_json::from_slice(&bytes).map_err(|error| ServiceError {
            advice: "correct the file, or move it away to use only the built-in types".to_owned(),
            ..ServiceError::damaged(&self.path, error)
        })
    }

    /// Changes the registered types under a lock. If `change` fails, nothing is written.
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read) and of `change`; in use, if other processes lock the file for too long.
    pub fn change<K: ServiceErrorKind>(
        &self,
        change: impl FnOnce(AgentTypes) -> Result<AgentTypes, ServiceError<K>>,
    ) -> Result<AgentTypes, ServiceError<K>> {
        let lock = self.path.with_extension("lock");
        if let Some(home) = self.path.parent() {
            nexus_files::make_private_folder(home).map_err(ServiceError::at(home))?;
        }
        let locked = FileLock::lock(&lock, PATIENCE).map_err(ServiceError::at(&lock))?;
        let Some(_locked) = locked else {
            return Err(ServiceError::of(
                ServiceFault::InUse,
                format!("another process has locked {lock:?}"),
            ));
        };
        // Read under the lock, so that the change of another process is not lost.
        let types = change(self.read()?)?;
        let bytes =
            serde_json::to_vec_pretty(&types).map_err(|error| ServiceError::damaged(&self.path, error))?;
        nexus_files::replace(&self.path, &bytes).map_err(ServiceError::at(&self.path))?;
        Ok(types)
    }
}
