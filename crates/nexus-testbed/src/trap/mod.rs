//! One trap: a small project, a wrong answer that looks right, the right answer, and the ground truth that
//! distinguishes them.

mod check;
mod file;
mod folder;

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use nexus_tasks::{BriefDraft, ProbeDraft};
use sha2::{Digest as _, Sha256};

pub use file::TrapClaim;

use crate::trap_error::TrapError;
use file::TrapFile;
use folder::TrapFiles;

/// The traps of this library: the paths and contents of their files, by name.
type BuiltIn = &'static [(&'static str, &'static [(&'static str, &'static [u8])])];

const BUILT_IN: BuiltIn = include!(concat!(env!("OUT_DIR"), "/traps.rs"));

/// A checked trap. `docs/reference/traps.md` describes its contents.
///
/// It is not proved yet: see [`Trap::prove`].
#[derive(Clone, PartialEq)]
pub struct Trap {
    origin: String,
    /// Folder of the trap. `None` for a trap of this library.
    folder: Option<PathBuf>,
    fingerprint: String,
    file: TrapFile,
    source: TrapSource,
    probe: ProbeDraft,
    truth: ProbeDraft,
}

/// Files of the project, and the changes of the answers.
#[derive(Clone, Debug, PartialEq)]
struct TrapSource {
    base: TrapFiles,
    planted: TrapFiles,
    right: TrapFiles,
    planted_removes: Vec<String>,
    right_removes: Vec<String>,
}

impl TrapSource {
    fn of(&self, answer: Answer) -> (&TrapFiles, &[String]) {
        match answer {
            Answer::Planted => (&self.planted, &self.planted_removes),
            Answer::Right => (&self.right, &self.right_removes),
        }
    }
}

/// An answer that the reviewers get.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The wrong answer. Every claim about it is true.
    Planted,
    /// The right answer.
    Right,
}

impl Answer {
    /// Both answers, the planted one first.
    pub const ALL: [Self; 2] = [Self::Planted, Self::Right];

    /// Returns the name: `planted`, `right`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Planted => "planted",
            Self::Right => "right",
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Answer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|answer| answer.as_str() == text);
        found.ok_or_else(|| "the answers are `planted` and `right`".to_owned())
    }
}

impl Trap {
    /// Returns the traps of this library, sorted by name.
    ///
    /// # Errors
    ///
    /// [`TrapError`]; never in a build whose tests pass.
    pub fn built_in() -> Result<Vec<Self>, TrapError> {
        let trap = |(name, files): &(&str, &[(&str, &[u8])])| {
            let files = files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect();
            check::check(&format!("built-in {name}"), &files)
        };
        BUILT_IN.iter().map(trap).collect()
    }

    /// Reads the trap in a folder. Runs nothing in it. It blocks.
    ///
    /// # Errors
    ///
    /// [`TrapError`] with the place of the fault: an unreadable file, a file that is too large, a link, a missing or unknown
    /// key of `trap.yaml`, a path that leads out of the folder, or a path that an agent may write.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, TrapError> {
        let folder = folder.as_ref();
        let trap = check::check(&folder.display().to_string(), &folder::read(folder)?)?;
        Ok(Self { folder: Some(folder.to_owned()), ..trap })
    }

    /// Reads every trap in a folder of traps: each folder in it, except those whose names begin with a dot,
    /// such as the `.git` of a clone. It blocks.
    ///
    /// # Errors
    ///
    /// Errors of [`Trap::load`]; and for a folder without any trap, and for two traps of one name.
    pub fn load_all(folder: impl AsRef<Path>) -> Result<Vec<Self>, TrapError> {
        let folder = folder.as_ref();
        let fault = |problem: String| TrapError::new(folder.display().to_string(), problem);
        let entries = fs::read_dir(folder).map_err(|error| fault(format!("cannot be read: {error}")))?;
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| fault(format!("cannot be read: {error}")))?;
            // A clone of a repository of traps has a `.git` folder.
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !is_hidden && entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
        folders.sort();
        let mut traps: Vec<Self> = Vec::new();
        for folder in folders {
            let trap = Self::load(folder)?;
            if let Some(other) = traps.iter().find(|other| other.name() == trap.name()) {
                let problem = format!("{:?} is also the name of {}", trap.name(), other.origin);
                return Err(TrapError::new(format!("{}/trap.yaml: name", trap.origin), problem));
            }
            traps.push(trap);
        }
        if traps.is_empty() {
            return Err(fault(
                "contains no folder of a trap; docs/reference/traps.md describes its content".to_owned(),
            ));
        }
        Ok(traps)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Returns the kind of the planted mistake: `inclusive_exclusive`.
    pub fn kind(&self) -> &str {
        &self.file.kind
    }

    /// Returns the planted mistake, and why it is easy to miss. For people only.
    pub fn about(&self) -> &str {
        self.file.about.trim()
    }

    /// Returns the goal that a caller would set.
    pub fn goal(&self) -> &str {
        self.file.goal.trim()
    }

    /// Returns the source of the trap: its folder, or `built-in NAME`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the folder of the trap. `None` for a trap of this library, whose files are in this program.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Returns the SHA-256 of the files, in hexadecimal digits. It identifies the trap in an experiment.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the program that runs the project's tests, with its arguments.
    pub fn test_command(&self) -> &[String] {
        &self.file.test_command
    }

    /// Returns the time limit of one program, in seconds.
    pub fn seconds(&self) -> u64 {
        self.file.seconds
    }

    /// Returns the brief of the task.
    pub fn brief(&self) -> &BriefDraft {
        &self.file.brief
    }

    /// Returns the claims of the handoff.
    pub fn claims(&self) -> &[TrapClaim] {
        &self.file.claims
    }

    /// Returns the program that a probing reviewer would run. Only scripted reviewers have it.
    pub fn probe(&self) -> &ProbeDraft {
        &self.probe
    }

    /// Returns the paths that an answer adds, changes or removes.
    pub fn changed(&self, answer: Answer) -> Vec<&str> {
        let (files, removes) = self.source.of(answer);
        files.keys().map(String::as_str).chain(removes.iter().map(String::as_str)).collect()
    }

    /// Returns the files of the project, or of an answer.
    pub fn tree(&self, answer: Option<Answer>) -> BTreeMap<&str, &[u8]> {
        let mut tree: BTreeMap<&str, &[u8]> =
            self.source.base.iter().map(|(path, content)| (path.as_str(), content.as_slice())).collect();
        if let Some(answer) = answer {
            let (files, removes) = self.source.of(answer);
            tree.extend(files.iter().map(|(path, content)| (path.as_str(), content.as_slice())));
            for path in removes {
                tree.remove(path.as_str());
            }
        }
        tree
    }

    /// Returns the program of the ground truth.
    pub(crate) fn truth(&self) -> &ProbeDraft {
        &self.truth
    }

    /// Returns the expected output on the right answer.
    pub(crate) fn expected(&self) -> &str {
        &self.file.truth.expected
    }
}

/// Hides the secrets from agents: both answers, the probe, and the ground truth.
impl fmt::Debug for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trap")
            .field("origin", &self.origin)
            .field("name", &self.file.name)
            .finish_non_exhaustive()
    }
}

fn fingerprint(files: &TrapFiles) -> String {
    let mut hash = Sha256::new();
    for (path, content) in files {
        for part in [path.as_bytes(), content] {
            // The length separates path and content, so that no two sets of files give the same input.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    nexus_files::hex(hash.finalize())
}
