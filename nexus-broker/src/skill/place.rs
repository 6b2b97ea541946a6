//! The skills of one place: which there are, and what comes from a hub.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::Address,
    skill::{
        SkillKind,
        digest::sha256,
        hub::{HubIndex, HubReader, HubSkill, MAX_FILE_BYTES, is_inside},
    },
};

/// What says that a skill came from a hub, in its folder.
const MARK: &str = ".nexus-skill.json";
/// The largest SKILL.md of a person's that is shown, in bytes.
const MAX_SHOWN_BYTES: u64 = MAX_FILE_BYTES;

/// What came from a hub, as its mark says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    hub: String,
    version: String,
    files: BTreeMap<String, String>,
}

/// A skill that is there.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundSkill {
    /// Its name: that of its folder.
    pub name: String,
    /// Its kind.
    pub kind: SkillKind,
    /// What it is for, as its SKILL.md says.
    pub description: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The hub and the version that it came from. `None`: it is a person's own.
    pub hub: Option<(String, String)>,
    /// Files of the hub's that are not as they came.
    pub changed: Vec<String>,
}

/// What became of a skill that was to be installed, updated or removed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum SkillChange {
    /// It is there now.
    Installed {
        /// Which version.
        version: String,
    },
    /// It is the hub's newest now.
    Updated {
        /// Which version it was.
        from: String,
        /// Which version it is.
        to: String,
    },
    /// It was so already.
    Unchanged,
    /// It was left alone.
    Kept {
        /// Why.
        reason: String,
    },
    /// It is gone.
    Removed,
}

/// The folder `skills` of a place to work.
#[derive(Clone, Debug)]
pub struct SkillPlace {
    folder: PathBuf,
}

/// A skill whose files are beside its place, checked, to be put there.
struct Staged {
    name: String,
    folder: tempfile::TempDir,
    to: PathBuf,
    change: SkillChange,
}

