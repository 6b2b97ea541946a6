//! A backend's declaration of its abilities. Differences between backends are declared here, and never found by
//! comparing names.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    error::Limit,
    tool::ToolDefinition,
    turn::{ConversationMode, Effort, Limits, PromptBlock, ToolAccess, TurnRequest},
};

/// Abilities of a backend. They never change for a given value of a backend.
///
/// [`Capabilities::new`] declares almost nothing, and a backend adds its abilities. The conformance suite
/// verifies them.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Owner of the loop of model calls and tool calls.
    pub mode: LoopMode,
    /// Vendor whose model answers, for traces. The name is that of the OpenTelemetry conventions for generative
    /// AI (`gen_ai.provider.name`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Server behind the backend, if it is known. Two backends at one server count as one opinion, even if
    /// their vendors have different names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerAddress>,
    /// Granularity of text events.
    pub text: TextGranularity,
    /// Events with the model's thinking.
    pub thinking: Support,
    /// Pictures in prompts.
    pub images: Support,
    /// System text of a request.
    pub system: Support,
    /// Enforcement of an output schema.
    pub output: OutputSupport,
    /// Storing a conversation and resuming it.
    pub resume: Support,
    /// Deleting a stored conversation by its handle.
    pub forget: ForgetSupport,
    /// Offering the caller's own tools to the agent.
    pub caller_tools: Support,
    /// Tools of the harness itself, such as a shell.
    pub harness_tools: Support,
    /// Requests to the host's [`Approver`](crate::Approver) for calls of the harness's own tools that the
    /// access level neither allows nor forbids. Without this ability such calls are denied.
    pub approvals: Support,
    /// Passing input of [`Steering`](crate::Steering) to the agent between its tool calls. No request needs
    /// this ability: without it, every input is refused immediately.
    #[serde(default = "not_supported")]
    pub steering: Support,
    /// Access of the agent to folders outside of the working directory.
    pub extra_roots: Support,
    /// True if a request must name a model, because the backend has no default.
    #[serde(default)]
    pub needs_model: bool,
    /// Levels of effort that at least one model of the vendor accepts. Empty if effort is not supported.
    pub efforts: Vec<Effort>,
    /// Support of each access level, with its enforcer.
    pub access: AccessTable,
    /// Enforcer of each limit.
    pub limits: LimitSupport,
    /// Source of the turn's cost.
    pub cost: CostReport,
    /// Weakest containment of a turn's processes on this machine. [`Provenance`](crate::Provenance) has the
    /// containment of one turn. `None` if a turn has no processes.
    pub containment: Option<Containment>,
}

/// Address of a server, compared by its name without a name service.
///
/// The name has one spelling: lower-case ASCII, without a dot at its end. `localhost` stands for every address
/// of this machine: 127.0.0.0/8, `::1`, and the unspecified addresses, which also lead to this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerAddress {
    /// Name, or IP address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Default for a capability that an older program did not send.
fn not_supported() -> Support {
    Support::No
}

/// Support of each access level, with its enforcer.
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
    /// Returns the support of one level.
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
    /// Declares no ability except answering in whole messages.
    pub fn new(mode: LoopMode) -> Self {
        Self {
            mode,
            provider: None,
            server: None,
            text: TextGranularity::Messages,
            thinking: Support::No,
            images: Support::No,
            system: Support::No,
            output: OutputSupport::Unsupported,
            resume: Support::No,
            forget: ForgetSupport::Unsupported,
            caller_tools: Support::No,
            harness_tools: Support::No,
            approvals: Support::No,
            steering: Support::No,
            extra_roots: Support::No,
            needs_model: false,
            efforts: Vec::new(),
            access: AccessTable {
                scoped_only: AccessSupport::Unsupported,
                read_only: AccessSupport::Unsupported,
                workspace_write: AccessSupport::Unsupported,
                unrestricted: AccessSupport::Unsupported,
            },
            limits: LimitSupport::default(),
            cost: CostReport::Never,
            containment: None,
        }
    }
}

