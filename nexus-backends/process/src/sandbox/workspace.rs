//! Folders of a turn, as a sandbox shows them at the turn's access level.

mod repositories;
mod without_repository;

use std::path::{Path, PathBuf};

use nexus_core::ToolAccess;

use self::repositories::{Repositories, is_bare_repository, own_git_directories};
pub use self::without_repository::WithoutRepository;
use super::root::Sandbox;
use super::tool_chains::ToolChains;

/// Working directory and extra roots of a turn, with its access level.
///
/// | level | in the sandbox |
/// | --- | --- |
/// | [`ScopedOnly`](ToolAccess::ScopedOnly) | not shown |
/// | [`ReadOnly`](ToolAccess::ReadOnly) | read-only |
/// | [`WorkspaceWrite`](ToolAccess::WorkspaceWrite) | writable, except each `.git`, the git directories that it names, and folders that cannot be listed |
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
    /// The reason, for a person: a path is not a folder, is inside the home of Nexus, or is inside a `.git` folder at a level that
    /// writes, or is a bare repository at [`WorkspaceWrite`](ToolAccess::WorkspaceWrite).
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
            if self.access == ToolAccess::WorkspaceWrite && is_bare_repository(root) {
                let root = root.display();
                return Err(format!(
                    "{root} is a bare repository, whose settings a command could change: name a working tree"
                ));
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
        let roots: Vec<PathBuf> = self.roots().cloned().collect();
        // If this fails, the git directories of the root are unknown, and no command may run there.
        let named = roots.iter().flat_map(|root| own_git_directories(root, &roots).unwrap_or_default());
        roots.iter().map(|root| root.join(".git")).chain(named).chain(self.homes()).collect()
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
        if self.access != ToolAccess::WorkspaceWrite {
            return Ok((sandbox, WithoutRepository::default()));
        }
        let roots: Vec<PathBuf> = self.roots().cloned().collect();
        let homes = self.homes();
        let repositories = Repositories::below(&roots)?;
        for path in repositories.protected {
            if !homes.iter().any(|home| path.starts_with(home)) {
                sandbox = sandbox.read_only(&path, &path);
            }
        }
        let home = self.nexus_homes.first().map(PathBuf::as_path);
        Ok((sandbox, WithoutRepository::new(repositories.guarded, home)))
    }

    fn is_shown_root(&self, folder: &Path) -> bool {
        self.access != ToolAccess::ScopedOnly && self.roots().any(|root| root == folder)
    }
}

/// Returns true if the folder is the home of Nexus or a part of it. A worker runs turns in the folder `fleet` of its home.
fn is_private_part(home: &Path, folder: &Path) -> bool {
    match folder.strip_prefix(home) {
        Ok(below) => below.components().next().is_none_or(|part| part.as_os_str() != "fleet"),
        Err(_) => false,
    }
}
