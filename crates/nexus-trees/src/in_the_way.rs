//! Finds files of a checkout that a landing would destroy if only git checked.
//!
//! `git read-tree -u` treats ignored files as worthless, and has no option against it. It also misses a change that was made
//! in the same second as the index, if the file then got its old time. Source: racy-git.

use std::{collections::BTreeSet, fs, path::Path};

use rustix::fs::FileType;

use super::{
    TreeError, TreeLimits, handle,
    refusal::to_path,
    repo::{self, Difference, GitEntries, GitEntry},
    scan,
    uncommitted::Checkout,
};

/// Returns the first path with an uncommitted change. Compares contents, not time stamps.
pub(super) fn changed(
    checkout: &Checkout<'_>,
    folder: &Path,
    changes: &[Difference],
) -> Result<Option<Vec<u8>>, TreeError> {
    let root =
        handle::open_folder(folder).map_err(|error| TreeError::from_io(folder, "cannot be opened", error))?;
    let mut unlike = unlike(checkout, changes, |change| change.old.as_ref())?.into_iter();
    // Skip a file that the user deleted without a commit: it has no content that could be lost.
    Ok(unlike.find(|path| {
        handle::open_parent(&root, path).and_then(|(parent, name)| handle::stat(&parent, name)).is_ok()
    }))
}

/// Returns the first unversioned path of a checkout that blocks a path of the changes.
pub(super) fn unversioned(
    folder: &Path,
    now: &GitEntries,
    changes: &[Difference],
) -> Result<Option<Vec<u8>>, TreeError> {
    let root =
        handle::open_folder(folder).map_err(|error| TreeError::from_io(folder, "cannot be opened", error))?;
    for change in changes.iter().filter(|change| change.new.is_some()) {
        let path = change.path.as_slice();
        let ends = (0..path.len()).filter(|at| path[*at] == b'/').chain([path.len()]);
        for part in ends.map(|end| &path[..end]) {
            let failed = |error| TreeError::from_io(&folder.join(to_path(part)), "cannot be read", error);
            let found = handle::open_parent(&root, part)
                .and_then(|(parent, name)| Ok((handle::kind(&handle::stat(&parent, name)?), parent, name)));
            let (kind, parent, name) = match found {
                Ok(found) => found,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(error) => return Err(failed(error)),
            };
            // Git itself checks tracked files for changes.
            if kind != FileType::Directory {
                if now.contains_key(part) {
                    break;
                }
                return Ok(Some(part.to_vec()));
            }
            if part.len() == path.len() {
                let below = handle::open_folder_at(&parent, name, false).map_err(failed)?;
                for found in scan::scan(&below, &TreeLimits::default())? {
                    let path = [path, b"/", &found.path].concat();
                    if !now.contains_key(&path) {
                        return Ok(Some(path));
                    }
                }
            }
        }
    }
    Ok(None)
}

/// Returns the changed paths at which the checkout differs from `side`, or has nothing.
pub(super) fn unlike<'c>(
    checkout: &Checkout<'_>,
    changes: &'c [Difference],
    side: impl Fn(&'c Difference) -> Option<&'c GitEntry>,
) -> Result<BTreeSet<Vec<u8>>, TreeError> {
    let index = checkout.index().with_extension("side");
    // Remove the index of an earlier call.
    let _ = fs::remove_file(&index);
    let mut input = Vec::new();
    for change in changes {
        if let Some(entry) = side(change) {
            input.extend_from_slice(format!("{:o} {}\t", entry.mode, entry.id).as_bytes());
            input.extend_from_slice(&change.path);
            input.push(0);
        }
    }
    checkout.command("update-index").args(["-z", "--index-info"]).index(&index).run(&input)?;
    let refreshed = checkout.command("update-index").args(["-q", "--really-refresh"]).index(&index);
    refreshed.outcome(b"")?.0.refusal()?;
    let differ = checkout.command("diff-files").args(["-z", "--name-only", "--no-renames"]).index(&index);
    Ok(repo::records(&differ.run(b"")?).map(<[u8]>::to_vec).collect())
}
