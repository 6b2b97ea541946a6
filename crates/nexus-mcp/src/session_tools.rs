//! Calls of a session's tools by clients.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use nexus_core::{CallId, Session, ToolResult};
use rmcp::model::{CallToolResult, Tool};
use serde_json::Value;

use super::{
    activity::CallActivity,
    service::{JsonObject, ServiceInfo},
    wire,
};

/// The tools of a session, and the activity of their callers.
#[derive(Debug)]
pub(crate) struct SessionTools {
    session: Arc<Session>,
    tool_meta: JsonObject,
    activity: Arc<CallActivity>,
    calls: AtomicU64,
}

impl SessionTools {
    pub(crate) fn new(session: Arc<Session>, tool_meta: JsonObject) -> Self {
        Self { session, tool_meta, activity: Arc::default(), calls: AtomicU64::new(1) }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn info(&self) -> ServiceInfo {
        ServiceInfo::new("nexus", env!("CARGO_PKG_VERSION"), "")
    }

    pub(crate) fn listed(&self) -> Vec<Tool> {
        self.session.definitions().iter().map(|tool| wire::session_tool(tool, &self.tool_meta)).collect()
    }

    pub(crate) fn activity(&self) -> &Arc<CallActivity> {
        &self.activity
    }

    /// Lets the session decide on a call and answer it. Dropping the future drops the running tool.
    pub(crate) async fn call(
        self: Arc<Self>,
        tool: String,
        arguments: Value,
        flaw: Option<String>,
    ) -> CallToolResult {
        let call = CallId::new(format!("mcp-{}", self.calls.fetch_add(1, Ordering::Relaxed)));
        let _order = self.session.in_order(&tool).await;
        let token = self.session.token();
        let decided = match flaw {
            Some(flaw) => Err(self.session.deny_flawed(token, &tool, &arguments, &flaw)),
            None => self.session.authorize(token, &tool, &arguments),
        };
        // The permit owns the arguments for the tool, so free this copy before the tool runs.
        drop(arguments);
        self.activity.decided();
        let answer = match decided {
            Ok(permit) => {
                let _running = self.activity.running();
                self.session.answer(call, permit).await
            }
            Err(denial) => Err(denial),
        };
        wire::answered(answer.unwrap_or_else(|denial| ToolResult::error(denial.to_string())))
    }
}
