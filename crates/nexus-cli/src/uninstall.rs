//! `nexus uninstall`: removes the files that the installer of a release wrote.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Component, Path, PathBuf},
    process::ExitCode,
};

use nexus::BuildContext;
use nexus_files::{open_regular, read_text};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::UninstallArgs,
    command_error::CommandError,
    confirm,
    output::{AnswerWriter, say},
};

/// List of what the installer created, below the prefix. A line is `file PATH` or `folder PATH`.
const RECEIPT: &str = "share/nexus/installed";
/// Longest receipt, in bytes.
const MAX_RECEIPT_BYTES: u64 = 1 << 20;
/// Files and folders of which the usual home has at least one, once a command has used it.
const HOME_MARKS: [&str; 13] = [
    "agents",
    "auth",
    "broker",
    "conversations",
    "demo",
    "holds",
    "runs",
    "spending",
    "tasks",
    "undo",
    JOURNAL,
    "nexus.yaml",
    "trusted.json",
];
/// Journal of a home, which every service writes.
const JOURNAL: &str = "journal.jsonl";
/// Folders of version control systems.
const REPOSITORIES: [&str; 3] = [".git", ".hg", ".svn"];

/// Files and folders that were removed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Uninstalled {
    /// The removed files.
    files: Vec<PathBuf>,
    /// The removed folders.
    folders: Vec<PathBuf>,
    /// Nexus's home. `None` if it does not exist.
    home: Option<PathBuf>,
    /// True if the home was removed too.
    is_home_removed: bool,
}

/// Installed files, by absolute paths.
struct Installation {
    files: Vec<PathBuf>,
    /// Outermost folders first.
    folders: Vec<PathBuf>,
}

pub(crate) fn uninstall(out: AnswerWriter, args: &UninstallArgs) -> Result<ExitCode, CommandError> {
    let program = std::env::current_exe().and_then(fs::canonicalize).map_err(CommandError::failed)?;
    let installation = Installation::of(&program)?;
    let home = BuildContext::from_process().home;
    let home = Some(home).filter(|home| home.symlink_metadata().is_ok());
    let checked = home.as_deref().filter(|_| args.home).map(checked_home).transpose()?;
    let removed_home = checked.as_deref();
    if !args.yes && !is_confirmed(&installation, removed_home)? {
        return Err(CommandError::failed("nothing was removed"));
    }
    // The program comes first: if it cannot be removed, the home with the logins is still there.
    let (files, folders) = installation.remove()?;
    if let Some(home) = removed_home {
        fs::remove_dir_all(home)
            .map_err(|error| CommandError::failed(format_args!("{}: {error}", home.display())))?;
    }
    let is_home_removed = removed_home.is_some();
    out.show(&Uninstalled { files, folders, home, is_home_removed }, show);
    Ok(ExitCode::SUCCESS)
}

fn show(removed: &Uninstalled) {
    for path in removed.files.iter().chain(&removed.folders) {
        say(format_args!("removed {}", path.display()));
    }
    match &removed.home {
        Some(home) if removed.is_home_removed => say(format_args!("removed {}", home.display())),
        Some(home) => say(format_args!(
            "{} stays, with the configuration, logins, tasks and conversations: remove it with `rm -r` if you no longer need it",
            home.display()
        )),
        None => {}
    }
}