impl SkillPlace {
    /// The skills in a folder, with a folder for each kind in it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Every skill, by kind and name. What is no folder with a SKILL.md is none.
    ///
    /// # Errors
    ///
    /// [`Failed`](BrokerErrorKind::Failed), which names the place.
    pub fn list(&self) -> Result<Vec<FoundSkill>, BrokerError> {
        let mut found = Vec::new();
        for kind in SkillKind::ALL {
            let folder = self.folder.join(kind.as_str());
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.map_err(|error| at(&folder, &error))?,
            };
            for entry in entries {
                let entry = entry.map_err(|error| at(&folder, &error))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && Address::agent(&name).is_ok() && entry.path().join("SKILL.md").is_file() {
                    found.push(self.found(kind, name)?);
                }
            }
        }
        found.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        Ok(found)
    }

    /// The skill of a name.
    ///
    /// # Errors
    ///
    /// [`Unknown`](BrokerErrorKind::Unknown), which says which there are.
    pub fn find(&self, name: &str) -> Result<FoundSkill, BrokerError> {
        let all = self.list()?;
        let names: Vec<_> = all.iter().map(|skill| skill.name.clone()).collect();
        all.into_iter().find(|skill| skill.name == name).ok_or_else(|| {
            let instead = match names.is_empty() {
                true => "there are none: see `nexus skills install --help`".to_owned(),
                false => format!("there are {}", names.join(", ")),
            };
            BrokerError::new(BrokerErrorKind::Unknown, format!("there is no skill {name:?}"), instead)
        })
    }

    /// What an agent reads of a skill: its SKILL.md.
    ///
    /// # Errors
    ///
    /// As [`SkillPlace::find`]; [`Failed`](BrokerErrorKind::Failed) for a file that is no text or has more than a mebibyte.
    pub fn text(&self, name: &str) -> Result<String, BrokerError> {
        let path = self.find(name)?.folder.join("SKILL.md");
        let size = fs::metadata(&path).map_err(|error| at(&path, &error))?.len();
        if size > MAX_SHOWN_BYTES {
            let message = format!("{} has more than {MAX_SHOWN_BYTES} bytes", path.display());
            return Err(BrokerError::new(BrokerErrorKind::Failed, message, "make it shorter"));
        }
        fs::read_to_string(&path).map_err(|error| at(&path, &error))
    }

    fn found(&self, kind: SkillKind, name: String) -> Result<FoundSkill, BrokerError> {
        let folder = self.folder.join(kind.as_str()).join(&name);
        let mark = read_mark(&folder)?;
        let changed = mark.as_ref().map_or_else(Vec::new, |mark| {
            let differs = |path: &str, hash: &str| {
                fs::read(folder.join(path)).map_or(true, |bytes| sha256(&bytes) != hash)
            };
            mark.files
                .iter()
                .filter(|(path, hash)| differs(path, hash))
                .map(|(path, _)| path.clone())
                .collect()
        });
        let description = fs::read_to_string(folder.join("SKILL.md"))
            .map_or_else(|_| String::new(), |text| described(&text));
        Ok(FoundSkill {
            name,
            kind,
            description,
            folder,
            hub: mark.map(|mark| (mark.hub, mark.version)),
            changed,
        })
    }

    /// Installs skills and packs of a hub: all of them, or none where one does not pass its check. One that is there is left as it is.
    ///
    /// # Errors
    ///
    /// [`Unknown`](BrokerErrorKind::Unknown) for a name that the hub does not have, [`Invalid`](BrokerErrorKind::Invalid) for a file whose SHA-256 is another than
    /// the index says, [`Conflict`](BrokerErrorKind::Conflict) where a person's own skill has the name; those of reading and writing.
    pub async fn install(
        &self,
        hub: &dyn HubReader,
        names: &[String],
    ) -> Result<BTreeMap<String, SkillChange>, BrokerError> {
        let index = HubIndex::read(hub).await?;
        let (mut changes, mut staged) = (BTreeMap::new(), Vec::new());
        for (name, skill) in index.resolve(names)? {
            match self.find(name) {
                Ok(there) if there.hub.is_some() => {
                    changes.insert(name.to_owned(), SkillChange::Unchanged);
                }
                Ok(there) => {
                    return Err(BrokerError::new(
                        BrokerErrorKind::Conflict,
                        format!("{} is a skill of your own", there.folder.display()),
                        "rename it, or leave this one out; nothing was installed",
                    ));
                }
                Err(error) if error.kind != BrokerErrorKind::Unknown => return Err(error),
                Err(_) => {
                    let to = self.folder.join(skill.kind.as_str()).join(name);
                    if fs::symlink_metadata(&to).is_ok() {
                        return Err(BrokerError::new(
                            BrokerErrorKind::Conflict,
                            format!("{} is there, and came from no hub", to.display()),
                            "rename it, or leave this one out; nothing was installed",
                        ));
                    }
                    let change = SkillChange::Installed { version: skill.version.clone() };
                    staged.push(self.stage(hub, name, skill, change).await?);
                }
            }
        }
        self.put(staged, &mut changes)?;
        Ok(changes)
    }

    /// Brings skills that came from a hub to what it has now; every one of them without names. One that a person changed is kept, and one that the
    /// hub has no more.
    ///
    /// # Errors
    ///
    /// As [`SkillPlace::install`].
    pub async fn update(
        &self,
        hub: &dyn HubReader,
        names: &[String],
    ) -> Result<BTreeMap<String, SkillChange>, BrokerError> {
        let index = HubIndex::read(hub).await?;
        let mut there = self.list()?;
        if !names.is_empty() {
            for name in names {
                self.find(name)?;
            }
            there.retain(|skill| names.contains(&skill.name));
        }
        let (mut changes, mut staged) = (BTreeMap::new(), Vec::new());
        for skill in there {
            let Some((from, version)) = skill.hub.clone() else {
                if names.contains(&skill.name) {
                    let reason = "it is your own".to_owned();
                    changes.insert(skill.name, SkillChange::Kept { reason });
                }
                continue;
            };
            let kept = |reason: String| SkillChange::Kept { reason };
            let change = if from != hub.name() {
                kept(format!("it came from {from}"))
            } else if !skill.changed.is_empty() {
                kept(format!("you changed {}", skill.changed.join(", ")))
            } else if let Some(added) = self.added(&skill)? {
                kept(format!("you added {added}"))
            } else {
                match index.skills.get(&skill.name) {
                    None => kept("the hub has it no more".to_owned()),
                    Some(newest) if newest.kind != skill.kind => {
                        kept(format!("it is among {} by now", newest.kind))
                    }
                    Some(newest)
                        if read_mark(&skill.folder)?.is_some_and(|mark| mark.files == newest.files) =>
                    {
                        SkillChange::Unchanged
                    }
                    Some(newest) => {
                        let change = SkillChange::Updated { from: version, to: newest.version.clone() };
                        staged.push(self.stage(hub, &skill.name, newest, change).await?);
                        continue;
                    }
                }
            };
            changes.insert(skill.name, change);
        }
        self.put(staged, &mut changes)?;
        Ok(changes)
    }

    /// Removes a skill that came from a hub. One that a person changed, and a person's own, stay.
    ///
    /// # Errors
    ///
    /// As [`SkillPlace::find`]; those of the file system.
    pub fn remove(&self, name: &str) -> Result<SkillChange, BrokerError> {
        let skill = self.find(name)?;
        if skill.hub.is_none() {
            return Ok(SkillChange::Kept { reason: "it is your own".to_owned() });
        }
        if !skill.changed.is_empty() {
            return Ok(SkillChange::Kept { reason: format!("you changed {}", skill.changed.join(", ")) });
        }
        if let Some(added) = self.added(&skill)? {
            return Ok(SkillChange::Kept { reason: format!("you added {added}") });
        }
        fs::remove_dir_all(&skill.folder).map_err(|error| at(&skill.folder, &error))?;
        Ok(SkillChange::Removed)
    }

    /// A file in the folder of a skill that did not come with it.
    fn added(&self, skill: &FoundSkill) -> Result<Option<String>, BrokerError> {
        let Some(mark) = read_mark(&skill.folder)? else { return Ok(None) };
        let mut folders = vec![skill.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(|error| at(&folder, &error))? {
                let entry = entry.map_err(|error| at(&folder, &error))?;
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                    continue;
                }
                let below =
                    path.strip_prefix(&skill.folder).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                if below != MARK && !mark.files.contains_key(&below) {
                    return Ok(Some(below));
                }
            }
        }
        Ok(None)
    }

    /// Reads and checks all files of a skill into a folder beside its place.
    async fn stage(
        &self,
        hub: &dyn HubReader,
        name: &str,
        skill: &HubSkill,
        change: SkillChange,
    ) -> Result<Staged, BrokerError> {
        let kind = self.folder.join(skill.kind.as_str());
        fs::create_dir_all(&kind).map_err(|error| at(&kind, &error))?;
        let staging = tempfile::Builder::new().prefix(".installing-").tempdir_in(&kind);
        let staging = staging.map_err(|error| at(&kind, &error))?;
        for (path, hash) in &skill.files {
            let bytes = hub.read(&skill.place(name, path), MAX_FILE_BYTES).await?;
            if sha256(&bytes) != *hash {
                return Err(BrokerError::new(
                    BrokerErrorKind::Invalid,
                    format!(
                        "{path} of the skill {name} is not what the hub's index says: its SHA-256 is another"
                    ),
                    "nothing was installed; whoever keeps the hub has to mend it, or somebody changed it on the way",
                ));
            }
            let to = staging.path().join(path);
            let made = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&to, &bytes));
            made.map_err(|error| at(&to, &error))?;
        }
        let mark =
            Mark { hub: hub.name().to_owned(), version: skill.version.clone(), files: skill.files.clone() };
        let text = serde_json::to_string_pretty(&mark)
            .map_err(|error| BrokerError::new(BrokerErrorKind::Failed, error.to_string(), ""))?;
        let to = staging.path().join(MARK);
        fs::write(&to, text + "\n").map_err(|error| at(&to, &error))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let readable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(staging.path(), readable).map_err(|error| at(staging.path(), &error))?;
        }
        Ok(Staged { name: name.to_owned(), folder: staging, to: kind.join(name), change })
    }

    /// Puts what was staged in its place: all of it, or what was there before where one cannot be.
    fn put(
        &self,
        staged: Vec<Staged>,
        changes: &mut BTreeMap<String, SkillChange>,
    ) -> Result<(), BrokerError> {
        let mut done: Vec<(PathBuf, Option<tempfile::TempDir>)> = Vec::new();
        for one in staged {
            let placed = place(&one);
            match placed {
                Ok(before) => {
                    // It has its name by now.
                    let _ = one.folder.keep();
                    done.push((one.to, before));
                    changes.insert(one.name, one.change);
                }
                Err(error) => {
                    for (to, before) in done.into_iter().rev() {
                        let _ = fs::remove_dir_all(&to);
                        if let Some(before) = before {
                            let _ = fs::rename(before.path().join("before"), &to);
                        }
                    }
                    return Err(at(&one.to, &error));
                }
            }
        }
        Ok(())
    }
}

