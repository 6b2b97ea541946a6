//! Names of the features that a backend may declare. The suite checks each skip against the declaration, and the
//! declaration against the cases that ran.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use nexus_core::{
    AccessSupport, Capabilities, ConversationMode, CostReport, Enforcement, ForgetSupport, Limits, LoopMode,
    OutputSchema, OutputSupport, PromptBlock, TextGranularity, ToolAccess, ToolCall, ToolDefinition,
    ToolResult, ToolRouter, TurnHost, TurnRequest, Usd,
};
use serde_json::json;

use super::subject::Subject;

/// One thing that [`Capabilities`], or the [`Subject`], may declare.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Feature {
    /// Text arrives in pieces.
    Deltas,
    /// Thinking is shown.
    Thinking,
    /// Prompts may contain pictures.
    Images,
    /// System instructions are separate from the prompt.
    System,
    /// Answers have the requested shape.
    Output,
    /// A conversation can be stored and resumed.
    Resume,
    /// A stored conversation can be deleted by its handle.
    Deletes,
    /// A stored conversation exists only in its handle.
    InHandle,
    /// The caller's own tools reach the agent.
    CallerTools,
    /// The harness brings its own tools.
    HarnessTools,
    /// Input that is sent while a turn runs reaches its agent.
    Steering,
    /// Folders outside the working directory can be opened.
    ExtraRoots,
    /// The effort can be chosen.
    Efforts,
    /// [`ToolAccess::ScopedOnly`] is enforced.
    ScopedOnly,
    /// [`ToolAccess::ReadOnly`] is enforced.
    ReadOnly,
    /// [`ToolAccess::WorkspaceWrite`] is enforced.
    WorkspaceWrite,
    /// [`ToolAccess::Unrestricted`] is offered.
    Unrestricted,
    /// Tool calls can be limited.
    ToolCallLimit,
    /// Model calls can be limited.
    ModelCallLimit,
    /// Output tokens can be limited.
    OutputTokenLimit,
    /// Cost can be limited.
    CostLimit,
    /// The cost is known.
    Cost,
    /// A vendor's program runs the loop, so there is a process to end.
    Process,
    /// The backend runs the loop itself, so the promises of the loop are its own.
    OwnLoop,
    /// A command can be run: by the harness at [`ToolAccess::Unrestricted`] or, where that brings no tools, by a
    /// tool of the caller's.
    AnyShell,
    /// A file can be written: by the harness at [`ToolAccess::WorkspaceWrite`] or, where that brings no tools, by
    /// a tool of the caller's.
    AnyWriter,
    /// The backend is lent a credential. The subject declares it, by [`Subject::is_lent_credential`].
    Credential,
}

impl Feature {
    /// Every feature.
    pub const ALL: &[Self] = &[
        Self::Deltas,
        Self::Thinking,
        Self::Images,
        Self::System,
        Self::Output,
        Self::Resume,
        Self::Deletes,
        Self::InHandle,
        Self::CallerTools,
        Self::HarnessTools,
        Self::Steering,
        Self::ExtraRoots,
        Self::Efforts,
        Self::ScopedOnly,
        Self::ReadOnly,
        Self::WorkspaceWrite,
        Self::Unrestricted,
        Self::ToolCallLimit,
        Self::ModelCallLimit,
        Self::OutputTokenLimit,
        Self::CostLimit,
        Self::Cost,
        Self::Process,
        Self::OwnLoop,
        Self::AnyShell,
        Self::AnyWriter,
        Self::Credential,
    ];

    /// Returns true if `subject`, whose backend declares `capabilities`, declares the feature.
    pub(super) fn is_declared_by(self, subject: &dyn Subject, capabilities: &Capabilities) -> bool {
        match self {
            Self::Credential => subject.is_lent_credential(),
            feature => feature.is_declared(capabilities),
        }
    }

