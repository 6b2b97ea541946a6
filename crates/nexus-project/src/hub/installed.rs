//! The skills of a working folder: listing, installing, updating, removing.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    SkillKind,
    description::description_of,
    index::{HubIndex, HubReader, HubSkill, MAX_FILE_BYTES, NAME_RULE, is_name},
    origin::{ORIGIN_FILE, SkillOrigin, added, changed, difference, read_origin},
    sha256,
};
use crate::error::{ProjectError, ProjectErrorKind};

/// Prefixes of temporary folders beside the skills, for new, replaced and removed skills.
pub(super) const INSTALLING: &str = ".installing-";
pub(super) const REPLACED: &str = ".replaced-";
pub(super) const REMOVED: &str = ".removed-";
/// Largest part of a SKILL.md that is read for its description, in bytes.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// Largest SKILL.md that is shown, in bytes.
const MAX_SHOWN_BYTES: u64 = MAX_FILE_BYTES;

/// An installed skill.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FoundSkill {
    /// Name of the skill: the name of its folder.
    pub name: String,
    /// Kind of the skill.
    pub kind: SkillKind,
    /// Purpose, from its SKILL.md.
    pub description: String,
    /// Folder of the skill.
    pub folder: PathBuf,
    /// The hub and the version that it came from. `None`: it is a person's own.
    pub hub: Option<(String, String)>,
    /// Files from the hub that were changed since.
    pub changed: Vec<String>,
    /// Reason why the record of its origin cannot be read. No command changes such a skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
}

/// A folder beside the skills that is not listed as one.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutSkill {
    /// The folder, or the link in its place.
    pub folder: PathBuf,
    /// Reason why it is not listed as a skill.
    pub reason: String,
}

/// Outcome of an installation, an update or a removal.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum SkillChange {
    /// The skill was installed.
    Installed {
        /// The installed version.
        version: String,
    },
    /// The skill was updated to the hub's newest version.
    Updated {
        /// The version before.
        from: String,
        /// The version now.
        to: String,
    },
    /// The skill was up to date.
    Unchanged,
    /// The skill was left unchanged.
    Kept {
        /// Reason.
        reason: String,
    },
    /// The skill was removed.
    Removed,
}

/// The folder `skills` of a working folder, in which skills are installed.
#[derive(Clone, Debug)]
pub struct SkillFolder {
    pub(super) folder: PathBuf,
}

/// A checked skill in a temporary folder beside its final one.
struct Staged {
    name: String,
    folder: tempfile::TempDir,
    to: PathBuf,
    change: SkillChange,
}

impl SkillFolder {
    /// Creates access to the skills in a folder. It has a subfolder for each kind.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Lists every folder with a SKILL.md, by kind and name. A linked folder is a person's own skill. Restores a skill
    /// that a killed command had moved away.
    ///
    /// # Errors
    ///
    /// [`Failed`](ProjectErrorKind::Failed), which names the path.
    pub fn list(&self) -> Result<Vec<FoundSkill>, ProjectError> {
        // If a skill cannot be restored, list the others nevertheless.
        if self.left(REPLACED).is_ok_and(|left| !left.is_empty())
            && let Ok(Some(lock)) = self.try_lock()
            && let Err(error) = self.recover(&lock)
        {
            tracing::warn!(%error, "an earlier copy of a skill could not be restored");
        }
        let mut found = Vec::new();
        for (kind, entry, is_link) in self.entries()? {
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if reason_to_leave_out(&name, &entry).is_none() {
                found.push(self.found(kind, name, is_link)?);
            }
        }
        found.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
        Ok(found)
    }

