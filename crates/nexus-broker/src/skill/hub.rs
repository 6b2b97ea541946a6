//! A hub: an index of skills, and where their files are read.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::Address,
    skill::SkillKind,
};

/// The file that a hub begins with.
const INDEX: &str = "hub.json";
/// The largest index, in bytes.
const MAX_INDEX_BYTES: u64 = 4 << 20;
/// The largest file of a skill, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;
/// How many files a skill has at most.
const MAX_FILES: usize = 200;
/// The longest path of a file, in bytes.
const MAX_PATH_BYTES: usize = 200;
/// How much of what git says is kept, in bytes, and how many lines of that are shown.
const MAX_KEPT_BYTES: usize = 64 << 10;
const MAX_LINES: usize = 20;
/// How long the rest of what git said is waited for when it has ended.
const WORDS_TIME: Duration = Duration::from_secs(5);
/// How long a hub may take to be cloned.
const CLONE_TIME: Duration = Duration::from_secs(300);

/// Where the files of a hub are read.
#[async_trait]
pub trait HubReader: fmt::Debug + Send + Sync {
    /// A file below the hub, by a path that was checked: parts that are names, with `/` between them. Fails with
    /// [`Unknown`](BrokerErrorKind::Unknown) if it is not there, [`Invalid`](BrokerErrorKind::Invalid) for one beyond `at_most` bytes, and for
    /// what is no plain file.
    async fn read(&self, path: &str, at_most: u64) -> Result<Vec<u8>, BrokerError>;

    /// What the hub is called in what is installed from it.
    fn name(&self) -> &str;
}

/// What a hub has: `hub.json`.
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
    /// What it is for: one sentence.
    pub description: String,
    /// Which kind it is.
    pub kind: SkillKind,
    /// Which version, for people.
    pub version: String,
    /// The folder of its files in the hub. Default: its name.
    #[serde(default)]
    pub folder: Option<String>,
    /// SHA-256 of each file, by its path below the folder: SKILL.md and whatever else.
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
    /// [`Invalid`](BrokerErrorKind::Invalid), which names the skill and what is wrong; those of reading.
    pub async fn read(hub: &dyn HubReader) -> Result<Self, BrokerError> {
        let bytes = hub.read(INDEX, MAX_INDEX_BYTES).await?;
        let index: Self = serde_json::from_slice(&bytes)
            .map_err(|error| invalid(format!("{INDEX} of {} cannot be read: {error}", hub.name())))?;
        for (name, skill) in &index.skills {
            skill.check(name)?;
        }
        for (pack, names) in &index.packs {
            Address::agent(pack).map_err(|_| invalid(format!("{pack:?} is no name of a pack")))?;
            if let Some(name) = names.iter().find(|name| !index.skills.contains_key(*name)) {
                return Err(invalid(format!("the pack {pack} has {name:?}, which the hub does not have")));
            }
        }
        Ok(index)
    }

    /// The skills that names stand for: of skills, and of packs. Each once.
    ///
    /// # Errors
    ///
    /// [`Unknown`](BrokerErrorKind::Unknown) for a name that is neither.
    pub fn resolve<'i>(&'i self, names: &[String]) -> Result<BTreeMap<&'i str, &'i HubSkill>, BrokerError> {
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
                return Err(BrokerError::new(
                    BrokerErrorKind::Unknown,
                    format!("the hub has no skill and no pack {name:?}"),
                    format!("it has {}", known.join(", ")),
                ));
            }
        }
        Ok(found)
    }
}

impl HubSkill {
    fn check(&self, name: &str) -> Result<(), BrokerError> {
        let wrong = |reason: String| Err(invalid(format!("the skill {name:?} of the hub: {reason}")));
        if Address::agent(name).is_err() {
            return wrong("a name has 1 to 40 small letters, digits, `_` and `-`".to_owned());
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
                return wrong(format!(
                    "the path {path:?} leads out of its folder, or is no path of plain names"
                ));
            }
            if hash.len() != 64 || !hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
                return wrong(format!("{hash:?} is no SHA-256 of {path}"));
            }
            folded.push(path.to_lowercase());
        }
        folded.sort();
        if folded.windows(2).any(|pair| pair[0] == pair[1] || pair[1].starts_with(&format!("{}/", pair[0]))) {
            return wrong("two of its paths are one on some file systems".to_owned());
        }
        Ok(())
    }

    /// Where a file of it is in the hub.
    pub(super) fn place(&self, name: &str, path: &str) -> String {
        format!("{}/{path}", self.folder.as_deref().unwrap_or(name))
    }
}

/// Whether a path is one or more plain names with `/` between them: none that leads elsewhere on any platform, and none that is hidden.
pub(super) fn is_inside(path: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@ ".contains(&byte);
    !path.is_empty()
        && path.len() <= MAX_PATH_BYTES
        && path.split('/').all(|part| {
            !part.is_empty()
                && !part.starts_with('.')
                && !part.ends_with(['.', ' '])
                && !part.starts_with(' ')
                && part.bytes().all(fits)
        })
}

fn invalid(message: String) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Invalid,
        message,
        "whoever keeps the hub has to mend it; nothing was installed",
    )
}