    /// Returns true if `capabilities` declare the feature. They do not cover the declarations of the subject itself.
    pub fn is_declared(self, capabilities: &Capabilities) -> bool {
        let kept = |access| capabilities.access.of(access) != AccessSupport::Unsupported;
        let limited = |keeper| keeper != Enforcement::Unsupported;
        match self {
            Self::Deltas => capabilities.text == TextGranularity::Deltas,
            Self::Thinking => capabilities.thinking.is_yes(),
            Self::Images => capabilities.images.is_yes(),
            Self::System => capabilities.system.is_yes(),
            Self::Output => capabilities.output != OutputSupport::Unsupported,
            Self::Resume => capabilities.resume.is_yes(),
            Self::Deletes => capabilities.forget == ForgetSupport::Deletes,
            Self::InHandle => capabilities.forget == ForgetSupport::InHandle,
            Self::CallerTools => capabilities.caller_tools.is_yes(),
            Self::HarnessTools => capabilities.harness_tools.is_yes(),
            Self::Steering => capabilities.steering.is_yes(),
            Self::ExtraRoots => capabilities.extra_roots.is_yes(),
            Self::Efforts => !capabilities.efforts.is_empty(),
            Self::ScopedOnly => kept(ToolAccess::ScopedOnly),
            Self::ReadOnly => kept(ToolAccess::ReadOnly),
            Self::WorkspaceWrite => kept(ToolAccess::WorkspaceWrite),
            Self::Unrestricted => kept(ToolAccess::Unrestricted),
            Self::ToolCallLimit => limited(capabilities.limits.tool_calls),
            Self::ModelCallLimit => limited(capabilities.limits.model_calls),
            Self::OutputTokenLimit => limited(capabilities.limits.output_tokens),
            Self::CostLimit => limited(capabilities.limits.cost),
            Self::Cost => capabilities.cost != CostReport::Never,
            Self::Process => capabilities.mode == LoopMode::Delegated,
            Self::OwnLoop => capabilities.mode == LoopMode::Native,
            Self::Credential => true,
            Self::AnyShell | Self::AnyWriter => {
                self.stands_for(capabilities).iter().all(|feature| feature.is_declared(capabilities))
            }
        }
    }

    /// Features that the tools of this feature need, and that are proven along with it. Empty for a feature that depends on
    /// no other.
    pub(super) fn stands_for(self, capabilities: &Capabilities) -> &'static [Self] {
        match (self, capabilities.harness_tools.is_yes()) {
            (Self::AnyShell, true) => &[Self::HarnessTools, Self::Unrestricted],
            (Self::AnyWriter, true) => &[Self::HarnessTools, Self::WorkspaceWrite],
            (Self::AnyShell | Self::AnyWriter, false) => &[Self::CallerTools, Self::ScopedOnly],
            _ => &[],
        }
    }

    /// Returns `request` changed so that it needs this feature: a backend without it must refuse. `None` if a request cannot
    /// demand the feature.
    pub(super) fn demand(self, request: TurnRequest) -> Option<(TurnRequest, TurnHost)> {
        let limits = Limits::new();
        let demanding = match self {
            Self::Images => request.with_block(PromptBlock::Image {
                media_type: "image/png".into(),
                data: super::cases::SMALL_PNG.into(),
            }),
            Self::System => request.with_system("Be brief."),
            Self::Output => request.with_output(OutputSchema::new(json!({ "type": "object" })).ok()?),
            Self::Resume => request.with_conversation(ConversationMode::Keep),
            Self::ExtraRoots => request.with_extra_root(std::env::temp_dir()),
            Self::ScopedOnly => request.with_tool_access(ToolAccess::ScopedOnly),
            Self::ReadOnly => request.with_tool_access(ToolAccess::ReadOnly),
            Self::WorkspaceWrite => request.with_tool_access(ToolAccess::WorkspaceWrite),
            Self::Unrestricted => request.with_tool_access(ToolAccess::Unrestricted),
            Self::ToolCallLimit => request.with_limits(limits.with_tool_calls(1)),
            Self::ModelCallLimit => request.with_limits(limits.with_model_calls(1)),
            Self::OutputTokenLimit => request.with_limits(limits.with_output_tokens(100)),
            Self::CostLimit => request.with_limits(limits.with_cost(Usd(1.0))),
            Self::CallerTools => {
                return Some((request, TurnHost::new().with_tools(Arc::new(OneTool))));
            }
            Self::Deltas
            | Self::Thinking
            | Self::HarnessTools
            | Self::Steering
            | Self::Efforts
            | Self::Cost
            | Self::Process
            | Self::OwnLoop
            | Self::Deletes
            | Self::InHandle
            | Self::AnyShell
            | Self::AnyWriter
            | Self::Credential => return None,
        };
        Some((demanding, TurnHost::new()))
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A router whose only use is that it lists a tool.
#[derive(Debug)]
struct OneTool;

#[async_trait]
impl ToolRouter for OneTool {
    fn definitions(&self) -> Vec<ToolDefinition> {
        vec![ToolDefinition::new("lookup", "Looks a word up.", json!({ "type": "object" }))]
    }

    fn check_arguments(&self, _tool: &str, _arguments: &serde_json::Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, _call: ToolCall) -> ToolResult {
        ToolResult::error("nobody was to call this")
    }
}
