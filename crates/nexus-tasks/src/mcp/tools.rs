//! The fifteen tools.

use std::path::PathBuf;

use async_trait::async_trait;
use nexus_mcp::{
    CallAnswer, CallContext, ClientRoots, JsonObject, OnFirstCall, ServedTool, ServiceInfo, ToolService,
    schema,
};

use super::descriptions::{self as described, INSTRUCTIONS};
use crate::{
    service::{
        AgentList, AgentListRequest, AgentRegisterRequest, AgentRemoveRequest, AgentView, TaskArtifact,
        TaskArtifactRequest, TaskCancelRequest, TaskCreateRequest, TaskCreated, TaskFramed, TaskListRequest,
        TaskLogPage, TaskLogRequest, TaskOrchestrateRequest, TaskPage, TaskReopenRequest, TaskReport,
        TaskResult, TaskResultRequest, TaskRunTurnRequest, TaskStatusRequest, TaskTurnReport, Tasks,
        TierList, TierListRequest, TierRegisterRequest, TierView,
    },
    task_error::TaskError,
};

/// The tools with which a caller's agent drives tasks.
///
/// The tasks are opened at the first call, so the list of tools depends on no configuration, git or file.
#[derive(Debug)]
pub struct TaskTools {
    tasks: OnFirstCall<Tasks>,
}

impl TaskTools {
    /// Creates the tools over tasks that `open` opens by loading the configuration. The first call of a tool calls `open`; after a failure
    /// the next call tries again. It may block.
    pub fn new(open: impl Fn() -> Result<Tasks, TaskError> + Send + Sync + 'static) -> Self {
        Self { tasks: OnFirstCall::new(open) }
    }

    async fn create(&self, arguments: JsonObject, context: &CallContext) -> CallAnswer {
        let tool = described::TASK_CREATE.name;
        // Check the arguments first, so that an invalid call does not ask the client for its roots.
        if let Err(problem) = schema::read::<TaskCreateRequest>(tool, arguments.clone()) {
            return CallAnswer::error(problem);
        }
        // Ask for the roots before anything is created: the client may send the call again with them.
        let roots: Vec<PathBuf> = match context.roots().await {
            ClientRoots::Named(roots) => roots,
            _ => Vec::new(),
        };
        self.tasks
            .answer(tool, arguments, |tasks: Tasks, request| async move {
                tasks.create_below(request, &roots).await
            })
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
            described::TASK_CREATE.served::<TaskCreateRequest, TaskCreated>(),
            described::TASK_ORCHESTRATE.served::<TaskOrchestrateRequest, TaskFramed>(),
            described::TASK_RUN_TURN.served::<TaskRunTurnRequest, TaskTurnReport>(),
            described::TASK_STATUS.served::<TaskStatusRequest, TaskReport>(),
            described::TASK_RESULT.served::<TaskResultRequest, TaskResult>(),
            described::TASK_LOG.served::<TaskLogRequest, TaskLogPage>(),
            described::TASK_LIST.served::<TaskListRequest, TaskPage>(),
            described::TASK_ARTIFACT.served::<TaskArtifactRequest, TaskArtifact>(),
            described::TASK_CANCEL.served::<TaskCancelRequest, TaskReport>(),
            described::TASK_REOPEN.served::<TaskReopenRequest, TaskReport>(),
            described::TIER_REGISTER.served::<TierRegisterRequest, TierView>(),
            described::TIER_LIST.served::<TierListRequest, TierList>(),
            described::AGENT_REGISTER.served::<AgentRegisterRequest, AgentView>(),
            described::AGENT_LIST.served::<AgentListRequest, AgentList>(),
            described::AGENT_REMOVE.served::<AgentRemoveRequest, AgentList>(),
        ]
    }

    async fn call(&self, name: &str, arguments: JsonObject, context: CallContext) -> CallAnswer {
        match name {
            "task_create" => self.create(arguments, &context).await,
            "task_orchestrate" => {
                let call = |tasks: Tasks, request| async move { tasks.orchestrate(request).await };
                let progress =
                    |tasks: &Tasks, request: &TaskOrchestrateRequest| tasks.progress(&request.task_id);
                let running = |answer: &TaskFramed| answer.running;
                self.tasks.answer_waiting(name, arguments, &context, progress, running, call).await
            }
            "task_run_turn" => {
                let call = |tasks: Tasks, request| async move { tasks.run_turn(request).await };
                let progress = |tasks: &Tasks, request: &TaskRunTurnRequest| tasks.progress(&request.task_id);
                let running = |answer: &TaskTurnReport| answer.running;
                self.tasks.answer_waiting(name, arguments, &context, progress, running, call).await
            }
            "task_status" => {
                let call = |tasks: Tasks, request| async move { tasks.status(request).await };
                let progress = |tasks: &Tasks, request: &TaskStatusRequest| tasks.progress(&request.task_id);
                let running = |answer: &TaskReport| answer.running;
                self.tasks.answer_waiting(name, arguments, &context, progress, running, call).await
            }
            "task_result" => {
                self.tasks
                    .answer(name, arguments, |tasks, request| async move { tasks.result(request).await })
                    .await
            }
            "task_log" => {
                self.tasks
                    .answer(name, arguments, |tasks, request| async move { tasks.log(request).await })
                    .await
            }
            "task_list" => {
                self.tasks
                    .answer(name, arguments, |tasks, request| async move { tasks.list(request).await })
                    .await
            }
            "task_artifact" => {
                self.tasks
                    .answer(name, arguments, |tasks, request| async move { tasks.artifact(request).await })
                    .await
            }
            "task_cancel" => {
                self.tasks
                    .answer(name, arguments, |tasks, request| async move { tasks.cancel(request).await })
                    .await
            }
            "task_reopen" => {
                self.tasks
                    .answer(name, arguments, |tasks, request| async move { tasks.reopen(request).await })
                    .await
            }
            "tier_register" => {
                self.tasks
                    .answer(
                        name,
                        arguments,
                        |tasks, request| async move { tasks.tier_register(request).await },
                    )
                    .await
            }
            "tier_list" => {
                self.tasks
                    .answer(name, arguments, |tasks, request| async move { tasks.tier_list(request).await })
                    .await
            }
            "agent_register" => {
                self.tasks
                    .answer(
                        name,
                        arguments,
                        |tasks, request| async move { tasks.agent_register(request).await },
                    )
                    .await
            }
            "agent_list" => {
                self.tasks
                    .answer(name, arguments, |tasks, request| async move { tasks.agent_list(request).await })
                    .await
            }
            "agent_remove" => {
                self.tasks
                    .answer(
                        name,
                        arguments,
                        |tasks, request| async move { tasks.agent_remove(request).await },
                    )
                    .await
            }
            other => CallAnswer::error(format!("unknown tool {other}: list the tools again")),
        }
    }

    async fn stop(&self) {
        if let Some(tasks) = self.tasks.stop() {
            tasks.shutdown().await;
        }
    }
}
