//! Existing repositories below the writable folders of a turn.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nexus_files::read_bounded;

use crate::guarded_folder::{GuardedFolder, exists, is_git_directory};

/// Bounds of the search below one writable folder. Source: our own bounds.
const MAX_ENTRIES: usize = 100_000;
const MAX_REPOSITORIES: usize = 200;
const MAX_CLOSED_FOLDERS: usize = 200;
/// Maximum size of a file that names a git directory. Longer than any path.
const POINTER_BYTES: u64 = 64 << 10;

/// Repositories below the writable folders of a turn.
#[derive(Debug)]
pub(super) struct Repositories {
    /// Paths that must be read-only: each `.git`, the git directories that they name, and folders that cannot be searched.
    pub(super) protected: BTreeSet<PathBuf>,
    /// The writable folders.
    pub(super) guarded: Vec<GuardedFolder>,
}

impl Repositories {
    /// Searches the folders `roots` and everything below them, without following links. Stops at the bounds, so a large
    /// tree may have more.
    ///
    /// # Errors
    ///
    /// The reason, for a person: the repository of a root cannot be protected, or a root cannot be searched.
    pub(super) fn below(roots: &[PathBuf]) -> Result<Self, String> {
        Self::within(roots, MAX_ENTRIES)
    }

    fn within(roots: &[PathBuf], max_entries: usize) -> Result<Self, String> {
        let mut found = Self { protected: BTreeSet::new(), guarded: Vec::new() };
        for root in roots {
            let has_git = found.protect_own(root, roots)?;
            found.guarded.push(GuardedFolder::new(root, has_git));
            found.search(root, roots, max_entries)?;
        }
        // A path below another read-only one needs no mount, unless a writable root lies between them.
        let all = found.protected.clone();
        found.protected.retain(|path| {
            let above = path.ancestors().skip(1);
            let nearest = above.into_iter().find(|above| all.contains(*above) || is_one(roots, above));
            nearest.is_none_or(|nearest| is_one(roots, nearest))
        });
        Ok(found)
    }

    /// Protects the repository of a root itself. Returns false if it has none.
    fn protect_own(&mut self, root: &Path, roots: &[PathBuf]) -> Result<bool, String> {
        // Test the path by name: a program can make the folder unreadable, so that a list lacks it.
        let git = root.join(".git");
        let has_git = exists(&git).map_err(|error| cannot_search(root, &error))?;
        if has_git {
            self.protected.extend(own_git_directories(root, roots)?);
            self.protected.insert(git);
        }
        Ok(has_git)
    }

    fn search(&mut self, root: &Path, roots: &[PathBuf], max_entries: usize) -> Result<(), String> {
        let (mut folders, mut seen) = (VecDeque::from([root.to_owned()]), 0_usize);
        let (mut repositories, mut closed) = (0_usize, 0_usize);
        // Upper levels first, so that the bounds cut off the deepest.
        while let Some(folder) = folders.pop_front() {
            // A folder can allow a listing but no access to its entries, which the mounts below it need. So test both.
            let listed = folder.join(".").symlink_metadata().and_then(|_| fs::read_dir(&folder));
            let entries = match listed {
                Ok(entries) => entries,
                Err(error) if folder == root => return Err(cannot_search(root, &error)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    // The folder may contain a repository, and a program could make the folder readable again.
                    closed += 1;
                    if closed > MAX_CLOSED_FOLDERS {
                        return Err(cannot_search(&folder, &error));
                    }
                    self.protected.insert(folder);
                    continue;
                }
            };
            for entry in entries.flatten() {
                seen += 1;
                if seen > max_entries || repositories >= MAX_REPOSITORIES {
                    return Ok(());
                }
                let Ok(kind) = entry.file_type() else { continue };
                if entry.file_name() == ".git" {
                    repositories += 1;
                    self.protect(&entry.path(), kind.is_symlink(), roots);
                } else if kind.is_dir() {
                    folders.push_back(entry.path());
                }
            }
        }
        Ok(())
    }

    /// Protects one `.git` and its git directories. Ignores names of anything else: a program may have written them, and
    /// must not be able to close other folders to later turns.
    fn protect(&mut self, git: &Path, is_link: bool, roots: &[PathBuf]) {
        for named in named_git_directories(git) {
            let Ok(real) = named.canonicalize() else { continue };
            if is_below(&real, roots) && !is_one(roots, &real) && is_git_directory(&real) {
                self.protected.insert(real);
            }
        }
        // A link cannot be a mount point.
        if !is_link {
            self.protected.insert(git.to_owned());
        }
    }
}

