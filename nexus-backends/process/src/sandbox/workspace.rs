//! Folders of a turn, as a sandbox shows them at the turn's access level.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use nexus_core::ToolAccess;

use super::root::Sandbox;
use super::tool_chains::ToolChains;

/// Bounds of the search for repositories below a writable folder. Source: our own bounds.
const MAX_ENTRIES: usize = 100_000;
const MAX_REPOSITORIES: usize = 200;

/// Working directory and extra roots of a turn, with its access level.
///
/// | level | in the sandbox |
/// | --- | --- |
/// | [`ScopedOnly`](ToolAccess::ScopedOnly) | not shown |
/// | [`ReadOnly`](ToolAccess::ReadOnly) | read-only |
/// | [`WorkspaceWrite`](ToolAccess::WorkspaceWrite) | writable, except each `.git` |
/// | [`Unrestricted`](ToolAccess::Unrestricted) | such a turn has no sandbox |
///
/// The home of Nexus is hidden at every level.
#[derive(Clone, Debug)]
pub struct WorkspaceFolders {
    access: ToolAccess,
    folder: PathBuf,
    extra_roots: Vec<PathBuf>,
    /// Home of Nexus, which has logins, under each of its paths: the configured one may be a link.
    nexus_homes: Vec<PathBuf>,
}

impl WorkspaceFolders {
    /// Resolves the folders of a turn. Blocks.
    ///
    /// # Errors
    ///
    /// The reason, for a person: a path is no folder, is inside the home of Nexus, or is inside a `.git` folder at a level that
    /// writes.
    pub fn resolve(
        access: ToolAccess,
        folder: &Path,
        extra_roots: &[PathBuf],
        nexus_home: &Path,
    ) -> Result<Self, String> {
        let real = |folder: &Path| {
            let real = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
            match real.is_dir() {
                true => Ok(real),
                false => Err(format!("{} is not a folder", folder.display())),
            }
        };
        let named_home = std::path::absolute(nexus_home).unwrap_or_else(|_| nexus_home.to_owned());
        let folder = real(folder)?;
        let mut roots = extra_roots.iter().map(|root| real(root)).collect::<Result<Vec<_>, _>>()?;
        roots.retain(|root| *root != folder);
        roots.sort();
        roots.dedup();
        let mut nexus_homes =
            vec![named_home.canonicalize().unwrap_or_else(|_| named_home.clone()), named_home];
        nexus_homes.dedup();
        let folders = Self { access, folder, extra_roots: roots, nexus_homes };
        if access != ToolAccess::Unrestricted {
            folders.check()?;
        }
        Ok(folders)
    }

    /// Returns a folder that Nexus made for this turn or its conversation. It may be in the home of Nexus.
    #[must_use]
    pub fn of_private_folder(access: ToolAccess, folder: impl Into<PathBuf>) -> Self {
        Self { access, folder: folder.into(), extra_roots: Vec::new(), nexus_homes: Vec::new() }
    }

    /// Rejects folders whose content must stay closed to the tools as a whole.
    fn check(&self) -> Result<(), String> {
        for root in self.roots() {
            if self.nexus_homes.first().is_some_and(|home| is_private_part(home, root)) {
                return Err(format!("{} is in the home of Nexus, which has logins", root.display()));
            }
            if self.access != ToolAccess::ReadOnly && root.components().any(|part| part.as_os_str() == ".git")
            {
                let root = root.display();
                return Err(format!("{root} is inside a .git folder: name the working tree"));
            }
        }
        Ok(())
    }

    /// Returns the access level.
    #[must_use]
    pub fn access(&self) -> ToolAccess {
        self.access
    }

    /// Returns the working directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the extra roots.
    #[must_use]
    pub fn extra_roots(&self) -> &[PathBuf] {
        &self.extra_roots
    }

