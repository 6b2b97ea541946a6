//! Plan for the configuration file: its whole text, or the entries to add to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf, absolute},
};

use nexus::{
    BackendId, BuildContext, ConfigFile, DetectedConfig, DetectedEntry, ExplainedTarget, Router,
    detection::Payment,
};
use nexus_files::{FileFault, create_once, replace};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::edit::{Insertion, inserted};
use crate::{command_error::CommandError, config, output::printable};

/// First lines of a written file.
const WRITTEN: &str = "\
# Written by `nexus setup` from what this machine has. Change it freely: `nexus setup` only adds to it.
# `nexus check` checks it, and `nexus check --example` prints every key.

";

/// Name of the panel of reviewers.
const PANEL: &str = "review";

/// Plan for the configuration file.
#[derive(Debug)]
pub(super) struct ConfigPlan {
    /// The file.
    pub(super) path: PathBuf,
    pub(super) change: ConfigChange,
    /// Entries that are added, such as `backends.ollama`. Empty for a new file.
    pub(super) added: Vec<String>,
    /// Backends that were found and are not added, each with the reason.
    pub(super) left_out: Vec<String>,
    /// Content of the file that the plan was made for.
    before: Option<Vec<u8>>,
}

/// Change of the configuration file.
#[derive(Debug)]
pub(super) enum ConfigChange {
    /// A new file.
    New(String),
    /// An existing file with further entries.
    Added(String),
    /// The file needs no change.
    None,
    /// The file lacks entries, but cannot be edited.
    Refused {
        /// The reason.
        reason: String,
        /// The entries, as YAML.
        missing: String,
    },
    /// No file exists, and nothing was found to write.
    Nothing,
}

/// State of the configuration file at the end of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ConfigState {
    /// It was created.
    Written,
    /// Entries were added.
    Changed,
    /// It needed no change.
    Unchanged,
    /// The file was not written, because the person did not agree.
    Proposed,
    /// The file lacks entries, but cannot be edited.
    Refused,
    /// The file does not exist, and nothing was found to write.
    Nothing,
}

impl ConfigPlan {
    /// Makes the plan for a file.
    ///
    /// # Errors
    ///
    /// The file exists, and cannot be read or is not a valid configuration.
    pub(super) fn of(
        path: PathBuf,
        detected: Option<&DetectedConfig>,
        context: &BuildContext,
    ) -> Result<Self, CommandError> {
        let mut plan =
            Self { path, change: ConfigChange::None, added: Vec::new(), left_out: Vec::new(), before: None };
        // Do not replace a link without a target either: the user created it.
        if plan.path.symlink_metadata().is_err() {
            plan.change = match detected {
                Some(detected) => ConfigChange::New(format!("{WRITTEN}{}", detected.sections())),
                None => ConfigChange::Nothing,
            };
            return Ok(plan);
        }
        let file = ConfigFile::read(&plan.path)?;
        let value = file.value()?;
        plan.before = Some(file.bytes().to_owned());
        let text = std::str::from_utf8(file.bytes())
            .map_err(|_| CommandError::failed(format_args!("{}: it is not UTF-8", plan.path.display())))?
            .to_owned();
        if value.is_null() {
            // The file has only comments. They stay in front of the configuration.
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            plan.change = match detected {
                Some(detected) => ConfigChange::Added(format!("{text}{gap}{WRITTEN}{}", detected.sections())),
                None => ConfigChange::Nothing,
            };
            return Ok(plan);
        }
        let router = config::load_unused(file, context.clone())?;
        let insertions = plan.missing(&value, &router, detected);
        if insertions.is_empty() {
            return Ok(plan);
        }
        plan.added = insertions.iter().map(|added| format!("{}.{}", added.section, added.key)).collect();
        let edited = inserted(&text, &insertions).and_then(|edited| {
            // The entries may contradict others, such as a type of the same name in another section.
            match config::load_unused(ConfigFile::of_text(&plan.path, edited.as_str()), context.clone()) {
                Ok(_) => Ok(edited),
                Err(error) => Err(format!("with the entries it would not load: {}", error.message())),
            }
        });
        plan.change = match edited {
            Ok(edited) => ConfigChange::Added(edited),
            Err(reason) => ConfigChange::Refused { reason, missing: as_yaml(&insertions) },
        };
        Ok(plan)
    }

