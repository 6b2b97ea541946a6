//! The index of a hub, and the reader of its files.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SkillKind;
use crate::error::{ProjectError, ProjectErrorKind};

/// Advice for a hub that cannot be read.
pub(super) const NOTHING_INSTALLED: &str =
    "check the address and the hub, then try again; nothing was installed";
/// Name of the index file of a hub.
const INDEX: &str = "hub.json";
/// Maximum size of the index, in bytes.
const MAX_INDEX_BYTES: u64 = 4 << 20;
/// Maximum size of a file of a skill, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of files of a skill.
const MAX_FILES: usize = 200;
/// Maximum length of the name of a skill or a pack, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// The rule for names, for an error message.
pub(super) const NAME_RULE: &str =
    "a name has 1 to 64 small letters, digits, `_` and `-`, and begins with a letter or a digit";
/// Maximum length of a file's path, in bytes.
const MAX_PATH_BYTES: usize = 200;

/// Reads the files of a hub.
#[async_trait]
pub trait HubReader: fmt::Debug + Send + Sync {
    /// Returns a file below the hub. The caller has checked the path: plain names separated by `/`. Fails with
    /// [`Unknown`](ProjectErrorKind::Unknown) if the file does not exist. Fails with [`Damaged`](ProjectErrorKind::Damaged)
    /// for a file beyond `at_most` bytes, and for anything but a regular file.
    async fn read(&self, path: &str, at_most: u64) -> Result<Vec<u8>, ProjectError>;

    /// Returns the name that installed skills record as their origin.
    fn name(&self) -> &str;
}

/// The contents of `hub.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HubIndex {
    /// The skills, by name.
    pub skills: BTreeMap<String, HubSkill>,
    /// Skills that belong together, by the name of the pack.
    #[serde(default)]
    pub packs: BTreeMap<String, Vec<String>>,
}

/// A skill of a hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HubSkill {
    /// Purpose, in one sentence.
    pub description: String,
    /// Kind of skill.
    pub kind: SkillKind,
    /// Version, for people.
    pub version: String,
    /// The folder of its files in the hub. Default: its name.
    #[serde(default)]
    pub folder: Option<String>,
    /// SHA-256 of each file, by its path below the folder: SKILL.md and any others.
    pub files: BTreeMap<String, String>,
    /// The platforms that it is suggested for: linux, macos or windows. Default: all.
    #[serde(default)]
    pub platforms: Vec<String>,
}

impl HubIndex {
    /// Reads and checks the index of a hub.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ProjectErrorKind::Damaged), which names the skill and what is wrong; errors of reading.
    pub async fn read(hub: &dyn HubReader) -> Result<Self, ProjectError> {
        let bytes = hub.read(INDEX, MAX_INDEX_BYTES).await?;
        let index: Self = serde_json::from_slice(&bytes)
            .map_err(|error| invalid(format!("{INDEX} of {} cannot be read: {error}", hub.name())))?;
        for (name, skill) in &index.skills {
            skill.check(name)?;
        }
        for (pack, names) in &index.packs {
            if !is_name(pack) {
                return Err(invalid(format!("{pack:?} is not a name of a pack")));
            }
            if let Some(name) = names.iter().find(|name| !index.skills.contains_key(*name)) {
                return Err(invalid(format!(
                    "the pack {pack} names {name:?}, which the hub does not contain"
                )));
            }
        }
        Ok(index)
    }

    /// Resolves names of skills and packs to skills, each once.
    ///
    /// # Errors
    ///
    /// [`Unknown`](ProjectErrorKind::Unknown) for a name that is neither.
    pub fn resolve<'i>(&'i self, names: &[String]) -> Result<BTreeMap<&'i str, &'i HubSkill>, ProjectError> {
        let mut found = BTreeMap::new();
        for name in names {
            if let Some((name, skill)) = self.skills.get_key_value(name) {
                found.insert(name.as_str(), skill);
            } else if let Some(pack) = self.packs.get(name) {
                for name in pack {
                    if let Some((name, skill)) = self.skills.get_key_value(name) {
                        found.insert(name.as_str(), skill);
                    }
                }
            } else {
                let known: Vec<_> = self.skills.keys().chain(self.packs.keys()).take(30).cloned().collect();
                return Err(ProjectError::new(
                    ProjectErrorKind::Unknown,
                    format!("the hub contains no skill and no pack {name:?}"),
                    format!("it has {}", known.join(", ")),
                ));
            }
        }
        Ok(found)
    }
}