    /// Returns the working directory and the extra roots.
    pub fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.folder).chain(&self.extra_roots)
    }

    /// Returns the paths below the roots that no tool may change. A program that changes `.git` could have this user run commands
    /// later, by a hook or by a setting.
    #[must_use]
    pub fn protected(&self) -> Vec<PathBuf> {
        self.roots().map(|root| root.join(".git")).chain(self.homes()).collect()
    }

    /// Returns the paths of the home of Nexus that are below a root.
    #[must_use]
    pub fn homes(&self) -> Vec<PathBuf> {
        let is_below = |home: &&PathBuf| self.roots().any(|root| home.starts_with(root));
        self.nexus_homes.iter().filter(is_below).cloned().collect()
    }

    /// Adds the tool chains and these folders to a sandbox. Blocks.
    ///
    /// # Errors
    ///
    /// The reason, for a person.
    pub fn show_in(
        &self,
        mut sandbox: Sandbox,
        chains: &ToolChains,
    ) -> Result<(Sandbox, WithoutRepository), String> {
        for chain in chains.folders() {
            // A root is shown as it is. A chain that leads to a wide folder would fail the whole sandbox.
            let real = chain.canonicalize().unwrap_or_else(|_| chain.clone());
            if real == *chain && !self.is_shown_root(chain) {
                sandbox = sandbox.tool_chain(chain);
            }
        }
        if self.access == ToolAccess::ScopedOnly {
            return Ok((sandbox, WithoutRepository::default()));
        }
        for root in self.roots() {
            sandbox = match self.access {
                ToolAccess::WorkspaceWrite => sandbox.writable(root, root),
                _ => sandbox.read_only(root, root),
            };
        }
        for home in self.homes() {
            // A mount cannot hold a link, so a command could replace it by a home of its own.
            if home.is_symlink() {
                return Err(format!(
                    "the home of Nexus is the link {}: set NEXUS_HOME to its target",
                    home.display()
                ));
            }
            sandbox = sandbox.hidden(&home);
        }
        let mut without_git = Vec::new();
        if self.access == ToolAccess::WorkspaceWrite {
            for root in self.roots() {
                let repositories = repositories_below(root)?;
                if !repositories.contains(&root.join(".git")) {
                    without_git.push(root.clone());
                }
                for git in
                    repositories.iter().filter(|git| !self.homes().iter().any(|home| git.starts_with(home)))
                {
                    sandbox = sandbox.read_only(git, git);
                }
            }
        }
        Ok((sandbox, WithoutRepository(without_git)))
    }

    fn is_shown_root(&self, folder: &Path) -> bool {
        self.access != ToolAccess::ScopedOnly && self.roots().any(|root| root == folder)
    }
}

/// Writable folders of a sandbox that have no repository of their own, and in which none may appear.
#[derive(Clone, Debug, Default)]
pub struct WithoutRepository(Vec<PathBuf>);

impl WithoutRepository {
    /// Renames each `.git` that appeared in one of the folders. Git would run commands that its settings name, as this user and
    /// without the sandbox. Returns what was moved, for a person.
    #[must_use]
    pub fn set_aside(&self) -> Option<String> {
        let mut moved = Vec::new();
        for folder in &self.0 {
            let git = folder.join(".git");
            if git.symlink_metadata().is_err() {
                continue;
            }
            let names = (1..100).map(|number| folder.join(format!(".git-of-agent-{number}")));
            let free = names.into_iter().find(|name| name.symlink_metadata().is_err());
            if let Some(name) = free.filter(|name| std::fs::rename(&git, name).is_ok()) {
                moved.push(format!("{} was moved to {}", git.display(), name.display()));
            }
        }
        (!moved.is_empty()).then(|| moved.join("; "))
    }
}

/// Returns true if the folder is the home of Nexus or a part of it. A worker runs turns in the folder `fleet` of its home.
fn is_private_part(home: &Path, folder: &Path) -> bool {
    match folder.strip_prefix(home) {
        Ok(below) => below.components().next().is_none_or(|part| part.as_os_str() != "fleet"),
        Err(_) => false,
    }
}

/// Finds `.git` in a folder and below it, without following links. Stops at the bounds, so a large tree may have more.
///
/// Fails if the folder's own `.git` is a link: a command could replace it by a repository of its own.
fn repositories_below(root: &Path) -> Result<Vec<PathBuf>, String> {
    let own = root.join(".git");
    if own.is_symlink() {
        return Err(format!("{} is a link, which a command could replace", own.display()));
    }
    let (mut found, mut folders, mut seen) = (Vec::new(), VecDeque::from([root.to_owned()]), 0_usize);
    // Upper levels first, so that the bounds cut off the deepest.
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_ENTRIES || found.len() >= MAX_REPOSITORIES {
                return Ok(found);
            }
            let Ok(kind) = entry.file_type() else { continue };
            match entry.file_name() == ".git" {
                true if !kind.is_symlink() => found.push(entry.path()),
                false if kind.is_dir() => folders.push_back(entry.path()),
                _ => {}
            }
        }
    }
    Ok(found)
}
