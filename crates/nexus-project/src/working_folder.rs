//! Working folders: files that agents read first, and folders of skills.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use nexus_files::{FileLock, lacks_locks};
use serde::Serialize;

use crate::{
    error::{ProjectError, ProjectErrorKind},
    hub::SkillKind,
};

/// Longest wait for another process that creates the repository in the folder.
const GIT_PATIENCE: Duration = Duration::from_secs(30);
/// The created files with their initial contents.
const FILES: [(&str, &str); 4] = [
    ("AGENTS.md", include_str!("../templates/AGENTS.md")),
    ("SOUL.md", include_str!("../templates/SOUL.md")),
    ("IDENTITY.md", include_str!("../templates/IDENTITY.md")),
    // Locks are not part of the work, so git ignores them.
    (".gitignore", ".nexus_locks/\n"),
];

/// Created and existing files of [`create_working_folder`].
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct WorkingFolderReport {
    /// Files and folders that were created.
    pub made: Vec<PathBuf>,
    /// Files and folders that existed and were left as they are.
    pub kept: Vec<PathBuf>,
}

/// Creates the missing parts of a working folder: AGENTS.md, SOUL.md, IDENTITY.md, `skills/{tools,connectors,guides}`, and a
/// git repository if `with_git`. Never changes existing files, so it can be called again.
///
/// # Errors
///
/// [`Failed`](ProjectErrorKind::Failed), with the path. Files that were created before the failure stay.
pub fn create_working_folder(folder: &Path, with_git: bool) -> Result<WorkingFolderReport, ProjectError> {
    let mut report = WorkingFolderReport::default();
    let mut note = |path: PathBuf, is_made: bool| match is_made {
        true => report.made.push(path),
        false => report.kept.push(path),
    };
    fs::create_dir_all(folder).map_err(ProjectError::at(folder))?;
    for kind in SkillKind::ALL {
        let path = folder.join("skills").join(kind.as_str());
        let is_there = path.is_dir();
        fs::create_dir_all(&path).map_err(ProjectError::at(&path))?;
        note(path, !is_there);
    }
    for (name, text) in FILES {
        let path = folder.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            note(path, false);
            continue;
        }
        // Write the file in one step, because the next call does not complete a partial one. Never replace a file, and never
        // write through a dangling link.
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.prefix(".making-").tempfile_in(folder).map_err(ProjectError::at(&path))?;
        file.write_all(text.as_bytes()).map_err(ProjectError::at(&path))?;
        match file.persist_noclobber(&path) {
            Ok(_) => note(path, true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => note(path, false),
            Err(error) => return Err(ProjectError::unusable(&path, &error.error)),
        }
    }
    if with_git {
        let path = folder.join(".git");
        // Two git processes that create one repository at the same time fail because of each other's locks.
        let _lock = match FileLock::lock_folder(folder, GIT_PATIENCE) {
            Ok(Some(lock)) => Some(lock),
            Ok(None) => {
                let message = format!("another process makes {} a repository", folder.display());
                return Err(ProjectError::new(ProjectErrorKind::InUse, message, "do the same again"));
            }
            Err(error) if lacks_locks(&error) => None,
            Err(error) => return Err(ProjectError::unusable(folder, &error)),
        };
        let is_there = path.exists();
        if !is_there {
            let made = Command::new("git")
                .env_remove("GIT_DIR")
                .env_remove("GIT_WORK_TREE")
                .args(["init", "--quiet", "--template=", "--"])
                .arg(folder)
                .stdin(Stdio::null())
                .output();
            let failed = |reason: &str, advice: &str| {
                let message = format!("{} cannot become a repository: {reason}", folder.display());
                ProjectError::new(ProjectErrorKind::Failed, message, advice)
            };
            let made =
                made.map_err(|error| failed(&error.to_string(), "install git, or leave out the repository"))?;
            if !made.status.success() {
                let said = String::from_utf8_lossy(&made.stderr);
                let reason = said.lines().next_back().filter(|line| !line.trim().is_empty());
                let reason = reason.map_or_else(|| made.status.to_string(), str::to_owned);
                return Err(failed(&reason, "fix what git says, or leave out the repository"));
            }
        }
        note(path, !is_there);
    }
    Ok(report)
}