impl Capabilities {
    /// Returns everything that a turn needs and this backend lacks, the most basic first. Empty if the backend
    /// can run the turn. `tools` are the caller's.
    ///
    /// Backends call this before any cost arises, and routers before they choose a backend.
    pub fn unmet(&self, request: &TurnRequest, tools: &[ToolDefinition]) -> Vec<Unmet> {
        // Name every field, so that the compiler reports a new field that is missing here.
        let TurnRequest {
            prompt,
            system,
            model: _,
            effort: _,
            working_directory: _,
            extra_roots,
            environment: _,
            tool_access,
            limits,
            output,
            conversation,
            labels: _,
        } = request;
        let has_image = prompt.iter().any(|block| match block {
            PromptBlock::Text { .. } => false,
            PromptBlock::Image { .. } => true,
        });
        let is_kept = match conversation {
            ConversationMode::Ephemeral => false,
            ConversationMode::Keep | ConversationMode::Resume { .. } => true,
        };
        let needs = [
            (has_image, self.images.is_yes(), Unmet::Images),
            (system.is_some(), self.system.is_yes(), Unmet::System),
            (output.is_some(), self.output != OutputSupport::Unsupported, Unmet::Output),
            (is_kept, self.resume.is_yes(), Unmet::Conversation),
            (!tools.is_empty(), self.caller_tools.is_yes(), Unmet::CallerTools),
            (!extra_roots.is_empty(), self.extra_roots.is_yes(), Unmet::ExtraRoots),
            (true, self.access.of(*tool_access) != AccessSupport::Unsupported, Unmet::Access(*tool_access)),
        ];
        let needs = needs.into_iter().filter(|(needed, has, _)| *needed && !has).map(|(_, _, unmet)| unmet);
        needs.chain(self.limits.unmet(limits)).collect()
    }
}

/// An ability that a turn needs and a backend lacks. `Display` writes a phrase to follow "does not support".
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unmet {
    /// [`Capabilities::images`].
    Images,
    /// [`Capabilities::system`].
    System,
    /// [`Capabilities::output`].
    Output,
    /// [`Capabilities::resume`].
    Conversation,
    /// [`Capabilities::caller_tools`].
    CallerTools,
    /// [`Capabilities::extra_roots`].
    ExtraRoots,
    /// [`Capabilities::access`], at this level.
    Access(ToolAccess),
    /// [`Capabilities::limits`]: the limit has no enforcer.
    Limit(Limit),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Images => "pictures",
            Self::System => "system text",
            Self::Output => "an output schema",
            Self::Conversation => "keeping a conversation",
            Self::CallerTools => "the caller's tools",
            Self::ExtraRoots => "extra roots",
            Self::Access(level) => return write!(f, "{} access", level.as_str()),
            Self::Limit(limit) => match limit {
                Limit::Deadline => "a deadline",
                Limit::ToolCalls => "a limit of tool calls",
                Limit::ModelCalls => "a limit of model calls",
                Limit::OutputTokens => "a limit of output tokens",
                Limit::Cost => "a cost limit",
                Limit::Budget => "a budget",
                Limit::RepeatedCalls => "a limit of repeated calls",
            },
        })
    }
}

/// Owner of the loop of model calls and tool calls.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopMode {
    /// The vendor's program runs the loop.
    Delegated,
    /// Nexus runs the loop.
    Native,
}

/// Support of one ability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// The ability is supported.
    Yes,
    /// The ability is not supported. A request that needs it is
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    No,
}

impl Support {
    /// Returns true if the ability is supported.
    pub fn is_yes(self) -> bool {
        self == Self::Yes
    }
}

/// Support of deleting a stored conversation by its handle.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgetSupport {
    /// The backend deletes the stored conversation. Afterwards none of its handles can be resumed.
    Deletes,
    /// The backend stores nothing: the handle contains the conversation, and dropping the handle forgets it. An
    /// older handle forks the conversation. On other backends an older handle resumes the conversation after
    /// its last turn.
    InHandle,
    /// The conversation cannot be deleted: [`ForgetError::Unsupported`](crate::ForgetError::Unsupported).
    Unsupported,
}

/// Granularity of text events.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextGranularity {
    /// In deltas, while the model writes.
    Deltas,
    /// One complete message at a time.
    Messages,
}

/// Enforcement of an output schema. In every case Nexus also checks the answer.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputSupport {
    /// The vendor receives the schema.
    Native,
    /// The model receives the schema as an instruction, and again if its answer does not fit.
    Instructed,
    /// Output schemas are not supported.
    Unsupported,
}

/// Enforcer of an access level.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessEnforcer {
    /// The operating system.
    Os,
    /// The vendor's program, by its own rules.
    Vendor,
    /// Nexus: its own tools check each path, and its sandbox encloses commands or a whole program.
    Nexus,
    /// No enforcer is needed: the agent has no tools of its own.
    None,
}

/// Support of an access level, with its enforcer.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessSupport {
    /// The level is enforced, by this enforcer.
    Kept(AccessEnforcer),
    /// The level cannot be enforced. A request for it is
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    Unsupported,
}

