//! What a backend says it can do. What differs between backends is declared here, and never found by
//! comparing names.

use serde::{Deserialize, Serialize};

use crate::turn::{ConversationMode, Effort, Limits, PromptBlock, ToolAccess, TurnRequest};

/// What a backend supports. The answer never changes for a given value of a backend.
///
/// [`Capabilities::new`] claims nothing; a backend adds what it has. The conformance suite holds it to that.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Who owns the loop of model calls and tool calls.
    pub mode: LoopMode,
    /// How finely text arrives.
    pub text: TextGranularity,
    /// Whether thinking is shown.
    pub thinking: Support,
    /// Whether prompts may hold pictures.
    pub images: Support,
    /// Whether instructions can stand above the prompt.
    pub system: Support,
    /// How an output schema is kept.
    pub output: OutputSupport,
    /// Whether a conversation can be kept and taken up again.
    pub resume: Support,
    /// Whether the caller's own tools reach the agent.
    pub caller_tools: Support,
    /// Whether the harness brings tools of its own, such as a shell.
    pub harness_tools: Support,
    /// Whether folders beside the working directory can be opened to the agent.
    pub extra_roots: Support,
    /// The steps of effort that some model of the vendor's takes. Empty: effort is not supported.
    pub efforts: Vec<Effort>,
    /// Who keeps the sandbox of each access level.
    pub access: AccessTable,
    /// Who keeps each limit.
    pub limits: LimitSupport,
    /// Whether the cost of a turn is known.
    pub cost: CostReport,
}

/// Who keeps the sandbox of each access level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessTable {
    /// [`ToolAccess::ScopedOnly`].
    pub scoped_only: AccessSupport,
    /// [`ToolAccess::ReadOnly`].
    pub read_only: AccessSupport,
    /// [`ToolAccess::WorkspaceWrite`].
    pub workspace_write: AccessSupport,
    /// [`ToolAccess::Unrestricted`].
    pub unrestricted: AccessSupport,
}

impl AccessTable {
    /// The support of one level.
    pub fn of(&self, access: ToolAccess) -> AccessSupport {
        match access {
            ToolAccess::ScopedOnly => self.scoped_only,
            ToolAccess::ReadOnly => self.read_only,
            ToolAccess::WorkspaceWrite => self.workspace_write,
            ToolAccess::Unrestricted => self.unrestricted,
        }
    }
}

impl Capabilities {
    /// Claims nothing but to answer in whole messages.
    pub fn new(mode: LoopMode) -> Self {
        Self {
            mode,
            text: TextGranularity::Messages,
            thinking: Support::No,
            images: Support::No,
            system: Support::No,
            output: OutputSupport::Unsupported,
            resume: Support::No,
            caller_tools: Support::No,
            harness_tools: Support::No,
            extra_roots: Support::No,
            efforts: Vec::new(),
            access: AccessTable {
                scoped_only: AccessSupport::Unsupported,
                read_only: AccessSupport::Unsupported,
                workspace_write: AccessSupport::Unsupported,
                unrestricted: AccessSupport::Unsupported,
            },
            limits: LimitSupport::default(),
            cost: CostReport::Never,
        }
    }
}

impl Capabilities {
    /// What `request` needs and this backend does not have, in words for a person; `None` if nothing.
    ///
    /// Backends ask this before anything is spent, and routers before they choose.
    pub fn unmet(&self, request: &TurnRequest, offers_tools: bool) -> Option<String> {
        let has_image = request.prompt.iter().any(|block| matches!(block, PromptBlock::Image { .. }));
        let keeps_conversation = !matches!(request.conversation, ConversationMode::Ephemeral);
        let needs = [
            (has_image, self.images.is_yes(), "pictures in the prompt"),
            (request.system.is_some(), self.system.is_yes(), "system instructions"),
            (request.output.is_some(), self.output != OutputSupport::Unsupported, "an output schema"),
            (keeps_conversation, self.resume.is_yes(), "keeping the conversation"),
            (offers_tools, self.caller_tools.is_yes(), "tools of the caller's own"),
            (!request.extra_roots.is_empty(), self.extra_roots.is_yes(), "extra roots"),
        ];
        if let Some((_, _, what)) = needs.iter().find(|(needed, has, _)| *needed && !has) {
            return Some((*what).to_owned());
        }
        if self.access.of(request.tool_access) == AccessSupport::Unsupported {
            return Some(format!("tool access {:?}", request.tool_access.as_str()));
        }
        self.limits.unmet(&request.limits).map(|limit| format!("a limit on {limit}"))
    }
}

