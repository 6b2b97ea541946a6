//! What a backend says it can do. What differs between backends is declared here, and never found by
//! comparing names.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    error::Limit,
    tool::ToolDefinition,
    turn::{ConversationMode, Effort, Limits, PromptBlock, ToolAccess, TurnRequest},
};

/// What a backend supports. The answer never changes for a given value of a backend.
///
/// [`Capabilities::new`] claims nothing; a backend adds what it has. The conformance suite holds it to that.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Who owns the loop of model calls and tool calls.
    pub mode: LoopMode,
    /// The vendor whose model answers, by the name that the OpenTelemetry conventions for generative AI give it
    /// (`gen_ai.provider.name`), for traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The server that is asked, where it is known: two backends at one server are one opinion, whatever their vendors are called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerAddress>,
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
    /// Whether a conversation that was kept can be deleted by its handle.
    pub forget: ForgetSupport,
    /// Whether the caller's own tools reach the agent.
    pub caller_tools: Support,
    /// Whether the harness brings tools of its own, such as a shell.
    pub harness_tools: Support,
    /// Whether the host's [`Approver`](crate::Approver) is asked about calls of the harness's own tools that the access level
    /// neither allows nor forbids. Without that they are refused.
    pub approvals: Support,
    /// Whether what is sent by [`Steering`](crate::Steering) reaches the agent between its tool calls. No request needs it:
    /// without it, every input is refused at once.
    #[serde(default = "not_supported")]
    pub steering: Support,
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
    /// What ends the processes of a turn on this machine, at least; [`Provenance`](crate::Provenance) says what ended those of
    /// one turn. `None`: a turn has no processes.
    pub containment: Option<Containment>,
}

/// Where a server listens, by its name: nothing is looked up.
///
/// The name is in one spelling: in small letters and ASCII, without a dot at its end; `localhost` for every address of this machine's
/// own (127.0.0.0/8, `::1`, and the unspecified ones, which lead there too).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerAddress {
    /// The name, or the address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// What one says that does not know the question.
fn not_supported() -> Support {
    Support::No
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
    /// What a turn needs and this backend does not have: everything, most basic first; empty if it can run. `tools` are
    /// those of the caller.
    ///
    /// Backends ask this before anything is spent, and routers before they choose.
    pub fn unmet(&self, request: &TurnRequest, tools: &[ToolDefinition]) -> Vec<Unmet> {
        // Every field is named, so that a new one cannot be forgotten here.
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

/// Something that a turn needs and a backend does not have. `Display` is a phrase to follow "does not support".
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
    /// [`Capabilities::limits`]: nobody keeps this limit.
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

/// Who owns the loop of model calls and tool calls.
#[non_exhaustive]
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

/// Whether a conversation that was kept can be deleted by its handle.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgetSupport {
    /// What is stored of it is deleted, and no handle of it can be resumed any more.
    Deletes,
    /// Nothing is stored: the handle holds the conversation, and whoever drops it has forgotten it. An older handle forks the
    /// conversation; without this, it resumes the conversation behind its last turn.
    InHandle,
    /// It cannot be deleted; [`ForgetError::Unsupported`](crate::ForgetError::Unsupported).
    Unsupported,
}

/// How finely text arrives.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextGranularity {
    /// In pieces, as the model writes.
    Deltas,
    /// A message at a time.
    Messages,
}

/// How an output schema is kept. In every case the answer is checked on our side.
#[non_exhaustive]
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
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessEnforcer {
    /// The operating system.
    Os,
    /// The vendor's program, by its own rules.
    Vendor,
    /// Nobody; there is nothing to keep in.
    None,
}

/// Whether an access level can be kept, and by whom.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessSupport {
    /// It is kept, by this one.
    Kept(AccessEnforcer),
    /// It cannot be kept; a request for it is [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported).
    Unsupported,
}

/// Who keeps a limit.
#[non_exhaustive]
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
    /// Nobody keeps any limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says who keeps the limit of tool calls.
    #[must_use]
    pub fn with_tool_calls(mut self, enforcer: Enforcement) -> Self {
        self.tool_calls = enforcer;
        self
    }

    /// Says who keeps the limit of model calls.
    #[must_use]
    pub fn with_model_calls(mut self, enforcer: Enforcement) -> Self {
        self.model_calls = enforcer;
        self
    }

    /// Says who keeps the limit of output tokens.
    #[must_use]
    pub fn with_output_tokens(mut self, enforcer: Enforcement) -> Self {
        self.output_tokens = enforcer;
        self
    }

    /// Says who keeps the limit of cost.
    #[must_use]
    pub fn with_cost(mut self, enforcer: Enforcement) -> Self {
        self.cost = enforcer;
        self
    }

    /// The limits that are set and that nobody keeps.
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

/// What ends the processes of a turn with it, also those that walk away from it. A later one is stronger.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Containment {
    /// A search by marks that they inherit, through all processes of the machine.
    #[default]
    Search,
    /// A search by the same marks through the descendants of this program, which orphans come to.
    Subreaper,
    /// A control group, which the kernel ends as a whole.
    Cgroup,
    /// A PID namespace within a user namespace. The kernel ends it as a whole, also when this program is killed. Programs
    /// inside gain no privileges, and files of other users seem to be nobody's.
    UserNamespace,
    /// A PID namespace. The kernel ends it as a whole, also when this program is killed.
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

/// Whether the cost of a turn is known.
#[non_exhaustive]
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
