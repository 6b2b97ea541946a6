//! Bounds of a task that are not in its brief.

use std::path::PathBuf;

use nexus_core::{ConfigSection, SettingsError, scope::DEFAULT_REFUSED_SUBMISSIONS, settings_schema};
use nexus_router::Router;
use nexus_work::{MOST_REFUSED_SUBMISSIONS, ResetWait, WorkBudget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::task_state::StepEnd;

/// The section `tasks` of `nexus.yaml`.
///
/// ```
/// use std::sync::Arc;
/// use nexus_core::{BuildContext, Registry};
/// use nexus_router::Router;
/// use nexus_tasks::{TaskConfiguration, TasksSection};
///
/// let registry = Registry::new().with_section(Arc::new(TasksSection));
/// let context = BuildContext::in_home("home");
/// let configuration = serde_json::json!({
///     "tasks": { "roots": ["/home/me/src"], "defaults": { "test_command": ["cargo", "test"] } },
/// });
/// let router = Router::from_value(configuration, registry, context)?;
/// assert_eq!(TaskConfiguration::of(&router)?.roots, [std::path::Path::new("/home/me/src")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TaskConfiguration {
    /// Absolute paths of folders below which projects may lie. A task of any other project is rejected, unless the client itself names the
    /// folder as one of its roots.
    pub roots: Vec<PathBuf>,
    /// Settings of a task whose creator sets none.
    pub defaults: TaskSettings,
}

/// Reads and describes the section [`TaskConfiguration`]: for [`Registry::with_section`](nexus_core::Registry::with_section).
#[derive(Clone, Copy, Debug)]
pub struct TasksSection;

impl ConfigSection for TasksSection {
    fn name(&self) -> &'static str {
        "tasks"
    }

    fn schema(&self) -> Value {
        let mut schema = settings_schema::of::<TaskConfiguration>();
        schema["description"] = "Tasks: the allowed folders for projects, and the defaults of a task.".into();
        schema
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        TaskConfiguration::read(value).map(drop)
    }
}

impl TaskConfiguration {
    /// Reads the section of a router's configuration, or returns the defaults.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if the section is invalid; never for a router whose registry has [`TasksSection`].
    pub fn of(router: &Router) -> Result<Self, SettingsError> {
        router.section("tasks").map_or_else(|| Ok(Self::default()), |value| Self::read(&value))
    }

    fn read(value: &Value) -> Result<Self, SettingsError> {
        let read: Self = SettingsError::reading(value)?;
        // A YAML value that JSON has no number for, such as `.nan`, arrives as null. As a budget it would limit nothing.
        let no_number =
            |name: &str| value.pointer(&format!("/defaults/budget/{name}")).is_some_and(Value::is_null);
        let fault = read.defaults.fault().or_else(|| {
            let name = ["usd", "output_tokens"].into_iter().find(|name| no_number(name))?;
            Some((vec!["budget", name], "is not a number: write more than 0, or leave it out".to_owned()))
        });
        if let Some((path, reason)) = fault {
            let path = ["defaults"].into_iter().chain(path).map(str::to_owned).collect();
            return Err(SettingsError { path, reason });
        }
        match read.roots.iter().position(|root| !root.is_absolute()) {
            Some(index) => Err(SettingsError {
                path: vec!["roots".to_owned(), index.to_string()],
                reason: "is not an absolute path".to_owned(),
            }),
            None => Ok(read),
        }
    }
}

/// Bounds of a task that are not in its brief: its tests, the sandbox, and its budget.
///
/// They come from the configuration (`tasks:` of `nexus.yaml`) and from the caller that creates the task; never from an agent or from a
/// file of the project. A task keeps the settings that it was created with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TaskSettings {
    /// The program that runs the project's tests, and its arguments: `[cargo, test, --offline]`. No shell interprets it. Without it agents
    /// cannot run the tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_command: Option<Vec<String>>,
    /// Sandbox for tests and probes.
    pub sandbox: SandboxSettings,
    /// Maximum number of repetitions of a step that reviews may request before a person has to look. Default 2.
    pub max_review_retries: u32,
    /// Maximum number of rejected submissions of one agent before it counts as silent. Rejected are, for example, verdicts that break the schema or cite
    /// no evidence. Default 5, up to 50.
    pub max_refused_submissions: u32,
    /// Number of vendors whose votes an advance needs. Default: the setting of the reviewers' panel, 2 if the panel has none. Set 1 to
    /// accept the vote of a single vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_vendors: Option<usize>,
    /// Budget of all turns of the task together.
    pub budget: WorkBudget,
    /// Deadline of one agent's turn, in seconds. Default 1,800.
    pub turn_seconds: u64,
    /// Longest wait of one agent's turn, in seconds, if every backend that could run it refuses turns until a time, such as the reset of
    /// a plan. After that time the turn continues. 0 does not wait. Default 86,400, a day.
    #[serde(skip_serializing_if = "ResetWait::is_default")]
    pub max_wait_seconds: ResetWait,
}

