//! The fifteen tools.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use nexus_mcp::{CallAnswer, CallContext, ClientRoots, JsonObject, ServedTool, ServiceInfo, ToolService};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::OnceCell;

use super::{
    descriptions::{self as described, Description, INSTRUCTIONS},
    schema,
};
use crate::{
    service::{
        AgentList, AgentListRequest, AgentRegisterRequest, AgentRemoveRequest, AgentView, TaskArtifact,
        TaskArtifactRequest, TaskCancelRequest, TaskCreateRequest, TaskCreated, TaskFramed, TaskListRequest,
        TaskLogPage, TaskLogRequest, TaskOrchestrateRequest, TaskPage, TaskReopenRequest, TaskReport,
        TaskResult, TaskResultRequest, TaskRunTurnRequest, TaskStatusRequest, TaskTurnReport, Tasks,
        TierList, TierListRequest, TierRegisterRequest, TierView,
    },
    task_error::{TaskError, TaskErrorKind},
};

/// How often it is looked whether something runs for a task whose progress is to be told.
const PROGRESS_PAUSE: Duration = Duration::from_millis(200);

/// Opens the tasks: loads the configuration. It is called at the first call of a tool, and again at the next if it fails; it may
/// block.
pub type OpenTasks = dyn Fn() -> Result<Tasks, TaskError> + Send + Sync;

/// The tools that a caller's agent drives tasks by.
///
/// The tasks are opened at the first call: what is listed depends on no configuration, git or file.
pub struct TaskTools {
    open: Arc<OpenTasks>,
    tasks: OnceCell<Tasks>,
    is_stopping: AtomicBool,
}

impl fmt::Debug for TaskTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskTools").field("is_open", &self.tasks.initialized()).finish_non_exhaustive()
    }
}

impl TaskTools {
    /// The tools over tasks that `open` opens.
    pub fn new(open: impl Fn() -> Result<Tasks, TaskError> + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open), tasks: OnceCell::new(), is_stopping: AtomicBool::new(false) }
    }

    async fn tasks(&self) -> Result<Tasks, TaskError> {
        let opening = || async {
            let open = Arc::clone(&self.open);
            tokio::task::spawn_blocking(move || open()).await.unwrap_or_else(|error| {
                let message = format!("the configuration could not be loaded: {error}");
                Err(TaskError::new(
                    TaskErrorKind::Failed,
                    message,
                    "make the same call again, and report this",
                ))
            })
        };
        let tasks = self.tasks.get_or_try_init(opening).await?;
        if self.is_stopping.load(Ordering::SeqCst) {
            let instead = "start it again, then make the same call again: tasks are where they were";
            return Err(TaskError::new(TaskErrorKind::Interrupted, "the server ends", instead));
        }
        Ok(tasks.clone())
    }

    /// A call that answers soon, and goes on to its end.
    async fn plain<Q, A, F>(
        &self,
        tool: &str,
        arguments: JsonObject,
        call: impl FnOnce(Tasks, Q) -> F,
    ) -> CallAnswer
    where
        Q: JsonSchema + DeserializeOwned,
        A: Serialize,
        F: Future<Output = Result<A, TaskError>>,
    {
        let request = match schema::read::<Q>(tool, arguments) {
            Ok(request) => request,
            Err(problem) => return CallAnswer::error(problem),
        };
        match self.tasks().await {
            Ok(tasks) => answer(call(tasks, request).await),
            Err(error) => answer::<A>(Err(error)),
        }
    }

    /// A call that waits for something that goes on without it. It stops waiting when its client does; a client that fetches the
    /// answer later has all the time.
    async fn waiting<Q, A, F>(
        &self,
        tool: &str,
        arguments: JsonObject,
        context: &CallContext,
        call: impl Fn(Tasks, Q) -> F,
    ) -> CallAnswer
    where
        Q: JsonSchema + DeserializeOwned + OfTask + Clone,
        A: Serialize + Waits,
        F: Future<Output = Result<A, TaskError>>,
    {
        let request = match schema::read::<Q>(tool, arguments) {
            Ok(request) => request,
            Err(problem) => return CallAnswer::error(problem),
        };
        let tasks = match self.tasks().await {
            Ok(tasks) => tasks,
            Err(error) => return answer::<A>(Err(error)),
        };
        let answered = async {
            loop {
                let answered = call(tasks.clone(), request.clone()).await;
                if !(context.is_deferred() && answered.as_ref().is_ok_and(Waits::is_running)) {
                    return answer(answered);
                }
            }
        };
        tokio::select! {
            biased;
            answered = answered => answered,
            never = tell_progress(&tasks, request.task_id(), context) => match never {},
            () = context.cancelled().cancelled() => {
                CallAnswer::error(format!("{tool} waits no longer; what runs is not stopped by that. Make the same call again"))
            }
        }
    }

    async fn create(&self, arguments: JsonObject, context: &CallContext) -> CallAnswer {
        let tool = described::TASK_CREATE.name;
        if let Err(problem) = schema::read::<TaskCreateRequest>(tool, arguments.clone()) {
            return CallAnswer::error(problem);
        }
        // Before anything is made: the call may be sent again with them.
        let roots: Vec<PathBuf> = match context.roots().await {
            ClientRoots::Named(roots) => roots,
            _ => Vec::new(),
        };
        self.plain(tool, arguments, |tasks, request| async move { tasks.create_below(request, &roots).await })
            .await
    }
}

