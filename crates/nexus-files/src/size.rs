//! Sizes on the disk, and their words for people.

use std::{
    collections::HashSet,
    fmt,
    fs::{self, Metadata},
    io,
    path::Path,
};

/// Size of a file, or of a folder with everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderSize {
    /// Number of files, without folders.
    pub files: u64,
    /// Bytes on the disk. A file with several names in the folder counts once. On other systems than Unix, the sum of the files' lengths.
    pub bytes: u64,
    /// True if the system let this user read every folder.
    pub is_complete: bool,
}

impl FolderSize {
    /// Measures `path` without following links. What another process removes meanwhile does not count.
    ///
    /// # Errors
    ///
    /// Errors of the file system for `path` itself, such as [`NotFound`](io::ErrorKind::NotFound). An unreadable folder below it makes
    /// the size incomplete.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut size = Self { is_complete: true, ..Self::default() };
        let mut several_names = HashSet::new();
        size.add(&fs::symlink_metadata(path)?, &mut several_names);
        // A stack of its own: folders may be nested deeper than the thread's stack.
        let mut folders =
            if path.is_symlink() || !path.is_dir() { Vec::new() } else { vec![path.to_owned()] };
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    size.is_complete &= error.kind() == io::ErrorKind::NotFound;
                    continue;
                }
            };
            for entry in entries.flatten() {
                // The metadata of a link, never of its target.
                let Ok(found) = entry.metadata() else { continue };
                size.add(&found, &mut several_names);
                if found.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        Ok(size)
    }

    #[cfg(unix)]
    fn add(&mut self, found: &Metadata, several_names: &mut HashSet<(u64, u64)>) {
        use std::os::unix::fs::MetadataExt as _;

        let is_folder = found.is_dir();
        if !is_folder && found.nlink() > 1 && !several_names.insert((found.dev(), found.ino())) {
            return;
        }
        self.files += u64::from(!is_folder);
        // `stat` counts blocks of 512 bytes on every Unix, whatever the size of a block of the file system.
        self.bytes = self.bytes.saturating_add(found.blocks().saturating_mul(512));
    }

    #[cfg(not(unix))]
    fn add(&mut self, found: &Metadata, _several_names: &mut HashSet<(u64, u64)>) {
        if !found.is_dir() {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(found.len());
        }
    }
}

/// Size in bytes, displayed for a person, such as `1.9 KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadableSize(pub u64);

impl fmt::Display for ReadableSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|(unit, _)| self.0 >= *unit) {
            // Integer arithmetic: a float would lose digits. The tenth is rounded down.
            Some((unit, name)) => {
                write!(f, "{}.{} {name}", self.0 / unit, self.0 % unit * 10 / unit)
            }
            None => write!(f, "{} bytes", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (1_024, "1.0 KiB"),
            (1_994, "1.9 KiB"),
            (333 << 20, "333.0 MiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(ReadableSize(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_folder_is_as_large_as_what_is_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let empty = FolderSize::of(folder.path()).unwrap();
        assert_eq!((empty.files, empty.is_complete), (0, true));
        fs::create_dir_all(folder.path().join("deep/deeper")).unwrap();
        fs::write(folder.path().join("deep/deeper/file"), vec![7; 100_000]).unwrap();
        fs::write(folder.path().join("small"), "x").unwrap();
        let size = FolderSize::of(folder.path()).unwrap();
        assert_eq!(size.files, 2);
        assert!(size.bytes >= 100_000, "{size:?}");
        assert_eq!(FolderSize::of(&folder.path().join("small")).unwrap().files, 1);
        assert_eq!(FolderSize::of(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed_and_second_names_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("inside"), folder.path().join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::write(&outside, vec![7; 1 << 20]).unwrap();
        fs::write(inside.join("one"), vec![7; 100_000]).unwrap();
        let alone = FolderSize::of(&inside).unwrap();
        fs::hard_link(inside.join("one"), inside.join("two")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        std::os::unix::fs::symlink("..", inside.join("loop")).unwrap();
        let size = FolderSize::of(&inside).unwrap();
        assert_eq!(size.files, 3);
        assert!(size.bytes < alone.bytes + 50_000, "{alone:?} {size:?}");
    }
}
