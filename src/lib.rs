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
//! | to | see |
//! | --- | --- |
//! | load `nexus.yaml`, or a configuration that the program built | `Router::from_file` (feature `yaml`), [`Router::from_value`], [`ConfigError`] |
//! | run a turn | [`Router::run_turn`], [`Router::run_text`]; on one backend: [`ExecutionBackendExt`] |
//! | say what the turn is | [`TurnRequest`], [`Limits`], [`ToolAccess`], [`ConversationMode`], [`Effort`] |
//! | watch it | [`TurnEvent`], [`EventSink`], or [`TurnStream`] |
//! | stop it | drop the future, or [`CancelToken`] in [`TurnHost::with_cancel`] |
//! | say something to its agent while it runs | [`Steering`], [`TurnHost::with_steering`] |
//! | read the answer | [`TurnResult`], [`Usage`], [`Cost`], [`Provenance`] |
//! | get a typed answer | [`OutputSchema`], [`TurnResult::output_as`] |
//! | go on with a conversation | [`ResumeHandle`], [`ConversationMode`] |
//! | name a conversation, fork it, go on with it on another vendor | `Conversations`, `HeldConversation::run_turn`, `WhenLost` (feature `conversations`) |
//! | delete a conversation that was kept | [`Router::forget`], [`ExecutionBackend::forget`] |
//! | write down what turns were, and read it | [`RecordFile`], [`RecordLog`], [`TurnRecord`] |
//! | act on a failure | [`mod@error`], [`TurnError`], [`ErrorKind`], [`Retry`], [`Partial`] |
//! | know when another backend takes over, and who is held | [`fallback`], [`hold`], [`Router::holds`] |
//! | see who would run a turn, and why | [`Router::explain`] |
//! | take over a changed file while turns run | [`Router::reload`] |
//! | ask several vendors at once | [`Router::run_panel`], [`panel`] |
//! | offer tools of your own | [`Toolbox`], [`Tool`], [`TurnHost::with_tools`] |
//! | offer tools that list, read, search and change files | `FileTools` (feature `files`), over [`ScopedFiles`] |
//! | have the answer handed in as a value, which ends the turn | [`Tool::submit`], [`Submission`] |
//! | hold an agent to tools and paths, and see what it called | [`Brief`], [`ParticipantScope`], [`Session`], [`Session::decisions`] |
//! | log in to a plan, and see who is logged in | `login`, `logins`, `OwnLogin` (feature `login`), [`auth`] |
//! | lend credentials of your own | [`CredentialSource`], [`BuildContext::with_credential_source`] |
//! | add a backend | [`ExecutionBackend`], [`harness`], [`RouterBuilder::backend`]; as a kind that `nexus.yaml` can name: [`BackendKind`] |
//! | add a CLI that speaks lines | `cli` (feature `cli`) |
//! | hold a backend against the contract | `nexus-turn-testkit`: its `conformance` |
//! | keep work in folders that survive a crash; tiers and types of agents | [`workspace`], [`agent`] |
//! | let agents work on a project in folders of their own, see every change, land it | `tree` (on Linux) |
//! | say what changed in files, for a backend that goes on from another's work | [`TurnHost::with_file_changes`], [`fallback`] |
//! | walk a goal to reviewed work; hold a debate; measure reviewers | the crates `nexus-turn-tasks`, `nexus-turn-debates`, `nexus-turn-testbed` |
//! | run turns on other machines, by the key `pool` | `FleetPools` with [`Registry::with_pools`], `Worker`, `FleetHoldStore` (feature `fleet`) |
//! | serve a session's tools to another program | `McpServer` (feature `mcp-server`) |
//!
//! # The crates behind it
//!
//! This crate has no logic of its own: it gives each public name once. `nexus_core` is the seam,
//! `nexus_router` the configuration and the choice, `nexus_work` folders that hold work and the types of agents,
//! `nexus_conversations` conversations that have a name, `nexus_fleet` turns on other machines, `nexus_backends` the vendors and
//! their logins.
//!
//! # Features
//!
//! Each vendor is a feature of this crate, and so are `yaml` (reading `nexus.yaml`), `schema` (output schemas, and tools whose
//! schema was written by hand), `globs` (globs in what must not be touched), `files` (searching files of a scope, and
//! `FileTools`) and `conversations` (conversations that have a name). These are on by default; `keyring` and `fleet`
//! (turns on other machines) are not. The feature `mcp-server` is there for itself, too: it serves a session's tools to another program.

