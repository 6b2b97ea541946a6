//! Tasks: work to do, its order, and its agents.

use std::collections::BTreeSet;

use nexus_mcp::page::{MOST_BYTES, cut, fitted, page};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::argument::{MOST_NUMBERS, checked_files, checked_text, checked_title, numbers};
use crate::{
    error::ProjectError,
    folder::{ProjectFolder, new_id},
    role::resume,
    state::{OwnerReusePolicy, ProjectTask, ProjectTaskStatus, ProjectTasks},
    time::Time,
};

/// Arguments of `task_add`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskAddRequest {
    /// Work to do: one line.
    pub title: String,
    /// Knowledge that its agent needs.
    #[serde(default)]
    pub context: Option<String>,
    /// Approach to take.
    #[serde(default)]
    pub approach: Option<String>,
    /// Condition that shows that the task is done.
    #[serde(default)]
    pub acceptance: Option<String>,
    /// The role that does it.
    #[serde(default)]
    pub owner: Option<String>,
    /// The numbers of tasks that must be completed before it begins.
    #[serde(default)]
    pub dependencies: BTreeSet<u32>,
    /// The files that it is about, relative to the project.
    #[serde(default)]
    pub files: BTreeSet<String>,
    /// Rule for resuming the agent of an earlier task of this owner: fresh (never), resume_if_same_artifact (if
    /// it worked on the same files and no other agent has since), or resume. By default the role of the owner
    /// decides.
    #[serde(default)]
    pub owner_reuse_policy: Option<OwnerReusePolicy>,
}

/// Result of `task_add`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskAdded {
    /// The number of the task.
    pub id: u32,
    /// True if the task can begin.
    pub ready: bool,
}

/// Arguments of `task_list`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TasksRequest {
    /// The first task to show, counted from 0: `next_offset` of the page before.
    #[serde(default)]
    pub offset: Option<u64>,
}

/// Result of `task_list`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TasksView {
    /// True if the project has tasks.
    pub exists: bool,
    /// The numbers of the tasks that can begin: pending, with every dependency completed; the first 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Vec<u32>>,
    /// Number of all tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// Number of completed tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<usize>,
    /// The tasks of this page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<TaskView>>,
    /// Offset of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// A task. Long texts are cut, and say so.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskView {
    /// Its number.
    pub id: u32,
    /// Work to do.
    pub title: String,
    /// Its status.
    pub status: ProjectTaskStatus,
    /// Knowledge that its agent needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Approach to take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approach: Option<String>,
    /// Condition that shows that the task is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acceptance: Option<String>,
    /// The role that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The agent that did it, or does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The tasks that must be completed before it begins; the first 300.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub dependencies: BTreeSet<u32>,
}

impl TasksView {
    fn of(tasks: &ProjectTasks, shown: Vec<TaskView>, most_numbers: usize) -> Self {
        Self {
            exists: true,
            ready: Some(tasks.ready().map(|task| task.id).take(most_numbers).collect()),
            total: Some(tasks.tasks.len()),
            completed: Some(tasks.tasks.len() - tasks.open().count()),
            tasks: Some(shown),
            next_offset: None,
        }
    }
}

impl TaskView {
    fn of(task: &ProjectTask, most: usize) -> Self {
        let cut = |text: &Option<String>| text.as_deref().map(|text| cut(text, most));
        Self {
            id: task.id,
            title: task.title.clone(),
            status: task.status,
            context: cut(&task.context),
            approach: cut(&task.approach),
            acceptance: cut(&task.acceptance),
            owner: task.owner.clone(),
            agent: task.agent.clone(),
            dependencies: task.dependencies.iter().copied().take(MOST_NUMBERS).collect(),
        }
    }
}

/// Arguments of `task_update`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskUpdateRequest {
    /// The number of the task.
    pub task: u32,
    /// Its new status.
    pub status: ProjectTaskStatus,
    /// The agent that does it, by the name that the program has for it.
    #[serde(default)]
    pub agent: Option<String>,
    /// The files that were changed for it, relative to the project.
    #[serde(default)]
    pub files_touched: BTreeSet<String>,
}

/// Result of `task_update`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TaskUpdated {
    /// The number of the task.
    pub id: u32,
    /// Its new status.
    pub status: ProjectTaskStatus,
    /// Agent to resume, for a task that begins. Absent if a new agent does the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume_agent: Option<String>,
    /// The tasks that can begin now; the first 300.
    pub ready: Vec<u32>,
    /// Number of unfinished tasks.
    pub open: usize,
}

