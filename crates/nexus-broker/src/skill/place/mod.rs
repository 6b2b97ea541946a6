//! The skills of one place: which there are, and what comes from a hub.

mod hold;
mod mark;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde::Serialize;

use self::mark::{MARK, Mark, added, changed, not_as_it_came, read_mark};
use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::Address,
    skill::{
        SkillKind,
        digest::sha256,
        hub::{HubIndex, HubReader, HubSkill, MAX_FILE_BYTES},
    },
};

/// What folders begin with that a command has in the making beside the skills: what is put there, what it takes the place of, and what is removed.
const INSTALLING: &str = ".installing-";
const REPLACED: &str = ".replaced-";
const REMOVED: &str = ".removed-";
/// How much of a SKILL.md is read for its description, in bytes.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// The largest SKILL.md of a person's that is shown, in bytes.
const MAX_SHOWN_BYTES: u64 = MAX_FILE_BYTES;

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
    /// Why what says where it came from cannot be read. No command changes such a skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
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

    /// Every skill, by kind and name. What is no folder with a SKILL.md is none. A skill is put back that a command had set aside which was killed.
    ///
    /// # Errors
    ///
    /// [`Failed`](BrokerErrorKind::Failed), which names the place.
    pub fn list(&self) -> Result<Vec<FoundSkill>, BrokerError> {
        // Where it cannot be put back, what is there is listed.
        if self.left(REPLACED).is_ok_and(|left| !left.is_empty())
            && let Ok(Some(hold)) = self.try_hold()
            && let Err(error) = self.recover(&hold)
        {
            tracing::warn!(%error, "a skill that was set aside is not put back");
        }
        let mut found = Vec::new();
        for (kind, folder) in self.subfolders()? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if Address::agent(&name).is_ok() && folder.join("SKILL.md").is_file() {
                found.push(self.found(kind, name)?);
            }
        }
        found.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        Ok(found)
    }

    /// What folders there are of each kind: of skills, and of what a command has in the making.
    fn subfolders(&self) -> Result<Vec<(SkillKind, PathBuf)>, BrokerError> {
        let mut subfolders = Vec::new();
        for kind in SkillKind::ALL {
            let folder = self.folder.join(kind.as_str());
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.map_err(|error| at(&folder, &error))?,
            };
            for entry in entries {
                let entry = entry.map_err(|error| at(&folder, &error))?;
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    subfolders.push((kind, entry.path()));
                }
            }
        }
        Ok(subfolders)
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
        let (mark, damaged) = match read_mark(&folder) {
            Ok(mark) => (mark, None),
            Err(error) if error.kind == BrokerErrorKind::Damaged => (None, Some(error.to_string())),
            Err(error) => return Err(error),
        };
        let changed = mark.as_ref().map_or_else(Vec::new, |mark| changed(&folder, mark));
        let mut head = Vec::new();
        let read = fs::File::open(folder.join("SKILL.md"))
            .and_then(|file| file.take(MAX_HEAD_BYTES).read_to_end(&mut head));
        let description = read.map_or_else(|_| String::new(), |_| described(&String::from_utf8_lossy(&head)));
        Ok(FoundSkill {
            name,
            kind,
            description,
            folder,
            hub: mark.map(|mark| (mark.hub, mark.version)),
            changed,
            damaged,
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
        let wanted = index.resolve(names)?;
        fs::create_dir_all(&self.folder).map_err(|error| at(&self.folder, &error))?;
        let hold = self.hold().await?;
        self.recover(&hold)?;
        let (mut changes, mut staged) = (BTreeMap::new(), Vec::new());
        for (name, skill) in wanted {
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
        let hold = self.hold().await?;
        self.recover(&hold)?;
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
                    changes.insert(skill.name.clone(), SkillChange::Kept { reason: own(&skill) });
                }
                continue;
            };
            let kept = |reason: String| SkillChange::Kept { reason };
            let change = if from != hub.name() {
                kept(format!("it came from {from}"))
            } else if !skill.changed.is_empty() {
                kept(format!("you changed {}", skill.changed.join(", ")))
            } else if let Some(added) = added(&skill.folder)? {
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
    /// As [`SkillPlace::find`]; [`Conflict`](BrokerErrorKind::Conflict) while another command changes the skills; those of the file system.
    pub fn remove(&self, name: &str) -> Result<SkillChange, BrokerError> {
        self.find(name)?;
        let hold = self.try_hold()?.ok_or_else(|| self.is_held())?;
        self.recover(&hold)?;
        let skill = self.find(name)?;
        if skill.hub.is_none() {
            return Ok(SkillChange::Kept { reason: own(&skill) });
        }
        if let Some(reason) = not_as_it_came(&skill.folder)? {
            return Ok(SkillChange::Kept { reason });
        }
        let Some(aside) = set_aside(&skill.folder)? else { return Ok(SkillChange::Removed) };
        // It may have been changed since.
        match not_as_it_came(&aside.join(&skill.name)) {
            Ok(None) => {}
            kept => {
                put_back(&aside, &skill.folder)?;
                return kept.map(|reason| SkillChange::Kept { reason: reason.unwrap_or_default() });
            }
        }
        let name_of_aside =
            aside.file_name().unwrap_or_default().to_string_lossy().replace(REPLACED, REMOVED);
        let removed = aside.with_file_name(name_of_aside);
        fs::rename(&aside, &removed).map_err(|error| at(&aside, &error))?;
        // What is left of it is removed by the next command.
        if let Err(error) = fs::remove_dir_all(&removed) {
            tracing::debug!(skill = name, %error, "some of a skill that was removed is left");
        }
        Ok(SkillChange::Removed)
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
        let staging = tempfile::Builder::new().prefix(INSTALLING).tempdir_in(&kind);
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
        let mut done: Vec<(PathBuf, Option<PathBuf>)> = Vec::new();
        for one in staged {
            match place(&one) {
                Ok(before) => {
                    // It has its name by now.
                    let _ = one.folder.keep();
                    done.push((one.to, before));
                    changes.insert(one.name, one.change);
                }
                Err(error) => {
                    for (to, before) in done.into_iter().rev() {
                        let _ = fs::remove_dir_all(&to);
                        if let Some(before) = before
                            && let Err(error) = put_back(&before, &to)
                        {
                            tracing::warn!(%error, "a skill is put back by the next command");
                        }
                    }
                    return Err(error);
                }
            }
        }
        for before in done.into_iter().filter_map(|(_, before)| before) {
            // What is left of it is removed by the next command.
            if let Err(error) = fs::remove_dir_all(&before) {
                tracing::debug!(before = %before.display(), %error, "a skill that was replaced is left");
            }
        }
        Ok(())
    }
}

/// Moves a staged skill to its place, and what was there aside: gives where that is.
fn place(staged: &Staged) -> Result<Option<PathBuf>, BrokerError> {
    let put = || fs::rename(staged.folder.path(), &staged.to).map_err(|error| at(&staged.to, &error));
    let Some(aside) = set_aside(&staged.to)? else { return put().map(|()| None) };
    // It was looked at before, and may have been changed since.
    let placed = not_as_it_came(&aside.join(&staged.name)).and_then(|changed| match changed {
        None => put(),
        Some(reason) => Err(BrokerError::new(
            BrokerErrorKind::Conflict,
            format!("the skill {} is not replaced: {reason} just now", staged.name),
            "nothing was changed; try again",
        )),
    });
    match placed {
        Ok(()) => Ok(Some(aside)),
        Err(error) => {
            put_back(&aside, &staged.to)?;
            Err(error)
        }
    }
}

/// Moves a skill into a folder beside it, where it has its name: until it is put back, by whichever command. `None` if there is none.
fn set_aside(skill: &Path) -> Result<Option<PathBuf>, BrokerError> {
    if fs::symlink_metadata(skill).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let (beside, name) = (skill.parent().unwrap_or(Path::new(".")), skill.file_name().unwrap_or_default());
    let aside = tempfile::Builder::new().prefix(REPLACED).tempdir_in(beside);
    let aside = aside.map_err(|error| at(beside, &error))?;
    fs::rename(skill, aside.path().join(name)).map_err(|error| at(skill, &error))?;
    // Nothing removes it by itself any more.
    Ok(Some(aside.keep()))
}

/// Moves a skill back that was set aside. One that cannot be stays where it is, and the error says where.
fn put_back(aside: &Path, skill: &Path) -> Result<(), BrokerError> {
    let from = aside.join(skill.file_name().unwrap_or_default());
    fs::rename(&from, skill).map_err(|error| {
        BrokerError::new(
            BrokerErrorKind::Failed,
            format!("{} cannot be put back: {error}; it is in {}", skill.display(), aside.display()),
            "the next command on skills does it",
        )
    })?;
    let _ = fs::remove_dir(aside);
    Ok(())
}

/// Why a skill that came from no hub, as far as is known, is left alone.
fn own(skill: &FoundSkill) -> String {
    skill.damaged.clone().unwrap_or_else(|| "it is your own".to_owned())
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
