//! The home of the demo.

use std::{
    fs, io,
    path::{Path, PathBuf, absolute},
};

use nexus::BuildContext;
use nexus_files::{FileLock, make_private_folder, read_bounded, replace};

use super::configuration::{self, DemoSetup, MARK};
use crate::command_error::CommandError;

/// Name of the demo's home in the user's home of Nexus.
const FOLDER: &str = "demo";
/// Name of the configuration in a home.
const FILE: &str = "nexus.yaml";
/// Largest configuration that is searched for [`MARK`], in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// The home of the demo, locked until it is dropped.
#[derive(Debug)]
pub(super) struct DemoHome {
    folder: PathBuf,
    _lock: FileLock,
}

impl DemoHome {
    /// Opens the home, and creates it if it is missing.
    pub(super) fn open(named: Option<&Path>) -> Result<Self, CommandError> {
        let folder = match named {
            Some(folder) => absolute(folder).map_err(|error| at(folder, &error))?,
            None => default_folder(BuildContext::from_process().home),
        };
        // Tasks and configurations store paths as text.
        if folder.to_str().is_none() {
            return Err(CommandError::usage(format_args!("the path {folder:?} is not UTF-8"))
                .with_advice("name another folder with --home"));
        }
        let is_new = !folder.exists();
        make_private_folder(&folder).map_err(|error| at(&folder, &error))?;
        if !is_new && !is_demos(&folder)? {
            return Err(CommandError::usage(format_args!("{} is not a home of the demo", folder.display()))
                .with_advice("name a new folder with --home"));
        }
        // The lock also marks the folder as a demo's, for `nexus clean`.
        let lock = folder.join("demo.lock");
        let Some(lock) = FileLock::try_lock(&lock).map_err(|error| at(&lock, &error))? else {
            let message = format!("another `nexus demo` uses {}", folder.display());
            return Err(CommandError::failed(message)
                .with_advice("wait until it ends, or name another folder with --home"));
        };
        Ok(Self { folder, _lock: lock })
    }

    /// Returns the folder of the home.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes the configuration.
    pub(super) fn configure(&self, setup: DemoSetup) -> Result<(), CommandError> {
        let path = self.folder.join(FILE);
        replace(&path, configuration::written(setup).as_bytes()).map_err(|error| at(&path, &error))
    }
}

/// Returns the default folder of the demo. A user who exported the home of the demo gets the same one again.
fn default_folder(home: PathBuf) -> PathBuf {
    let home = absolute(&home).unwrap_or(home);
    // `NEXUS_HOME` may be this home already, because the demo prints that line for the person to run.
    let is_own = read_bounded(&home.join(FILE), MOST_BYTES)
        .is_ok_and(|text| text.is_some_and(|text| text.starts_with(MARK.as_bytes())));
    if is_own { home } else { home.join(FOLDER) }
}

/// Returns true if an existing folder is empty or a home of the demo.
fn is_demos(folder: &Path) -> Result<bool, CommandError> {
    let path = folder.join(FILE);
    match read_bounded(&path, MOST_BYTES).map_err(|error| at(&path, &error))? {
        Some(text) => Ok(text.starts_with(MARK.as_bytes())),
        None => {
            let mut entries = fs::read_dir(folder).map_err(|error| at(folder, &error))?;
            // An interrupted first run leaves its lock and a project, but no configuration.
            Ok(folder.join("demo.lock").exists() || entries.next().is_none())
        }
    }
}

fn at(path: &Path, error: &io::Error) -> CommandError {
    CommandError::failed(format_args!("{}: {error}", path.display()))
}
