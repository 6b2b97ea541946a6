//! `nexus uninstall`: removes the files that the installer of a release wrote.

use std::{
    fs,
    io::{self, BufRead as _, IsTerminal as _, Read as _},
    path::{Component, Path, PathBuf},
    process::ExitCode,
};

use nexus::BuildContext;
use nexus_files::read_text;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::UninstallArgs,
    command_error::CommandError,
    output::{AnswerWriter, complain, say},
};

/// List of what the installer created, below the prefix. A line is `file PATH` or `folder PATH`.
const RECEIPT: &str = "share/nexus/installed";
/// Longest receipt, in bytes.
const MAX_RECEIPT_BYTES: u64 = 1 << 20;
/// Names of files and folders that only a home of Nexus has.
const HOME_MARKS: [&str; 5] = ["nexus.yaml", "auth", "conversations", "holds", "runs"];

/// What was removed.
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
    if args.home
        && let Some(home) = &home
    {
        check_home(home)?;
    }
    let removed_home = home.as_deref().filter(|_| args.home);
    if !args.yes && !is_confirmed(&installation, removed_home)? {
        return Err(CommandError::failed("nothing was removed"));
    }
    if let Some(home) = removed_home {
        fs::remove_dir_all(home)
            .map_err(|error| CommandError::failed(format_args!("{}: {error}", home.display())))?;
    }
    let (files, folders) = installation.remove()?;
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
        let file = match fs::File::open(&receipt) {
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
                "file" => &mut installation.files,
                "folder" => &mut installation.folders,
                _ => return Err(wrong()),
            };
            if !is_below {
                return Err(wrong());
            }
            list.push(if path == "." { prefix.to_owned() } else { prefix.join(path) });
        }
        if !installation.files.iter().any(|file| file == program) {
            return Err(not_ours(program));
        }
        Ok(installation)
    }

    /// Removes the files, then each folder that is empty. The receipt comes last, so that an interrupted call can be repeated with
    /// a program that is installed again.
    fn remove(mut self) -> Result<(Vec<PathBuf>, Vec<PathBuf>), CommandError> {
        self.files.sort_by_key(|file| file.ends_with(RECEIPT));
        let failed = |path: &Path, error| CommandError::failed(format_args!("{}: {error}", path.display()));
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for file in self.files {
            match fs::remove_file(&file) {
                Ok(()) => files.push(file),
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

/// The program was installed in another way, which removes it too.
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

/// Refuses a home that may be another folder, such as the user's own home in `NEXUS_HOME`.
fn check_home(home: &Path) -> Result<(), CommandError> {
    let is_link = home.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let holds_user = std::env::home_dir().is_some_and(|user| user.starts_with(home));
    let is_empty = fs::read_dir(home).is_ok_and(|mut entries| entries.next().is_none());
    let is_nexus = is_empty || HOME_MARKS.iter().any(|name| home.join(name).exists());
    if is_link || holds_user || !is_nexus {
        let message = format!("{} does not look like a home of Nexus alone", home.display());
        return Err(CommandError::failed(message).with_advice("remove it by hand; nothing was removed"));
    }
    Ok(())
}

/// Asks the person at the terminal.
fn is_confirmed(installation: &Installation, home: Option<&Path>) -> Result<bool, CommandError> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err("`nexus uninstall` asks before it removes anything: confirm with --yes".into());
    }
    for file in &installation.files {
        complain(format_args!("to be removed: {}", file.display()));
    }
    if let Some(home) = home {
        complain(format_args!(
            "to be removed: {}, with the configuration, logins, tasks and conversations",
            home.display()
        ));
    }
    complain("remove them? Type y and Enter; anything else removes nothing");
    let mut answer = String::new();
    let read = io::stdin().lock().take(1 << 10).read_line(&mut answer);
    read.map_err(|error| format!("the answer cannot be read from standard input: {error}"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