#[async_trait]
impl ToolService for TaskTools {
    fn info(&self) -> ServiceInfo {
        ServiceInfo::new("nexus-spawn", env!("CARGO_PKG_VERSION"), INSTRUCTIONS)
    }

    fn tools(&self) -> Vec<ServedTool> {
        vec![
            tool::<TaskCreateRequest, TaskCreated>(&described::TASK_CREATE),
            tool::<TaskOrchestrateRequest, TaskFramed>(&described::TASK_ORCHESTRATE),
            tool::<TaskRunTurnRequest, TaskTurnReport>(&described::TASK_RUN_TURN),
            tool::<TaskStatusRequest, TaskReport>(&described::TASK_STATUS),
            tool::<TaskResultRequest, TaskResult>(&described::TASK_RESULT),
            tool::<TaskLogRequest, TaskLogPage>(&described::TASK_LOG),
            tool::<TaskListRequest, TaskPage>(&described::TASK_LIST),
            tool::<TaskArtifactRequest, TaskArtifact>(&described::TASK_ARTIFACT),
            tool::<TaskCancelRequest, TaskReport>(&described::TASK_CANCEL),
            tool::<TaskReopenRequest, TaskReport>(&described::TASK_REOPEN),
            tool::<TierRegisterRequest, TierView>(&described::TIER_REGISTER),
            tool::<TierListRequest, TierList>(&described::TIER_LIST),
            tool::<AgentRegisterRequest, AgentView>(&described::AGENT_REGISTER),
            tool::<AgentListRequest, AgentList>(&described::AGENT_LIST),
            tool::<AgentRemoveRequest, AgentList>(&described::AGENT_REMOVE),
        ]
    }