/// Sandbox for the tests and probes of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSettings {
    /// Kind of isolation from the machine.
    pub kind: SandboxKind,
    /// Paths of the project that are not in git but that tests can read, such as `node_modules`, `.venv` or `vendor`. They are relative
    /// to its root.
    pub keep: Vec<String>,
    /// Folders of the project, relative to its root, that git ignores and that tests fill: `target`, `node_modules/.cache`. The tests of a
    /// reviewer begin on a clean tree. Of the outputs of earlier runs on the very same tree, including those of the agent under review,
    /// only these folders are there.
    pub caches: Vec<String>,
    /// Programs, each with its arguments, that prepare a tree before its first test or probe. Each runs once for each tree.
    pub setup: Vec<Vec<String>>,
    /// Folders of tool chains in addition to those of the system, such as `~/.cargo` and `~/.rustup`: shown read-only, at their own paths.
    pub tool_chains: Vec<PathBuf>,
    /// Longest run of the tests or of a probe, in seconds. Default 600.
    pub seconds: u64,
    /// Maximum memory of a run, in MiB. Default 4,096.
    pub memory_mib: u64,
    /// Maximum amount of data that one program may add to its copy of the project, in MiB; never more than half of the free disk space. Default 8,192.
    pub disk_mib: u64,
}

/// Isolation of tests and probes from the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    /// Bubblewrap: a separate root and no network. Of the machine, only the tree and the listed folders are visible.
    #[default]
    Bubblewrap,
    /// No isolation: they run as this user, with all its permissions, in a copy of the tree at another path.
    None,
}

/// Maximum number of retries of a step. Source: our own bound.
const MOST_RETRIES: u32 = 20;

impl TaskSettings {
    /// Returns the first fault of the settings: the keys that lead to it, and a description.
    pub(crate) fn fault(&self) -> Option<(Vec<&'static str>, String)> {
        let is_program = |command: &Vec<String>| {
            command.first().is_some_and(|program| !program.is_empty())
                && !command.iter().any(|part| part.contains('\0'))
        };
        if !self.test_command.as_ref().is_none_or(is_program) {
            let reason = "names no program: name a program and its arguments, or leave it out";
            return Some((vec!["test_command"], reason.to_owned()));
        }
        if self.max_review_retries > MOST_RETRIES {
            let reason = format!("is too large: name 0 to {MOST_RETRIES}");
            return Some((vec!["max_review_retries"], reason));
        }
        if !(1..=MOST_REFUSED_SUBMISSIONS).contains(&self.max_refused_submissions) {
            let reason = format!("is not a number from 1 to {MOST_REFUSED_SUBMISSIONS}");
            return Some((vec!["max_refused_submissions"], reason));
        }
        if self.min_vendors == Some(0) {
            let reason = "is 0: write 1 or more, because no step advances without a vote";
            return Some((vec!["min_vendors"], reason.to_owned()));
        }
        let name = self.budget.fault()?;
        Some((vec!["budget", name], "must be more than 0: write a larger number, or leave it out".to_owned()))
    }
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            test_command: None,
            sandbox: SandboxSettings::default(),
            max_review_retries: StepEnd::DEFAULT_MAX_RETRIES,
            max_refused_submissions: DEFAULT_REFUSED_SUBMISSIONS,
            min_vendors: None,
            budget: WorkBudget::default(),
            turn_seconds: 1_800,
            max_wait_seconds: ResetWait::default(),
        }
    }
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            kind: SandboxKind::default(),
            keep: Vec::new(),
            caches: Vec::new(),
            setup: Vec::new(),
            tool_chains: Vec::new(),
            seconds: 600,
            memory_mib: 4_096,
            disk_mib: 8_192,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_nothing_to_use_is_refused_where_it_stands() {
        let refused = |defaults: Value| {
            TasksSection.check(&serde_json::json!({ "defaults": defaults })).unwrap_err().path.join(".")
        };
        let budget = |value: Value| refused(serde_json::json!({ "budget": value }));
        for usd in [serde_json::json!(-1), serde_json::json!(0), serde_json::json!(-0.0), Value::Null] {
            assert_eq!(budget(serde_json::json!({ "usd": usd })), "defaults.budget.usd", "{usd}");
        }
        for tokens in [serde_json::json!(0), Value::Null] {
            let path = budget(serde_json::json!({ "output_tokens": tokens }));
            assert_eq!(path, "defaults.budget.output_tokens");
        }
        assert_eq!(refused(serde_json::json!({ "min_vendors": 0 })), "defaults.min_vendors");
        assert_eq!(refused(serde_json::json!({ "max_review_retries": 21 })), "defaults.max_review_retries");
        for number in [0, 51] {
            let path = refused(serde_json::json!({ "max_refused_submissions": number }));
            assert_eq!(path, "defaults.max_refused_submissions");
        }
        assert_eq!(refused(serde_json::json!({ "test_command": [] })), "defaults.test_command");
        let good = serde_json::json!({ "budget": { "usd": 0.5, "output_tokens": 1 } });
        assert_eq!(TasksSection.check(&serde_json::json!({ "defaults": good })), Ok(()));
    }
}
