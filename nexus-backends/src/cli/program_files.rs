//! Files of this machine that a program in the sandbox needs in addition to the workspace and the tool chains.

use std::path::{Path, PathBuf};

use nexus_core::ToolAccess;
use nexus_process::sandbox::{Sandbox, ToolChains, WorkspaceFolders};

/// Folder that holds the packages of npm. A package may use others beside it.
const NODE_PACKAGES: &str = "node_modules";
/// File that marks the folder of a virtual environment of Python.
const PYTHON_ENVIRONMENT: &str = "pyvenv.cfg";

/// Files that a program needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramFiles<'a> {
    /// Real path of the program. `None` for a name that is looked up inside.
    pub(crate) program: Option<&'a Path>,
    /// Further files and folders.
    pub(crate) folders: &'a [PathBuf],
    /// Home of Nexus, which no such program may read.
    pub(crate) nexus_home: &'a Path,
    /// The user's home, if it is known.
    pub(crate) user_home: Option<&'a Path>,
}

impl ProgramFiles<'_> {
    /// Adds the files to a sandbox that has the workspace and the tool chains. Also returns the shown paths, for the folders of
    /// `PATH`. Blocks.
    ///
    /// # Errors
    ///
    /// The reason, for a person: a path cannot be read, or has the logins of Nexus.
    pub(crate) fn show_in(
        &self,
        mut sandbox: Sandbox,
        chains: &ToolChains,
        workspace: &WorkspaceFolders,
    ) -> Result<(Sandbox, Vec<PathBuf>), String> {
        let is_workspace_shown = workspace.access() != ToolAccess::ScopedOnly;
        let mut shown: Vec<PathBuf> = workspace.roots().filter(|_| is_workspace_shown).cloned().collect();
        let package = self.program.map(|program| {
            package_of(program, |folder| {
                let holds = |path: &Path| path.starts_with(folder);
                self.user_home.is_some_and(holds) || workspace.roots().any(|root| holds(root))
            })
        });
        let real = |path: &PathBuf| {
            path.canonicalize().map_err(|error| format!("`program_folders`: {}: {error}", path.display()))
        };
        let folders = self.folders.iter().map(real).collect::<Result<Vec<_>, _>>()?;
        for path in package.into_iter().chain(folders) {
            if has_logins(self.nexus_home, &path) {
                return Err(format!("{} has the logins of Nexus, which no program may read", path.display()));
            }
            let is_shown = shown.iter().chain(chains.folders()).any(|above| path.starts_with(above));
            if !is_shown && !path.starts_with("/usr") {
                sandbox = sandbox.read_only(&path, &path);
                shown.push(path);
            }
        }
        Ok((sandbox, shown))
    }
}

/// Returns true if a path is the home of Nexus, a part of it, or a folder around it.
pub(crate) fn has_logins(nexus_home: &Path, path: &Path) -> bool {
    let home = nexus_home.canonicalize().unwrap_or_else(|_| nexus_home.to_owned());
    home.starts_with(path) || path.starts_with(&home)
}

/// Returns the folder or file that a program needs to start, by its real path: its packages of npm, its environment of Python, else the
/// program alone. A folder that is `too_wide` would show far more than the program.
fn package_of(real: &Path, is_too_wide: impl Fn(&Path) -> bool) -> PathBuf {
    let packages =
        real.ancestors().filter(|above| above.file_name().is_some_and(|name| name == NODE_PACKAGES));
    let environment = real.ancestors().nth(2).filter(|above| above.join(PYTHON_ENVIRONMENT).is_file());
    let found = packages.last().or(environment).filter(|folder| !is_too_wide(folder));
    found.unwrap_or(real).to_owned()
}
