//! The demo's own project: a git repository with a mistake.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nexus_files::random_name;

use super::script::TOTAL;
use crate::command_error::CommandError;

/// Folder of the project in the demo's home.
const FOLDER: &str = "project";
/// Beginning of the name of a project that is being created.
const UNFINISHED: &str = ".project-";

/// Returns the folder of a project with the mistake: the first unchanged one, else a new one.
pub(super) fn ready_in(home: &Path) -> Result<PathBuf, CommandError> {
    remove_unfinished(home);
    let names = std::iter::once(FOLDER.to_owned()).chain((2..).map(|number| format!("{FOLDER}-{number}")));
    for folder in names.map(|name| home.join(name)) {
        if is_ready(&folder) {
            return Ok(folder);
        }
        if folder.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            create(home, &folder)?;
            return Ok(folder);
        }
    }
    Err(CommandError::failed("no name for the project is free"))
}

/// Removes the projects that an interrupted run left. No other run creates one, because the home is locked.
fn remove_unfinished(home: &Path) {
    let is_unfinished =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
    for entry in fs::read_dir(home).into_iter().flatten().flatten().filter(is_unfinished) {
        // Ignore an error: the folder is not used again.
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Returns true if the folder has the project as the demo creates it.
fn is_ready(folder: &Path) -> bool {
    let is_same = |(name, content): &(&str, &str)| {
        fs::read(folder.join(name)).is_ok_and(|found| found == content.as_bytes())
    };
    folder.join(".git").is_dir() && TOTAL.files.iter().all(is_same)
}

/// Creates the project under another name first, so that an interrupted creation is never taken for a project.
fn create(home: &Path, folder: &Path) -> Result<(), CommandError> {
    let at = |error: io::Error| CommandError::failed(format_args!("{}: {error}", folder.display()));
    let unfinished = home.join(format!("{UNFINISHED}{}", random_name()));
    let made = fill(&unfinished).and_then(|()| fs::rename(&unfinished, folder));
    made.map_err(|error| {
        // Ignore an error: the first one is the one to report.
        let _ = fs::remove_dir_all(&unfinished);
        at(error)
    })
}

fn fill(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (name, content) in TOTAL.files {
        fs::write(folder.join(name), content)?;
    }
    // No template, because the person's template could bring hooks.
    git(folder, &["init", "--quiet", "--template=", "--initial-branch=main"])?;
    git(folder, &["add", "--all"])?;
    git(folder, &["commit", "--quiet", "--message=Add two numbers"])
}

/// Runs git without the configuration, hooks and variables of the user.
fn git(folder: &Path, arguments: &[&str]) -> io::Result<()> {
    let mut command = Command::new("git");
    // A demo that runs within a git hook inherits `GIT_DIR`, which leads to another repository.
    let is_gits = |name: &OsStr| name.as_encoded_bytes().starts_with(b"GIT_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_gits(name)) {
        command.env_remove(name);
    }
    let settings = [
        "user.name=Nexus demo",
        "user.email=demo@localhost",
        "commit.gpgsign=false",
        "core.hooksPath=/dev/null",
    ];
    command.args(settings.iter().flat_map(|setting| ["-c", setting]));
    let output = command
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "git {} failed: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}