/// Enforcer of a limit.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// The vendor's program or service.
    Vendor,
    /// Nexus, which watches the turn and stops it.
    Ours,
    /// The limit cannot be enforced; a request that sets it is
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    #[default]
    Unsupported,
}

/// Enforcer of each limit of [`Limits`]. Every backend enforces the deadline and the idle limits.
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
    /// Declares that no limit can be enforced.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the enforcer of the limit on tool calls.
    #[must_use]
    pub fn with_tool_calls(mut self, enforcer: Enforcement) -> Self {
        self.tool_calls = enforcer;
        self
    }

    /// Sets the enforcer of the limit on model calls.
    #[must_use]
    pub fn with_model_calls(mut self, enforcer: Enforcement) -> Self {
        self.model_calls = enforcer;
        self
    }

    /// Sets the enforcer of the limit on output tokens.
    #[must_use]
    pub fn with_output_tokens(mut self, enforcer: Enforcement) -> Self {
        self.output_tokens = enforcer;
        self
    }

    /// Sets the enforcer of the limit on cost.
    #[must_use]
    pub fn with_cost(mut self, enforcer: Enforcement) -> Self {
        self.cost = enforcer;
        self
    }

    /// Returns the limits that are set and have no enforcer.
    fn unmet(&self, limits: &Limits) -> impl Iterator<Item = Unmet> + use<> {
        let Limits { deadline: _, idle: _, tool_calls, model_calls, output_tokens, cost } = limits;
        let set = [
            (tool_calls.is_some(), self.tool_calls, Limit::ToolCalls),
            (model_calls.is_some(), self.model_calls, Limit::ModelCalls),
            (output_tokens.is_some(), self.output_tokens, Limit::OutputTokens),
            (cost.is_some(), self.cost, Limit::Cost),
        ];
        let unmet =
            set.into_iter().filter(|(set, enforcer, _)| *set && *enforcer == Enforcement::Unsupported);
        unmet.map(|(_, _, limit)| Unmet::Limit(limit))
    }
}

/// Mechanism that ends all processes of a turn, including daemons. A later variant is stronger.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Containment {
    /// A search through all processes of the machine for marks that the turn's processes inherit.
    #[default]
    Search,
    /// A search for the same marks through the descendants of this program, which adopts orphans.
    Subreaper,
    /// A control group. The kernel ends all of its processes at once.
    Cgroup,
    /// A PID namespace within a user namespace. The kernel ends all of its processes, even if this program is
    /// killed. Programs inside gain no privileges, and files of other users appear to have no owner.
    UserNamespace,
    /// A PID namespace. The kernel ends all of its processes, even if this program is killed.
    PidNamespace,
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Search => "search",
            Self::Subreaper => "subreaper",
            Self::Cgroup => "cgroup",
            Self::UserNamespace => "user namespace",
            Self::PidNamespace => "PID namespace",
        })
    }
}

/// Source of a turn's cost.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostReport {
    /// The vendor's server reports the cost.
    Reported,
    /// The cost is estimated from a price list.
    Estimated,
    /// The cost is unknown.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(offered: &Capabilities, request: &TurnRequest) -> Vec<String> {
        offered.unmet(request, &[]).iter().map(Unmet::to_string).collect()
    }

    fn pure_text() -> Capabilities {
        let mut some = Capabilities::new(LoopMode::Native);
        some.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        some
    }

    #[test]
    fn a_backend_that_claims_nothing_meets_nothing() {
        let nothing = Capabilities::new(LoopMode::Native);
        assert_eq!(said(&nothing, &TurnRequest::new("x")), ["scoped-only access"]);
        let with_system = TurnRequest::new("x").with_system("y");
        assert_eq!(said(&nothing, &with_system), ["system text", "scoped-only access"]);
    }

    #[test]
    fn a_plain_request_needs_nothing_special() {
        assert_eq!(pure_text().unmet(&TurnRequest::new("x"), &[]), []);
    }

    #[test]
    fn each_need_is_named() {
        let need = |request: &TurnRequest| said(&pure_text(), request).join(", ");
        let request = || TurnRequest::new("x");
        assert_eq!(need(&request().with_system("s")), "system text");
        assert_eq!(need(&request().with_conversation(ConversationMode::Keep)), "keeping a conversation");
        assert_eq!(need(&request().with_tool_access(ToolAccess::ReadOnly)), "read-only access");
        assert_eq!(need(&request().with_limits(Limits::new().with_tool_calls(3))), "a limit of tool calls");

        let mut more = pure_text();
        more.system = Support::Yes;
        assert_eq!(more.unmet(&request().with_system("s"), &[]), []);
    }
}
