//! What says of a skill that it came from a hub, and whether it is still as it came.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::{Deserialize, Serialize};

use super::at;
use crate::{
    error::{BrokerError, BrokerErrorKind},
    skill::{
        digest::sha256,
        hub::{MAX_FILE_BYTES, is_inside},
    },
};

/// What says that a skill came from a hub, in its folder.
pub(super) const MARK: &str = ".nexus-skill.json";
/// The largest mark, in bytes: of as many files as a skill may have.
const MAX_MARK_BYTES: u64 = 256 << 10;

/// What came from a hub, as its mark says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    pub(super) hub: String,
    pub(super) version: String,
    pub(super) files: BTreeMap<String, String>,
}

/// Why a skill is no more what came from its hub.
pub(super) fn not_as_it_came(folder: &Path) -> Result<Option<String>, BrokerError> {
    let Some(mark) = read_mark(folder)? else { return Ok(Some("it is your own".to_owned())) };
    let changed = changed(folder, &mark);
    if !changed.is_empty() {
        return Ok(Some(format!("you changed {}", changed.join(", "))));
    }
    Ok(added(folder)?.map(|added| format!("you added {added}")))
}

/// Files of the hub's that are not as they came.
pub(super) fn changed(folder: &Path, mark: &Mark) -> Vec<String> {
    let differs = |path: &str, hash: &str| {
        let read = nexus_files::read_bounded(&folder.join(path), MAX_FILE_BYTES);
        !read.is_ok_and(|bytes| bytes.is_some_and(|bytes| sha256(&bytes) == hash))
    };
    let changed = mark.files.iter().filter(|(path, hash)| differs(path, hash));
    changed.map(|(path, _)| path.clone()).collect()
}

/// A file in the folder of a skill that did not come with it.
pub(super) fn added(skill: &Path) -> Result<Option<String>, BrokerError> {
    let Some(mark) = read_mark(skill)? else { return Ok(None) };
    let mut folders = vec![skill.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| at(&folder, &error))? {
            let entry = entry.map_err(|error| at(&folder, &error))?;
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
                continue;
            }
            let below = path.strip_prefix(skill).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            if below != MARK && !mark.files.contains_key(&below) {
                return Ok(Some(below));
            }
        }
    }
    Ok(None)
}

pub(super) fn read_mark(folder: &Path) -> Result<Option<Mark>, BrokerError> {
    let path = folder.join(MARK);
    let damaged = |reason: String| {
        BrokerError::new(
            BrokerErrorKind::Damaged,
            format!("{} cannot be read: {reason}", path.display()),
            "remove it to make the skill your own",
        )
    };
    match nexus_files::read_bounded(&path, MAX_MARK_BYTES) {
        Ok(None) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(damaged(error.to_string())),
        Err(error) => Err(at(&path, &error)),
        Ok(Some(bytes)) => {
            let mark: Mark = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
            match mark.files.keys().find(|path| !is_inside(path)) {
                Some(path) => Err(damaged(format!("{path:?} leads out of the skill"))),
                None => Ok(Some(mark)),
            }
        }
    }
}
