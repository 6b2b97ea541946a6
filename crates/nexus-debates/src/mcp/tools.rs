//! The seven tools.

use std::path::PathBuf;

use async_trait::async_trait;
use nexus_mcp::{
    CallAnswer, CallContext, ClientRoots, JsonObject, OnFirstCall, ServedTool, ServiceInfo, ToolService,
    schema,
};

use super::descriptions::{self as described, INSTRUCTIONS};
use crate::{
    debate_error::DebateError,
    service::{
        DebateAdvanceRequest, DebateCancelRequest, DebateCreateRequest, DebateListRequest, DebatePage,
        DebateResult, DebateResultRequest, DebateSpawnTaskRequest, DebateStatusRequest, DebateTask,
        DebateView, Debates,
    },
};

/// The tools with which a caller's agent runs debates.
///
/// The first call opens the debates. The list of tools depends on no configuration and no file.
#[derive(Debug)]
pub struct DebateTools {
    debates: OnFirstCall<Debates>,
}

impl DebateTools {
    /// Creates the tools. `open` loads the configuration and opens the debates. It runs at the first call of a tool, and
    /// again at the next one if it fails; it may block.
    pub fn new(open: impl Fn() -> Result<Debates, DebateError> + Send + Sync + 'static) -> Self {
        Self { debates: OnFirstCall::new(open) }
    }

    /// Returns the folders that the client named. The server asks for them before it creates anything, because the client
    /// may repeat the call with them.
    async fn roots(context: &CallContext) -> Vec<PathBuf> {
        match context.roots().await {
            ClientRoots::Named(roots) => roots,
            _ => Vec::new(),
        }
    }
}

#[async_trait]
impl ToolService for DebateTools {
    fn info(&self) -> ServiceInfo {
        ServiceInfo::new("nexus-debate", env!("CARGO_PKG_VERSION"), INSTRUCTIONS)
    }

    fn tools(&self) -> Vec<ServedTool> {
        vec![
            described::DEBATE_CREATE.served::<DebateCreateRequest, DebateView>(),
            described::DEBATE_ADVANCE.served::<DebateAdvanceRequest, DebateView>(),
            described::DEBATE_STATUS.served::<DebateStatusRequest, DebateView>(),
            described::DEBATE_RESULT.served::<DebateResultRequest, DebateResult>(),
            described::DEBATE_LIST.served::<DebateListRequest, DebatePage>(),
            described::DEBATE_CANCEL.served::<DebateCancelRequest, DebateView>(),
            described::DEBATE_SPAWN_TASK.served::<DebateSpawnTaskRequest, DebateTask>(),
        ]
    }

    async fn call(&self, name: &str, arguments: JsonObject, context: CallContext) -> CallAnswer {
        let running = |view: &DebateView| view.running;
        match name {
            "debate_create" => {
                // Check the arguments first, so that an invalid call does not ask the client for its roots.
                if let Err(problem) = schema::read::<DebateCreateRequest>(name, arguments.clone()) {
                    return CallAnswer::error(problem);
                }
                let roots = Self::roots(&context).await;
                let call =
                    |debates: Debates, request| async move { debates.create_below(request, &roots).await };
                self.debates.answer(name, arguments, call).await
            }
            "debate_advance" => {
                let progress =
                    |debates: &Debates, request: &DebateAdvanceRequest| debates.progress(&request.debate_id);
                let call = |debates: Debates, request| async move { debates.advance(request).await };
                // Run one stage and not the whole debate: each stage has its own answer.
                self.debates.answer_waiting(name, arguments, &context, progress, running, call).await
            }
            "debate_status" => {
                let progress =
                    |debates: &Debates, request: &DebateStatusRequest| debates.progress(&request.debate_id);
                let call = |debates: Debates, request| async move { debates.status(request).await };
                self.debates.answer_waiting(name, arguments, &context, progress, running, call).await
            }
            "debate_result" => {
                let call = |debates: Debates, request| async move { debates.result(request).await };
                self.debates.answer(name, arguments, call).await
            }
            "debate_list" => {
                let call = |debates: Debates, request| async move { debates.list(request).await };
                self.debates.answer(name, arguments, call).await
            }
            "debate_cancel" => {
                let call = |debates: Debates, request| async move { debates.cancel(request).await };
                self.debates.answer(name, arguments, call).await
            }
            "debate_spawn_task" => {
                if let Err(problem) = schema::read::<DebateSpawnTaskRequest>(name, arguments.clone()) {
                    return CallAnswer::error(problem);
                }
                let roots = Self::roots(&context).await;
                let call =
                    |debates: Debates, request| async move { debates.spawn_task(request, &roots).await };
                self.debates.answer(name, arguments, call).await
            }
            other => CallAnswer::error(format!("there is no tool {other}: list the tools again")),
        }
    }

    async fn stop(&self) {
        if let Some(debates) = self.debates.stop() {
            debates.shutdown().await;
        }
    }
}