    async fn call(&self, name: &str, arguments: JsonObject, context: CallContext) -> CallAnswer {
        match name {
            "task_create" => self.create(arguments, &context).await,
            "task_orchestrate" => {
                let call = |tasks: Tasks, request| async move { tasks.orchestrate(request).await };
                self.waiting(name, arguments, &context, call).await
            }
            "task_run_turn" => {
                let call = |tasks: Tasks, request| async move { tasks.run_turn(request).await };
                self.waiting(name, arguments, &context, call).await
            }
            "task_status" => {
                let call = |tasks: Tasks, request| async move { tasks.status(request).await };
                self.waiting(name, arguments, &context, call).await
            }
            "task_result" => {
                self.plain(name, arguments, |tasks, request| async move { tasks.result(request).await }).await
            }
            "task_log" => {
                self.plain(name, arguments, |tasks, request| async move { tasks.log(request).await }).await
            }
            "task_list" => {
                self.plain(name, arguments, |tasks, request| async move { tasks.list(request).await }).await
            }
            "task_artifact" => {
                self.plain(name, arguments, |tasks, request| async move { tasks.artifact(request).await })
                    .await
            }
            "task_cancel" => {
                self.plain(name, arguments, |tasks, request| async move { tasks.cancel(request).await }).await
            }
            "task_reopen" => {
                self.plain(name, arguments, |tasks, request| async move { tasks.reopen(request).await }).await
            }
            "tier_register" => {
                self.plain(
                    name,
                    arguments,
                    |tasks, request| async move { tasks.tier_register(request).await },
                )
                .await
            }
            "tier_list" => {
                self.plain(name, arguments, |tasks, request| async move { tasks.tier_list(request).await })
                    .await
            }
            "agent_register" => {
                self.plain(
                    name,
                    arguments,
                    |tasks, request| async move { tasks.agent_register(request).await },
                )
                .await
            }
            "agent_list" => {
                self.plain(name, arguments, |tasks, request| async move { tasks.agent_list(request).await })
                    .await
            }
            "agent_remove" => {
                self.plain(name, arguments, |tasks, request| async move { tasks.agent_remove(request).await })
                    .await
            }
            other => CallAnswer::error(format!("there is no tool {other}: list the tools again")),
        }
    }

    async fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        if let Some(tasks) = self.tasks.get() {
            tasks.shutdown().await;
        }
    }
}

fn tool<Q, A>(description: &Description) -> ServedTool
where
    Q: JsonSchema + DeserializeOwned,
    A: JsonSchema + Serialize,
{
    let tool = ServedTool::new(description.name, description.text, schema::of_arguments::<Q>())
        .with_title(description.title)
        .with_output_schema(schema::of_answer::<A>())
        .with_kind(description.kind);
    if description.may_take_long { tool.long() } else { tool }
}

fn answer<A: Serialize>(answered: Result<A, TaskError>) -> CallAnswer {
    match answered {
        Ok(answer) => CallAnswer::of(&answer),
        Err(error) => CallAnswer::error(error.to_string()),
    }
}

/// Passes on what is said of a task for as long as it is polled.
async fn tell_progress(tasks: &Tasks, task_id: &str, context: &CallContext) -> Infallible {
    loop {
        let Some(mut lines) = tasks.progress(task_id) else {
            tokio::time::sleep(PROGRESS_PAUSE).await;
            continue;
        };
        loop {
            let line = lines.borrow_and_update().clone();
            if !line.is_empty() {
                context.progress().say(line);
            }
            if lines.changed().await.is_err() {
                break;
            }
        }
        tokio::time::sleep(PROGRESS_PAUSE).await;
    }
}

/// A request that names its task.
trait OfTask {
    fn task_id(&self) -> &str;
}

/// An answer that says whether what it tells of still runs.
trait Waits {
    fn is_running(&self) -> bool;
}

impl OfTask for TaskOrchestrateRequest {
    fn task_id(&self) -> &str {
        &self.task_id
    }
}

impl OfTask for TaskRunTurnRequest {
    fn task_id(&self) -> &str {
        &self.task_id
    }
}

impl OfTask for TaskStatusRequest {
    fn task_id(&self) -> &str {
        &self.task_id
    }
}

impl Waits for TaskFramed {
    fn is_running(&self) -> bool {
        self.running
    }
}

impl Waits for TaskTurnReport {
    fn is_running(&self) -> bool {
        self.running
    }
}

impl Waits for TaskReport {
    fn is_running(&self) -> bool {
        self.running
    }
}
