//! Nexus runs one turn of agent work on Claude Code, Codex, Grok, another coding agent, a model behind an API, or a backend of your own. One line of
//! `nexus.yaml` decides which. The caller gets the same events, results and errors from each of them.
//!
//! | to do this | see |
//! | --- | --- |
//! | load `nexus.yaml`, or a configuration that the program built | `Router::from_file`, `ConfigFile` (feature `yaml`), [`Router::from_value`], [`ConfigError`] |
//! | run a turn | [`Router::run_turn`], [`Router::run_text`]; on one backend: [`ExecutionBackendExt`] |
//! | describe the turn | [`TurnRequest`], [`Limits`], [`ToolAccess`], [`ConversationMode`], [`Effort`] |
//! | receive its events | [`TurnEvent`], [`EventSink`], [`TurnStream`] |
//! | stop it | drop the future, or [`CancelToken`] with [`TurnHost::with_cancel`] |
//! | send text to the agent while it runs | [`Steering`], [`TurnHost::with_steering`] |
//! | read the answer | [`TurnResult`], [`Usage`], [`Cost`], [`Provenance`] |
//! | get a typed answer | [`OutputSchema`], [`TurnResult::output_as`]; by a tool call: [`Tool::submit`], [`Submission`] |
//! | handle a failure | [`mod@error`], [`TurnError`], [`ErrorKind`], [`Retry`], [`Partial`] |
//! | offer tools of your own | [`Toolbox`], [`Tool`], [`TurnHost::with_tools`] |
//! | offer tools that list, read, search and change files | `FileTools` (feature `files`), over [`ScopedFiles`] |
//! | restrict an agent to tools and paths, and see its calls | [`Brief`], [`ParticipantScope`], [`Session`], [`Session::decisions`] |
//! | approve single calls of an agent | [`Approver`], [`TurnHost::with_approver`] |
//! | resume a conversation | [`ResumeHandle`], [`ConversationMode`] |
//! | name a conversation, fork it, continue it on another vendor | `Conversations`, `HeldConversation::run_turn`, `WhenLost` (feature `conversations`) |
//! | run without a configuration, on what the machine has | `Router::detect`, `DetectedConfig` (feature `yaml`), [`detection`] |
//! | delete a stored conversation | [`Router::forget`], [`ExecutionBackend::forget`] |
//! | record turns, and read the records | [`RecordFile`], [`RecordLog`], [`TurnRecord`] |
//! | control fallback, and see suspended backends | [`fallback`], [`hold`], [`Router::holds`] |
//! | record what turns spend, within budgets of a day or a month | [`spending`], [`RouterBuilder::spending_book`] |
//! | see which backend would run a turn, and why | [`Router::explain`] |
//! | apply a changed file while turns run | [`Router::reload`] |
//! | ask several vendors at once | [`Router::run_panel`], [`panel`] |
//! | limit the cost of many turns | [`Budget`], [`TurnHost::with_budget`] |
//! | log in to a plan, and list the logins | `login`, `logins`, `OwnLogin` (feature `login`), [`auth`] |
//! | supply credentials of your own | [`CredentialSource`], [`BuildContext::with_credential_source`] |
//! | add a backend | [`ExecutionBackend`], [`harness`], [`RouterBuilder::backend`]; as a kind that `nexus.yaml` can name: [`BackendKind`] |
//! | add a line-speaking CLI | `cli` (feature `cli`) |
//! | test a backend against the contract | `nexus-turn-testkit`: its `conformance` |
//! | store work in folders that survive a crash; tiers and types of agents | [`workspace`], [`agent`] |
//! | let agents work on a project in separate folders, see every change, land it | `tree` (on Linux) |
//! | report changed files to a fallback | [`TurnHost::with_file_changes`], [`fallback`] |
//! | run reviewed tasks, debates, experiments | the crates `nexus-turn-tasks`, `nexus-turn-debates`, `nexus-turn-testbed` |
//! | run turns on other machines | `FleetPools` with [`Registry::with_pools`], `Worker`, `FleetHoldStore` (feature `fleet`) |
//! | serve a session's tools to another program | `McpServer` (feature `mcp-server`) |
//!
//! # Stream a turn
//!
//! ```no_run
//! # #[cfg(feature = "yaml")]
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     use nexus::{BuildContext, EventEnvelope, Router, TurnEvent, TurnHost, TurnRequest};
//!
//!     let router = Router::from_file("nexus.yaml", nexus::registry(), BuildContext::from_process())?;
//!     let request = TurnRequest::new("Name the three largest moons of Saturn.");
//!     let mut events = |envelope: EventEnvelope| {
//!         if let TurnEvent::TextDelta(delta) = envelope.event {
//!             print!("{}", delta.text);
//!         }
//!     };
//!     let result = router.run_turn("executor", request, TurnHost::new(), &mut events).await?;
//!     println!("\n{:?}", result.usage);
//!     Ok(())
//! }
//! # #[cfg(not(feature = "yaml"))]
//! # fn main() {}
//! ```
//!
//! # Typed tools and a typed answer
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use nexus::{BuildContext, EventEnvelope, Router, Submission, Tool, Toolbox, TurnHost, TurnRequest};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct City {
//!     name: String,
//! }
//!
//! #[derive(Debug, Deserialize, JsonSchema)]
//! struct Forecast {
//!     degrees: i32,
//!     summary: String,
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let configuration = serde_json::json!({
//!         "groups": { "anthropic": ["claude-cli"] }, "types": { "executor": { "group": "anthropic" } }
//!     });
//!     let router = Router::from_value(configuration, nexus::registry(), BuildContext::from_process())?;
//!     let forecast = Submission::<Forecast>::new();
//!     let tools = Toolbox::new()
//!         .with(Tool::new("temperature", "Returns the temperature of a city.", |city: City| async move {
//!             match city.name.as_str() {
//!                 "Oslo" => Ok("7"),
//!                 _ => Err("unknown city: ask for Oslo"),
//!             }
//!         }))
//!         .with(Tool::submit("submit_forecast", "Submits the forecast.", &forecast));
//!     let host = TurnHost::new().with_tools(Arc::new(tools));
//!     let request = TurnRequest::new("How is the weather in Oslo?");
//!     router.run_turn("executor", request, host, &mut |_: EventEnvelope| {}).await?;
//!     println!("{:?}", forecast.take());
//!     Ok(())
//! }
//! ```
//!
//! # Handle each kind of error
//!
//! ```
//! use nexus::{ErrorKind, Retry, TurnError};
//!
//! /// Returns the next action of a program after a failed turn.
//! fn next_action(error: &TurnError) -> String {
//!     let action = match error.kind() {
//!         ErrorKind::NotInstalled | ErrorKind::Unauthenticated | ErrorKind::Forbidden => "fix the setup",
//!         ErrorKind::InvalidRequest | ErrorKind::ContextExceeded | ErrorKind::OutputInvalid => "change the request",
//!         ErrorKind::Cancelled | ErrorKind::LimitReached(_) => "use the partial result",
//!         ErrorKind::Exhausted => "look at each backend",
//!         _ => "try again",
//!     };
//!     let time = match error.retry() {
//!         Retry::Never => String::new(),
//!         Retry::Now => ", now".to_owned(),
//!         Retry::After(wait) | Retry::Guessed(wait) => format!(", in {} s", wait.as_secs()),
//!         Retry::At(time) => format!(", at {time:?}"),
//!         _ => String::new(),
//!     };
//!     let passed_over: Vec<String> = error.skipped().iter().map(|skipped| skipped.reason.clone()).collect();
//!     format!("{action}{time}: {error}; passed over: {passed_over:?}; received: {:?}", error.partial().text)
//! }
//! # let _ = next_action;
//! ```
//!
//! # A panel
//!
//! ```no_run
//! use nexus::{BuildContext, Router, Seat, SeatEvent, TurnHost, TurnRequest, Vote};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let configuration = serde_json::json!({
//!         "groups": { "anthropic": ["claude-cli"], "openai": ["codex-cli"] },
//!         "types": { "reviewer": { "panel": "review" } },
//!         "panels": { "review": [{ "group": "anthropic" }, { "group": "openai" }] }
//!     });
//!     let router = Router::from_value(configuration, nexus::registry(), BuildContext::from_process())?;
//!     let request = TurnRequest::new("Is this safe? `fn half(n: u32) -> u32 { n / 2 }`");
//!     let ask = |_: &Seat| (request.clone(), TurnHost::new());
//!     let outcome = router.run_panel(&router.panel("reviewer")?, ask, &mut |_: SeatEvent| {}).await;
//!     for seat in &outcome.seats {
//!         match seat.vote() {
//!             Vote::Answer(result) => println!("{}: {}", seat.seat, result.text),
//!             Vote::None(reason) => println!("{}: no vote: {reason}", seat.seat),
//!         }
//!     }
//!     println!("enough vendors answered: {}", outcome.shortfall().is_none());
//!     Ok(())
//! }
//! ```
//!
//! # Your own backend
//!
//! ```
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use nexus::{
//!     AccessEnforcer, AccessSupport, Availability, BackendId, BuildContext, Capabilities, EventEnvelope, EventSink,
//!     ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode, ResumeHandle, Router, TurnError, TurnHost,
//!     TurnRequest, TurnResult, harness::RunningTurn, turn::MessageEnded,
//! };
//!
//! /// Counts the words of its prompt.
//! #[derive(Debug)]
//! struct WordCounter(BackendId);
//!
//! #[async_trait]
//! impl ExecutionBackend for WordCounter {
//!     fn id(&self) -> &BackendId {
//!         &self.0
//!     }
//!
//!     fn capabilities(&self) -> Capabilities {
//!         let mut capabilities = Capabilities::new(LoopMode::Native);
//!         capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
//!         capabilities
//!     }
//!
//!     async fn probe(&self) -> Availability {
//!         Availability::ready(None)
//!     }
//!
//!     async fn run_turn(
//!         &self,
//!         request: TurnRequest,
//!         host: TurnHost,
//!         events: &mut dyn EventSink,
//!     ) -> Result<TurnResult, TurnError> {
//!         let mut turn = RunningTurn::begin(&self.0, &self.capabilities(), request, host, events)?;
//!         let text = format!("{} words", turn.request.prompt_text().split_whitespace().count());
//!         turn.event(MessageEnded::new("m1".into(), text));
//!         turn.end(Ok((FinishReason::Stop, None))).await
//!     }
//!
//!     async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
//!         Err(ForgetError::Unsupported { backend: self.0.clone() })
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let router = Router::builder(nexus::registry(), BuildContext::in_home("home"))
//!         .backend(Arc::new(WordCounter(BackendId::new("word-counter"))))
//!         .from_value(serde_json::json!({
//!             "groups": { "counters": ["word-counter"] }, "types": { "counter": { "group": "counters" } }
//!         }))?;
//!     let request = TurnRequest::new("How many words are here?");
//!     let result = router.run_turn("counter", request, TurnHost::new(), &mut |_: EventEnvelope| {}).await?;
//!     assert_eq!(result.text, "5 words");
//!     Ok(())
//! }
//! ```
//!
//! # Crates
//!
//! This crate re-exports the public names of the others, each once. `nexus_core` has the backend trait and everything neutral to vendors,
//! `nexus_router` the configuration and the choice of a backend, `nexus_backends` the vendors and their logins, `nexus_work` workspaces and types
//! of agents, `nexus_conversations` named conversations, `nexus_fleet` turns on other machines.
//!
//! # Features
//!
//! On by default: `claude`, `codex`, `grok` and `responses` (the vendors), `yaml` (reading `nexus.yaml`), `schema` (output schemas, and tools with a
//! hand-written schema), `globs` (globs in rules for protected paths), `files` (`FileTools`, searching files of a scope) and `conversations`.
//! Not on by default: `acp` (agents of the Agent Client Protocol), `keyring` and `fleet`. The vendors' features bring `cli` (the driver of CLIs),
//! `mcp-server` (serving a session's tools) and `login`; `responses` alone brings none of them.

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

#[cfg(feature = "acp")]
pub use nexus_backends::acp::{
    AgentFactsEvidence, AgentFileError, AgentFiles, AgentJudgement, JudgedCase, JudgedLevel, KnownAgentList,
    KnownAgentSummary, agents,
};
#[cfg(any(feature = "login", feature = "responses"))]
pub use nexus_backends::http;
#[cfg(feature = "mcp-server")]
pub use nexus_backends::mcp_server::McpServer;
#[cfg(feature = "mcp-servers")]
pub use nexus_backends::mcp_servers::{
    MCP_SERVERS, McpServerSummary, McpServers, OpenServers, RequiredServerError, ServerWorkspace,
};
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
    AccessEnforcer, AccessSupport, AccessTable, AgentQuestion, AppliedEffort, Approval, ApprovalAction,
    ApprovalRequest, Approver, Availability, BackendId, BackendKind, BeforeRetry, Brief, Budget,
    BudgetAmount, BudgetReservation, BudgetUsedUp, BuildContext, CallId, CancelToken, Capabilities, Clock,
    CompletedEntry, ConfigSection, Containment, ConversationMode, Cost, CostReport, CostSource, Credential,
    CredentialError, CredentialSource, Decision, Denial, Effects, Effort, Enforcement, ErrorKind,
    EventEnvelope, EventSink, EventSinkExt, ExecutionBackend, ExecutionBackendExt, FailedAttempt,
    FieldChoice, FieldInput, FileChanges, FinishReason, ForgetError, ForgetSupport, Forgotten, Handover,
    IdleLimits, InputDelivery, IntoToolResult, Json, Limit, LimitSupport, Limits, LoopMode,
    MAX_FIELD_CHOICES, MAX_QUESTION_FIELDS, Message, MessageId, ModelId, ModelListError, ModelListing,
    NoTools, NotApproved, NotDelivered, NullSink, OfferedModel, OnLost, Outbox, OutputProblem, OutputSchema,
    OutputSupport, Overlay, Partial, ParticipantId, ParticipantScope, PathAccess, PathArgument, PathDenial,
    PathRule, PendingInput, Permit, Phase, Picture, Pools, ProcessExit, ProcessReport, PromptBlock,
    Provenance, ProviderCheck, ProviderSummary, Providers, QuarantineReason, Quarantined, QuestionField,
    QuestionReply, QuestionSubject, RecordError, RecordFile, RecordLog, RecordedOutcome, RecordedRequest,
    Recorder, Registry, RemoteSession, ResumeHandle, Retry, ScopeError, ScopedFiles, Secret, SentInput,
    ServerAddress, Session, SessionBounds, SessionMark, SessionToken, SettingsError, SharedLogins, Skipped,
    Standing, SteeredTurn, Steering, StreamItem, Submission, Support, Survivor, SystemClock, TextFormat,
    TextGranularity, Tool, ToolAccess, ToolCall, ToolCallRecord, ToolCallStatus, ToolContent, ToolDefinition,
    ToolFault, ToolPattern, ToolResult, ToolRouter, Toolbox, TraceContext, TurnError, TurnErrorReport,
    TurnEvent, TurnHost, TurnOverride, TurnRecord, TurnRecording, TurnRequest, TurnResult, TurnSession,
    TurnStream, Unmet, Usage, Usd, VendorId, WriteSlice, detection, error, harness, record, redact, schemars,
    scope, tool, turn,
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
    Verdict, Vote, WorkKind, fallback, hold, json_schema, panel, spending,
};
#[cfg(feature = "yaml")]
pub use nexus_router::{ConfigFile, DetectError, DetectedConfig, DetectedEntry, NothingDetected};
#[cfg(target_os = "linux")]
pub use nexus_trees as tree;
pub use nexus_work as workspace;
pub use nexus_work::{
    AgentType, AgentTypeError, AgentTypes, EventLog, NewWorkspace, Workspace, WorkspaceError,
    WorkspaceErrorKind, WorkspaceEvent, WorkspaceId, WorkspaceState, WorkspaceStatus, Workspaces, agent,
};
