//! Tools of a case, each built from a closure. They record their calls, and the calls that still run.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use nexus_core::{ToolCall, ToolDefinition, ToolResult, ToolRouter, TurnHost};
use serde_json::Value;

/// Function that answers calls of a tool.
type Answer = Box<dyn Fn(ToolCall) -> BoxFuture<'static, ToolResult> + Send + Sync>;

/// Tools of the caller's, made by a case.
#[derive(Default)]
pub(super) struct CaseTools {
    tools: Vec<(ToolDefinition, Answer)>,
    asked: Mutex<Vec<(String, Value)>>,
    running: AtomicUsize,
}

impl CaseTools {
    /// One tool.
    pub(super) fn one<F>(
        definition: ToolDefinition,
        answer: impl Fn(ToolCall) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ToolResult> + Send + 'static,
    {
        Self::default().and(definition, answer)
    }

    /// One tool more.
    pub(super) fn and<F>(
        mut self,
        definition: ToolDefinition,
        answer: impl Fn(ToolCall) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ToolResult> + Send + 'static,
    {
        self.tools.push((definition, Box::new(move |call| Box::pin(answer(call)))));
        self
    }

    /// Name and arguments of every call that arrived, in order.
    pub(super) fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of calls that started and were neither answered nor dropped.
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// A host that brings these tools.
    pub(super) fn host(self: &Arc<Self>) -> TurnHost {
        TurnHost::new().with_tools(Arc::clone(self) as Arc<dyn ToolRouter>)
    }
}

impl fmt::Debug for CaseTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tools.iter().map(|(definition, _)| &definition.name);
        f.debug_list().entries(names).finish()
    }
}

#[async_trait]
impl ToolRouter for CaseTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|(definition, _)| definition.clone()).collect()
    }

    fn check_arguments(&self, _tool: &str, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        let asked = (call.name.clone(), call.arguments.clone());
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
        let _running = Running::begin(&self.running);
        match self.tools.iter().find(|(definition, _)| definition.name == call.name) {
            Some((_, answer)) => answer(call).await,
            None => ToolResult::error(format!("there is no tool named {:?}", call.name)),
        }
    }
}

/// A call that runs.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