impl Installation {
    /// Reads the receipt of the installation that the program is part of.
    fn of(program: &Path) -> Result<Self, CommandError> {
        let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let receipt = prefix.join(RECEIPT);
        let file = match open_regular(&receipt, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_ours(program)),
            Err(error) => return Err(CommandError::failed(format_args!("{}: {error}", receipt.display()))),
        };
        let text = read_text(file, MAX_RECEIPT_BYTES)
            .map_err(|error| CommandError::failed(format_args!("{}: {error}", receipt.display())))?;
        let mut installation = Self { files: Vec::new(), folders: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            let wrong = || {
                let message = format!("{}:{}: not a line of this installer", receipt.display(), number + 1);
                CommandError::failed(message)
                    .with_advice("nothing was removed; install the release again first")
            };
            let (kind, path) = line.split_once(' ').ok_or_else(wrong)?;
            // The file may have been changed: a path must not lead out of the prefix.
            let is_below = Path::new(path)
                .components()
                .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            let list = match kind {
                "file" if !matches!(path, "" | ".") => &mut installation.files,
                "folder" if !path.is_empty() => &mut installation.folders,
                _ => return Err(wrong()),
            };
            if !is_below {
                return Err(wrong());
            }
            list.push(if path == "." { prefix.to_owned() } else { prefix.join(path) });
        }
        // A receipt without this program belongs to another installation.
        if !installation.files.iter().any(|file| file == program) {
            return Err(not_ours(program));
        }
        Ok(installation)
    }

    /// Removes the files, then each folder that is empty. The receipt comes last, so that an interrupted call can be repeated with
    /// a program that is installed again.
    fn remove(mut self) -> Result<(Vec<PathBuf>, Vec<PathBuf>), CommandError> {
        // `false` sorts before `true`, so the receipt comes last.
        self.files.sort_by_key(|file| file.ends_with(RECEIPT));
        let failed = |path: &Path, error| CommandError::failed(format_args!("{}: {error}", path.display()));
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for file in self.files {
            match fs::remove_file(&file) {
                Ok(()) => files.push(file),
                // An earlier call may have removed the file before it was interrupted.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&file, error)),
            }
        }
        for folder in self.folders.into_iter().rev() {
            match fs::remove_dir(&folder) {
                Ok(()) => folders.push(folder),
                // Another program uses the folder too.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&folder, error)),
            }
        }
        Ok((files, folders))
    }
}

/// Creates the error for a program that was installed in another way, with the command that removes it.
fn not_ours(program: &Path) -> CommandError {
    let is_below = |name: &str| program.components().any(|part| part.as_os_str() == name);
    let advice = if is_below("node_modules") {
        "remove it with `npm uninstall --global nexus-turn`".to_owned()
    } else if is_below(".cargo") {
        "remove it with `cargo uninstall nexus-turn-cli`".to_owned()
    } else {
        "remove that file".to_owned()
    };
    CommandError::failed(format_args!(
        "{} was not installed by the installer of a release",
        program.display()
    ))
    .with_advice(advice)
}

/// Returns the real path of the home. Refuses a folder that may have files of others, such as the user's own home or a project.
fn checked_home(home: &Path) -> Result<PathBuf, CommandError> {
    let refused = || {
        let message = format!("{} does not look like a home of Nexus alone", home.display());
        CommandError::failed(message).with_advice("remove it by hand; nothing was removed")
    };
    let is_link = home.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let real = home.canonicalize().map_err(|_| refused())?;
    let contains = |path: Option<PathBuf>| {
        path.and_then(|path| path.canonicalize().ok()).is_some_and(|path| path.starts_with(&real))
    };
    let is_empty = fs::read_dir(&real).is_ok_and(|mut entries| entries.next().is_none());
    // The usual home has a name of its own. Elsewhere, a folder `tasks` may be a project's, so only the journal proves a home.
    let usual = std::env::home_dir().and_then(|home| home.join(".nexus").canonicalize().ok());
    let is_nexus = is_empty
        || match usual.as_ref() == Some(&real) {
            true => HOME_MARKS.iter().any(|name| real.join(name).exists()),
            false => real.join(JOURNAL).is_file(),
        };
    let is_in_repository = |folder: &Path| REPOSITORIES.iter().any(|name| folder.join(name).exists());
    let has_more = contains(std::env::home_dir())
        || contains(std::env::current_dir().ok())
        || is_in_repository(&real)
        // A home directory may be a repository of settings.
        || (usual.as_ref() != Some(&real) && real.ancestors().any(is_in_repository));
    match is_link || has_more || !is_nexus {
        true => Err(refused()),
        false => Ok(real),
    }
}

/// Asks the person at the terminal.
fn is_confirmed(installation: &Installation, home: Option<&Path>) -> Result<bool, CommandError> {
    let files = installation.files.iter().map(|file| format!("to be removed: {}", file.display()));
    let home = home.map(|home| {
        format!("to be removed: {}, with the configuration, logins, tasks and conversations", home.display())
    });
    let rows: Vec<String> = files.chain(home).collect();
    confirm::is_confirmed("nexus uninstall", &rows, "remove them?")
}
