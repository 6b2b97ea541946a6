//! `nexus trust`: folders whose `nexus.yaml` counts.
//!
//! A configuration names programs to run. So the `nexus.yaml` of a folder counts only if the person trusted its present content, which
//! the home stores as a SHA-256.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    path::{Path, PathBuf, absolute},
    process::ExitCode,
    time::Duration,
};

use nexus::{BuildContext, ConfigFile};
use nexus_files::{FileFault, FileLock, hex, make_private_folder, open_regular, replace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    args::TrustArgs,
    command_error::CommandError,
    config_use::{ConfigUse, ConfigUses, FILE, known_agents},
    output::{AnswerWriter, complain, printable, say},
};

/// File of the trusted configurations, in the home.
const TRUSTED: &str = "trusted.json";
/// Lock of changes to that file.
const LOCK: &str = "trusted.lock";
/// Longest wait for another process that changes the file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest file of trusted configurations, in bytes.
const MOST_BYTES: u64 = 4 << 20;
/// Permission of others to change a file.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A trusted configuration of a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TrustedConfiguration {
    /// Path of the file.
    path: PathBuf,
    /// SHA-256 of the trusted content.
    sha256: String,
    state: TrustState,
    /// Programs, commands, addresses and credentials that it uses. Empty in a list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    uses: Vec<ConfigUse>,
}

/// State of a trusted configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TrustState {
    /// Its content is trusted.
    Trusted,
    /// Its content changed after it was trusted.
    Changed,
    /// The file is missing, or cannot be read.
    Missing,
}

/// Result of `nexus trust --remove`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RemovedTrust {
    /// Path of the file.
    path: PathBuf,
    /// False if it was not trusted.
    removed: bool,
}

/// Content of the file of trusted configurations.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustList {
    files: Vec<TrustEntry>,
}

/// A trusted configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustEntry {
    path: PathBuf,
    sha256: String,
}