/// A hub that is a folder.
#[derive(Debug)]
pub struct FolderHub {
    folder: PathBuf,
    name: String,
    /// Removed with it.
    _clone: Option<tempfile::TempDir>,
}

impl FolderHub {
    /// The hub in a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let name = folder.display().to_string();
        Self { folder, name, _clone: None }
    }
}

#[async_trait]
impl HubReader for FolderHub {
    async fn read(&self, path: &str, at_most: u64) -> Result<Vec<u8>, BrokerError> {
        read_below(&self.folder, path, at_most)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Reads a plain file below a folder. No link is followed on the way.
fn read_below(folder: &Path, path: &str, at_most: u64) -> Result<Vec<u8>, BrokerError> {
    let wrong = |kind, reason: String| {
        BrokerError::new(kind, format!("{path} of {}: {reason}", folder.display()), "")
    };
    let mut place = folder.to_owned();
    for part in Path::new(path).components() {
        let Component::Normal(part) = part else {
            return Err(wrong(BrokerErrorKind::Invalid, "it leads out".to_owned()));
        };
        place.push(part);
        let metadata = fs::symlink_metadata(&place).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => wrong(BrokerErrorKind::Unknown, "it is not there".to_owned()),
            _ => wrong(BrokerErrorKind::Failed, error.to_string()),
        })?;
        if metadata.is_symlink() {
            return Err(wrong(BrokerErrorKind::Invalid, "there is a link on the way".to_owned()));
        }
        if place == folder.join(path) && !metadata.is_file() {
            return Err(wrong(BrokerErrorKind::Invalid, "it is no plain file".to_owned()));
        }
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(&place).and_then(|file| file.take(at_most + 1).read_to_end(&mut bytes));
    read.map_err(|error| wrong(BrokerErrorKind::Failed, error.to_string()))?;
    if bytes.len() as u64 > at_most {
        return Err(wrong(BrokerErrorKind::Invalid, format!("it has more than {at_most} bytes")));
    }
    Ok(bytes)
}

/// Clones the newest commit of a repository that is a hub: `https://` or the path of one. Nothing of it is run. Blocks, for five minutes
/// at most.
///
/// # Errors
///
/// [`Failed`](BrokerErrorKind::Failed) with what git said.
pub fn clone_hub(repository: &str) -> Result<FolderHub, BrokerError> {
    let failed = |reason: String| {
        let message = format!("the hub {} cannot be cloned: {reason}", without_password(repository));
        BrokerError::new(BrokerErrorKind::Failed, message, "")
    };
    if repository.starts_with('-') {
        return Err(failed("this is no repository".to_owned()));
    }
    let folder = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let clone = folder.path().join("hub");
    let mut git = Command::new("git");
    git.env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ALLOW_PROTOCOL", "https:file")
        .env("LC_ALL", "C")
        .args([
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.symlinks=false",
            "-c",
            "safe.directory=*",
            "-c",
            "gc.auto=0",
            "-c",
            "maintenance.auto=false",
        ])
        .args(["clone", "--quiet", "--depth=1", "--no-tags", "--template=", "--no-recurse-submodules", "--"])
        .arg(repository)
        .arg(&clone)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    for variable in ["https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE"] {
        if let Some(value) = std::env::var_os(variable) {
            git.env(variable, value);
        }
    }
    let mut child = git.spawn().map_err(|error| failed(format!("git cannot be started: {error}")))?;
    // Read as it comes: git waits for a reader once the pipe is full.
    let words = child.stderr.take().map(last_lines);
    let until = Instant::now() + CLONE_TIME;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() >= until => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("it took more than {} s", CLONE_TIME.as_secs())));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(error.to_string()));
            }
        }
    };
    if !status.success() {
        // A helper of git's that goes on has the pipe open, too.
        let words = words.and_then(|words| words.recv_timeout(WORDS_TIME).ok()).unwrap_or_default();
        return Err(failed(format!("{status}: {words}")));
    }
    Ok(FolderHub { folder: clone, name: without_password(repository), _clone: Some(folder) })
}

/// Reads all that a program says, and gives the last lines of it without passwords.
fn last_lines(mut said: impl io::Read + Send + 'static) -> Receiver<String> {
    let (give, take) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut chunk = [0; 4 << 10];
        let mut is_cut = false;
        loop {
            match said.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(read) => {
                    kept.extend_from_slice(&chunk[..read]);
                    let over = kept.len().saturating_sub(MAX_KEPT_BYTES);
                    is_cut |= over > 0;
                    kept.drain(..over);
                }
            }
        }
        let text = String::from_utf8_lossy(&kept);
        // Whole lines: a half one may begin within a password.
        let mut lines: Vec<_> = text.lines().skip(usize::from(is_cut)).collect();
        lines.drain(..lines.len().saturating_sub(MAX_LINES));
        // Nobody may wait any more.
        let _ = give.send(without_password(lines.join("\n").trim()));
    });
    take
}

/// An address without the user and password that may stand in it.
fn without_password(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        kept.push_str(before);
        kept.push_str("://");
        let end = after.find(['/', ' ', '\'', '"', '\n']).unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(at) => &after[at + 1..],
            None => after,
        };
    }
    kept.push_str(rest);
    kept
}
