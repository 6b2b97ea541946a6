//! The maps of projects: one file for each project.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::task_error::TaskError;

/// Longest map, in bytes.
pub(super) const MOST_MAP_BYTES: usize = 4 << 10;
/// The file of one project.
const FILE: &str = "context-map.json";

/// The maps of a home.
#[derive(Clone, Debug)]
pub(super) struct Maps {
    folder: PathBuf,
}

/// A map and its project. The name of its folder is only a digest, so the file names the project.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptMap {
    project: PathBuf,
    map: String,
}

impl Maps {
    pub(super) fn in_home(home: &Path) -> Self {
        Self { folder: home.join("projects") }
    }

    /// Reads the map of a project, by its canonical root. Returns `None` if no agent has drawn it.
    pub(super) fn read(&self, project: &Path) -> Result<Option<String>, TaskError> {
        let path = self.path(project);
        let bytes = nexus_files::read_bounded(&path, 64 << 10).map_err(TaskError::at(&path))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let kept: KeptMap =
            serde_json::from_slice(&bytes).map_err(|error| TaskError::damaged(&path, error))?;
        // Digests may collide, so compare the project itself.
        Ok((kept.project == project && kept.map.len() <= MOST_MAP_BYTES).then_some(kept.map))
    }

    pub(super) fn write(&self, project: &Path, map: String) -> Result<(), TaskError> {
        let path = self.path(project);
        let kept = KeptMap { project: project.to_owned(), map };
        let bytes = serde_json::to_vec_pretty(&kept).map_err(|error| TaskError::damaged(&path, error))?;
        nexus_files::replace(&path, &bytes).map_err(TaskError::at(&path))
    }

    fn path(&self, project: &Path) -> PathBuf {
        self.folder.join(digest(project)).join(FILE)
    }
}

/// Returns a name for a path: FNV-1a of 128 bits. Two projects with the same digest overwrite each other's map, but never read it.
fn digest(path: &Path) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = path.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}
