//! Admission of new tasks: checks of the configuration and of the caller's request.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use nexus_core::Effort;
use nexus_router::{ExplainedTarget, KindError, Router, WorkKind};
use nexus_trees::Project;
use nexus_work::{ResetWait, WorkspaceId, check_labels, check_text};

use super::{
    request::TaskCreateRequest,
    reviewing_vendors::{REVIEWER, check_vendors},
};
use crate::{
    checks::check_settings,
    settings::{SandboxKind, TaskSettings},
    store::{TaskData, TaskStore},
    task_error::{TaskError, TaskErrorKind},
};

/// Bounds of a request, in bytes and numbers. Source: our own.
const MOST_GOAL_BYTES: usize = 16 << 10;
const MOST_CONTEXT_BYTES: usize = 64 << 10;
const MOST_LABEL_BYTES: usize = 256;
/// Type of the agent that frames a goal, and its work-kind.
pub(super) const ORCHESTRATOR: &str = "orchestrator";
/// Work-kind of the agents that change files.
const EXECUTOR: &str = "executor";

/// Checks requests for new tasks. Clones check alike.
#[derive(Clone, Debug)]
pub(super) struct TaskAdmission {
    pub(super) router: Router,
    pub(super) store: TaskStore,
    /// Absolute paths of folders below which projects may lie.
    pub(super) roots: Vec<PathBuf>,
    /// Settings of a task whose creator sets none.
    pub(super) settings: TaskSettings,
}

impl TaskAdmission {
    /// Checks a request for a new task, and returns the data, parent and links of the task. Its project must lie below the configured roots
    /// or those of the client.
    pub(super) fn new_data(
        &self,
        request: TaskCreateRequest,
        client_roots: &[PathBuf],
    ) -> Result<(TaskData, Option<WorkspaceId>, BTreeSet<WorkspaceId>), TaskError> {
        check_text("goal", &request.goal, MOST_GOAL_BYTES)?;
        if let Some(context) = &request.context {
            check_text("context", context, MOST_CONTEXT_BYTES)?;
        }
        check_labels(&request.labels, MOST_LABEL_BYTES)?;
        let settings = self.settings_of(&request)?;
        let root = project_root(&request.project, &[self.roots.as_slice(), client_roots].concat())?;
        self.store.git()?;
        let project = Project::find(&root)?;
        check_settings(project.path(), &settings.sandbox).map_err(|error| {
            TaskError::invalid(error.to_string(), "correct it, then make the same call again")
        })?;
        let id = |field: &str, id: &str| {
            id.parse::<WorkspaceId>().map_err(|error| {
                TaskError::invalid(format!("`{field}`: {error}"), "call task_list to find the id")
            })
        };
        let parent = request.parent_workspace_id.as_deref().map(|parent| id("parent_workspace_id", parent));
        let links = request.linked_workspace_ids.iter().map(|link| id("linked_workspace_ids", link));
        let (parent, links) = (parent.transpose()?, links.collect::<Result<_, _>>()?);
        let mut data = TaskData::new(request.goal, project.path(), settings);
        data.context = request.context;
        data.include_uncommitted = request.include_uncommitted;
        Ok((data, parent, links))
    }

    /// Returns the settings of a task: those of the configuration, with the changes of its creator.
    fn settings_of(&self, request: &TaskCreateRequest) -> Result<TaskSettings, TaskError> {
        let mut settings = self.settings.clone();
        if let Some(command) = &request.test_command {
            settings.test_command = Some(command.clone());
        }
        if let Some(keep) = &request.keep {
            settings.sandbox.keep.clone_from(keep);
        }
        if let Some(setup) = &request.setup {
            settings.sandbox.setup.clone_from(setup);
        }
        if let Some(retries) = request.max_review_retries {
            settings.max_review_retries = retries;
        }
        if let Some(vendors) = request.min_vendors {
            settings.min_vendors = Some(vendors);
        }
        if let Some(seconds) = request.max_wait_seconds {
            settings.max_wait_seconds = ResetWait::of_seconds(seconds);
        }
        if let Some(budget) = request.budget {
            settings.budget = budget;
        }
        match settings.fault() {
            Some((path, reason)) => Err(TaskError::invalid(
                format!("`{}` {reason}", path.join(".")),
                "correct it, then make the same call again",
            )),
            None => Ok(settings),
        }
    }

