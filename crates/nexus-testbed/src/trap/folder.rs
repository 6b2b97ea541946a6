//! Reads a trap's folder, which may come from an unknown author.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use nexus_core::scope::folded_name;

use crate::trap_error::TrapError;

/// Files by their paths from the trap's folder.
pub(super) type TrapFiles = BTreeMap<String, Vec<u8>>;

/// Limits of a trap, which is a small project. Source: our own choice.
const MOST_FILES: usize = 500;
const MOST_FILE_BYTES: u64 = 1 << 20;
const MOST_BYTES: u64 = 8 << 20;
const MOST_LEVELS: usize = 16;

/// Reads all files of a folder. Fails for links, and for anything but files and folders.
pub(super) fn read(folder: &Path) -> Result<TrapFiles, TrapError> {
    let fault = |place: &str, problem: String| {
        let path = if place.is_empty() { folder.to_owned() } else { folder.join(place) };
        TrapError::new(path.display().to_string(), problem)
    };
    let failed = |place: &str, error: &io::Error| fault(place, format!("cannot be read: {error}"));
    let (mut files, mut bytes) = (TrapFiles::new(), 0);
    let mut folders = vec![(String::new(), 0)];
    while let Some((below, level)) = folders.pop() {
        if level > MOST_LEVELS {
            return Err(fault(&below, format!("is deeper than {MOST_LEVELS} folders")));
        }
        let entries = fs::read_dir(folder.join(&below)).map_err(|error| failed(&below, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| failed(&below, &error))?;
            let name = entry.file_name();
            let name = match name.to_str() {
                Some(name) if !name.chars().any(char::is_control) => name,
                _ => return Err(fault(&below, format!("contains {name:?}: names must be printable UTF-8"))),
            };
            let place = format!("{below}{name}");
            if folded_name(name) == ".git" || name == ".gitignore" || name == ".gitattributes" {
                return Err(fault(&place, "a trap must not contain git's own files".to_owned()));
            }
            let kind = entry.file_type().map_err(|error| failed(&place, &error))?;
            // Skip the folder that Python leaves after an author tries a program.
            if kind.is_dir() && name != "__pycache__" {
                folders.push((format!("{place}/"), level + 1));
            } else if kind.is_file() {
                let limit = MOST_FILE_BYTES.min(MOST_BYTES - bytes);
                let mut content = Vec::new();
                let read =
                    // Read one byte more than the limit, which shows a file that is too large without reading all of
                    // it.
                    File::open(entry.path()).and_then(|file| file.take(limit + 1).read_to_end(&mut content));
                read.map_err(|error| failed(&place, &error))?;
                if content.len() as u64 > limit {
                    let problem = format!(
                        "is too large: the limits are {} KiB for a file and {} MiB for all files of a trap",
                        MOST_FILE_BYTES >> 10,
                        MOST_BYTES >> 20
                    );
                    return Err(fault(&place, problem));
                }
                bytes += content.len() as u64;
                files.insert(place, content);
            } else if !kind.is_dir() {
                return Err(fault(&place, "is neither a file nor a folder; a trap has no links".to_owned()));
            }
            if files.len() + folders.len() > MOST_FILES {
                return Err(fault("", format!("contains more than {MOST_FILES} files and folders")));
            }
        }
    }
    Ok(files)
}