impl HubSkill {
    fn check(&self, name: &str) -> Result<(), ProjectError> {
        let wrong = |reason: String| Err(invalid(format!("the skill {name:?} of the hub: {reason}")));
        if !is_name(name) {
            return wrong(NAME_RULE.to_owned());
        }
        if let Some(folder) = self.folder.as_deref()
            && !is_inside(folder)
        {
            return wrong(format!("the folder {folder:?} leads out of the hub"));
        }
        if !self.files.contains_key("SKILL.md") {
            return wrong("it has no SKILL.md".to_owned());
        }
        if self.files.len() > MAX_FILES {
            return wrong(format!("it has more than {MAX_FILES} files"));
        }
        let mut folded = Vec::new();
        for (path, hash) in &self.files {
            if !is_inside(path) {
                return wrong(format!("the path {path:?} leads out of its folder, or has special names"));
            }
            if hash.len() != 64 || !hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
                return wrong(format!("{hash:?} is not the SHA-256 of {path}"));
            }
            // macOS and Windows ignore case in names, so two such files would replace each other.
            folded.push(path.to_lowercase());
        }
        folded.sort();
        // The list is sorted, so equal paths are neighbours.
        if folded.windows(2).any(|pair| pair[0] == pair[1] || pair[1].starts_with(&format!("{}/", pair[0]))) {
            return wrong("two of its paths are the same on some file systems".to_owned());
        }
        Ok(())
    }

    /// Returns the path of one of its files in the hub.
    pub(super) fn path_in_hub(&self, name: &str, path: &str) -> String {
        format!("{}/{path}", self.folder.as_deref().unwrap_or(name))
    }
}

/// Returns true if a path consists of plain names separated by `/`. Rejects hidden names, and names with a special meaning
/// on any platform.
pub(super) fn is_inside(path: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@ ".contains(&byte);
    !path.is_empty()
        && path.len() <= MAX_PATH_BYTES
        && path.split('/').all(|part| {
            !part.is_empty()
                && !part.starts_with('.')
                // Windows drops dots and spaces at the end of a name.
                && !part.ends_with(['.', ' '])
                && !part.starts_with(' ')
                && part.bytes().all(fits)
        })
}

/// Returns true if a text is the name of a skill or a pack: 1 to 64 lowercase letters, digits, `_` and `-`. It begins with a
/// letter or a digit.
pub(super) fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= MAX_NAME_BYTES
        && text.bytes().next().is_some_and(fits)
        && text.bytes().all(|byte| fits(byte) || b"_-".contains(&byte))
}

fn invalid(message: String) -> ProjectError {
    ProjectError::new(
        ProjectErrorKind::Damaged,
        message,
        "the maintainer of the hub must fix it; nothing was installed",
    )
}

/// A hub in a folder.
#[derive(Debug)]
pub struct FolderHub {
    folder: PathBuf,
    name: String,
    /// Temporary clone, removed on drop.
    _clone: Option<tempfile::TempDir>,
}

impl FolderHub {
    /// Creates a hub of this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let name = folder.display().to_string();
        Self { folder, name, _clone: None }
    }

    /// Creates a hub of the clone `hub` in a temporary folder, which is removed on drop.
    pub(super) fn from_clone(clone: tempfile::TempDir, name: String) -> Self {
        Self { folder: clone.path().join("hub"), name, _clone: Some(clone) }
    }
}

#[async_trait]
impl HubReader for FolderHub {
    async fn read(&self, path: &str, at_most: u64) -> Result<Vec<u8>, ProjectError> {
        read_below(&self.folder, path, at_most)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Reads a regular file below a folder. Follows no link on the way.
fn read_below(folder: &Path, path: &str, at_most: u64) -> Result<Vec<u8>, ProjectError> {
    let wrong = |kind, reason: String| {
        ProjectError::new(kind, format!("{path} of {}: {reason}", folder.display()), NOTHING_INSTALLED)
    };
    let mut file = folder.to_owned();
    for part in Path::new(path).components() {
        let Component::Normal(part) = part else {
            return Err(wrong(ProjectErrorKind::Damaged, "it leads out".to_owned()));
        };
        file.push(part);
        let metadata = fs::symlink_metadata(&file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => wrong(ProjectErrorKind::Unknown, "it is not there".to_owned()),
            _ => wrong(ProjectErrorKind::Failed, error.to_string()),
        })?;
        if metadata.is_symlink() {
            return Err(wrong(ProjectErrorKind::Damaged, "a link is part of the path".to_owned()));
        }
        if file == folder.join(path) && !metadata.is_file() {
            return Err(wrong(ProjectErrorKind::Damaged, "it is not a plain file, as required".to_owned()));
        }
    }
    let mut bytes = Vec::new();
    // Read one byte more than the limit. The size in the metadata may have changed since.
    let read = fs::File::open(&file).and_then(|file| file.take(at_most + 1).read_to_end(&mut bytes));
    read.map_err(|error| wrong(ProjectErrorKind::Failed, error.to_string()))?;
    if bytes.len() as u64 > at_most {
        return Err(wrong(ProjectErrorKind::Damaged, format!("it has more than {at_most} bytes")));
    }
    Ok(bytes)
}