/// Returns the git directories below the writable folders that the `.git` of a root names, and the settings and hooks to
/// which they have links.
///
/// # Errors
///
/// The reason, for a person: a program could replace one of them.
pub(super) fn own_git_directories(root: &Path, roots: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let git = root.join(".git");
    if git.is_symlink() {
        return Err(format!("{} is a link, which a command could replace", git.display()));
    }
    let mut found = Vec::new();
    let named = named_git_directories(&git);
    let linked: Vec<_> = named.iter().flat_map(|named| linked_parts(named)).collect();
    for named in named.into_iter().chain(linked) {
        for step in named.ancestors().filter(|step| step.is_symlink()) {
            let folder = step.parent().and_then(|folder| folder.canonicalize().ok());
            if folder.is_some_and(|folder| is_below(&folder, roots)) {
                let (git, step) = (git.display(), step.display());
                return Err(format!("{git} leads through the link {step}, which a command could replace"));
            }
        }
        match named.canonicalize() {
            Ok(real) if is_one(roots, &real) => {
                let (git, real) = (git.display(), real.display());
                return Err(format!("{git} leads to {real}, which is writable: name another working tree"));
            }
            Ok(real) if is_below(&real, roots) => found.push(real),
            Ok(_) => {}
            Err(error) => {
                let existing = named.ancestors().find_map(|above| above.canonicalize().ok());
                if existing.is_some_and(|existing| is_below(&existing, roots)) {
                    let (git, named) = (git.display(), named.display());
                    return Err(format!(
                        "{git} names {named}, which a command could create ({error}): repair the repository, or \
                         remove the file"
                    ));
                }
            }
        }
    }
    Ok(found)
}

/// Returns true if the folder is a bare repository: a git directory without a working tree of its own.
pub(super) fn is_bare_repository(root: &Path) -> bool {
    let mut own = named_git_directories(&root.join(".git")).into_iter();
    is_git_directory(root) && !own.next().is_some_and(|own| is_git_directory(&own))
}

/// Returns the git directory of a `.git`, and the git directory that several working trees share.
/// Source: gitrepository-layout(5).
fn named_git_directories(git: &Path) -> Vec<PathBuf> {
    let own = match git.is_dir() {
        true => Some(git.to_owned()),
        false => path_in(git, b"gitdir: ").zip(git.parent()).map(|(path, folder)| folder.join(path)),
    };
    let Some(own) = own else { return Vec::new() };
    let common = path_in(&own.join("commondir"), b"").map(|path| own.join(path));
    std::iter::once(own).chain(common).collect()
}

/// Returns the targets of links in a git directory from which git reads settings or hooks.
fn linked_parts(git: &Path) -> Vec<PathBuf> {
    let links = ["config", "config.worktree", "hooks"].map(|name| git.join(name));
    links.iter().filter_map(|link| Some(git.join(fs::read_link(link).ok()?))).collect()
}

/// Reads the path after `prefix` in a file.
fn path_in(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let text = read_bounded(file, POINTER_BYTES).ok()??;
    let path = text.strip_prefix(prefix)?.trim_ascii_end();
    (!path.is_empty()).then(|| OsStr::from_bytes(path).into())
}

fn is_below(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

fn is_one(roots: &[PathBuf], path: &Path) -> bool {
    roots.iter().any(|root| root == path)
}

fn cannot_search(folder: &Path, error: &io::Error) -> String {
    let folder = folder.display();
    format!(
        "{folder} cannot be searched for repositories ({error}): give its owner access with `chmod u+rwx`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_more_entries_than_the_bound_does_not_lose_its_own_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for git in [".git", "sub/.git"] {
            fs::create_dir_all(root.join(git)).unwrap();
        }
        let protected = |max| Repositories::within(std::slice::from_ref(&root), max).unwrap().protected;
        assert_eq!(protected(0), BTreeSet::from([root.join(".git")]));
        assert_eq!(protected(10), BTreeSet::from([root.join(".git"), root.join("sub/.git")]));
    }

    #[test]
    fn a_path_below_a_protected_one_is_listed_only_in_a_writable_root_between_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in [".bare/objects", ".bare/refs", ".bare/main"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for (file, text) in [(".bare/HEAD", ""), (".git", "gitdir: .bare"), (".bare/main/.git", "gitdir: ..")]
        {
            fs::write(root.join(file), text).unwrap();
        }
        let below = |roots: &[PathBuf]| Repositories::below(roots).unwrap().protected;
        let (bare, git) = (root.join(".bare"), root.join(".git"));
        assert_eq!(below(std::slice::from_ref(&root)), BTreeSet::from([bare.clone(), git.clone()]));
        let tree = bare.join("main");
        let nested = tree.join(".git");
        assert_eq!(below(&[root, tree]), BTreeSet::from([bare, git, nested]));
    }
}
