//! Shared parts of all backends, for native loops and for vendors' programs: admission, limits, cancellation, the record,
//! delivery of events to the sink, and the check of the answer.
//!
//! | to write | use |
//! | --- | --- |
//! | a backend with a loop of its own | [`RunningTurn`]: one value from admission to the end; `answer_calls` for the caller's tools |
//! | a loop that needs more control | the parts: [`admit`], [`TurnLog`], [`Watch`], [`AnswerCheck`], [`over_limit`], [`Overrun`], [`Renewal`], [`Repeats`], [`TurnSpan`] |
//! | a CLI that reads and writes lines | `nexus_backends::cli`, in place of this module |
//! | a wrapper or a sink | [`EventQueue`] |
//!
//! Every backend
//!
//! 1. rejects a turn that it cannot run, before any cost: [`admit`];
//! 2. reports every event to a [`TurnLog`], which records it and queues it for the sink;
//! 3. waits with [`TurnLog::wait_for`], which enforces the time limits, cancellation and the sink, and reports signs
//!    of life to its [`Watch`];
//! 4. checks the record against the counted limits: [`over_limit`], and [`Overrun`] for calls beyond a budget;
//! 5. checks the answer: [`AnswerCheck`];
//! 6. sends the last events, and ends with a result or an error: [`TurnLog::flush`], [`TurnLog::into_result`],
//!    [`TurnLog::into_error`].
//!
//! No secret leaves a turn: a backend adds its lent credentials to [`Session::redactor`](crate::Session::redactor)
//! ([`RunningTurn::hide`]). [`TurnLog`] removes them from all output of the turn, and the session from the arguments
//! of tools.
//!
//! A failure is a [`Failure`]: its [`ErrorKind`](crate::ErrorKind) names the caller's options, and
//! [`Failure::with_retry`] the time of the next attempt.
//!
//! Timers are Tokio's: poll futures of this module that wait for a time within a Tokio runtime with its time driver
//! enabled. A request without time limits creates no timer.
//! # A backend
//!
//! This backend calls a function. If an answer does not fit the schema, it calls the function again.
//!
//! ```
//! use async_trait::async_trait;
//! use nexus_core::{
//!     AccessSupport, Availability, BackendId, Capabilities, EventSink, ExecutionBackend, ExecutionBackendExt as _,
//!     AccessEnforcer, FinishReason, ForgetError, Forgotten, LoopMode, OutputSupport, Phase, ResumeHandle, TurnError, TurnHost,
//!     TurnRequest, TurnResult,
//!     harness::{Checked, Failure, RunningTurn},
//!     turn::MessageEnded,
//! };
//! use serde_json::Value;
//!
//! /// A stand-in for a model: takes a prompt and returns an answer.
//! async fn model(prompt: &str) -> String {
//!     if prompt.contains("JSON Schema") { "{ \"moons\": 2 }".to_owned() } else { "two".to_owned() }
//! }
//!
//! #[derive(Debug)]
//! struct Minimal {
//!     id: BackendId,
//! }
//!
//! impl Minimal {
//!     async fn answer(&self, turn: &mut RunningTurn<'_>) -> Result<(FinishReason, Option<Value>), Failure> {
//!         let mut prompt = turn.request.prompt_text();
//!         if let Some(schema) = &turn.request.output {
//!             prompt = format!("{prompt}\n{}", schema.instruction());
//!         }
//!         loop {
//!             turn.model_call()?;
//!             let text = turn.wait(Phase::FirstByte, model(&prompt)).await?;
//!             turn.event(MessageEnded::new(format!("answer-{}", turn.log.model_calls).into(), text));
//!             match turn.check_answer(None) {
//!                 Checked::Fits(output) => return Ok((FinishReason::Stop, output)),
//!                 Checked::AskAgain(instruction) => prompt = instruction,
//!                 Checked::Useless(failure) => return Err(failure),
//!             }
//!         }
//!     }
//! }
//!
//! #[async_trait]
//! impl ExecutionBackend for Minimal {
//!     fn id(&self) -> &BackendId {
//!         &self.id
//!     }
//!
//!     fn capabilities(&self) -> Capabilities {
//!         let mut capabilities = Capabilities::new(LoopMode::Native);
//!         capabilities.output = OutputSupport::Instructed;
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
//!         let mut turn = RunningTurn::begin(&self.id, &self.capabilities(), request, host, events)?;
//!         let outcome = self.answer(&mut turn).await;
//!         turn.end(outcome).await
//!     }
//!
//!     async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
//!         Err(ForgetError::Unsupported { backend: self.id.clone() })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use nexus_core::{ErrorKind, OutputSchema};
//!
//! let minimal = Minimal { id: BackendId::new("minimal") };
//! let question = TurnRequest::new("How many moons does Mars have?");
//! assert_eq!(minimal.run_text(question.clone()).await?.text, "two");
//!
//! let schema = serde_json::json!({ "type": "object", "required": ["moons"] });
//! let typed = question.clone().with_output(OutputSchema::new(schema)?);
//! assert_eq!(minimal.run_text(typed).await?.output.unwrap()["moons"], 2);
//!
//! let refused = minimal.run_text(question.with_system("Be brief.")).await.unwrap_err();
//! assert_eq!(refused.kind(), ErrorKind::Unsupported);
//! # Ok(())
//! # }
//! ```

mod admission;
mod answer;
mod blocking;
mod counted_limits;
mod event_queue;
mod failure;
mod outbox;
mod overrun;
mod pending_call;
mod recorder;
mod redaction;
mod renewal;
mod repeats;
mod retry_cause;
mod running_turn;
mod submission;
mod turn_log;
mod turn_span;
mod turn_trace;
mod watch;

pub use admission::admit;
pub use answer::{AnswerCheck, Checked};
#[cfg(feature = "files")]
pub(crate) use blocking::has_thread;
pub use blocking::{run_blocking, run_cancellable, try_blocking};
pub use counted_limits::{over_limit, over_limit_with};
pub use event_queue::EventQueue;
pub use failure::Failure;
pub use outbox::Outbox;
pub use overrun::Overrun;
pub use pending_call::PendingCall;
pub use recorder::Recorder;
pub use renewal::Renewal;
pub use repeats::{Repeats, Round};
pub use retry_cause::RetryCause;
pub use running_turn::RunningTurn;
pub use submission::{batches, is_submitted, with_submission};
pub use turn_log::TurnLog;
pub use turn_span::{ToolSpan, TurnSpan};
pub use turn_trace::ModelCall;
pub use watch::{Watch, sleep_until};
