//! Calls whose answers are fetched later: the protocol tasks of the extension `io.modelcontextprotocol/tasks`.
//!
//! Source: SEP-2663, with the types of `rmcp`. A task is a running call and later its answer, in memory only. The service stores
//! the results of the call's work.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use nexus_core::CancelToken;
use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorData, GetTaskResult, Task, TaskAckResult, TaskPayload, TaskStatus,
};
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use super::service::JsonObject;

/// Time that a call and its answer are stored, from the start of the call. Source: our own choice, longer than a client runs.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of stored calls. Source: our own bound.
const MAX_KEPT: usize = 256;
/// Recommended pause between two polls of a client. Source: an observed client follows this value.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The calls whose answers are fetched later.
#[derive(Debug, Default)]
pub(crate) struct DeferredCalls(Mutex<HashMap<String, Deferred>>);

#[derive(Debug)]
struct Deferred {
    began: SystemTime,
    changed: SystemTime,
    state: DeferredState,
    waiting: CancelToken,
    lines: watch::Receiver<String>,
}

#[derive(Debug)]
enum DeferredState {
    Working,
    Done(JsonObject),
    Cancelled,
}

impl DeferredCalls {
    /// Stores a call whose answer the client fetches later. Returns its id and the message for the client. Returns `None` if too
    /// many calls are stored; the call is then answered directly.
    pub(crate) fn begin(
        &self,
        waiting: CancelToken,
        lines: watch::Receiver<String>,
    ) -> Option<(String, CreateTaskResult)> {
        let now = SystemTime::now();
        let mut calls = self.lock();
        // Expired calls are removed only here. They use memory until then, but need no timer.
        calls.retain(|_, call| now.duration_since(call.began).unwrap_or_default() < KEPT);
        if calls.len() >= MAX_KEPT {
            let ended = calls.iter().filter(|(_, call)| !matches!(call.state, DeferredState::Working));
            let oldest = ended.min_by_key(|(_, call)| call.changed).map(|(id, _)| id.clone())?;
            calls.remove(&oldest);
        }
        let id = Uuid::new_v4().to_string();
        let call = Deferred { began: now, changed: now, state: DeferredState::Working, waiting, lines };
        let created = CreateTaskResult::new(call.task(&id));
        calls.insert(id.clone(), call);
        Some((id, created))
    }

    /// Stores the answer of a call: a `CallToolResult`.
    pub(crate) fn answered(&self, id: &str, result: JsonObject) {
        if let Some(call) = self.lock().get_mut(id)
            && matches!(call.state, DeferredState::Working)
        {
            call.state = DeferredState::Done(result);
            call.changed = SystemTime::now();
        }
    }

    /// Returns the answer to `tasks/get`.
    pub(crate) fn fetched(&self, params: &Value) -> Result<GetTaskResult, ErrorData> {
        self.with(params, |id, call| {
            let payload = match &call.state {
                DeferredState::Working => TaskPayload::Working,
                DeferredState::Done(result) => TaskPayload::Completed { result: result.clone() },
                DeferredState::Cancelled => TaskPayload::Cancelled,
            };
            GetTaskResult::new(DetailedTask::new(call.task(id), payload))
        })
    }

    /// Answers `tasks/cancel`: ends the wait for the call. The service decides if its work continues.
    pub(crate) fn cancelled(&self, params: &Value) -> Result<TaskAckResult, ErrorData> {
        self.with(params, |_, call| {
            if matches!(call.state, DeferredState::Working) {
                call.state = DeferredState::Cancelled;
                call.changed = SystemTime::now();
                call.waiting.cancel();
            }
            TaskAckResult::default()
        })
    }

    /// Answers `tasks/update`. A task of this server never requests input.
    pub(crate) fn updated(&self, params: &Value) -> Result<TaskAckResult, ErrorData> {
        self.with(params, |_, _| TaskAckResult::default())
    }

    fn with<T>(&self, params: &Value, act: impl FnOnce(&str, &mut Deferred) -> T) -> Result<T, ErrorData> {
        let id = params.get("taskId").and_then(Value::as_str);
        let id = id.ok_or_else(|| ErrorData::invalid_params("`taskId` is missing: a string", None))?;
        let mut calls = self.lock();
        let call = calls.get_mut(id).ok_or_else(|| {
            let problem = "no protocol task has this `taskId`: tasks are stored for a day, but not across a \
                           restart of the server. Call the tool again; it returns the state of its work";
            ErrorData::invalid_params(problem, None)
        })?;
        Ok(act(id, call))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Deferred>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deferred {
    fn task(&self, id: &str) -> Task {
        let status = match self.state {
            DeferredState::Working => TaskStatus::Working,
            DeferredState::Done(_) => TaskStatus::Completed,
            DeferredState::Cancelled => TaskStatus::Cancelled,
        };
        let time = nexus_files::rfc3339::millis;
        let task = Task::new(id, status, time(self.began), time(self.changed))
            .with_ttl_ms(millis(KEPT))
            .with_poll_interval_ms(millis(POLL_INTERVAL));
        let line = self.lines.borrow();
        if line.is_empty() { task } else { task.with_status_message(line.clone()) }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Shared by the calls and by the requests that fetch their answers.
pub(crate) type SharedDeferredCalls = Arc<DeferredCalls>;