    /// Returns the file as it will be. `None` if it does not exist and nothing was found for it.
    pub(super) fn file(&self) -> Option<ConfigFile> {
        let text = match &self.change {
            ConfigChange::New(text) | ConfigChange::Added(text) => text,
            ConfigChange::None | ConfigChange::Refused { .. } => {
                std::str::from_utf8(self.before.as_deref()?).ok()?
            }
            ConfigChange::Nothing => return None,
        };
        Some(ConfigFile::of_text(&self.path, text))
    }

    /// Returns the new text of the file. `None` if nothing is to be written.
    pub(super) fn to_write(&self) -> Option<&str> {
        match &self.change {
            ConfigChange::New(text) | ConfigChange::Added(text) => Some(text),
            _ => None,
        }
    }

    /// Writes the file. A reader sees the old content or the new one.
    ///
    /// # Errors
    ///
    /// The file was changed meanwhile, or cannot be written. The old content is still there.
    pub(super) fn write(&self) -> Result<ConfigState, CommandError> {
        let failed = |error: &io::Error| {
            let explanation = match FileFault::of(error).explanation() {
                "" => String::new(),
                explanation => format!("; {explanation}"),
            };
            CommandError::failed(format_args!(
                "{} cannot be written: {error}{explanation}",
                self.path.display()
            ))
            .with_subject(self.path.display())
            .with_advice(
                "nothing was changed: `nexus setup --config FILE` writes another file, which `NEXUS_CONFIG` then names",
            )
        };
        let changed = || {
            CommandError::failed(format_args!("{} was changed meanwhile", self.path.display()))
                .with_advice("nothing was written: run `nexus setup` again")
        };
        match &self.change {
            ConfigChange::New(text) => match create_once(&self.path, text.as_bytes()) {
                Ok(true) => Ok(ConfigState::Written),
                Ok(false) => Err(changed()),
                Err(error) => Err(failed(&error)),
            },
            ConfigChange::Added(text) => {
                // A link stays a link: its target is replaced.
                let target = fs::canonicalize(&self.path).map_err(|error| failed(&error))?;
                if fs::read(&target).ok() != self.before {
                    return Err(changed());
                }
                let mode =
                    fs::metadata(&target).map_err(|error| failed(&error))?.permissions().mode() & 0o777;
                // The mode counts for root, too. A file of another user would get a new owner.
                if mode & 0o200 == 0 || rustix::fs::access(&target, rustix::fs::Access::WRITE_OK).is_err() {
                    let shown = target.display();
                    return Err(CommandError::failed(format_args!("{shown} is read-only"))
                        .with_subject(shown)
                        .with_advice(
                            "nothing was changed: make the file writable, or `nexus setup --config FILE` writes another file, which `NEXUS_CONFIG` then names",
                        ));
                }
                replace(&target, text.as_bytes())
                    .and_then(|()| fs::set_permissions(&target, fs::Permissions::from_mode(mode)))
                    .map_err(|error| failed(&error))?;
                Ok(ConfigState::Changed)
            }
            ConfigChange::None => Ok(ConfigState::Unchanged),
            ConfigChange::Refused { .. } => Ok(ConfigState::Refused),
            ConfigChange::Nothing => Ok(ConfigState::Nothing),
        }
    }

