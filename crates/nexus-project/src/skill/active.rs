//! The active skill of each program that works on the project.

use std::fs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Skill;
use crate::{error::ProjectError, file, folder::ProjectFolder, state::Document, time::Time};

/// `state/{harness}/skill.json`: the skill that is active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActiveSkill {
    /// The version of this file: 1.
    pub version: u32,
    /// The skill's name.
    pub skill: String,
    /// Text after the colon of its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The session in which it began, by the program's own name for it.
    pub session: String,
    /// Time of its start.
    pub since: Time,
    /// Time of its session's end. It becomes active again when that session is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_at: Option<Time>,
}

impl Document for ActiveSkill {
    const NAME: &'static str = "skill.json";

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), String> {
        match Skill::of_tag(&self.skill) {
            Some(_) => Ok(()),
            None => Err(format!("the skill {:?} does not exist", self.skill)),
        }
    }
}

impl ActiveSkill {
    /// Returns the instructions of the skill for a model.
    pub fn instructions(&self) -> Option<String> {
        Some(Skill::of_tag(&self.skill)?.instructions(self.variant.as_deref()))
    }
}

impl ProjectFolder {
    /// Makes a skill the active one of a program. It replaces another active skill.
    ///
    /// # Errors
    ///
    /// [`ProjectError`].
    pub fn begin_skill(
        &self,
        harness: &str,
        session: &str,
        skill: Skill,
        variant: Option<String>,
    ) -> Result<(), ProjectError> {
        let active = ActiveSkill {
            version: 1,
            skill: skill.name.to_owned(),
            variant,
            session: session.to_owned(),
            since: Time::now(),
            left_at: None,
        };
        self.locked(|| active.write(&self.skill_path(harness)?))
    }

    /// Returns the active skill of a program in this session. A skill of another session is over.
    ///
    /// # Errors
    ///
    /// [`ProjectError`].
    pub fn skill_of(&self, harness: &str, session: &str) -> Result<Option<ActiveSkill>, ProjectError> {
        let active = ActiveSkill::read(&self.skill_path(harness)?)?;
        Ok(active.filter(|active| active.session == session && active.left_at.is_none()))
    }

    /// Suspends the skill at the end of its session. It becomes active again if the session resumes.
    pub(crate) fn leave_skill(&self, harness: &str, session: &str) -> Result<(), ProjectError> {
        self.change_skill(harness, |active| {
            if active.session == session && active.left_at.is_none() {
                active.left_at = Some(Time::now());
            }
            true
        })
    }

    /// Activates the suspended skill again when its session resumes. Removes a skill of another session.
    pub(crate) fn take_up_skill(&self, harness: &str, session: &str) -> Result<(), ProjectError> {
        self.change_skill(harness, |active| {
            active.left_at = None;
            active.session == session
        })
    }

    /// Changes the skill of a program, if it has one. Removes it if `change` returns false.
    fn change_skill(
        &self,
        harness: &str,
        change: impl FnOnce(&mut ActiveSkill) -> bool,
    ) -> Result<(), ProjectError> {
        let path = self.skill_path(harness)?;
        if path.symlink_metadata().is_err() {
            return Ok(());
        }
        self.locked(|| {
            let Some(before) = ActiveSkill::read(&path)? else { return Ok(()) };
            let mut after = before.clone();
            match change(&mut after) {
                false => file::remove(&path),
                true if after != before => after.write(&path),
                true => Ok(()),
            }
        })
    }

    /// Ends the skill of a program, if one is active.
    ///
    /// # Errors
    ///
    /// [`ProjectError`].
    pub fn end_skill(&self, harness: &str) -> Result<(), ProjectError> {
        let path = self.skill_path(harness)?;
        self.locked(|| file::remove(&path))
    }

    /// Returns the skill of any program that began last, with its variant.
    pub(crate) fn active_skill(&self) -> Result<Option<String>, ProjectError> {
        let mut last: Option<ActiveSkill> = None;
        for path in self.skill_paths() {
            let active = ActiveSkill::read(&path)?.filter(|active| active.left_at.is_none());
            last = last.into_iter().chain(active).max_by_key(|active| active.since);
        }
        Ok(last.map(|active| match active.variant {
            Some(variant) => format!("{}:{variant}", active.skill),
            None => active.skill,
        }))
    }

    /// Returns the folder of one program's state.
    pub(crate) fn harness_path(&self, harness: &str) -> Result<std::path::PathBuf, ProjectError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if harness.is_empty() || harness.len() > 64 || harness == "artifacts" || !harness.bytes().all(fits) {
            let message = format!("{harness:?} is not a name of a program");
            return Err(ProjectError::invalid(message, "use up to 64 letters, digits, - and _"));
        }
        Ok(self.state_path(harness))
    }

    fn skill_path(&self, harness: &str) -> Result<std::path::PathBuf, ProjectError> {
        Ok(self.harness_path(harness)?.join(ActiveSkill::NAME))
    }

    /// Returns the path of each program's active skill.
    pub(crate) fn skill_paths(&self) -> Vec<std::path::PathBuf> {
        let Ok(entries) = fs::read_dir(self.state_path("")) else { return Vec::new() };
        // Skip the folder of artifacts, which belongs to agents and not to a program.
        let is_programs = |path: &std::path::PathBuf| path.is_dir() && !path.ends_with("artifacts");
        let folders = entries.flatten().map(|entry| entry.path()).filter(is_programs);
        folders.map(|folder| folder.join(ActiveSkill::NAME)).collect()
    }
}
