//! Nexus runs one turn of agent work on whichever vendor a line of `nexus.yaml` names, or on a backend of your
//! own. Nothing above [`ExecutionBackend::run_turn`] learns which one it was.
//!
//! ```no_run
//! use nexus::{BuildContext, EventEnvelope, Router, TurnHost, TurnRequest};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let router = Router::from_file("nexus.yaml", nexus::registry(), BuildContext::from_process())?;
//! let request = TurnRequest::new("Name the three largest moons of Saturn.");
//! let mut events = |event: EventEnvelope| println!("{:?}", event.event);
//! let result = router.run_turn("executor", request, TurnHost::new(), &mut events).await?;
//! println!("{}", result.text);
//! # Ok(())
//! # }
//! ```
//!
//! This crate has no logic of its own: it gives each public name once. `nexus_core` is the seam,
//! `nexus_router` the configuration and the choice, `nexus_workspace` folders that hold work and the types of agents,
//! `nexus_backends` the vendors and their logins.
//!
//! Each vendor is a feature of this crate, and so are `yaml` (reading `nexus.yaml`), `schema` (output schemas, and tools whose
//! schema was written by hand) and `globs` (globs in what must not be touched). These are on by default; `keyring` is not. The
//! feature `mcp-server` is there for itself, too: it serves a session's tools to another program.

#[cfg(any(feature = "login", feature = "responses"))]
pub use nexus_backends::http;
#[cfg(feature = "mcp-server")]
pub use nexus_backends::mcp_server::McpServer;
#[cfg(feature = "login")]
pub use nexus_backends::{OwnLogin, UnknownLogin, login, logins};
pub use nexus_backends::{Vendor, auth, registry, vendors};
#[cfg(feature = "cli")]
pub use nexus_backends::{cli, process};
pub use nexus_core::{
    AccessSupport, AccessTable, AppliedEffort, Availability, BackendId, BackendKind, Brief, BuildContext,
    CallId, CancelToken, Capabilities, Clock, Containment, ConversationMode, Cost, CostReport, CostSource,
    Credential, CredentialError, CredentialSource, Decision, Denial, Effects, Effort, Enforcement, ErrorKind,
    EventEnvelope, EventSink, EventSinkExt, ExecutionBackend, ExecutionBackendExt, FinishReason, IdleLimits,
    IntoToolResult, Json, Limit, LimitSupport, Limits, LoopMode, Message, MessageId, ModelId, NoTools,
    NullSink, OnLost, Outbox, OutputProblem, OutputSchema, OutputSupport, Overlay, Partial, ParticipantId,
    ParticipantScope, PathAccess, PathArgument, PathDenial, PathRule, Permit, Phase, Picture, ProcessExit,
    ProcessReport, PromptBlock, Provenance, QuarantineReason, Quarantined, Recorder, Registry, ResumeHandle,
    Retry, Sandbox, ScopeError, ScopedFiles, Secret, Session, SessionToken, SettingsError, Skipped, Standing,
    StreamItem, Support, Survivor, SystemClock, TextGranularity, Tool, ToolAccess, ToolCall, ToolCallRecord,
    ToolCallStatus, ToolContent, ToolDefinition, ToolFault, ToolPattern, ToolResult, ToolRouter, Toolbox,
    TurnError, TurnErrorReport, TurnEvent, TurnHost, TurnOverride, TurnRequest, TurnResult, TurnSession,
    TurnStream, Unmet, Usage, Usd, VendorId, WriteSlice, harness, redact, schemars, scope, tool, turn,
};
pub use nexus_router::{
    Binding, ConfigError, ExplainedChain, ExplainedEntry, ExplainedSeat, ExplainedTarget, Explanation,
    FallbackRule, Hold, KindError, Lens, PanelOutcome, PanelSink, Position, Problem, RoutedBackend, Router,
    RouterBuilder, Seat, SeatEvent, SeatOutcome, UnknownKind, Verdict, Vote, WorkKind, fallback, hold,
    json_schema, panel,
};
pub use nexus_workspace as workspace;
pub use nexus_workspace::{
    AgentType, AgentTypeError, AgentTypes, EventLog, NewWorkspace, Workspace, WorkspaceError,
    WorkspaceErrorKind, WorkspaceEvent, WorkspaceId, WorkspaceState, WorkspaceStatus, Workspaces, agent,
};