    /// Returns the folders and links that a person may take for skills although they are not listed, with the reasons.
    ///
    /// # Errors
    ///
    /// Errors of [`SkillFolder::list`].
    pub fn left_out(&self) -> Result<Vec<LeftOutSkill>, ProjectError> {
        let mut left_out = Vec::new();
        for (_, folder, _) in self.entries()? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Skip hidden folders, which belong to commands and editors.
            let reason = reason_to_leave_out(&name, &folder).filter(|_| !name.starts_with('.'));
            left_out.extend(reason.map(|reason| LeftOutSkill { folder, reason }));
        }
        left_out.sort_by(|one, other| one.folder.cmp(&other.folder));
        Ok(left_out)
    }

    /// Returns the subfolders of each kind that are not links: skills, and temporary folders of commands.
    pub(super) fn subfolders(&self) -> Result<Vec<(SkillKind, PathBuf)>, ProjectError> {
        let folders = self.entries()?.into_iter().filter(|(_, _, is_link)| !is_link);
        Ok(folders.map(|(kind, folder, _)| (kind, folder)).collect())
    }

    /// Returns the subfolders of each kind, and the links beside them.
    fn entries(&self) -> Result<Vec<(SkillKind, PathBuf, bool)>, ProjectError> {
        let mut found = Vec::new();
        for kind in SkillKind::ALL {
            let folder = self.folder.join(kind.as_str());
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                read => read.map_err(|error| ProjectError::unusable(&folder, &error))?,
            };
            for entry in entries {
                let entry = entry.map_err(|error| ProjectError::unusable(&folder, &error))?;
                let Ok(file_type) = entry.file_type() else { continue };
                if file_type.is_dir() || file_type.is_symlink() {
                    found.push((kind, entry.path(), file_type.is_symlink()));
                }
            }
        }
        Ok(found)
    }

    /// Returns the skill of a name.
    ///
    /// # Errors
    ///
    /// [`Unknown`](ProjectErrorKind::Unknown), which lists the installed ones.
    pub fn find(&self, name: &str) -> Result<FoundSkill, ProjectError> {
        let all = self.list()?;
        let names: Vec<_> = all.iter().map(|skill| skill.name.clone()).collect();
        all.into_iter().find(|skill| skill.name == name).ok_or_else(|| {
            let advice = match names.is_empty() {
                true => "no skills are installed: see `nexus skills install --help`".to_owned(),
                false => format!("there are {}", names.join(", ")),
            };
            ProjectError::new(ProjectErrorKind::Unknown, format!("no skill {name:?} is installed"), advice)
        })
    }

    /// Returns the SKILL.md of a skill.
    ///
    /// # Errors
    ///
    /// Errors of [`SkillFolder::find`]; [`Failed`](ProjectErrorKind::Failed) for a file that is not a text or
    /// has more than a mebibyte.
    pub fn text(&self, name: &str) -> Result<String, ProjectError> {
        let path = self.find(name)?.folder.join("SKILL.md");
        let size = fs::metadata(&path).map_err(|error| ProjectError::unusable(&path, &error))?.len();
        if size > MAX_SHOWN_BYTES {
            let message = format!("{} has more than {MAX_SHOWN_BYTES} bytes", path.display());
            return Err(ProjectError::new(ProjectErrorKind::Failed, message, "make it shorter"));
        }
        fs::read_to_string(&path).map_err(|error| ProjectError::unusable(&path, &error))
    }

    fn found(&self, kind: SkillKind, name: String, is_link: bool) -> Result<FoundSkill, ProjectError> {
        let folder = self.folder.join(kind.as_str()).join(&name);
        // No command may change a folder behind a link, so ignore its record of origin.
        let origin = if is_link { Ok(None) } else { read_origin(&folder) };
        let (mark, damaged) = match origin {
            Ok(mark) => (mark, None),
            Err(error) if error.kind == ProjectErrorKind::Damaged => (None, Some(error.to_string())),
            Err(error) => return Err(error),
        };
        let changed = mark.as_ref().map_or_else(Vec::new, |mark| changed(&folder, mark));
        let mut head = Vec::new();
        let read = fs::File::open(folder.join("SKILL.md"))
            .and_then(|file| file.take(MAX_HEAD_BYTES).read_to_end(&mut head));
        let description =
            read.map_or_else(|_| String::new(), |_| description_of(&String::from_utf8_lossy(&head)));
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

    /// Installs skills and packs of a hub: all of them, or none if one fails its check. Skips installed ones.
    ///
    /// # Errors
    ///
    /// [`Unknown`](ProjectErrorKind::Unknown) for a name that the hub does not have,
    /// [`Damaged`](ProjectErrorKind::Damaged) for a file whose SHA-256 differs from the index,
    /// [`WrongState`](ProjectErrorKind::WrongState) if a person's own skill has the name; errors of reading and
    /// writing.
    pub async fn install(
        &self,
        hub: &dyn HubReader,
        names: &[String],
    ) -> Result<BTreeMap<String, SkillChange>, ProjectError> {
        // Read the index before the lock, because a remote hub may take long to answer.
        let index = HubIndex::read(hub).await?;
        let wanted = index.resolve(names)?;
        fs::create_dir_all(&self.folder).map_err(|error| ProjectError::unusable(&self.folder, &error))?;
        let lock = self.lock().await?;
        self.recover(&lock)?;
        let (mut changes, mut staged) = (BTreeMap::new(), Vec::new());
        for (name, skill) in wanted {
            match self.find(name) {
                Ok(there) if there.hub.is_some() => {
                    changes.insert(name.to_owned(), SkillChange::Unchanged);
                }
                Ok(there) => {
                    return Err(ProjectError::new(
                        ProjectErrorKind::WrongState,
                        format!("{} is one of your own skills", there.folder.display()),
                        "rename it, or leave this one out; nothing was installed",
                    ));
                }
                Err(error) if error.kind != ProjectErrorKind::Unknown => return Err(error),
                Err(_) => {
                    let to = self.folder.join(skill.kind.as_str()).join(name);
                    // `find` sees only folders with a SKILL.md. Anything else at this path stays, too.
                    if fs::symlink_metadata(&to).is_ok() {
                        return Err(ProjectError::new(
                            ProjectErrorKind::WrongState,
                            format!("{} exists, but does not come from a hub", to.display()),
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

    /// Updates the named skills, or all, to the present versions of their hubs. Leaves skills that were
    /// changed, or that the hub no longer has.
    ///
    /// # Errors
    ///
    /// Errors of [`SkillFolder::install`].
    pub async fn update(
        &self,
        hub: &dyn HubReader,
        names: &[String],
    ) -> Result<BTreeMap<String, SkillChange>, ProjectError> {
        let index = HubIndex::read(hub).await?;
        let lock = self.lock().await?;
        self.recover(&lock)?;
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
                kept(format!("it was installed from {from}"))
            } else if !skill.changed.is_empty() {
                kept(format!("you changed {}", skill.changed.join(", ")))
            } else if let Some(added) = added(&skill.folder)? {
                kept(format!("you added {added}"))
            } else {
                match index.skills.get(&skill.name) {
                    None => kept("the hub no longer contains it".to_owned()),
                    Some(newest) if newest.kind != skill.kind => {
                        kept(format!("it is now in {}", newest.kind))
                    }
                    Some(newest)
                        if read_origin(&skill.folder)?.is_some_and(|mark| mark.files == newest.files) =>
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

    /// Removes a skill that came from a hub, unless it was changed. A person's own skill stays.
    ///
    /// # Errors
    ///
    /// As [`SkillFolder::find`]; [`WrongState`](ProjectErrorKind::WrongState) while another command changes the skills;
    /// errors of the file system.
    pub fn remove(&self, name: &str) -> Result<SkillChange, ProjectError> {
        self.find(name)?;
        let lock = self.try_lock()?.ok_or_else(|| self.in_use())?;
        self.recover(&lock)?;
        let skill = self.find(name)?;
        if skill.hub.is_none() {
            return Ok(SkillChange::Kept { reason: own(&skill) });
        }
        if let Some(reason) = difference(&skill.folder)? {
            return Ok(SkillChange::Kept { reason });
        }
        let Some(aside) = set_aside(&skill.folder)? else { return Ok(SkillChange::Removed) };
        // Check again: the skill may have been changed since the first check.
        match difference(&aside.join(&skill.name)) {
            Ok(None) => {}
            kept => {
                restore(&aside, &skill.folder)?;
                return kept.map(|reason| SkillChange::Kept { reason: reason.unwrap_or_default() });
            }
        }
        let name_of_aside =
            aside.file_name().unwrap_or_default().to_string_lossy().replace(REPLACED, REMOVED);
        let removed = aside.with_file_name(name_of_aside);
        fs::rename(&aside, &removed).map_err(|error| ProjectError::unusable(&aside, &error))?;
        // If this fails, the next command removes the leftovers.
        if let Err(error) = fs::remove_dir_all(&removed) {
            tracing::debug!(skill = name, %error, "files of a removed skill remain");
        }
        Ok(SkillChange::Removed)
    }

    /// Reads and checks all files of a skill into a temporary folder beside its final one.
    async fn stage(
        &self,
        hub: &dyn HubReader,
        name: &str,
        skill: &HubSkill,
        change: SkillChange,
    ) -> Result<Staged, ProjectError> {
        let kind = self.folder.join(skill.kind.as_str());
        fs::create_dir_all(&kind).map_err(|error| ProjectError::unusable(&kind, &error))?;
        // Stage beside the final folder: a rename works only within one file system.
        let staging = tempfile::Builder::new().prefix(INSTALLING).tempdir_in(&kind);
        let staging = staging.map_err(|error| ProjectError::unusable(&kind, &error))?;
        for (path, hash) in &skill.files {
            let bytes = hub.read(&skill.path_in_hub(name, path), MAX_FILE_BYTES).await?;
            // The index and the files are read one after the other, so the hub may have changed in between.
            if sha256(&bytes) != *hash {
                return Err(ProjectError::new(
                    ProjectErrorKind::Damaged,
                    format!("{path} of the skill {name} does not match the SHA-256 in the hub's index"),
                    "nothing was installed; the file was changed in transit, or the maintainer of the hub \
                    must fix it",
                ));
            }
            let to = staging.path().join(path);
            let made = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&to, &bytes));
            made.map_err(|error| ProjectError::unusable(&to, &error))?;
        }
        let mark = SkillOrigin {
            hub: hub.name().to_owned(),
            version: skill.version.clone(),
            files: skill.files.clone(),
        };
        let text = serde_json::to_string_pretty(&mark)
            .map_err(|error| ProjectError::damaged(&staging.path().join(ORIGIN_FILE), error))?;
        let to = staging.path().join(ORIGIN_FILE);
        fs::write(&to, text + "\n").map_err(|error| ProjectError::unusable(&to, &error))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // `tempfile` creates owner-only folders. A skill gets the mode of any other folder of the project.
            let readable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(staging.path(), readable)
                .map_err(|error| ProjectError::unusable(staging.path(), &error))?;
        }
        Ok(Staged { name: name.to_owned(), folder: staging, to: kind.join(name), change })
    }

    /// Moves all staged skills to their final folders. After a failure, restores the earlier ones.
    fn put(
        &self,
        staged: Vec<Staged>,
        changes: &mut BTreeMap<String, SkillChange>,
    ) -> Result<(), ProjectError> {
        let mut done: Vec<(PathBuf, Option<PathBuf>)> = Vec::new();
        for one in staged {
            match move_to_final(&one) {
                Ok(before) => {
                    // The skill has been moved out of the temporary folder, so do not remove that folder on drop.
                    let _ = one.folder.keep();
                    done.push((one.to, before));
                    changes.insert(one.name, one.change);
                }
                Err(error) => {
                    // Undo the moves, so that all skills are installed or none.
                    for (to, before) in done.into_iter().rev() {
                        let _ = fs::remove_dir_all(&to);
                        if let Some(before) = before
                            && let Err(error) = restore(&before, &to)
                        {
                            tracing::warn!(%error, "the next command restores a skill");
                        }
                    }
                    return Err(error);
                }
            }
        }
        for before in done.into_iter().filter_map(|(_, before)| before) {
            // If this fails, the next command removes the leftovers.
            if let Err(error) = fs::remove_dir_all(&before) {
                tracing::debug!(before = %before.display(), %error, "the old copy of a replaced skill remains");
            }
        }
        Ok(())
    }
}

/// Moves a staged skill to its final folder, and returns the temporary path of the replaced skill.
fn move_to_final(staged: &Staged) -> Result<Option<PathBuf>, ProjectError> {
    let put = || {
        fs::rename(staged.folder.path(), &staged.to)
            .map_err(|error| ProjectError::unusable(&staged.to, &error))
    };
    // A rename cannot replace a folder with content, so move the old one away first.
    let Some(aside) = set_aside(&staged.to)? else { return put().map(|()| None) };
    // Check again: the skill may have been changed since the first check.
    let moved = difference(&aside.join(&staged.name)).and_then(|changed| match changed {
        None => put(),
        Some(reason) => Err(ProjectError::new(
            ProjectErrorKind::WrongState,
            format!("the skill {} was not replaced: {reason} in the meantime", staged.name),
            "nothing was changed; try again",
        )),
    });
    match moved {
        Ok(()) => Ok(Some(aside)),
        Err(error) => {
            restore(&aside, &staged.to)?;
            Err(error)
        }
    }
}

/// Moves a skill into a temporary folder beside it, until a command restores or removes it. `None` if the skill does not
/// exist.
fn set_aside(skill: &Path) -> Result<Option<PathBuf>, ProjectError> {
    if fs::symlink_metadata(skill).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let (beside, name) = (skill.parent().unwrap_or(Path::new(".")), skill.file_name().unwrap_or_default());
    let aside = tempfile::Builder::new().prefix(REPLACED).tempdir_in(beside);
    let aside = aside.map_err(|error| ProjectError::unusable(beside, &error))?;
    fs::rename(skill, aside.path().join(name)).map_err(|error| ProjectError::unusable(skill, &error))?;
    // Keep the temporary folder: it now contains the skill.
    Ok(Some(aside.keep()))
}

/// Restores a skill that was moved away. If that fails, the error names its path.
fn restore(aside: &Path, skill: &Path) -> Result<(), ProjectError> {
    let from = aside.join(skill.file_name().unwrap_or_default());
    fs::rename(&from, skill).map_err(|error| {
        ProjectError::new(
            ProjectErrorKind::Failed,
            format!("{} cannot be restored: {error}; it is in {}", skill.display(), aside.display()),
            "the next `nexus skills` command restores it",
        )
    })?;
    let _ = fs::remove_dir(aside);
    Ok(())
}

/// Returns the reason why a folder or a link is not listed as a skill.
fn reason_to_leave_out(name: &str, folder: &Path) -> Option<String> {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) => return Some(format!("it cannot be read: {error}")),
    };
    if !metadata.is_dir() {
        return Some("the link leads to no folder".to_owned());
    }
    let text = folder.join("SKILL.md");
    if !text.is_file() {
        return Some("it has no file SKILL.md".to_owned());
    }
    // The author of a copied folder could name any file of the person, whose text an agent would read.
    let is_inside = matches!((text.canonicalize(), folder.canonicalize()), (Ok(text), Ok(folder)) if text.starts_with(&folder));
    if !is_inside {
        return Some(
            "its SKILL.md is a link to a file outside of the folder: copy the file, or link the folder"
                .to_owned(),
        );
    }
    (!is_name(name)).then(|| NAME_RULE.to_owned())
}

/// Returns the reason why a skill without a known hub is left unchanged.
fn own(skill: &FoundSkill) -> String {
    skill.damaged.clone().unwrap_or_else(|| "it is your own".to_owned())
}
