//! `TODO.md`: a list of a slice's tasks. It is written again whenever a task changes, and no program reads its state from
//! it.

use std::{fmt::Write as _, path::PathBuf};

use nexus_project::ProjectError;
use serde::Serialize;

use super::{
    document::{Artifact, heading_of},
    frontmatter::{TaskPlan, WorkStatus},
    id::{SliceId, SliceTaskId},
    kind::Kind,
    tree::Artifacts,
};

/// A task, as its plan defines it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskLine {
    /// The task.
    pub id: SliceTaskId,
    /// Progress of the task.
    pub status: WorkStatus,
    /// Name of the task.
    pub name: String,
}

impl WorkStatus {
    /// Returns the checkbox for a task of this status.
    pub fn checkbox(self) -> &'static str {
        match self {
            Self::Pending => "[ ]",
            Self::InProgress => "[~]",
            Self::Done => "[x]",
            Self::Skipped => "[-]",
            Self::Parked => "[!]",
        }
    }
}

/// Returns the text of `TODO.md`. It depends only on the tasks.
pub fn render(slice: SliceId, tasks: &[TaskLine]) -> String {
    let mut text = format!(
        "---\nschema_version: 1\nmilestone_id: {}\nslice_id: {slice}\ntotal: {}\n",
        slice.milestone,
        tasks.len()
    );
    for status in WorkStatus::ALL {
        let count = tasks.iter().filter(|task| task.status == *status).count();
        let _ = writeln!(text, "{}: {count}", status.as_str().replace('-', "_"));
    }
    let _ = write!(text, "---\n\n# Slice {slice}\n\n");
    if tasks.is_empty() {
        text.push_str("_No tasks yet._\n");
    }
    for TaskLine { id, status, name } in tasks {
        let _ = writeln!(text, "- {} **{id}** — {name}", status.checkbox());
    }
    text
}

impl Artifacts {
    /// Returns the tasks of a slice, by their plans.
    ///
    /// # Errors
    ///
    /// [`Damaged`](nexus_project::ProjectErrorKind::Damaged) for an unreadable plan, so that no task is left out. Errors of
    /// the file system.
    pub fn task_list(&self, slice: SliceId) -> Result<Vec<TaskLine>, ProjectError> {
        let ids = self.tasks(slice)?;
        ids.into_iter().map(|id| task_of(id, &self.task_plan(id)?.1)).collect()
    }

    /// Writes a slice's `TODO.md` again, and returns its path.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::task_list`]; [`Unknown`](nexus_project::ProjectErrorKind::Unknown) if the slice does
    /// not exist.
    pub fn write_todo(&self, slice: SliceId) -> Result<PathBuf, ProjectError> {
        let _lock = self.lock()?;
        if !self.slices(slice.milestone)?.contains(&slice) {
            let message = format!("the slice {slice} does not exist");
            return Err(ProjectError::unknown(
                message,
                format!("create one with `nexus artifact new slice {}`", slice.milestone),
            ));
        }
        self.write_todo_locked(slice)
    }

    pub(super) fn write_todo_locked(&self, slice: SliceId) -> Result<PathBuf, ProjectError> {
        let path = self.slice_file(slice, Kind::Todo);
        self.write(&path, &render(slice, &self.task_list(slice)?))?;
        Ok(path)
    }

    /// Changes the status of a task, and writes its slice's `TODO.md` again. Returns the earlier status.
    ///
    /// Changes only the status in the task's plan. If the process is killed between the two files, the TODO is outdated. The
    /// next change of a task in the slice, or [`Self::write_todo`], writes it again.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::task_list`], with nothing changed; [`Unknown`](nexus_project::ProjectErrorKind::Unknown) if the
    /// task does not exist.
    pub fn mark_task(&self, task: SliceTaskId, status: WorkStatus) -> Result<WorkStatus, ProjectError> {
        let _lock = self.lock()?;
        let (path, mut plan) = self.task_plan(task)?;
        let before = task_of(task, &plan)?.status;
        // Read all plans before any write: an unreadable plan fails the call without a change.
        let mut tasks = self.task_list(task.slice)?;
        for one in tasks.iter_mut().filter(|one| one.id == task) {
            one.status = status;
        }
        if before != status {
            plan.set_value("status", status.as_str())?;
            // Check that the changed plan can still be read, before it replaces the old one.
            task_of(task, &plan)?;
            // The plan is authoritative, so write it before the TODO that repeats it.
            self.write(&path, plan.text())?;
        }
        self.write(&self.slice_file(task.slice, Kind::Todo), &render(task.slice, &tasks))?;
        Ok(before)
    }

    fn task_plan(&self, task: SliceTaskId) -> Result<(PathBuf, Artifact), ProjectError> {
        let path = self.task_file(task, Kind::TaskPlan);
        let document = self.existing(&path, Kind::TaskPlan)?;
        Ok((path, document))
    }
}

fn task_of(id: SliceTaskId, plan: &Artifact) -> Result<TaskLine, ProjectError> {
    let read = plan.read::<TaskPlan>();
    let status =
        read.map_err(|error| ProjectError { message: format!("{id}: {}", error.message), ..error })?.status;
    Ok(TaskLine { id, status, name: name_of(plan) })
}

/// Returns a plan's first heading without the task's id in front.
fn name_of(plan: &Artifact) -> String {
    let mut lines = plan.prose_in(plan.body()).map(|range| &plan.text()[range]);
    let heading = lines.find_map(|line| heading_of(line).filter(|(level, _)| *level == 1));
    let name =
        heading.map_or("", |(_, words)| words.split_once(" — ").map_or(words, |(_, name)| name.trim()));
    if name.is_empty() { "(unnamed)".to_owned() } else { name.to_owned() }
}
