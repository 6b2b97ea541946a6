//! The seam of Nexus: the interface for one turn of agent work, on any backend.
//!
//! A program passes a [`TurnRequest`] to an [`ExecutionBackend`] and gets [`TurnEvent`]s during the work, then one
//! [`TurnResult`] or one [`TurnError`]. Everything here is neutral: this crate names no vendor, opens no socket, spawns no
//! process and reads no configuration file.
//!
//! | to | see |
//! | --- | --- |
//! | run a turn | [`ExecutionBackend`], [`ExecutionBackendExt`] |
//! | describe the turn | [`TurnRequest`], [`Limits`], [`ToolAccess`], [`ConversationMode`] |
//! | receive its events | [`TurnEvent`], [`EventSink`] |
//! | read how it ended | [`TurnResult`], [`TurnError`], [`ErrorKind`], [`Retry`], [`Partial`] |
//! | delete a stored conversation | [`ExecutionBackend::forget`], [`Forgotten`] |
//! | record turns, and read the records | [`RecordFile`], [`RecordLog`], [`TurnRecord`] |
//! | limit the cost of many turns together | [`Budget`], [`TurnHost::with_budget`] |
//! | offer tools | [`Toolbox`], [`Tool`], or [`ToolRouter`] itself |
//! | offer tools for files | `FileTools` (feature `files`), over [`ScopedFiles`] |
//! | let the model submit a typed answer, which ends the turn | [`Tool::submit`], [`Submission`] |
//! | restrict an agent to a scope | [`ParticipantScope`], [`Session`], [`TurnHost::with_session`] |
//! | decide on a turn's calls on another machine | [`RemoteSession`], [`Session::remote`] |
//! | steer an agent while its turn runs | [`Steering`], [`TurnHost::with_steering`] |
//! | let a person approve single calls | [`Approver`], [`TurnHost::with_approver`] |
//! | let a person answer questions of an agent | [`Approver::with_questions`], [`AgentQuestion`] |
//! | list the calls of an agent and the denied ones | [`Session::decisions`], [`Decision`], [`Denial`] |
//! | lend credentials of your own | [`CredentialSource`] |
//! | write a backend | the contract of [`ExecutionBackend`], then [`harness`] |
//!
//! Three features are on by default: `schema` (output schemas, and tools with a hand-written schema), `globs` (globs for protected
//! paths) and `files` (searching files of a scope, replacing them by hash, and `FileTools`). A feature adds items. Without a feature, a
//! request that needs its checks is rejected.

pub mod approval;
pub mod availability;
pub mod backend;
pub mod backend_ext;
pub mod before_retry;
pub mod budget;
pub mod cancel;
pub mod capabilities;
pub mod clock;
pub mod credential;
pub mod credential_source;
pub mod detection;
pub mod error;
pub mod file_changes;
#[cfg(feature = "files")]
mod file_tools;
mod forget;
pub mod harness;
pub mod id;
pub mod item;
mod journal;
mod json_schema;
pub mod lenient_json;
pub mod message_line;
mod model_list;
#[doc(hidden)]
pub mod name_type;
mod picture;
mod providers;
mod question;
pub mod record;
pub mod redact;
pub mod registry;
pub mod scope;
pub mod secret;
mod service_error;
pub mod settings_schema;
mod steering;
pub mod tool;
mod trace_context;
pub mod turn;
mod variable_name;
pub mod visible;

/// The crate for the JSON Schemas of types, as in [`OutputSchema::of`] and [`Tool::new`].
pub use schemars;

pub use approval::{Approval, ApprovalAction, ApprovalRequest, Approver, NotApproved};
pub use availability::Availability;
pub use backend::{ExecutionBackend, TurnHost};
pub use backend_ext::{ExecutionBackendExt, StreamItem, TurnStream};
pub use before_retry::{BeforeRetry, FailedAttempt};
pub use budget::{Budget, BudgetAmount, BudgetReservation, BudgetUsedUp};
pub use cancel::CancelToken;
pub use capabilities::{
    AccessEnforcer, AccessSupport, AccessTable, Capabilities, Containment, CostReport, Enforcement,
    ForgetSupport, LimitSupport, LoopMode, OutputSupport, ServerAddress, Support, TextGranularity, Unmet,
};
pub use clock::{Clock, SystemClock};
pub use credential::{Credential, SigningKey};
pub use credential_source::{CredentialError, CredentialSource, Standing};
pub use error::{
    ErrorKind, Handover, Limit, Partial, Phase, ProcessExit, ProcessReport, Retry, Skipped, Survivor,
    TurnError, TurnErrorReport,
};
pub use file_changes::FileChanges;
#[cfg(feature = "files")]
pub use file_tools::FileTools;
pub use forget::{ForgetError, Forgotten};
pub use harness::{EventQueue, Outbox, Recorder};
pub use id::{BackendId, CallId, MessageId, ModelId, ParticipantId, VendorId};
pub use journal::log_unrecorded;
pub use model_list::{ModelListError, ModelListing, OfferedModel};
pub use picture::MAX_PICTURE_BYTES;
pub use providers::{CompletedEntry, ProviderCheck, ProviderSummary};
pub use question::{
    AgentQuestion, FieldChoice, FieldInput, MAX_FIELD_CHOICES, MAX_QUESTION_FIELDS, QuestionField,
    QuestionReply, QuestionSubject, TextFormat,
};
pub use record::{
    RecordError, RecordFile, RecordLog, RecordedOutcome, RecordedRequest, TurnRecord, TurnRecording,
};
pub use registry::{
    BackendKind, BuildContext, ConfigSection, Pools, Providers, Registry, SettingsError, SharedLogins,
};
pub use scope::{
    Brief, Decision, DecisionOutcome, Denial, Overlay, ParticipantScope, PathAccess, PathArgument,
    PathDenial, PathRule, Permit, RemoteSession, ScopeError, ScopedFiles, Session, SessionBounds,
    SessionMark, SessionToken, ToolPattern, TurnOverride, TurnSession, WriteSlice,
};
pub use secret::Secret;
pub use service_error::{LostWork, ServiceError, ServiceErrorKind, ServiceFault};
pub use steering::{InputDelivery, NotDelivered, PendingInput, SentInput, SteeredTurn, Steering};
pub use tool::{
    IntoToolResult, Json, MAX_ANSWER_BYTES, NoTools, Picture, QuarantineReason, Quarantined, Submission,
    Tool, ToolCall, ToolContent, ToolDefinition, ToolFault, ToolResult, ToolRouter, Toolbox,
};
pub use trace_context::TraceContext;
pub use turn::{
    AppliedEffort, ConversationMode, Cost, CostSource, Effects, Effort, EventEnvelope, EventSink,
    EventSinkExt, FinishReason, IdleLimits, Limits, Message, NotOfType, NullSink, OnLost, OutputProblem,
    OutputSchema, PromptBlock, Provenance, ResumeHandle, ToolAccess, ToolCallRecord, ToolCallStatus,
    TurnEvent, TurnRequest, TurnResult, Usage, Usd,
};
pub use variable_name::{looks_like_key, variable_name_fault};