/// Who owns the loop of model calls and tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopMode {
    /// The vendor's own program.
    Delegated,
    /// We do.
    Native,
}

/// Whether something is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// It is.
    Yes,
    /// It is not; a request that needs it is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    No,
}

impl Support {
    /// Whether it is supported.
    pub fn is_yes(self) -> bool {
        self == Self::Yes
    }
}

/// How finely text arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextGranularity {
    /// In pieces, as the model writes.
    Deltas,
    /// A message at a time.
    Messages,
}

/// How an output schema is kept. In every case the answer is checked on our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSupport {
    /// The vendor is given the schema.
    Native,
    /// The model is told the schema, and told again when its answer does not fit.
    Instructed,
    /// Not at all.
    Unsupported,
}

/// Who keeps the agent inside its access level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// The operating system.
    Os,
    /// The vendor's program, by its own rules.
    Vendor,
    /// Nobody; there is nothing to keep in.
    None,
}

/// Whether an access level can be kept, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessSupport {
    /// It is kept by this sandbox.
    Kept(Sandbox),
    /// It cannot be kept; a request for it is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    Unsupported,
}

/// Who keeps a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// The vendor's program or service.
    Vendor,
    /// We do, by watching and stopping.
    Ours,
    /// Nobody can; a request that sets it is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    #[default]
    Unsupported,
}

/// Who keeps each limit of [`Limits`]. The deadline and the idle limits every backend keeps.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSupport {
    /// Tool calls.
    pub tool_calls: Enforcement,
    /// Model calls.
    pub model_calls: Enforcement,
    /// Output tokens.
    pub output_tokens: Enforcement,
    /// Cost.
    pub cost: Enforcement,
}

impl LimitSupport {
    /// Who keeps each limit.
    pub fn new(
        tool_calls: Enforcement,
        model_calls: Enforcement,
        output_tokens: Enforcement,
        cost: Enforcement,
    ) -> Self {
        Self { tool_calls, model_calls, output_tokens, cost }
    }
}

impl LimitSupport {
    /// The first limit that is set and that nobody keeps.
    fn unmet(&self, limits: &Limits) -> Option<&'static str> {
        let set = [
            (limits.tool_calls.is_some(), self.tool_calls, "tool calls"),
            (limits.model_calls.is_some(), self.model_calls, "model calls"),
            (limits.output_tokens.is_some(), self.output_tokens, "output tokens"),
            (limits.cost.is_some(), self.cost, "cost"),
        ];
        let unmet = set.iter().find(|(set, keeper, _)| *set && *keeper == Enforcement::Unsupported);
        unmet.map(|(_, _, name)| *name)
    }
}

/// Whether the cost of a turn is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostReport {
    /// The vendor's server names it.
    Reported,
    /// It is estimated from a price list.
    Estimated,
    /// It is not known.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_that_claims_nothing_meets_nothing() {
        let nothing = Capabilities::new(LoopMode::Native);
        assert_eq!(nothing.unmet(&TurnRequest::new("x"), false).unwrap(), "tool access \"scoped-only\"");
        assert_eq!(
            nothing.unmet(&TurnRequest::new("x").with_system("y"), false).unwrap(),
            "system instructions"
        );
    }

    #[test]
    fn a_limit_that_nobody_keeps_is_unmet() {
        let mut some = Capabilities::new(LoopMode::Native);
        some.access.scoped_only = AccessSupport::Kept(Sandbox::None);
        let request = TurnRequest::new("x");
        assert_eq!(some.unmet(&request, false), None);
        let limited = request.with_limits(Limits::new().with_tool_calls(3));
        assert_eq!(some.unmet(&limited, false).unwrap(), "a limit on tool calls");
    }
}