/// Moves a staged skill to its place, and what was there aside.
fn place(staged: &Staged) -> io::Result<Option<tempfile::TempDir>> {
    let before = match fs::symlink_metadata(&staged.to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
        Ok(_) => {
            let beside = staged.to.parent().unwrap_or(Path::new("."));
            let aside = tempfile::Builder::new().prefix(".replaced-").tempdir_in(beside)?;
            fs::rename(&staged.to, aside.path().join("before"))?;
            Some(aside)
        }
    };
    match fs::rename(staged.folder.path(), &staged.to) {
        Ok(()) => Ok(before),
        Err(error) => {
            if let Some(before) = &before {
                fs::rename(before.path().join("before"), &staged.to)?;
            }
            Err(error)
        }
    }
}

fn read_mark(folder: &Path) -> Result<Option<Mark>, BrokerError> {
    let path = folder.join(MARK);
    match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(&path, &error)),
        Ok(bytes) => {
            let damaged = |reason: String| {
                BrokerError::new(
                    BrokerErrorKind::Damaged,
                    format!("{} cannot be read: {reason}", path.display()),
                    "remove it to make the skill your own",
                )
            };
            let mark: Mark = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
            match mark.files.keys().find(|path| !is_inside(path)) {
                Some(path) => Err(damaged(format!("{path:?} leads out of the skill"))),
                None => Ok(Some(mark)),
            }
        }
    }
}

/// The description in the head of a SKILL.md, else its first words.
fn described(text: &str) -> String {
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) == Some("---") {
        for line in lines.by_ref().take_while(|line| line.trim_end() != "---") {
            if let Some(said) = line.strip_prefix("description:") {
                return said.trim().trim_matches(['"', '\'']).chars().take(300).collect();
            }
        }
    }
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("---"));
    first.unwrap_or_default().trim_start_matches('#').trim().chars().take(300).collect()
}

fn at(path: &Path, error: &io::Error) -> BrokerError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BrokerErrorKind::NoSpace,
        _ => BrokerErrorKind::Failed,
    };
    BrokerError::new(kind, format!("{}: {error}", path.display()), "")
}