    /// Checks that the reviewers have enough vendors for a step to advance. A configuration without reviewers passes: a command that runs
    /// no agent has none.
    pub(super) fn check_vendors(&self, asked: Option<usize>) -> Result<(), TaskError> {
        match self.router.explain(WorkKind::from(REVIEWER)) {
            Ok(explained) => check_vendors(&explained.target, asked),
            Err(_) => Ok(()),
        }
    }

    /// Checks that the configuration binds a backend to each part of the work. Returns warnings about weak bindings.
    pub(super) fn check_configuration(&self, request: &TaskCreateRequest) -> Result<Vec<String>, TaskError> {
        let mut warnings = Vec::new();
        for kind in [ORCHESTRATOR, EXECUTOR, REVIEWER] {
            let explained = self.router.explain(WorkKind::from(kind)).map_err(|error| {
                let message = match error {
                    KindError::Unknown(_) => format!("nexus.yaml does not bind the work-kind {kind:?}"),
                    error => format!("the work-kind {kind:?} cannot be used: {:?}", error.kind()),
                };
                let instead = format!(
                    "bind it in nexus.yaml: `types: {{ {kind}: … }}`; nexus.yaml.example shows all \
                        work-kinds"
                );
                TaskError::new(TaskErrorKind::NotConfigured, message, instead)
            })?;
            if kind == ORCHESTRATOR {
                continue;
            }
            if kind == REVIEWER {
                let asked = request.min_vendors.or(self.settings.min_vendors);
                check_vendors(&explained.target, asked)?;
            }
            let chains = match &explained.target {
                ExplainedTarget::Chain(chain) => vec![chain],
                ExplainedTarget::Panel { seats, .. } => seats.iter().map(|seat| &seat.chain).collect(),
                _ => Vec::new(),
            };
            // Any of the backends may run the turn, so the weakest counts.
            let lowest = chains.iter().filter_map(|chain| chain.effort).min();
            if let Some(effort) = lowest.filter(|effort| *effort < Effort::Max) {
                warnings.push(format!(
                    "{kind} runs with the effort {effort}, which is not the highest: a higher effort would \
                    find more mistakes"
                ));
            }
        }
        Ok(warnings)
    }

    /// Checks that tests and probes can run in the sandbox of the settings.
    pub(super) async fn check_sandbox(&self, settings: &TaskSettings) -> Result<(), TaskError> {
        if settings.sandbox.kind == SandboxKind::None {
            return Ok(());
        }
        nexus_process::sandbox::Sandbox::new().check().await.map_err(|error| {
            let instead = "install it, or write `tasks: { defaults: { sandbox: { kind: none } } }` into \
                           nexus.yaml: then tests run with all permissions of this user";
            TaskError::new(TaskErrorKind::MissingProgram, error.to_string(), instead)
        })
    }
}

/// Returns the canonical path of a project, which must lie below one of `roots`.
fn project_root(project: &Path, roots: &[PathBuf]) -> Result<PathBuf, TaskError> {
    if !project.is_absolute() {
        return Err(TaskError::invalid(
            format!("the project {project:?} is not an absolute path"),
            "name it by its absolute path",
        ));
    }
    let found = project.canonicalize().map_err(|error| {
        let message = format!("the project {project:?} cannot be opened: {error}");
        TaskError::new(TaskErrorKind::NotAProject, message, "name the path of an existing folder")
    })?;
    // The status file stores the path as JSON text, which must be UTF-8.
    if found.to_str().is_none() {
        let message = format!("the path of the project {project:?} is not UTF-8");
        return Err(TaskError::new(TaskErrorKind::NotAProject, message, "rename a folder above it"));
    }
    // Both paths are canonical, so a link cannot lead out of a root.
    let is_below = |root: &PathBuf| root.canonicalize().is_ok_and(|root| found.starts_with(root));
    if roots.iter().any(is_below) {
        return Ok(found);
    }
    let message = match roots {
        [] => format!("the configuration names no folder for projects, so {project:?} is not allowed"),
        roots => format!("the project {project:?} is outside of {roots:?}, the allowed folders for projects"),
    };
    let instead = "name a project in them, or ask the person to add its folder to `tasks: { roots: [...] }` \
        in nexus.yaml";
    Err(TaskError::new(TaskErrorKind::OutsideRoots, message, instead))
}
