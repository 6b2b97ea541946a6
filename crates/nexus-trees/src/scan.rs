//! Content of a folder, listed without following a link or opening a file.

use std::{os::fd::OwnedFd, path::Path};

use nexus_core::scope::is_dot_git;
use rustix::fs::FileType;

use super::{TreeError, TreeErrorKind, TreeLimits, handle, refusal::to_path};

/// Kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScannedKind {
    File,
    Link,
    /// A pipe, a socket or a device.
    Special,
    /// A file or folder that could be a repository. The content of such a folder was not listed.
    DotGit,
}

/// Path in a folder, from its top.
#[derive(Clone, Debug)]
pub(super) struct ScannedPath {
    pub(super) path: Vec<u8>,
    pub(super) kind: ScannedKind,
    /// Size, in bytes.
    pub(super) bytes: u64,
}

/// Returns everything in a folder except the folders themselves.
pub(super) fn scan(root: &OwnedFd, limits: &TreeLimits) -> Result<Vec<ScannedPath>, TreeError> {
    let mut found = Vec::new();
    scan_folder(root, &mut Vec::new(), 0, limits, &mut found)?;
    Ok(found)
}

fn scan_folder(
    folder: &OwnedFd,
    path: &mut Vec<u8>,
    depth: usize,
    limits: &TreeLimits,
    found: &mut Vec<ScannedPath>,
) -> Result<(), TreeError> {
    let failed = |path: &[u8], error| TreeError::from_io(&to_path(path), "cannot be read", error);
    if depth > limits.depth {
        let message = format!("{:?}… is deeper than {} folders", shown(path), limits.depth);
        return Err(TreeError::new(TreeErrorKind::TooLarge, message));
    }
    let names = handle::names(folder).map_err(|error| failed(path, error))?;
    for name in names {
        let length = path.len();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        let is_dot_git = is_dot_git(&name);
        let stat = handle::stat(folder, &name);
        let bytes = stat.as_ref().map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        let kind = match stat.map(|stat| handle::kind(&stat)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(path, error)),
            Ok(_) if is_dot_git => Some(ScannedKind::DotGit),
            Ok(FileType::Directory) => {
                let below =
                    handle::open_folder_at(folder, &name, false).map_err(|error| failed(path, error))?;
                scan_folder(&below, path, depth + 1, limits, found)?;
                None
            }
            Ok(FileType::RegularFile) => Some(ScannedKind::File),
            Ok(FileType::Symlink) => Some(ScannedKind::Link),
            Ok(_) => Some(ScannedKind::Special),
        };
        if let Some(kind) = kind {
            found.push(ScannedPath { path: path.clone(), kind, bytes });
            if found.len() > limits.files {
                let message = format!("there are more than {} files", limits.files);
                return Err(TreeError::new(TreeErrorKind::TooLarge, message));
            }
        }
        path.truncate(length);
    }
    Ok(())
}

/// Returns the beginning of a path, for messages. A path may have any length.
fn shown(path: &[u8]) -> Box<Path> {
    to_path(&path[..path.len().min(200)]).into_boxed_path()
}
