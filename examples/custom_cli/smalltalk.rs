//! Backend for the CLI `smalltalk`: its capabilities, the start of one process, and the meaning of its lines.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus::{
    AccessEnforcer, AccessSupport, Availability, CallId, Capabilities, Effects, Enforcement, ErrorKind,
    FinishReason, Limit, LoopMode, MessageId, OutputSupport, Phase, Retry, Support, TextGranularity,
    ToolAccess, ToolCallStatus, ToolContent, Usage,
    cli::{
        Attempt, Cli, Executable, Invocation, OutputLine, Prepared, ProcessEnd, Repair, StdinMode, Step,
        StopRequest, Translator, TurnPlan,
    },
    harness::Failure,
    turn::{
        MessageEnded, MessageVoided, Retrying, TextDelta, ThinkingDelta, ToolCallArguments, ToolCallFinished,
        ToolCallStarted, ToolOrigin, VoidCause,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The CLI: path of its program, and the host's environment.
#[derive(Debug)]
pub(crate) struct Smalltalk {
    pub(crate) program: PathBuf,
    pub(crate) environment: BTreeMap<String, String>,
}

#[async_trait]
impl Cli for Smalltalk {
    type Translator = Lines;

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Delegated);
        capabilities.text = TextGranularity::Deltas;
        capabilities.thinking = Support::Yes;
        capabilities.system = Support::Yes;
        capabilities.output = OutputSupport::Instructed;
        capabilities.harness_tools = Support::Yes;
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::Vendor);
        capabilities.access.unrestricted = AccessSupport::Kept(AccessEnforcer::None);
        // The driver enforces these limits from the events of the translator. The program also gets the limit on model calls
        // (`--max-calls`), because it may be ahead of its output. It reports no cost, so that limit is not supported.
        capabilities.limits.tool_calls = Enforcement::Ours;
        capabilities.limits.model_calls = Enforcement::Ours;
        capabilities.limits.output_tokens = Enforcement::Ours;
        capabilities
    }

    async fn probe(&self) -> Availability {
        match Executable::at(&self.program) {
            Ok(_) => Availability::ready(None),
            Err(error) => Availability::Unusable { reason: error.to_string() },
        }
    }

    async fn prepare(&self, plan: &TurnPlan, _attempt: Attempt) -> Result<Prepared<Lines>, Failure> {
        let request = &plan.request;
        let program =
            Executable::at(&self.program).map_err(|error| Failure::of(ErrorKind::NotInstalled, &error))?;
        let home = plan.home()?;
        // The child gets `PATH`, the locale, the variables that the request names, and a home of its own, but no other variable
        // of the host.
        let environment = plan.environment(&self.environment).with("HOME", home.path()).build();
        let environment = environment.map_err(|error| Failure::of(ErrorKind::InvalidRequest, &error))?;
        let has_tools = request.tool_access == ToolAccess::Unrestricted;
        let max_calls = request.limits.model_calls.map(|calls| calls.to_string());
        let mut arguments = vec!["--tools", if has_tools { "all" } else { "none" }];
        if let Some(model) = &request.model {
            arguments.extend(["--model", model.as_str()]);
        }
        if let Some(calls) = &max_calls {
            arguments.extend(["--max-calls", calls]);
        }
        // Send the texts of the caller over standard input, because every user of the machine can read an argument list.
        let instruction = request.output.as_ref().map(|schema| schema.instruction());
        let texts: Vec<&str> = request.prompt_texts().chain(instruction.as_deref()).collect();
        let invocation = Invocation::new(program, &plan.working_directory)
            .arguments(arguments)
            .environment(environment)
            .stdin(StdinMode::Open);
        Ok(Prepared::new(invocation, Lines::new(question(request.system.as_deref(), &texts))).with_home(home))
    }
}

/// A line of standard input.
fn question(system: Option<&str>, texts: &[&str]) -> String {
    format!("{}\n", json!({ "system": system, "texts": texts }))
}

/// Reads the lines of one process.
#[derive(Debug)]
pub(crate) struct Lines {
    question: String,
    phase: Phase,
    model_calls: u32,
}