/// The Rust code of README.md and of the book, compiled and run by `cargo test --doc`.
#[cfg(all(
    doctest,
    feature = "yaml",
    feature = "schema",
    feature = "globs",
    feature = "files",
    feature = "conversations"
))]
mod pages {
    macro_rules! pages {
        ($($name:ident: $path:literal;)*) => {
            $(#[doc = include_str!($path)] struct $name;)*
        };
    }

    pages! {
        Readme: "../README.md";
        Approvals: "../docs/guide/approvals.md";
        Conversations: "../docs/guide/conversations.md";
        CustomBackend: "../docs/guide/custom-backend.md";
        Errors: "../docs/guide/errors.md";
        FileTools: "../docs/guide/file-tools.md";
        Records: "../docs/guide/records.md";
        Routing: "../docs/guide/routing.md";
        Scope: "../docs/guide/scope.md";
        Steering: "../docs/guide/steering.md";
        StructuredOutput: "../docs/guide/structured-output.md";
        Tools: "../docs/guide/tools.md";
        Turns: "../docs/guide/turns.md";
    }
}

#[cfg(any(feature = "login", feature = "responses"))]
pub use nexus_backends::http;
#[cfg(feature = "mcp-server")]
pub use nexus_backends::mcp_server::McpServer;
#[cfg(feature = "login")]
pub use nexus_backends::{OwnLogin, UnknownLogin, login, logins};
pub use nexus_backends::{Vendor, auth, registry, vendors};
#[cfg(feature = "cli")]
pub use nexus_backends::{cli, process};
#[cfg(feature = "conversations")]
pub use nexus_conversations::{
    Continuity, Conversation, ConversationError, ConversationErrorKind, ConversationList,
    ConversationMessage, ConversationName, ConversationOptions, ConversationOutcome, ConversationSummary,
    ConversationSweep, ConversationTurn, Conversations, DEFAULT_SEED_BYTES, HeldConversation, NotCarried,
    Seed, TurnOrder, WhenLost,
};
#[cfg(feature = "files")]
pub use nexus_core::FileTools;
pub use nexus_core::{
    AccessEnforcer, AccessSupport, AccessTable, AppliedEffort, Approval, ApprovalAction, ApprovalRequest,
    Approver, Availability, BackendId, BackendKind, BeforeRetry, Brief, Budget, BudgetAmount,
    BudgetReservation, BudgetUsedUp, BuildContext, CallId, CancelToken, Capabilities, Clock, ConfigSection,
    Containment, ConversationMode, Cost, CostReport, CostSource, Credential, CredentialError,
    CredentialSource, Decision, Denial, Effects, Effort, Enforcement, ErrorKind, EventEnvelope, EventSink,
    EventSinkExt, ExecutionBackend, ExecutionBackendExt, FailedAttempt, FileChanges, FinishReason,
    ForgetError, ForgetSupport, Forgotten, Handover, IdleLimits, InputDelivery, IntoToolResult, Json, Limit,
    LimitSupport, Limits, LoopMode, Message, MessageId, ModelId, NoTools, NotApproved, NotDelivered,
    NullSink, OnLost, Outbox, OutputProblem, OutputSchema, OutputSupport, Overlay, Partial, ParticipantId,
    ParticipantScope, PathAccess, PathArgument, PathDenial, PathRule, PendingInput, Permit, Phase, Picture,
    Pools, ProcessExit, ProcessReport, PromptBlock, Provenance, QuarantineReason, Quarantined, RecordError,
    RecordFile, RecordLog, RecordedOutcome, RecordedRequest, Recorder, Registry, RemoteSession, ResumeHandle,
    Retry, ScopeError, ScopedFiles, Secret, SentInput, ServerAddress, Session, SessionBounds, SessionMark,
    SessionToken, SettingsError, SharedLogins, Skipped, Standing, SteeredTurn, Steering, StreamItem,
    Submission, Support, Survivor, SystemClock, TextGranularity, Tool, ToolAccess, ToolCall, ToolCallRecord,
    ToolCallStatus, ToolContent, ToolDefinition, ToolFault, ToolPattern, ToolResult, ToolRouter, Toolbox,
    TraceContext, TurnError, TurnErrorReport, TurnEvent, TurnHost, TurnOverride, TurnRecord, TurnRecording,
    TurnRequest, TurnResult, TurnSession, TurnStream, Unmet, Usage, Usd, VendorId, WriteSlice, error,
    harness, record, redact, schemars, scope, tool, turn,
};
#[cfg(feature = "fleet")]
pub use nexus_fleet::{
    Fleet, FleetBackend, FleetCredentials, FleetError, FleetHoldStore, FleetKey, FleetPools, FleetSettings,
    FleetStatus, LoginOwner, NatsError, Offer, PROTOCOL_VERSION, PoolStatus, Priority, Worker,
    WorkerSettings, WorkerStatus, WorkspaceMode, name_fault,
};
pub use nexus_router::{
    Binding, ConfigError, ExplainedChain, ExplainedEntry, ExplainedSeat, ExplainedTarget, Explanation,
    FallbackRule, Hold, KindError, Lens, Panel, PanelOutcome, PanelSink, Position, Problem, RoutedBackend,
    Router, RouterBuilder, Seat, SeatEvent, SeatOutcome, SharedAddress, Shortfall, SilentSeat, UnknownKind,
    Verdict, Vote, WorkKind, fallback, hold, json_schema, panel,
};
#[cfg(target_os = "linux")]
pub use nexus_trees as tree;
pub use nexus_work as workspace;
pub use nexus_work::{
    AgentType, AgentTypeError, AgentTypes, EventLog, NewWorkspace, Workspace, WorkspaceError,
    WorkspaceErrorKind, WorkspaceEvent, WorkspaceId, WorkspaceState, WorkspaceStatus, Workspaces, agent,
};