pub(crate) fn trust(out: AnswerWriter, args: &TrustArgs) -> Result<ExitCode, CommandError> {
    let store = TrustStore::in_home(&BuildContext::from_process().home);
    let folder = args.folder.as_deref().unwrap_or(Path::new("."));
    if args.list {
        for entry in store.read()?.files {
            let state = state_of(&entry);
            let text = match state {
                TrustState::Trusted => printable(&entry.path.display().to_string()),
                TrustState::Changed => {
                    format!("{}  changed since it was trusted", printable(&entry.path.display().to_string()))
                }
                TrustState::Missing => {
                    format!("{}  is missing", printable(&entry.path.display().to_string()))
                }
            };
            let TrustEntry { path, sha256 } = entry;
            out.line(&TrustedConfiguration { path, sha256, state, uses: Vec::new() }, text);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.remove {
        let path = stored_path(folder);
        let removed = store.remove(&path)?;
        let name = printable(&path.display().to_string());
        let text = match removed {
            true => format!("{name} is no longer trusted"),
            false => format!("{name} was not trusted"),
        };
        out.line(&RemovedTrust { path, removed }, text);
        return Ok(ExitCode::SUCCESS);
    }
    let path = stored_path(folder);
    let file = ConfigFile::read(&path)?;
    // Reject a file that is not YAML: the person would see an empty list of uses.
    file.value()?;
    let (sha256, uses) = (sha256(&file), ConfigUses::of(&file, &known_agents()));
    store.add(TrustEntry { path: path.clone(), sha256: sha256.clone() })?;
    let is_in_folder = uses.has_program_in_folder();
    let text =
        format!("{} is trusted until it changes. It uses:{uses}", printable(&path.display().to_string()));
    let trusted = TrustedConfiguration { path, sha256, state: TrustState::Trusted, uses: uses.all };
    out.show(&trusted, |_| {
        say(text);
        if is_in_folder {
            complain("a program in that folder can change, and is then started without a further question");
        }
    });
    Ok(ExitCode::SUCCESS)
}

/// Returns the path under which a folder's configuration is stored. A missing folder has no canonical path.
fn stored_path(folder: &Path) -> PathBuf {
    // The path of the file itself is accepted too, because messages name it.
    let folder = match folder.file_name() {
        Some(name) if name == FILE && !folder.is_dir() => match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        },
        _ => folder,
    };
    // A folder that is gone cannot be resolved, but its trust can still be withdrawn.
    let folder = folder.canonicalize().or_else(|_| absolute(folder)).unwrap_or_else(|_| folder.to_owned());
    folder.join(FILE)
}

fn state_of(entry: &TrustEntry) -> TrustState {
    match ConfigFile::read(&entry.path) {
        Ok(file) if sha256(&file) == entry.sha256 => TrustState::Trusted,
        Ok(_) => TrustState::Changed,
        Err(_) => TrustState::Missing,
    }
}

fn sha256(file: &ConfigFile) -> String {
    hex(Sha256::digest(file.bytes()))
}

/// The trusted configurations of a home.
pub(crate) struct TrustStore {
    home: PathBuf,
}

impl TrustStore {
    pub(crate) fn in_home(home: &Path) -> Self {
        Self { home: home.to_owned() }
    }

    /// Returns the path of the list.
    pub(crate) fn path(&self) -> PathBuf {
        self.home.join(TRUSTED)
    }

    /// Returns the state of a folder's configuration that was read. [`TrustState::Missing`] if its folder was never trusted.
    pub(crate) fn state(&self, file: &ConfigFile) -> Result<TrustState, CommandError> {
        let folder = file.path().parent().unwrap_or(Path::new(""));
        let path = stored_path(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        let list = self.read()?;
        Ok(match list.files.iter().find(|entry| entry.path == path) {
            Some(entry) if entry.sha256 == sha256(file) => TrustState::Trusted,
            Some(_) => TrustState::Changed,
            None => TrustState::Missing,
        })
    }

    fn add(&self, entry: TrustEntry) -> Result<(), CommandError> {
        self.change(|list| {
            list.files.retain(|known| known.path != entry.path);
            list.files.push(entry);
            list.files.sort_by(|one, other| one.path.cmp(&other.path));
        })
    }

    fn remove(&self, path: &Path) -> Result<bool, CommandError> {
        // Do not create a home, or write the list, to remove a folder that the list does not have.
        if !self.read()?.files.iter().any(|known| known.path == path) {
            return Ok(false);
        }
        self.change(|list| list.files.retain(|known| known.path != path))?;
        Ok(true)
    }

    fn read(&self) -> Result<TrustList, CommandError> {
        let path = self.path();
        let unusable = |reason: &dyn std::fmt::Display| {
            CommandError::failed(format_args!("{}: {reason}", path.display()))
        };
        let mut file = match open_regular(&path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(TrustList::default()),
            Err(error) => return Err(unusable(&with_explanation(&error))),
        };
        let metadata = file.metadata().map_err(|error| unusable(&error))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let user = rustix::process::geteuid().as_raw();
            // Root can change every file anyway, so its list adds no risk.
            if ![user, 0].contains(&metadata.uid()) {
                return Err(unusable(
                    &"the list of trusted configurations belongs to another user: move it away",
                ));
            }
            if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
                return Err(unusable(
                    &"others can write the list of trusted configurations: run `chmod 600` on it, after you have read it",
                ));
            }
        }
        if metadata.len() > MOST_BYTES {
            return Err(unusable(&"the list of trusted configurations is too large: move it away"));
        }
        let mut text = String::new();
        file.by_ref()
            .take(MOST_BYTES)
            .read_to_string(&mut text)
            .map_err(|error| unusable(&with_explanation(&error)))?;
        serde_json::from_str(&text).map_err(|error| {
            unusable(&format_args!(
                "the list of trusted configurations is damaged: {error}; move it away, and trust the folders again"
            ))
        })
    }

    fn change(&self, change: impl FnOnce(&mut TrustList)) -> Result<(), CommandError> {
        let path = self.path();
        let unwritable = |error: io::Error| {
            let reason = with_explanation(&error);
            CommandError::failed(format_args!("{} cannot be written: {reason}", path.display()))
        };
        make_private_folder(&self.home).map_err(unwritable)?;
        let lock = FileLock::lock(&self.home.join(LOCK), PATIENCE).map_err(unwritable)?;
        let Some(_lock) = lock else {
            let reason = format_args!("{}: another process changes it; try again", path.display());
            return Err(CommandError::failed(reason));
        };
        // Read the list under the lock, because another process may have changed it meanwhile.
        let mut list = self.read()?;
        change(&mut list);
        let bytes = serde_json::to_vec_pretty(&list).map_err(|error| {
            CommandError::failed(format_args!("{} cannot be stored: {error}", path.display()))
        })?;
        replace(&path, &bytes).map_err(unwritable)
    }
}

fn with_explanation(error: &io::Error) -> String {
    match FileFault::of(error).explanation() {
        "" => error.to_string(),
        explanation => format!("{error}; {explanation}"),
    }
}
