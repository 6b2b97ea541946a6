//! A place to work: the files that agents read first, and the folders of skills.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Serialize;

use crate::{
    error::{BrokerError, BrokerErrorKind},
    skill::SkillKind,
};

/// The files, and what stands in them at first.
const FILES: [(&str, &str); 4] = [
    ("AGENTS.md", include_str!("../templates/AGENTS.md")),
    ("SOUL.md", include_str!("../templates/SOUL.md")),
    ("IDENTITY.md", include_str!("../templates/IDENTITY.md")),
    // Locks are state, and no part of the work.
    (".gitignore", ".nexus_locks/\n"),
];

/// What was made of a place, and what was there.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkPlaceReport {
    /// Files and folders that were made.
    pub made: Vec<PathBuf>,
    /// Files and folders that were there, and were left as they are.
    pub kept: Vec<PathBuf>,
}

/// Makes a place to work of a folder, as far as it is none yet: AGENTS.md, SOUL.md, IDENTITY.md, `skills/{tools,connectors,guides}`, and a git
/// repository if `with_git`. What is there is never changed, so it can be done again.
///
/// # Errors
///
/// [`Failed`](BrokerErrorKind::Failed), which names the place; what was made by then stays.
pub fn make_work_place(folder: &Path, with_git: bool) -> Result<WorkPlaceReport, BrokerError> {
    let mut report = WorkPlaceReport::default();
    let mut note = |path: PathBuf, is_made: bool| match is_made {
        true => report.made.push(path),
        false => report.kept.push(path),
    };
    fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    for kind in SkillKind::ALL {
        let path = folder.join("skills").join(kind.as_str());
        let is_there = path.is_dir();
        fs::create_dir_all(&path).map_err(|error| at(&path, &error))?;
        note(path, !is_there);
    }
    for (name, text) in FILES {
        let path = folder.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            note(path, false);
            continue;
        }
        // As a whole, since what is there is kept the next time; never over a file, nor through a link that leads nowhere.
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.prefix(".making-").tempfile_in(folder).map_err(|error| at(&path, &error))?;
        file.write_all(text.as_bytes()).map_err(|error| at(&path, &error))?;
        match file.persist_noclobber(&path) {
            Ok(_) => note(path, true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => note(path, false),
            Err(error) => return Err(at(&path, &error.error)),
        }
    }
    if with_git {
        let path = folder.join(".git");
        let is_there = path.exists();
        if !is_there {
            let made = Command::new("git")
                .env_remove("GIT_DIR")
                .env_remove("GIT_WORK_TREE")
                .args(["init", "--quiet", "--template=", "--"])
                .arg(folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status();
            let failed = |reason: String| {
                BrokerError::new(
                    BrokerErrorKind::Failed,
                    format!("{} cannot be made a repository: {reason}", folder.display()),
                    "install git, or leave it out",
                )
            };
            let status = made.map_err(|error| failed(error.to_string()))?;
            if !status.success() {
                return Err(failed(status.to_string()));
            }
        }
        note(path, !is_there);
    }
    Ok(report)
}

fn at(path: &Path, error: &io::Error) -> BrokerError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BrokerErrorKind::NoSpace,
        _ => BrokerErrorKind::Failed,
    };
    BrokerError::new(kind, format!("{}: {error}", path.display()), "")
}
