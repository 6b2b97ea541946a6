//! Nexus runs one turn of agent work on whichever vendor a line of `nexus.yaml` names: Claude Code, Codex,
//! Grok, or a backend of your own. Nothing above [`ExecutionBackend::run_turn`] learns which one it was.
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
//! `nexus_router` the configuration and the choice, `nexus_backends` the vendors and their logins, each behind a
//! feature of this crate (`claude`, `codex`, `grok`, `native`, `login`; all are on by default, `keyring` is not).

#[cfg(any(feature = "login", feature = "native"))]
pub use nexus_backends::http;
pub use nexus_backends::{auth, registry};
pub use nexus_core::{
    AccessSupport, AccessTable, AppliedEffort, Availability, BackendId, BackendKind, BuildContext, CallId,
    CancelToken, Capabilities, Clock, Cost, CostReport, CostSource, Credential, CredentialError,
    CredentialSource, Effects, Effort, Enforcement, ErrorKind, EventEnvelope, EventSink, EventSinkExt,
    ExecutionBackend, ExecutionBackendExt, Fence, FinishReason, IdleLimits, IntoToolResult, Json, Limit,
    LimitSupport, Limits, LoopMode, Message, MessageId, ModelId, NoTools, OnLost, Outbox, OutputProblem,
    OutputSchema, OutputSupport, Partial, Phase, Picture, PrintStyle, ProcessExit, ProcessReport,
    PromptBlock, Provenance, QuarantineReason, Quarantined, Recorder, Registry, ResumeHandle, Retry, Secret,
    SessionMode, SettingsError, Skipped, Standing, StreamItem, Support, Survivor, SystemClock,
    TextGranularity, Tool, ToolAccess, ToolCall, ToolCallRecord, ToolCallStatus, ToolContent, ToolDefinition,
    ToolFault, ToolResult, ToolRouter, Toolbox, TurnError, TurnErrorReport, TurnEvent, TurnHost, TurnPrinter,
    TurnRequest, TurnResult, TurnStream, Usage, Usd, VendorId, tool, turn,
};
pub use nexus_router::{
    Binding, ConfigError, ExplainedChain, ExplainedEntry, ExplainedSeat, ExplainedTarget, Explanation,
    FallbackRule, Hold, KindError, PanelOutcome, PanelSink, Position, Problem, RoutedBackend, Router,
    RouterBuilder, Seat, SeatEvent, SeatOutcome, UnknownKind, Verdict, Vote, WorkKind, fallback, hold,
    json_schema, panel,
};
