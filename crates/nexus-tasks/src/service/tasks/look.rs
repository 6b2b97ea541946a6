//! Calls that read tasks.

use nexus_core::harness::try_blocking;
use nexus_mcp::page::{MOST_BYTES, cut, cut_list, fitted, json_bytes, page, text_page};
use nexus_work::call_wait;
use tokio::time::Instant;

use super::{
    super::{
        answer::{LogEntryView, TaskArtifact, TaskLogPage, TaskPage, TaskReport},
        artifact::ArtifactName,
        inner::read,
        report::{ReportParts, row, time},
        request::{TaskArtifactRequest, TaskListRequest, TaskLogRequest, TaskStatusRequest},
    },
    Tasks,
};
use crate::{store::IndexedTasks, task_error::TaskError, task_state::TaskStatusWord};

impl Tasks {
    /// Returns the state of a task. Waits while a job runs for it.
    pub async fn status(&self, request: TaskStatusRequest) -> Result<TaskReport, TaskError> {
        self.0.sweep();
        let deadline = Instant::now() + call_wait(request.wait_s);
        let task = self.0.open(&request.task_id).await?;
        let progress = self.0.jobs.progress_at(&task, deadline).await?;
        let unrecovered = match progress {
            Some(_) => None,
            None => self.0.recover_if_free(&task).await.err(),
        };
        let parts = read(&task, ReportParts::read).await?;
        let mut report = parts.report(progress.as_deref());
        // The status can be reported even if recovery failed, as on a full disk.
        let warning = unrecovered.map(|error| cut(&error.to_string(), 300));
        report.warnings.splice(0..0, warning);
        Ok(report)
    }

    /// Returns the log of a task, the oldest event first.
    pub async fn log(&self, request: TaskLogRequest) -> Result<TaskLogPage, TaskError> {
        let task = self.0.open(&request.task_id).await?;
        read(&task, move |task| {
            let events = task.events()?.events;
            let views = events.into_iter().map(|event| LogEntryView {
                number: event.sequence,
                time: time(event.time),
                kind: event.kind,
                data: bounded(event.data),
            });
            let (events, next_offset) = page(views, request.offset, MOST_BYTES - 200);
            Ok(TaskLogPage { task_id: task.id().to_string(), events, next_offset })
        })
        .await
    }

    /// Returns tasks, the newest first.
    pub async fn list(&self, request: TaskListRequest) -> Result<TaskPage, TaskError> {
        self.0.sweep();
        if let Some(status) = request.status.as_deref().filter(|status| TaskStatusWord::of(status).is_none())
        {
            let message = format!("{:?} is not a status", cut(status, 100));
            return Err(TaskError::invalid(message, format!("write one of {}", TaskStatusWord::listed())));
        }
        let inner = self.0.handle();
        try_blocking(move || {
            let IndexedTasks { entries: tasks, unreadable } = inner.store.list_indexed()?;
            // The folder of the project may be gone. Tasks store the canonical path, so the given path may still
            // match.
            let project = request
                .project
                .as_deref()
                .map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
            let tasks = tasks.iter().rev().filter_map(|task| Some((task, task.details.as_ref()?)));
            let rows = tasks.filter(|(_, details)| {
                let fits = |(name, value): (&String, &String)| details.labels.get(name) == Some(value);
                request.status.as_deref().is_none_or(|status| details.status.as_str() == status)
                    && project.as_ref().is_none_or(|project| details.project == *project)
                    && request.labels.iter().all(fits)
            });
            let unreadable: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
            let unreadable = cut_list(unreadable.iter().map(String::as_str), 300);
            // The rows share the answer with the list of unreadable tasks.
            let room = MOST_BYTES - 200 - json_bytes(&unreadable);
            let (tasks, next_offset) =
                page(rows.map(|(task, details)| row(task, details)), request.offset, room);
            Ok(TaskPage { tasks, unreadable, next_offset })
        })
        .await
    }

    /// Returns a page of an artifact.
    pub async fn artifact(&self, request: TaskArtifactRequest) -> Result<TaskArtifact, TaskError> {
        let name: ArtifactName = request.artifact.parse()?;
        let task = self.0.open(&request.task_id).await?;
        let maps = self.0.maps.clone();
        read(&task, move |task| {
            let map = maps.read(&task.data()?.1.project)?;
            let text = name.text(task, map)?;
            let (shown, next_offset) = text_page(&text, request.offset, MOST_BYTES - 400);
            Ok(TaskArtifact {
                task_id: task.id().to_string(),
                artifact: name.to_string(),
                text: shown.to_owned(),
                bytes: text.len() as u64,
                next_offset,
            })
        })
        .await
    }
}

/// Returns the data of a log entry, with its texts cut to fit into a page.
fn bounded(data: serde_json::Value) -> serde_json::Value {
    if json_bytes(&data) <= MOST_BYTES / 3 {
        return data;
    }
    fn cut_all(value: &mut serde_json::Value, most: usize) {
        match value {
            serde_json::Value::String(text) => *text = cut(text, most),
            serde_json::Value::Array(values) => {
                values.truncate(32);
                values.iter_mut().for_each(|value| cut_all(value, most));
            }
            serde_json::Value::Object(fields) => fields.values_mut().for_each(|value| cut_all(value, most)),
            _ => {}
        }
    }
    fitted(|most| {
        let mut value = data.clone();
        cut_all(&mut value, most.min(2_000));
        value
    })
}