/// A line of standard output.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said {
    Asking,
    Text { text: String },
    Thinking { text: String },
    Message { text: String, usage: Option<Usage> },
    ToolCall { id: CallId, name: String, input: Value },
    ToolResult { id: CallId, status: ToolCallStatus, text: String },
    Retry { attempt: u32, reason: String },
    Error { code: String, message: String, after_seconds: Option<u64>, resets_at: Option<u64> },
    Done,
}

impl Lines {
    fn new(question: String) -> Self {
        Self { question, phase: Phase::Start, model_calls: 0 }
    }

    fn message(&self) -> MessageId {
        format!("message-{}", self.model_calls).into()
    }

    fn said(&mut self, said: Said, step: &mut Step) {
        self.phase = match &said {
            Said::Asking | Said::ToolResult { .. } => Phase::FirstByte,
            Said::ToolCall { .. } => Phase::Tool,
            _ => Phase::Model,
        };
        match said {
            Said::Asking => {
                self.model_calls += 1;
                step.model_calls = Some(self.model_calls);
            }
            Said::Text { text } => step.event(TextDelta::new(self.message(), text)),
            Said::Thinking { text } => step.event(ThinkingDelta::new(self.message(), text)),
            Said::Message { text, usage } => {
                step.event(MessageEnded::new(self.message(), text).with_usage(usage));
            }
            Said::ToolCall { id, name, input } => {
                let effects = match name.as_str() {
                    "read_file" => Effects::Read,
                    "shell" | "write_file" => Effects::Wrote,
                    _ => Effects::Unknown,
                };
                step.event(ToolCallStarted::new(id.clone(), name, ToolOrigin::Harness, effects));
                step.event(ToolCallArguments::new(id, input));
            }
            Said::ToolResult { id, status, text } => {
                step.event(ToolCallFinished::new(id, status, vec![ToolContent::text(text)]));
            }
            Said::Retry { attempt, reason } => {
                step.event(MessageVoided::new(self.message(), VoidCause::Retry));
                step.event(Retrying::new(attempt, reason));
            }
            Said::Error { code, message, after_seconds, resets_at } => {
                let after = after_seconds.map(|seconds| Retry::After(Duration::from_secs(seconds)));
                let at = resets_at.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at)));
                let failure = Failure::new(kind_of(&code), message);
                step.failed(failure.with_named_retry(at.map(Retry::At).or(after)));
            }
            // The driver checks the answer, and requests a repair if it does not match the schema.
            Said::Done => step.answered(FinishReason::Stop),
        }
    }
}

impl Translator for Lines {
    fn open(&mut self, step: &mut Step) {
        step.write(std::mem::take(&mut self.question));
    }

    // Never drop an unreadable line: repair it and read it again, or report it as an event.
    fn read_line(&mut self, line: OutputLine<'_>, step: &mut Step) -> bool {
        match serde_json::from_slice(line.bytes) {
            Ok(said) => {
                self.said(said, step);
                true
            }
            Err(_) => false,
        }
    }

    fn interrupt(&mut self, _step: &mut Step) -> StopRequest {
        StopRequest::Signals
    }

    fn repair(&mut self, instruction: &str, step: &mut Step) -> Repair {
        step.write(question(None, &[instruction]));
        Repair::SameProcess
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    /// Does nothing: the program stores no record that could complete its lines. Without an outcome in them, the turn has crashed.
    fn ended(&mut self, _end: &ProcessEnd<'_>, _step: &mut Step) {}
}

/// Returns the error kind for an error code of the program.
fn kind_of(code: &str) -> ErrorKind {
    match code {
        "unauthenticated" => ErrorKind::Unauthenticated,
        "forbidden" => ErrorKind::Forbidden,
        "no_such_model" => ErrorKind::ModelUnavailable,
        "rate_limited" => ErrorKind::RateLimited,
        "plan_used_up" => ErrorKind::UsageLimit,
        "overloaded" => ErrorKind::Overloaded,
        "too_long" => ErrorKind::ContextExceeded,
        "bad_request" => ErrorKind::InvalidRequest,
        "refused" => ErrorKind::Refused,
        "incomplete" => ErrorKind::Incomplete,
        "unreachable" => ErrorKind::Transport,
        "max_calls" => ErrorKind::LimitReached(Limit::ModelCalls),
        "unreadable" => ErrorKind::Protocol,
        _ => ErrorKind::VendorFailure,
    }
}