/// Arguments of `task_close`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskCloseRequest {
    /// Close although tasks are open.
    #[serde(default)]
    pub force: bool,
}

/// Result of `task_close`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TasksClosed {
    /// The cycle in the history.
    pub cycle: String,
    /// Topic of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Number of its decisions.
    pub decisions: usize,
    /// Number of its tasks.
    pub tasks: usize,
    /// The numbers of tasks that were not completed; the first 300.
    pub open: Vec<u32>,
}

impl ProjectFolder {
    /// Adds a task.
    ///
    /// # Errors
    ///
    /// [`ProjectError`]; nothing is changed then.
    pub fn task_add(&self, request: TaskAddRequest) -> Result<TaskAdded, ProjectError> {
        let title = checked_title("title", &request.title)?;
        let owner = request.owner.as_deref().map(|owner| checked_title("owner", owner)).transpose()?;
        let context = checked_text("context", request.context)?;
        let approach = checked_text("approach", request.approach)?;
        let acceptance = checked_text("acceptance", request.acceptance)?;
        let files = checked_files("files", request.files)?;
        self.locked(|| {
            let mut tasks = match self.tasks()? {
                Some(tasks) => tasks,
                None => ProjectTasks::new(new_id()?),
            };
            // The number of a task is its position, and no task is removed before the cycle ends.
            let id = u32::try_from(tasks.tasks.len()).unwrap_or(u32::MAX).saturating_add(1);
            for dependency in &request.dependencies {
                if *dependency == id {
                    let message = format!("task {id} would depend on itself");
                    return Err(ProjectError::invalid(message, "leave that dependency out"));
                }
                if tasks.task(*dependency).is_none() {
                    let known = numbers(tasks.tasks.iter().map(|task| task.id));
                    let instead = format!("first add that task; existing tasks: {known}");
                    return Err(ProjectError::unknown(format!("task {dependency} does not exist"), instead));
                }
            }
            tasks.tasks.push(ProjectTask {
                id,
                title,
                status: ProjectTaskStatus::Pending,
                context,
                approach,
                acceptance,
                owner,
                owner_reuse_policy: request.owner_reuse_policy,
                dependencies: request.dependencies,
                files,
                agent: None,
                files_touched: BTreeSet::new(),
                created_at: Time::now(),
                changed_at: None,
            });
            self.write_tasks(&tasks)?;
            Ok(TaskAdded { id, ready: tasks.ready().any(|task| task.id == id) })
        })
    }

    /// Returns a page of the tasks, with the ones that can begin.
    ///
    /// # Errors
    ///
    /// [`ProjectError`].
    pub fn task_list(&self, request: &TasksRequest) -> Result<TasksView, ProjectError> {
        let Some(tasks) = self.looked(|| self.tasks())? else { return Ok(TasksView::default()) };
        let offset = request.offset.unwrap_or_default();
        Ok(fitted(|most| {
            let views = tasks.tasks.iter().map(|task| TaskView::of(task, most));
            let (shown, next_offset) = page(views, offset, MOST_BYTES * 3 / 4);
            TasksView { next_offset, ..TasksView::of(&tasks, shown, MOST_NUMBERS) }
        }))
    }

    /// Returns all tasks with their full texts, without pages, for programs and people.
    ///
    /// # Errors
    ///
    /// [`ProjectError`].
    pub fn all_tasks(&self) -> Result<TasksView, ProjectError> {
        let tasks = self.looked(|| self.tasks())?;
        Ok(tasks.map_or_else(TasksView::default, |tasks| {
            let shown = tasks.tasks.iter().map(|task| TaskView::of(task, usize::MAX)).collect();
            TasksView::of(&tasks, shown, usize::MAX)
        }))
    }

