//! Mount points in the folders of this machine.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, open, openat, statat};
use rustix::io::Errno;

use super::{Mount, SandboxError, refused, shown_above};

/// Rejects mounts that show the folder of the run's own files, which contains `file`. These files have the variables of
/// runs and the arguments of bubblewrap.
pub(super) fn refuse_own_files(mounts: &BTreeMap<PathBuf, Mount>, file: &Path) -> Result<(), SandboxError> {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    for (place, mount) in mounts {
        let Mount::Outside { path, .. } = mount else { continue };
        let shown = path.canonicalize().unwrap_or_else(|_| path.clone());
        let Ok(relative) = real.strip_prefix(&shown) else { continue };
        let seen_as = place.join(relative);
        let covers = seen_as.ancestors().find(|above| mounts.contains_key(*above));
        if covers == Some(place) {
            return Err(refused(
                path,
                "it contains the files of runs; choose another folder for temporary files, or hide that \
                folder",
            ));
        }
    }
    Ok(())
}

/// Mounts the folders between a writable tree and a covered path over themselves, because a mount point cannot be
/// moved. Otherwise a program could rename them, and the next run would show the covered content under another name.
pub(super) fn hold_in_place(mounts: &mut BTreeMap<PathBuf, Mount>) {
    let mut held = Vec::new();
    for (place, mount) in &*mounts {
        let Some((above, shown, true)) = shown_above(mounts, place) else { continue };
        let at = |place: &Path| shown.join(place.strip_prefix(above).unwrap_or(Path::new("")));
        let is_cover = match mount {
            Mount::EmptyFile | Mount::Settings(_) | Mount::EmptyFolder => true,
            Mount::Outside { path, .. } => *path == at(place),
            Mount::Scratch => false,
        };
        let way = place.ancestors().skip(1).take_while(|folder| is_cover && *folder != above);
        held.extend(way.map(|folder| (folder.to_owned(), at(folder))));
    }
    for (place, path) in held {
        mounts.insert(place, Mount::Outside { path, is_writable: true });
    }
}

/// Ensures that a mount point exists. Below a folder of this machine the path must exist without a link in it, which
/// would lead elsewhere.
pub(super) fn make_place(mounts: &BTreeMap<PathBuf, Mount>, place: &Path) -> Result<(), SandboxError> {
    let Some((above, shown, is_writable)) = shown_above(mounts, place) else { return Ok(()) };
    let is_file = match mounts.get(place) {
        Some(Mount::Outside { path, .. }) => path.is_file(),
        Some(Mount::EmptyFile | Mount::Settings(_)) => true,
        _ => false,
    };
    let relative = place.strip_prefix(above).unwrap_or(Path::new(""));
    let unusable =
        |path: &Path, error: Errno| SandboxError::Path { path: path.to_owned(), source: error.into() };
    // Walk by descriptors, because another run may write to the same tree meanwhile, and put links in it.
    let walk = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut reached = shown.to_owned();
    let mut folder = open(shown, walk, Mode::empty()).map_err(|error| unusable(shown, error))?;
    let parts: Vec<&OsStr> = relative.iter().collect();
    for (number, part) in parts.iter().enumerate() {
        reached.push(part);
        let is_last = number + 1 == parts.len();
        let wants_file = is_file && is_last;
        match statat(&folder, *part, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| FileType::from_raw_mode(stat.st_mode))
        {
            Ok(FileType::Symlink) => return Err(refused(&reached, "a symbolic link is part of the path")),
            Ok(kind) if kind.is_dir() != wants_file => {}
            Ok(_) => return Err(refused(&reached, "a file and a folder cannot cover each other")),
            Err(Errno::NOENT) if is_writable && wants_file => {
                let new = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                openat(&folder, *part, new, Mode::from_raw_mode(0o666))
                    .map_err(|error| unusable(&reached, error))?;
            }
            Err(Errno::NOENT) if is_writable => {
                mkdirat(&folder, *part, Mode::from_raw_mode(0o777))
                    .map_err(|error| unusable(&reached, error))?;
            }
            Err(Errno::NOENT) => {
                return Err(SandboxError::NoMountPoint { path: place.to_owned(), below: shown.to_owned() });
            }
            Err(error) => return Err(unusable(&reached, error)),
        }
        if !is_last {
            folder = openat(&folder, *part, walk | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|error| unusable(&reached, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_made_in_a_tree_stays_in_it_while_links_come_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, victim) = (folder.path().join("tree"), folder.path().join("victim"));
        for folder in [&tree, &victim] {
            fs::create_dir(folder).unwrap();
        }
        let (empty, kept) = (folder.path().join("empty"), victim.join("kept"));
        for (file, content) in [(&empty, ""), (&kept, "content")] {
            fs::write(file, content).unwrap();
        }
        let writable = |path: &Path| Mount::Outside { path: path.to_owned(), is_writable: true };
        let [below, file] = ["/tree/link/below", "/tree/file"].map(PathBuf::from);
        let mounts = BTreeMap::from([
            (PathBuf::from("/tree"), writable(&tree)),
            (below.clone(), Mount::Scratch),
            (file.clone(), Mount::EmptyFile),
        ]);
        let (link, place) = (tree.join("link"), tree.join("file"));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = std::os::unix::fs::symlink(&victim, &link);
                    let _ = std::os::unix::fs::symlink(&kept, &place);
                    let _ = fs::remove_file(&link).or_else(|_| fs::remove_dir_all(&link));
                    let _ = fs::remove_file(&place);
                }
            });
            for _ in 0..5000 {
                let _ = make_place(&mounts, &below);
                let _ = make_place(&mounts, &file);
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&kept).unwrap(), "content");
    }
}
