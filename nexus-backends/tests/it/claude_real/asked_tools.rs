//! Tools of the caller's that write down what they are asked.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use nexus_core::{Effects, ToolCall, ToolDefinition, ToolResult, ToolRouter};
use serde_json::{Value, json};

type Answer = Box<dyn Fn(Value) -> BoxFuture<'static, ToolResult> + Send + Sync>;

/// Tools that write down what they are asked.
#[derive(Default)]
pub(crate) struct AskedTools {
    tools: Vec<(ToolDefinition, Answer)>,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    asked: Vec<String>,
    running: usize,
    most_at_once: usize,
}

/// The arguments of `add`.
pub(crate) fn terms(a: i64, b: i64) -> Value {
    json!({ "a": a, "b": b })
}

impl AskedTools {
    /// `add`, which adds two numbers.
    pub(crate) fn adding() -> Self {
        Self::default().with("add", |arguments| async move {
            let term = |name: &str| arguments[name].as_i64().unwrap_or_default();
            ToolResult::text((term("a") + term("b")).to_string())
        })
    }

    /// One tool more, which only reads.
    pub(crate) fn with<F>(self, name: &str, answer: impl Fn(Value) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ToolResult> + Send + 'static,
    {
        let schema = json!({ "type": "object" });
        let definition = ToolDefinition::new(name, format!("The tool {name}."), schema);
        self.with_defined(definition.with_effects(Effects::Read), answer)
    }

    /// One tool more.
    pub(crate) fn with_defined<F>(
        mut self,
        definition: ToolDefinition,
        answer: impl Fn(Value) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ToolResult> + Send + 'static,
    {
        self.tools.push((definition, Box::new(move |arguments| Box::pin(answer(arguments)))));
        self
    }

    /// As a host hands it on.
    pub(crate) fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// The names of the tools that were asked, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.record().asked.clone()
    }

    /// How many calls ran at the same time.
    pub(crate) fn most_at_once(&self) -> usize {
        self.record().most_at_once
    }

    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a call for as long as it runs.
struct Running<'s>(&'s AskedTools);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.record().running -= 1;
    }
}

impl fmt::Debug for AskedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskedTools").field("asked", &self.asked()).finish_non_exhaustive()
    }
}

#[async_trait]
impl ToolRouter for AskedTools {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|(definition, _)| definition.clone()).collect()
    }

    fn check_arguments(&self, _tool: &str, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        let answer = {
            let mut record = self.record();
            record.asked.push(call.name.clone());
            record.running += 1;
            record.most_at_once = record.most_at_once.max(record.running);
            let tool = self.tools.iter().find(|(definition, _)| definition.name == call.name);
            tool.map(|(_, answer)| answer(call.arguments))
        };
        let _running = Running(self);
        match answer {
            Some(answer) => answer.await,
            None => ToolResult::error("there is no such tool on the tools"),
        }
    }
}