    /// Changes the status of a task.
    ///
    /// # Errors
    ///
    /// [`ProjectError`]; nothing is changed then.
    pub fn task_update(&self, request: TaskUpdateRequest) -> Result<TaskUpdated, ProjectError> {
        let agent = request.agent.as_deref().map(|agent| checked_title("agent", agent)).transpose()?;
        let touched = checked_files("files_touched", request.files_touched)?;
        self.locked(|| {
            let mut tasks = self.tasks()?.ok_or_else(no_tasks)?;
            let Some(task) = tasks.task(request.task) else {
                let known = numbers(tasks.tasks.iter().map(|task| task.id));
                let message = format!("there is no task {}", request.task);
                return Err(ProjectError::unknown(message, format!("write one of these numbers: {known}")));
            };
            refuse_transition(&tasks, task, request.status)?;
            let begins = task.status != request.status && request.status == ProjectTaskStatus::InProgress;
            let resume_agent = if begins { resume::agent_for(&tasks, task) } else { None };
            if let Some(task) = tasks.tasks.iter_mut().find(|task| task.id == request.task) {
                if task.status != request.status {
                    task.changed_at = Some(Time::now());
                }
                task.status = request.status;
                if let Some(agent) = agent {
                    task.agent = Some(agent);
                }
                task.files_touched.extend(touched);
            }
            self.write_tasks(&tasks)?;
            Ok(TaskUpdated {
                id: request.task,
                status: request.status,
                resume_agent,
                ready: tasks.ready().map(|task| task.id).take(MOST_NUMBERS).collect(),
                open: tasks.open().count(),
            })
        })
    }

    /// Ends the cycle: moves plan, tasks and decisions to the history, all of them or nothing.
    ///
    /// # Errors
    ///
    /// [`ProjectError`]; nothing is changed then.
    pub fn task_close(&self, request: &TaskCloseRequest) -> Result<TasksClosed, ProjectError> {
        self.locked(|| {
            let (plan, tasks) = (self.plan()?, self.tasks()?);
            if plan.is_none() && tasks.is_none() {
                let message = "there is neither a plan nor a task to close";
                return Err(ProjectError::wrong_status(message, "first call one of plan_start and task_add"));
            }
            let mut open: Vec<_> = tasks.iter().flat_map(ProjectTasks::open).map(|task| task.id).collect();
            if !open.is_empty() && !request.force {
                let message = format!("tasks are open: {}", numbers(open.iter().copied()));
                let instead = "complete them with task_update, or close with `force`";
                return Err(ProjectError::wrong_status(message, instead));
            }
            let decisions =
                plan.iter().flat_map(|plan| &plan.issues).filter(|issue| issue.decision.is_some());
            let decisions = decisions.count();
            let topic = plan.as_ref().map(|plan| plan.topic.clone());
            let count = tasks.as_ref().map_or(0, |tasks| tasks.tasks.len());
            let cycle = self.archive(plan, tasks, None)?;
            open.truncate(MOST_NUMBERS);
            Ok(TasksClosed { cycle: cycle.id, topic, decisions, tasks: count, open })
        })
    }
}

fn no_tasks() -> ProjectError {
    ProjectError::wrong_status("there are no tasks", "first add a task with task_add")
}

/// Rejects a change of status that the order of the work does not allow, and names the possible ones.
fn refuse_transition(
    tasks: &ProjectTasks,
    task: &ProjectTask,
    to: ProjectTaskStatus,
) -> Result<(), ProjectError> {
    use ProjectTaskStatus::{Completed, InProgress, Pending};
    let possible = match task.status {
        Pending => {
            let missing: Vec<_> = tasks.missing_for(task).collect();
            if to == InProgress && !missing.is_empty() {
                let message = format!(
                    "task {} cannot start: it waits for {}",
                    task.id,
                    numbers(missing.iter().copied())
                );
                return Err(ProjectError::wrong_status(message, "complete those first"));
            }
            &[InProgress][..]
        }
        InProgress => &[Pending, Completed][..],
        Completed => {
            let begun = tasks
                .tasks
                .iter()
                .find(|other| other.status != Pending && other.dependencies.contains(&task.id));
            // The other task began because this one was complete, which a reopening would make untrue.
            if let (InProgress, Some(other)) = (to, begun) {
                let message = format!("task {} cannot be reopened: task {} depends on it", task.id, other.id);
                return Err(ProjectError::wrong_status(message, "add another task by calling task_add"));
            }
            &[InProgress][..]
        }
    };
    if to == task.status || possible.contains(&to) {
        return Ok(());
    }
    let message = format!("task {} is {}, and cannot become {}", task.id, task.status.as_str(), to.as_str());
    let words: Vec<_> = possible.iter().map(|status| status.as_str()).collect();
    Err(ProjectError::wrong_status(message, format!("it can become {}", words.join(" or "))))
}
