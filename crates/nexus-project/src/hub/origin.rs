//! The record of the hub that a skill came from, and comparison with it.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    index::{MAX_FILE_BYTES, is_inside},
    sha256,
};
use crate::error::{ProjectError, ProjectErrorKind};

/// File that records the origin of a skill, in its folder.
pub(super) const ORIGIN_FILE: &str = ".nexus-skill.json";
/// Maximum size of the record, in bytes. Enough for the maximum number of files.
const MAX_ORIGIN_BYTES: u64 = 256 << 10;

/// Hub, version and files of an installed skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SkillOrigin {
    pub(super) hub: String,
    pub(super) version: String,
    pub(super) files: BTreeMap<String, String>,
}

/// Returns a description of the difference between a skill and its original from the hub. `None` if they are equal.
pub(super) fn difference(folder: &Path) -> Result<Option<String>, ProjectError> {
    let Some(origin) = read_origin(folder)? else { return Ok(Some("it is your own".to_owned())) };
    let changed = changed(folder, &origin);
    if !changed.is_empty() {
        return Ok(Some(format!("you changed {}", changed.join(", "))));
    }
    Ok(added(folder)?.map(|added| format!("you added {added}")))
}

/// Returns the files from the hub that were changed.
pub(super) fn changed(folder: &Path, origin: &SkillOrigin) -> Vec<String> {
    let differs = |path: &str, hash: &str| {
        let read = nexus_files::read_bounded(&folder.join(path), MAX_FILE_BYTES);
        !read.is_ok_and(|bytes| bytes.is_some_and(|bytes| sha256(&bytes) == hash))
    };
    let changed = origin.files.iter().filter(|(path, hash)| differs(path, hash));
    changed.map(|(path, _)| path.clone()).collect()
}

/// Returns a file in the folder of a skill that did not come from the hub.
pub(super) fn added(skill: &Path) -> Result<Option<String>, ProjectError> {
    let Some(origin) = read_origin(skill)? else { return Ok(None) };
    let mut folders = vec![skill.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| ProjectError::unusable(&folder, &error))? {
            let entry = entry.map_err(|error| ProjectError::unusable(&folder, &error))?;
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
                continue;
            }
            let below = path.strip_prefix(skill).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            if below != ORIGIN_FILE && !origin.files.contains_key(&below) {
                return Ok(Some(below));
            }
        }
    }
    Ok(None)
}

pub(super) fn read_origin(folder: &Path) -> Result<Option<SkillOrigin>, ProjectError> {
    let path = folder.join(ORIGIN_FILE);
    let damaged = |reason: String| {
        ProjectError::new(
            ProjectErrorKind::Damaged,
            format!("{} cannot be read: {reason}", path.display()),
            "remove it to make the skill your own",
        )
    };
    match nexus_files::read_bounded(&path, MAX_ORIGIN_BYTES) {
        Ok(None) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(damaged(error.to_string())),
        Err(error) => Err(ProjectError::unusable(&path, &error)),
        Ok(Some(bytes)) => {
            let origin: SkillOrigin =
                serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
            match origin.files.keys().find(|path| !is_inside(path)) {
                Some(path) => Err(damaged(format!("{path:?} leads out of the skill"))),
                None => Ok(Some(origin)),
            }
        }
    }
}
