//! Resolves paths.

use std::{
    collections::VecDeque,
    fs,
    path::{Component, Path, PathBuf},
};

/// Maximum number of links on one path. Source: Linux allows 40.
const MOST_LINKS: usize = 40;

/// Returns the path without `.` and `..`, by its text alone.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the path with all links resolved, as the operating system does it. Follows a link even if its target does not
/// exist yet, because a write creates the target. `None` if the path has too many links.
pub(super) fn real(path: &Path) -> Option<PathBuf> {
    let mut ahead: VecDeque<PathBuf> = parts(path).collect();
    let mut real = PathBuf::new();
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        match part.components().next() {
            Some(Component::CurDir) | None => continue,
            Some(Component::ParentDir) => {
                real.pop();
                continue;
            }
            Some(_) => {}
        }
        let next = real.join(&part);
        match fs::read_link(&next) {
            Ok(_) if links == MOST_LINKS => return None,
            Ok(target) => {
                links += 1;
                // The root of an absolute target replaces the path so far.
                parts(&target).rev().for_each(|part| ahead.push_front(part));
            }
            Err(_) => real = next,
        }
    }
    Some(real)
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = PathBuf> {
    path.components().map(|part| PathBuf::from(part.as_os_str()))
}