    /// Returns the entries that a configuration lacks.
    fn missing(
        &mut self,
        value: &Value,
        router: &Router,
        detected: Option<&DetectedConfig>,
    ) -> Vec<Insertion> {
        let has = |section: &str, key: &str| value[section].get(key).is_some();
        let mut groups: Vec<(String, Option<String>)> = Vec::new();
        for (name, members) in value["groups"].as_object().into_iter().flatten() {
            let first = members.as_array().and_then(|members| members.first()?.as_str());
            let vendor = first.and_then(|first| router.vendor(&BackendId::new(first)));
            groups.push((name.clone(), vendor.map(|vendor| vendor.as_str().to_owned())));
        }
        let mut insertions = Vec::new();
        let mut new_groups: BTreeMap<String, Vec<&DetectedEntry>> = BTreeMap::new();
        for entry in detected.into_iter().flat_map(DetectedConfig::entries) {
            if is_configured(entry, value, router) {
                continue;
            }
            let name = &entry.backend.name;
            if entry.backend.payment == Payment::Metered && !router.backends().is_empty() {
                self.left_out
                    .push(format!("{name} ({}): it is paid for each call", printable(&entry.backend.found)));
                continue;
            }
            insertions.push(Insertion { section: "backends", key: name.clone(), text: entry.text.clone() });
            // A chain of the person is not changed, so the backend gets a group of its own.
            let group = [&entry.group, name].into_iter().find(|group| !has("groups", group));
            match group {
                Some(group) => new_groups.entry(group.clone()).or_default().push(entry),
                None => self.left_out.push(format!("{name}: the groups {} and {name} exist", entry.group)),
            }
        }
        for (group, entries) in &new_groups {
            let members: Vec<_> = entries.iter().map(|entry| entry.backend.name.as_str()).collect();
            let text = format!("  {group}: [{}]\n", members.join(", "));
            insertions.push(Insertion { section: "groups", key: group.clone(), text });
            groups.push((group.clone(), entries.first().map(|entry| entry.vendor.clone())));
        }
        let main = main_group(router).or_else(|| groups.first().map(|(name, _)| name.clone()));
        let Some(main) = main else { return insertions };
        let mut types = DetectedConfig::types_on(&main);
        types.extend(DetectedConfig::types_of_panel(PANEL));
        types.retain(|(name, _)| !has("types", name));
        if types.iter().any(|(_, line)| line.contains("panel:")) && !has("panels", PANEL) {
            let mut vendors = BTreeSet::new();
            let seats = groups.iter().filter(|(_, vendor)| vendors.insert(vendor.clone()));
            let text = DetectedConfig::panel_of(PANEL, seats.map(|(group, _)| group.as_str()));
            insertions.push(Insertion { section: "panels", key: PANEL.to_owned(), text });
        }
        insertions.extend(types.into_iter().map(|(name, text)| Insertion {
            section: "types",
            key: name.to_owned(),
            text,
        }));
        insertions
    }
}

/// Returns true if the configuration has the backend, under any name.
fn is_configured(entry: &DetectedEntry, value: &Value, router: &Router) -> bool {
    let backend = &entry.backend;
    if router.backends().contains_key(&BackendId::new(backend.name.as_str())) {
        return true;
    }
    let is_same = |(name, settings): (&String, &Value)| {
        let kind = settings["kind"].as_str().unwrap_or(name);
        // The address tells servers apart, and the agent tells agents apart.
        let differs = ["base_url", "agent"].iter().any(|key| {
            settings.get(key).and_then(Value::as_str).map(normal)
                != backend.settings.get(*key).and_then(Value::as_str).map(normal)
        });
        name == &backend.name || kind == backend.kind && (kind.ends_with("-cli") || !differs)
    };
    value["backends"].as_object().into_iter().flatten().any(is_same)
}

/// Returns an address in the form in which detection writes it.
fn normal(address: &str) -> String {
    address.trim_end_matches('/').replace("//localhost:", "//127.0.0.1:")
}

/// Returns the group of the executor, else that of the first type with a group.
fn main_group(router: &Router) -> Option<String> {
    let kinds = ["executor".to_owned()].into_iter().chain(router.kinds());
    kinds.filter_map(|kind| router.explain(kind.as_str()).ok()).find_map(|explained| match explained.target {
        ExplainedTarget::Chain(chain) if !chain.group.is_empty() => Some(chain.group),
        _ => None,
    })
}

/// Formats entries as YAML, for a person who adds them by hand.
fn as_yaml(insertions: &[Insertion]) -> String {
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    for insertion in insertions {
        sections.entry(insertion.section).or_default().push_str(&insertion.text);
    }
    sections.into_iter().map(|(section, lines)| format!("{section}:\n{lines}")).collect()
}

/// Returns the absolute path of the file that `nexus setup` writes: the named one, else that of the home.
pub(super) fn target(named: Option<&Path>, context: &BuildContext) -> PathBuf {
    let path = named.map_or_else(|| context.home.join(crate::config_use::FILE), Path::to_owned);
    absolute(&path).unwrap_or(path)
}
