//! Name of the branch that is checked out.

use std::path::{Path, PathBuf};

use crate::file;

/// Returns the branch that is checked out in the repository at or above `folder`. For a detached head, returns the first
/// twelve digits of the commit. `None` outside of a repository, and if the head cannot be read.
pub(crate) fn of(folder: &Path) -> Option<String> {
    let git = folder.ancestors().map(|above| above.join(".git")).find(|git| git.exists())?;
    let head = file::read_text(&repository(&git)?.join("HEAD")).ok()??;
    let head = head.trim();
    match head.strip_prefix("ref: ") {
        Some(reference) => Some(reference.strip_prefix("refs/heads/").unwrap_or(reference).to_owned()),
        None => head.get(..12).map(str::to_owned),
    }
}

/// Returns the folder of the repository. Source: gitrepository-layout(5): in a worktree or a submodule `.git`
/// is a file that names it.
fn repository(git: &Path) -> Option<PathBuf> {
    if git.is_dir() {
        return Some(git.to_owned());
    }
    let text = file::read_text(git).ok()??;
    let named = text.strip_prefix("gitdir:")?.trim();
    Some(git.parent()?.join(named))
}
