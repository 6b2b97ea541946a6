//! Scripts as a kind of backend: `kind: scripted` of a configuration. It calls no model.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, BackendKind, BuildContext, Capabilities,
    ConversationMode, EventSink, ExecutionBackend, FinishReason, ForgetError, ForgetSupport, Forgotten,
    LoopMode, Phase, ResumeHandle, SettingsError, Support, ToolCall, ToolContent, ToolResult, TurnError,
    TurnHost, TurnRequest, TurnResult, VendorId,
    harness::{Failure, RunningTurn},
    settings_schema,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Script;
use crate::trap::Trap;

/// The kind of backend `scripted` for one trap: for [`Registry::with`](nexus_core::Registry::with).
#[derive(Clone, Debug)]
pub struct ScriptedKind {
    trap: Arc<Trap>,
}

impl ScriptedKind {
    /// Name of the kind.
    pub const NAME: &'static str = "scripted";

    /// Creates the kind. Its scripts get the probe and the answers of this trap.
    pub fn new(trap: &Arc<Trap>) -> Self {
        Self { trap: Arc::clone(trap) }
    }
}

/// Settings of a scripted backend.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ScriptedSettings {
    /// Behaviour: `anchored`, `probing`, `wary`.
    script: Script,
    /// Vendor that the backend reports.
    vendor: String,
    /// Tools that are hidden from the script: `run_probe`.
    #[serde(default)]
    without: Vec<String>,
}

impl BackendKind for ScriptedKind {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn vendor(&self, settings: &Map<String, Value>, _: &BuildContext) -> VendorId {
        let read = SettingsError::reading::<ScriptedSettings>(&Value::Object(settings.clone()));
        // Ignore invalid settings here: `build` reports them.
        read.map_or_else(|_| Self::NAME.into(), |settings| settings.vendor.as_str().into())
    }

    fn settings_schema(&self) -> Value {
        settings_schema::of::<ScriptedSettings>()
    }

    fn build(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        _context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        let ScriptedSettings { script, without, .. } =
            SettingsError::reading(&Value::Object(settings.clone()))?;
        Ok(Arc::new(ScriptedModel { id, script, without, trap: Arc::clone(&self.trap) }))
    }
}

#[derive(Debug)]
struct ScriptedModel {
    id: BackendId,
    script: Script,
    without: Vec<String>,
    trap: Arc<Trap>,
}

#[async_trait]
impl ExecutionBackend for ScriptedModel {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Native);
        capabilities.system = Support::Yes;
        capabilities.caller_tools = Support::Yes;
        capabilities.resume = Support::Yes;
        capabilities.forget = ForgetSupport::InHandle;
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let mut turn = RunningTurn::begin(&self.id, &self.capabilities(), request, host, events)?;
        let outcome = self.play(&mut turn).await;
        turn.end(outcome.map(|()| (FinishReason::Stop, None))).await
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        ForgetError::unless_of(&self.id, handle)?;
        Ok(Forgotten::InHandle)
    }
}

impl ScriptedModel {
    async fn play(&self, turn: &mut RunningTurn<'_>) -> Result<(), Failure> {
        let offered: Vec<String> = turn.session.definitions().iter().map(|tool| tool.name.clone()).collect();
        let is_kept_from_it = |tool: &&str| self.without.iter().any(|without| without == tool);
        let offered: Vec<&str> =
            offered.iter().map(String::as_str).filter(|tool| !is_kept_from_it(tool)).collect();
        // The state of a script's conversation is the list of answers so far.
        let mut answers: Vec<String> = match &turn.request.conversation {
            ConversationMode::Resume { handle, .. } => {
                serde_json::from_value(handle.state().clone()).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        while !turn.is_submitted() {
            turn.model_call()?;
            let known: Vec<&str> = answers.iter().map(String::as_str).collect();
            let next = self.script.next(&self.trap, &offered, &known);
            // Like any turn, this one can be cancelled between two calls.
            turn.wait(Phase::FirstByte, std::future::ready(())).await?;
            let Some(call) = next else { break };
            let call = ToolCall::new(format!("call-{}", answers.len()), call.tool, call.arguments);
            let results = turn.answer_calls(vec![call]).await?;
            answers.push(results.iter().map(text).collect());
            turn.log.resume = Some(ResumeHandle::new(self.id.clone(), json!(answers)));
        }
        Ok(())
    }
}

/// Returns the text of an answer.
fn text(result: &ToolResult) -> String {
    let part = |content: &ToolContent| match content {
        ToolContent::Text { text } => text.clone(),
        _ => String::new(),
    };
    result.content.iter().map(part).collect()
}
