//! Folders in which no git repository may appear, and the repositories that appear there.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nexus_files::random_name;
use serde::{Deserialize, Serialize};

/// Writable folder in which no git repository may appear. Git runs commands that a repository's settings name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GuardedFolder {
    folder: PathBuf,
    /// True if `.git` did not exist before.
    is_without_git: bool,
    /// True if the folder was not itself a git directory before.
    is_not_bare: bool,
}

/// Repository that a program created in a folder where none may appear.
#[derive(Debug)]
pub enum PlantedRepository {
    /// The repository has a name that git does not look for.
    Moved {
        /// Path that git reads.
        from: PathBuf,
        /// New path.
        to: PathBuf,
    },
    /// The folder could not be searched, or its repository could not be renamed.
    Left {
        /// Folder of the repository.
        folder: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

impl fmt::Display for PlantedRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved { from, to } => write!(
                f,
                "{} was moved to {}: a program in the sandbox may not create a repository in this folder",
                from.display(),
                to.display()
            ),
            Self::Left { folder, source } => write!(
                f,
                "{} may contain a repository that a program in the sandbox created, and it could not be moved \
                 aside ({source}): remove its `.git`, or its `HEAD`, before you run git there",
                folder.display()
            ),
        }
    }
}

impl GuardedFolder {
    /// Describes a folder before a program writes to it.
    pub(crate) fn new(folder: &Path, has_git: bool) -> Self {
        Self { folder: folder.to_owned(), is_without_git: !has_git, is_not_bare: !is_git_directory(folder) }
    }

    /// Renames each repository that appeared.
    pub(crate) fn set_aside(&self) -> Vec<PlantedRepository> {
        let mut planted = Vec::new();
        if self.rename_all(&mut planted).is_ok() {
            return planted;
        }
        // A program can take the owner's permissions on its folder away, so that a rename fails.
        let opened = OwnerAccess::to(&self.folder);
        if let Err(source) = opened.and_then(|_access| self.rename_all(&mut planted)) {
            planted.push(PlantedRepository::Left { folder: self.folder.clone(), source });
        }
        planted
    }

    fn rename_all(&self, planted: &mut Vec<PlantedRepository>) -> io::Result<()> {
        if self.is_without_git && exists(&self.folder.join(".git"))? {
            planted.push(self.rename(".git")?);
        }
        if self.is_not_bare && has_git_layout(&self.folder)? {
            planted.push(self.rename("HEAD")?);
        }
        Ok(())
    }

    fn rename(&self, name: &str) -> io::Result<PlantedRepository> {
        // A program must not be able to occupy the new name in advance.
        let to = self.folder.join(format!("{name}-of-agent-{}", random_name()));
        let from = self.folder.join(name);
        fs::rename(&from, &to)?;
        Ok(PlantedRepository::Moved { from, to })
    }
}

/// Returns true if git would take the folder itself for a repository. Links count, also without a target.
pub(crate) fn is_git_directory(folder: &Path) -> bool {
    has_git_layout(folder).unwrap_or(false)
}

/// Source: `is_git_directory` in git's `setup.c`. A `commondir` file names another folder for objects and references.
fn has_git_layout(folder: &Path) -> io::Result<bool> {
    let has = |name: &str| exists(&folder.join(name));
    Ok(has("HEAD")? && (has("commondir")? || (has("objects")? && has("refs")?)))
}

/// Returns an error if the answer is unknown.
pub(crate) fn exists(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Full access of the owner to a folder, until dropped.
struct OwnerAccess<'a> {
    folder: &'a Path,
    before: Permissions,
}

impl<'a> OwnerAccess<'a> {
    fn to(folder: &'a Path) -> io::Result<Self> {
        let before = fs::metadata(folder)?.permissions();
        fs::set_permissions(folder, Permissions::from_mode(before.mode() | 0o700))?;
        Ok(Self { folder, before })
    }
}

impl Drop for OwnerAccess<'_> {
    fn drop(&mut self) {
        // The user may have chosen the mode. With the wider one, only the owner gained access.
        let _ = fs::set_permissions(self.folder, self.before.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn moved(guard: &GuardedFolder) -> Vec<PathBuf> {
        let planted = guard.set_aside().into_iter().map(|planted| match planted {
            PlantedRepository::Moved { to, .. } => to,
            PlantedRepository::Left { .. } => panic!("{planted}"),
        });
        planted.collect()
    }

    #[test]
    fn a_repository_is_moved_although_names_are_occupied_and_the_folder_is_closed() {
        // For root, the modes have no effect; as another user, all except 0o700 make the first attempt fail.
        for mode in [0o700, 0o555, 0o300, 0o000] {
            let folder = tempfile::tempdir().unwrap();
            let guard = GuardedFolder::new(folder.path(), false);
            assert!(guard.set_aside().is_empty());
            for number in 1..100 {
                fs::write(folder.path().join(format!(".git-of-agent-{number}")), "").unwrap();
            }
            fs::create_dir(folder.path().join(".git")).unwrap();
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(moved(&guard).len(), 1, "{mode:o}");
            let after = fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777;
            assert_eq!(after, mode);
            fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
            assert!(!folder.path().join(".git").exists() && names(folder.path()).len() == 100);
        }
    }

    #[test]
    fn a_bare_repository_loses_its_head_unless_it_was_one_before() {
        let layouts: [(&[&str], bool); 4] = [
            (&["HEAD", "objects", "refs", "config"], true),
            (&["HEAD", "commondir"], true),
            (&["HEAD", "objects"], false),
            (&["objects", "refs", "config"], false),
        ];
        for (layout, is_moved) in layouts {
            let folder = tempfile::tempdir().unwrap();
            let before = GuardedFolder::new(folder.path(), true);
            for name in layout {
                fs::create_dir(folder.path().join(name)).unwrap();
            }
            assert!(GuardedFolder::new(folder.path(), true).set_aside().is_empty());
            assert_eq!(moved(&before).len(), usize::from(is_moved), "{layout:?}");
            let has_head = folder.path().join("HEAD").exists();
            assert_eq!(has_head, !is_moved && layout[0] == "HEAD");
            assert_eq!(names(folder.path()).len(), layout.len());
        }
    }

    #[test]
    fn a_repository_that_cannot_be_moved_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let guard = GuardedFolder::new(&folder.path().join("link"), false);
        std::os::unix::fs::symlink("link", folder.path().join("link")).unwrap();
        let planted = guard.set_aside();
        assert!(matches!(planted[..], [PlantedRepository::Left { .. }]), "{planted:?}");
        assert!(planted[0].to_string().contains("could not be moved aside"), "{}", planted[0]);
    }
}
