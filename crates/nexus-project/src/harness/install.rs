//! Adds hooks to a program's settings and removes them. Every other byte of the settings stays.

use std::{env, fs};

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    program::Harness,
    settings_file::SettingsFile,
    splice::{self, Groups},
};
use crate::{error::ProjectError, folder::ProjectFolder, hook::HookEvent};

/// Change of a program's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InstallReport {
    /// The file, relative to the project.
    pub file: String,
    /// True if the settings changed.
    pub changed: bool,
}

impl Harness {
    /// Adds the hooks to the program's settings for this project. `command` starts `nexus` in a shell. Calling it again
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`ProjectErrorKind::Damaged`](crate::ProjectErrorKind::Damaged) for settings that cannot be read as JSON; they stay
    /// as they are. Errors of the file system.
    pub fn install(&self, project: &ProjectFolder, command: &str) -> Result<InstallReport, ProjectError> {
        if command.trim().is_empty() {
            return Err(ProjectError::invalid(
                "the command is empty",
                "write the shell command that starts \
                nexus",
            ));
        }
        let settings = self.settings(project)?;
        let damaged = |problem: String| ProjectError::damaged(settings.path(), problem);
        let before = settings.text.clone();
        // First remove our existing entries, which may have another command.
        let bare = match &before {
            Some(text) => self.without(text).map_err(damaged)?,
            None => None,
        };
        let groups = self.groups(command);
        let after = match bare {
            None => splice::file(&groups),
            Some(text) => splice::with(&text, &groups).map_err(damaged)?,
        };
        let changed = before.as_deref() != Some(&*after);
        if changed {
            settings.write(&after)?;
        }
        Ok(self.report(changed))
    }

    /// Removes the hooks. Entries of other programs and people stay, byte for byte; a file without other
    /// entries is removed.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::install`].
    pub fn uninstall(&self, project: &ProjectFolder) -> Result<InstallReport, ProjectError> {
        let settings = self.settings(project)?;
        let path = settings.path();
        let Some(before) = settings.text.as_deref() else { return Ok(self.report(false)) };
        let after = self.without(before).map_err(|problem| ProjectError::damaged(path, problem))?;
        let changed = after.as_deref() != Some(before);
        match after {
            Some(after) if changed => settings.write(&after)?,
            Some(_) => {}
            None if !settings.remove()? => {}
            None => {
                // Remove only empty folders: another program does not use them.
                for folder in path.ancestors().skip(1).take_while(|folder| *folder != project.root()) {
                    if fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
            }
        }
        Ok(self.report(changed))
    }

    /// Returns the command lines of the hooks in the program's settings for this project, each with its event.
    ///
    /// # Errors
    ///
    /// As [`Self::install`].
    pub fn installed_lines(&self, project: &ProjectFolder) -> Result<Vec<(HookEvent, String)>, ProjectError> {
        let settings = self.settings(project)?;
        let Some(text) = &settings.text else { return Ok(Vec::new()) };
        let hooks =
            splice::hooks_in(text).map_err(|problem| ProjectError::damaged(settings.path(), problem))?;
        let line = |hook: String| {
            let command = self.command_of(&hook)?;
            HookEvent::ALL.into_iter().find_map(|event| {
                let line = format!("{command}{}", self.mark(event));
                let hook: serde_json::Value = serde_json::from_str(&hook).ok()?;
                (hook["command"] == line).then_some((event, line))
            })
        };
        Ok(hooks.into_iter().filter_map(line).collect())
    }

    fn settings(&self, project: &ProjectFolder) -> Result<SettingsFile, ProjectError> {
        let path = project.root().join(&self.hooks.file);
        SettingsFile::read(path, project.root(), env::home_dir().as_deref())
    }

    fn report(&self, changed: bool) -> InstallReport {
        InstallReport { file: self.hooks.file.clone(), changed }
    }

    /// Returns the suffix of our commands. It marks an entry as ours.
    fn mark(&self, event: HookEvent) -> String {
        format!(" hook {} --harness {}", event.as_str(), self.name())
    }

    /// Returns our entries, by the program's name of the event.
    fn groups(&self, command: &str) -> Groups {
        let mut groups = Groups::new();
        for event in self.events() {
            let Some(name) = self.hooks.events.get(event.as_str()) else { continue };
            let command = serde_json::Value::from(format!("{command}{}", self.mark(event)));
            let hooks = format!(r#""hooks": [{{ "type": "command", "command": {command} }}]"#);
            let group = match &name.matcher {
                Some(matcher) => {
                    format!(r#"{{ "matcher": {}, {hooks} }}"#, serde_json::Value::from(&**matcher))
                }
                None => format!("{{ {hooks} }}"),
            };
            groups.entry(name.name.clone()).or_default().push(group);
        }
        groups
    }

    /// Returns the part of a hook command that starts `nexus`. `None`: the hook is not ours.
    fn command_of(&self, hook: &str) -> Option<String> {
        let hook: serde_json::Value = serde_json::from_str(hook).ok()?;
        let command = hook["command"].as_str()?;
        let ours = HookEvent::ALL.into_iter().find_map(|event| command.strip_suffix(&self.mark(event)));
        // The suffix decides, because the path of `nexus` differs between installations.
        ours.map(str::to_owned)
    }

    /// Returns the settings without our entries. `None`: nothing else is left.
    fn without(&self, text: &str) -> Result<Option<String>, String> {
        let hooks = splice::hooks_in(text)?;
        let Some(command) = hooks.iter().find_map(|hook| self.command_of(hook)) else {
            return Ok(Some(text.to_owned()));
        };
        splice::without(text, &self.groups(&command), |hook| self.command_of(hook).is_some())
    }
}
