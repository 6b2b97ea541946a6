//! The driver over a CLI of our own: a shell script that prints what the test says.

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use nexus_core::{
    AccessEnforcer, AccessSupport, AgentQuestion, Approval, Approver, Availability, CancelToken,
    Capabilities, ConversationMode, Effort, Enforcement, ErrorKind, EventEnvelope, EventSink,
    ExecutionBackend, ExecutionBackendExt, FinishReason, IdleLimits, Limit, LimitSupport, Limits, LoopMode,
    NullSink, OnLost, OutputSchema, OutputSupport, Phase, QuestionReply, QuestionSubject, ResumeHandle,
    Support, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult, Usage,
    harness::Failure,
    turn::{MessageEnded, TextDelta, ToolCallFinished, ToolCallStarted, ToolOrigin},
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::backend::CliBackend;
use super::caller_tools::CallerTools;
use super::contract::{Attempt, Cli, Prepared, TurnPlan};
use super::startup::StartupWait;
use super::translator::{OutputLine, ProcessEnd, Repair, Step, StopRequest, Translator};
use nexus_process::environment::Environment;
use nexus_process::executable::Executable;
use nexus_process::spawn::{Invocation, StdinMode};

/// What was lent to the process.
const CANARY: &str = "canary-of-the-credential-3f9c";

/// Runs `sh` with one script per process of the turn; the last one repeats.
#[derive(Debug)]
pub(crate) struct Script {
    scripts: Vec<String>,
    pub(crate) spawned: Mutex<usize>,
    repair: Repair,
    lost_first: bool,
    /// The caller's tools, once a process was prepared that has some.
    pub(crate) tools: Mutex<Option<CallerTools>>,
    /// What the first process waits for.
    startup: Mutex<StartupWait>,
}

impl Script {
    pub(crate) fn new(script: &str) -> Self {
        Self::each(&[script])
    }

    pub(crate) fn each(scripts: &[&str]) -> Self {
        let scripts = scripts.iter().map(|script| (*script).to_owned()).collect();
        let (spawned, tools) = (Mutex::new(0), Mutex::new(None));
        let startup = Mutex::new(StartupWait::none());
        Self { scripts, spawned, repair: Repair::SameProcess, lost_first: false, tools, startup }
    }

    /// A script whose first process gives the warning `"wait"`, and may start once `until` has ended.
    fn after(until: impl Future<Output = ()> + Send + 'static, script: &str) -> Self {
        let wait = stream::once(async { "wait".to_owned() });
        let until = stream::once(until).filter_map(async |()| None);
        Self { startup: Mutex::new(StartupWait::until(wait.chain(until))), ..Self::new(script) }
    }
}

#[async_trait]
impl Cli for Script {
    type Translator = Reader;

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Delegated);
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        capabilities.output = OutputSupport::Instructed;
        capabilities.resume = Support::Yes;
        capabilities.caller_tools = Support::Yes;
        capabilities.efforts = vec![Effort::Low, Effort::High];
        capabilities.limits = LimitSupport::new()
            .with_tool_calls(Enforcement::Ours)
            .with_model_calls(Enforcement::Ours)
            .with_output_tokens(Enforcement::Ours)
            .with_cost(Enforcement::Unsupported);
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn prepare(&self, plan: &TurnPlan, attempt: Attempt) -> Result<Prepared<Reader>, Failure> {
        if self.lost_first && matches!(attempt, Attempt::First) {
            return Err(Failure::new(ErrorKind::ConversationLost, "no such conversation"));
        }
        self.tools.lock().unwrap().clone_from(&plan.tools);
        let mut spawned = self.spawned.lock().unwrap();
        let script = &self.scripts[(*spawned).min(self.scripts.len() - 1)];
        *spawned += 1;
        let host = [("PATH", std::env::var_os("PATH").unwrap_or_default())];
        let host = host.map(|(name, value)| (OsString::from(name), value));
        let environment = Environment::from_host(host).build().unwrap();
        let executable = Executable::find("sh", environment.value("PATH")).unwrap();
        let invocation = Invocation::new(executable, &plan.working_directory)
            .arguments(["-c", script])
            .environment(environment)
            .stdin(StdinMode::Open);
        plan.redactor.learn(CANARY);
        Ok(Prepared {
            invocation,
            translator: Reader {
                phase: Phase::Start,
                messages: 0,
                repair: self.repair,
                backend: plan.backend.clone(),
            },
            home: None,
            lease: None,
            sandbox: None,
            startup: std::mem::replace(&mut self.startup.lock().unwrap(), StartupWait::none()),
            version: Some("1.0".into()),
            warnings: Vec::new(),
        })
    }
}

/// The tool by which a script's model finds the caller's.
const FINDER: &str = "find";

/// Reads `{"text":…}`, `{"tool":id}`, `{"find":id}`, `{"list":id}`, `{"tool_done":id}`, `{"tokens":n}`, `{"calls":n}`, `{"done":text}`,
/// `{"asks":text}`, `{"withdraws":""}`, `{"fail":words}` and `{"no_tools":words}`.
#[derive(Debug)]
pub(crate) struct Reader {
    phase: Phase,
    messages: u32,
    repair: Repair,
    backend: nexus_core::BackendId,
}

impl Reader {
    fn message(&self) -> nexus_core::MessageId {
        format!("m{}", self.messages).into()
    }
}

impl Translator for Reader {
    fn open(&mut self, step: &mut Step) {
        step.resume = Some(ResumeHandle::new(self.backend.clone(), json!("s")));
    }

    fn read_line(&mut self, line: OutputLine<'_>, step: &mut Step) -> bool {
        let line: Value = serde_json::from_slice(line.bytes).unwrap();
        let text = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
        self.phase = Phase::Model;
        if let Some(text) = text("text") {
            step.event(TextDelta::new(self.message(), text));
        } else if let Some(id) = text("tool") {
            self.phase = Phase::Tool;
            step.event(ToolCallStarted::new(
                id.into(),
                "tool",
                ToolOrigin::Harness,
                nexus_core::Effects::Read,
            ));
        } else if let Some((name, id)) =
            [FINDER, "list"].into_iter().find_map(|name| Some((name, text(name)?)))
        {
            let effects = nexus_core::Effects::None;
            step.event(ToolCallStarted::new(id.clone().into(), name, ToolOrigin::Harness, effects));
            step.event(ToolCallFinished::new(id.into(), nexus_core::ToolCallStatus::Succeeded, Vec::new()));
        } else if let Some(id) = text("tool_done") {
            step.event(ToolCallFinished::new(id.into(), nexus_core::ToolCallStatus::Succeeded, Vec::new()));
        } else if let Some(tokens) = line.get("tokens").and_then(Value::as_u64) {
            let mut usage = Usage::new();
            usage.output_tokens = Some(tokens);
            step.usage = Some(usage);
        } else if let Some(calls) = line.get("calls").and_then(Value::as_u64) {
            step.model_calls = Some(calls as u32);
        } else if let Some(answer) = text("done") {
            step.event(MessageEnded::new(self.message(), answer));
            self.messages += 1;
            step.answered(FinishReason::Stop);
        } else if let Some(message) = text("asks") {
            let subject = QuestionSubject::Form { fields: Vec::new() };
            step.question(0, AgentQuestion::new(message, subject));
        } else if text("withdraws").is_some() {
            step.withdrawn.push(0);
        } else if let Some(words) = text("fail") {
            step.failed(Failure::new(ErrorKind::VendorFailure, words));
        } else if let Some(words) = text("no_tools") {
            step.failed(Failure::new(ErrorKind::ToolsUnavailable, words));
        }
        true
    }

    fn replied(&mut self, _question: u64, _reply: QuestionReply, step: &mut Step) {
        step.write("replied\n");
    }

    fn interrupt(&mut self, _step: &mut Step) -> StopRequest {
        StopRequest::Signals
    }

    fn repair(&mut self, _instruction: &str, step: &mut Step) -> Repair {
        if self.repair == Repair::SameProcess {
            step.write("again\n");
        }
        self.repair
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn tool_search(&self) -> Option<&'static str> {
        Some(FINDER)
    }

    fn ended(&mut self, _end: &ProcessEnd<'_>, _step: &mut Step) {}
}

pub(crate) struct Bench {
    pub(crate) backend: CliBackend<Script>,
    home: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(script: Script) -> Self {
        let home = tempfile::tempdir().unwrap();
        let nexus_home = home.path().join("nexus");
        Self { backend: CliBackend::new("script".into(), script, nexus_home), home }
    }

    async fn run(&self, request: TurnRequest) -> Result<TurnResult, TurnError> {
        self.backend.run_text(request).await
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Asserts that the turns left nothing in the folder of Nexus.
    pub(crate) fn assert_nothing_left(&self) {
        let mut left = Vec::new();
        for folder in ["runs", "tmp"] {
            let entries = std::fs::read_dir(self.path("nexus").join(folder)).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        }
        assert!(left.is_empty(), "{left:?}");
    }
}

pub(crate) fn request() -> TurnRequest {
    TurnRequest::new("go")
}

pub(crate) fn idle(idle: IdleLimits) -> TurnRequest {
    request().with_limits(Limits::new().with_idle(idle))
}

pub(crate) const SHORT: Duration = Duration::from_millis(300);

/// Longer than anything takes that is not meant to be waited for.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Sets the clock forward.
pub(crate) async fn let_pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn an_answer_is_an_answer_and_leaves_nothing() {
    let bench = Bench::new(Script::new(r#"echo '{"text":"half"}'; echo '{"done":"half"}'"#));
    let mut seen: Vec<EventEnvelope> = Vec::new();
    let result =
        bench.backend.run_turn(request(), TurnHost::new(), &mut |event| seen.push(event)).await.unwrap();
    assert_eq!(result.text, "half");
    assert_eq!(result.resume, None, "nothing was to be kept");
    assert_eq!(result.provenance.version.as_deref(), Some("1.0"));
    assert!(matches!(seen[0].event, TurnEvent::Started(_)));
    assert_eq!(seen.iter().map(|envelope| envelope.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    bench.assert_nothing_left();
}

#[tokio::test]
async fn an_end_without_a_word_is_a_crash_with_the_partial() {
    let bench = Bench::new(Script::new(r#"echo '{"text":"hal"}'; echo broken >&2; exit 3"#));
    let error = bench.run(request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Crashed);
    assert_eq!(error.partial().text, "hal");
    let process = error.process().unwrap();
    assert_eq!(process.exit, Some(nexus_core::ProcessExit::Code(3)));
    assert_eq!(process.stderr_tail.trim(), "broken");
}

/// The words of programs that could not start a process or a thread, or open a file.
#[tokio::test]
async fn a_program_that_the_machine_had_too_little_for_says_what_to_raise() {
    let no_process = "Resource temporarily unavailable (os error 11)";
    for (words, end, advice) in [
        (no_process, "exit 101", "`ulimit -u`"),
        ("/bin/sh: 1: Cannot fork", "exit 2", "`ulimit -u`"),
        ("Error: spawn /bin/sh EAGAIN", "exit 1", "`ulimit -u`"),
        ("Error: Too many open files (os error 24)", "exit 1", "`ulimit -n`"),
        (no_process, "sleep 30", "`ulimit -u`"),
    ] {
        let bench = Bench::new(Script::new(&format!("echo '{words}' >&2; {end}")));
        let mut idle = IdleLimits::none();
        idle.start = Some(Duration::from_secs(2));
        idle.first_byte = idle.start;
        let request = request().with_limits(Limits::new().with_idle(idle));
        let error = bench.run(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Crashed, "{words}: {error}");
        assert!(error.to_string().contains(advice), "{words}: {error}");
    }
}

#[tokio::test]
async fn exit_code_zero_without_a_word_is_no_success() {
    let error = Bench::new(Script::new("exit 0")).run(request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Crashed);
}

#[tokio::test]
async fn a_last_line_cut_short_is_kept_and_believed_by_nobody() {
    let bench = Bench::new(Script::new(r#"printf '{"done":"hal'"#));
    let mut seen = Vec::new();
    let mut sink = |envelope: EventEnvelope| seen.push(envelope.event);
    let error = bench.backend.run_turn(request(), TurnHost::new(), &mut sink).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Crashed);
    assert!(seen.iter().any(|event| matches!(event, TurnEvent::Unrecognized(_))), "{seen:?}");
}

#[tokio::test]
async fn the_vendors_failure_is_the_turns() {
    let error = Bench::new(Script::new(r#"echo '{"fail":"no luck"}'"#)).run(request()).await.unwrap_err();
    assert_eq!(error.to_string(), "script reports a failure: no luck");
}

#[tokio::test]
async fn a_credential_that_the_server_repeats_is_in_no_error_and_no_event() {
    for line in [
        format!(r#"{{"fail":"401: incorrect API key provided: {CANARY}"}}"#),
        format!(r#"{{"no_tools":"{CANARY} is not allowed"}}"#),
        format!(r#"{{"tool":"{CANARY}"}}"#),
        format!(r#"{{"text":"the key is {CANARY}, sk-0123456789abcdef0123 is none of ours"}}"#),
        format!(r#"{{"half": "{CANARY}"#),
    ] {
        let bench = Bench::new(Script::new(&format!("printf '%s' '{line}'; echo '{CANARY}' >&2; exit 1")));
        let mut seen = Vec::new();
        let mut sink = |envelope: EventEnvelope| seen.push(envelope);
        let error = bench.backend.run_turn(request(), TurnHost::new(), &mut sink).await.unwrap_err();
        let report = serde_json::to_string(&error.report()).unwrap();
        let told = format!("{error} {error:?} {report} {seen:?}");
        assert!(told.contains("[redacted]"), "{told}");
        assert!(!told.contains(CANARY), "{told}");
        // Only what was lent is taken out of the model's words.
        assert_eq!(line.contains("sk-"), told.contains("sk-0123456789abcdef0123"), "{told}");
    }
}

#[tokio::test]
async fn silence_of_the_model_is_starvation() {
    let bench = Bench::new(Script::new(r#"echo '{"text":"hal"}'; sleep 60"#));
    let limits = IdleLimits::none().with(Phase::Model, SHORT);
    let error = bench.run(idle(limits)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Starved(Phase::Model));
    assert_eq!(error.partial().text, "hal");
}

#[tokio::test]
async fn silence_before_the_first_line_is_a_start_that_failed() {
    let limits = IdleLimits::none().with(Phase::Start, SHORT);
    let error = Bench::new(Script::new("sleep 60")).run(idle(limits)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Starved(Phase::Start));
}

#[tokio::test]
async fn a_long_silent_tool_is_not_shot() {
    let script = r#"echo '{"tool":"t"}'; until [ -e told ]; do sleep 0.02; done
        echo '{"tool_done":"t"}'; echo '{"done":"ok"}'"#;
    let bench = Bench::new(Script::new(script));
    let folder = bench.path("work");
    std::fs::create_dir(&folder).unwrap();
    let runs = tokio::sync::Notify::new();
    let mut sink = |envelope: EventEnvelope| {
        if matches!(envelope.event, TurnEvent::ToolCallStarted(_)) {
            runs.notify_one();
        }
    };
    let limits = IdleLimits::none().with(Phase::Model, MINUTE).with(Phase::FirstByte, MINUTE);
    let turn = bench.backend.run_turn(idle(limits).in_directory(&folder), TurnHost::new(), &mut sink);
    let while_it_runs = async {
        runs.notified().await;
        let_pass(10 * MINUTE).await;
        std::fs::write(folder.join("told"), "").unwrap();
    };
    let (outcome, ()) = futures::join!(turn, while_it_runs);
    assert_eq!(outcome.unwrap().text, "ok");
}

#[tokio::test]
async fn an_open_question_to_the_host_is_no_silence() {
    let script = r#"echo '{"asks":"Which?"}'; read -r reply; echo "{\"done\":\"$reply\"}"; cat > /dev/null"#;
    let bench = Bench::new(Script::new(script));
    let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (is_asked, may_answer) = (Arc::clone(&asked), Arc::clone(&answer));
    let approver = Approver::new(|_| async { Approval::Granted })
        .with_time_limit(60 * MINUTE)
        .with_questions(move |_| {
            let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
            async move {
                asked.notify_one();
                answer.notified().await;
                QuestionReply::Cancelled
            }
        });
    let limits = IdleLimits::none()
        .with(Phase::Start, MINUTE)
        .with(Phase::FirstByte, MINUTE)
        .with(Phase::Model, MINUTE);
    let host = TurnHost::new().with_approver(approver);
    let mut sink = NullSink;
    let turn = bench.backend.run_turn(idle(limits), host, &mut sink);
    let while_it_is_open = async {
        is_asked.notified().await;
        let_pass(10 * MINUTE).await;
        // A timer of the turn that has expired is handled before this one.
        tokio::time::sleep(SHORT).await;
        may_answer.notify_one();
    };
    let (outcome, ()) = futures::join!(turn, while_it_is_open);
    assert_eq!(outcome.unwrap().text, "replied");
}

/// Writes the file once it is dropped.
struct WrittenOnDrop(PathBuf);

impl Drop for WrittenOnDrop {
    fn drop(&mut self) {
        std::fs::write(&self.0, "").unwrap();
    }
}

#[tokio::test]
async fn a_question_that_the_program_withdraws_is_dropped() {
    let script = r#"echo '{"asks":"Which?"}'; until [ -e asked ]; do sleep 0.02; done
        echo '{"withdraws":""}'; until [ -e dropped ]; do sleep 0.02; done; echo '{"done":"ok"}'"#;
    let bench = Bench::new(Script::new(script));
    let folder = bench.path("work");
    std::fs::create_dir(&folder).unwrap();
    let (asked, dropped) = (folder.join("asked"), folder.join("dropped"));
    let approver = Approver::new(|_| async { Approval::Granted }).with_questions(move |_| {
        std::fs::write(&asked, "").unwrap();
        let dropped = dropped.clone();
        async move {
            let _marker = WrittenOnDrop(dropped);
            std::future::pending::<QuestionReply>().await
        }
    });
    let host = TurnHost::new().with_approver(approver);
    let request = idle(IdleLimits::none()).in_directory(&folder);
    let ended = bench.backend.run_turn(request, host, &mut NullSink).await;
    assert_eq!(ended.unwrap().text, "ok");
}

#[tokio::test]
async fn the_deadline_ends_the_turn() {
    let request = request().with_limits(Limits::new().with_deadline(SHORT));
    let error = Bench::new(Script::new("sleep 60")).run(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline));
}

#[tokio::test]
async fn the_third_of_two_tool_calls_ends_the_turn() {
    let script = r#"for i in 1 2 3 4; do echo "{\"tool\":\"$i\"}"; done; sleep 60"#;
    let request = request().with_limits(Limits::new().with_tool_calls(2));
    let error = Bench::new(Script::new(script)).run(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::ToolCalls));
    assert!(error.partial().tool_calls.len() >= 3);
}

#[tokio::test]
async fn an_answer_over_the_token_limit_is_in_the_partial() {
    let script = r#"echo '{"tokens":11}'; echo '{"done":"long"}'"#;
    let request = request().with_limits(Limits::new().with_output_tokens(10));
    let error = Bench::new(Script::new(script)).run(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::OutputTokens));
    assert_eq!(error.partial().usage.output_tokens, Some(11));
}

#[tokio::test]
async fn cancelling_stops_the_turn_and_keeps_the_partial() {
    let bench = Bench::new(Script::new(r#"echo '{"text":"hal"}'; trap '' TERM INT; sleep 300"#));
    let cancel = CancelToken::new();
    let host = TurnHost::new().with_cancel(cancel.clone());
    let mut sink = |envelope: EventEnvelope| {
        if matches!(envelope.event, TurnEvent::TextDelta(_)) {
            cancel.cancel();
        }
    };
    let began = Instant::now();
    let error = bench.backend.run_turn(request(), host, &mut sink).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(error.partial().text, "hal");
    assert!(error.process().unwrap().survivors.is_empty());
    assert!(began.elapsed() < MINUTE);
    bench.assert_nothing_left();
}

/// A sink that never takes anything.
struct Shut;

impl EventSink for Shut {
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn accept(&mut self, _event: EventEnvelope) {
        panic!("it said that it is not ready");
    }
}

#[tokio::test]
async fn a_sink_that_is_never_ready_delays_neither_cancellation_nor_the_deadline() {
    let bench = Bench::new(Script::new(r#"echo '{"text":"hal"}'; sleep 300"#));
    let cancel = CancelToken::new();
    let later = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(SHORT).await;
        later.cancel();
    });
    let host = TurnHost::new().with_cancel(cancel);
    let mut shut = Shut;
    let turn = bench.backend.run_turn(request(), host, &mut shut);
    let error = tokio::time::timeout(2 * MINUTE, turn).await.expect("it ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    // A busy machine may take longer than the shortest deadline to start the program.
    let mut text = String::new();
    for deadline in [SHORT, 10 * SHORT, 100 * SHORT] {
        let limited = request().with_limits(Limits::new().with_deadline(deadline));
        let turn = bench.backend.run_turn(limited, TurnHost::new(), &mut shut);
        let error = tokio::time::timeout(2 * MINUTE, turn).await.expect("it ends").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline));
        text.clone_from(&error.partial().text);
        if !text.is_empty() {
            break;
        }
    }
    assert_eq!(text, "hal");
}

#[tokio::test]
async fn dropping_the_turn_leaves_no_process() {
    let bench = Bench::new(Script::new(
        "touch up; echo '{\"text\":\"x\"}'; trap '' TERM; tail -f \"$PWD/up\" & wait",
    ));
    let folder = bench.path("work");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("up");
    let processes = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let arguments =
            processes.map(|process| std::fs::read(process.path().join("cmdline")).unwrap_or_default());
        let has = |arguments: &Vec<u8>| {
            arguments.split(|byte| *byte == 0).any(|argument| argument == file.as_os_str().as_encoded_bytes())
        };
        arguments.filter(has).count()
    };
    let is_up = async {
        while processes() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        outcome = bench.run(request().in_directory(&folder)) => panic!("it was to be dropped: {outcome:?}"),
        () = is_up => {}
    }
    let dropped = Instant::now();
    while processes() > 0 {
        assert!(dropped.elapsed() < MINUTE, "{} processes are left", processes());
        std::thread::sleep(Duration::from_millis(10));
    }
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_wait_before_the_start_is_no_silence_of_the_program() {
    let bench = Bench::new(Script::after(let_pass(10 * MINUTE), r#"echo '{"done":"ok"}'"#));
    let mut warnings = Vec::new();
    let mut sink = |envelope: EventEnvelope| {
        if let TurnEvent::Warning(warning) = envelope.event {
            warnings.push(warning.text);
        }
    };
    let request = idle(IdleLimits::none().with(Phase::Start, MINUTE).with(Phase::FirstByte, MINUTE));
    let result = bench.backend.run_turn(request, TurnHost::new(), &mut sink).await.unwrap();
    assert_eq!((result.text.as_str(), warnings), ("ok", vec!["wait".to_owned()]));
}

#[tokio::test]
async fn a_turn_that_waits_to_start_can_be_cancelled_and_has_a_deadline() {
    for deadline in [None, Some(SHORT)] {
        let bench = Bench::new(Script::after(std::future::pending(), "touch started"));
        let folder = bench.path("work");
        std::fs::create_dir(&folder).unwrap();
        let cancel = CancelToken::new();
        let host = TurnHost::new().with_cancel(cancel.clone());
        let mut sink = |envelope: EventEnvelope| {
            if matches!(envelope.event, TurnEvent::Warning(_)) && deadline.is_none() {
                cancel.cancel();
            }
        };
        let limits = deadline.map_or_else(Limits::new, |deadline| Limits::new().with_deadline(deadline));
        let request = request().with_limits(limits).in_directory(&folder);
        let turn = bench.backend.run_turn(request, host, &mut sink);
        let outcome = tokio::time::timeout(Duration::from_secs(60), turn).await.expect("it ends");
        let expected = deadline.map_or(ErrorKind::Cancelled, |_| ErrorKind::LimitReached(Limit::Deadline));
        assert_eq!(outcome.unwrap_err().kind(), expected);
        assert!(!folder.join("started").exists(), "no process was started");
        bench.assert_nothing_left();
    }
}

fn schema(repairs: u32) -> OutputSchema {
    OutputSchema::new(json!({ "type": "object", "required": ["n"] })).unwrap().with_repairs(repairs)
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_is_asked_for_again_in_the_same_process() {
    let script = r#"echo '{"done":"no"}'; read again; echo '{"done":"{\"n\":1}"}'"#;
    let bench = Bench::new(Script::new(script));
    let result = bench.run(request().with_output(schema(1))).await.unwrap();
    assert_eq!(result.output, Some(json!({ "n": 1 })));
    assert_eq!(result.provenance.attempts, 2);
    assert_eq!(result.messages.len(), 1, "the first answer was taken back");
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_is_asked_for_again_in_a_new_process() {
    let mut script = Script::each(&[r#"echo '{"done":"no"}'"#, r#"echo '{"done":"{\"n\":1}"}'"#]);
    script.repair = Repair::NewProcess;
    let result = Bench::new(script).run(request().with_output(schema(1))).await.unwrap();
    assert_eq!(result.output, Some(json!({ "n": 1 })));
    assert_eq!(result.provenance.attempts, 2);
}

#[tokio::test]
async fn model_calls_add_up_over_the_processes_of_a_turn() {
    let mut script = Script::each(&[r#"echo '{"calls":1}'; echo '{"done":"no"}'"#]);
    script.repair = Repair::NewProcess;
    let request = request().with_output(schema(5)).with_limits(Limits::new().with_model_calls(2));
    let error = Bench::new(script).run(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::ModelCalls));
    assert_eq!(error.partial().provenance.as_ref().unwrap().attempts, 3);
}

#[tokio::test]
async fn repair_is_bounded_and_the_last_answer_is_kept() {
    let script = r#"echo '{"done":"no"}'; while read again; do echo '{"done":"never"}'; done"#;
    let error = Bench::new(Script::new(script)).run(request().with_output(schema(2))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutputInvalid);
    assert_eq!(error.partial().text, "never");
    assert_eq!(error.partial().provenance.as_ref().unwrap().attempts, 3);
}

fn resume(on_lost: OnLost) -> TurnRequest {
    let handle = ResumeHandle::new("script".into(), json!("gone"));
    request().with_conversation(ConversationMode::Resume { handle, on_lost })
}

#[tokio::test]
async fn a_lost_conversation_fails_or_begins_afresh_as_the_request_says() {
    let lost = || {
        let mut script = Script::new(r#"echo '{"done":"fresh"}'"#);
        script.lost_first = true;
        Bench::new(script)
    };
    assert_eq!(lost().run(resume(OnLost::Fail)).await.unwrap_err().kind(), ErrorKind::ConversationLost);
    let result = lost().run(resume(OnLost::Fresh)).await.unwrap();
    assert_eq!(result.text, "fresh");
    assert!(result.resume.is_some());
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_anything_is_spent() {
    let bench = Bench::new(Script::new("exit 0"));
    let file = bench.path("file");
    std::fs::write(&file, "").unwrap();
    let cases = [
        (request().in_directory(bench.path("missing")), ErrorKind::InvalidRequest),
        (request().in_directory(&file), ErrorKind::InvalidRequest),
        (TurnRequest::new("  "), ErrorKind::InvalidRequest),
        (request().with_system("x"), ErrorKind::Unsupported),
        (request().with_extra_root("/"), ErrorKind::Unsupported),
        (
            request()
                .with_conversation(ConversationMode::resume(ResumeHandle::new("other".into(), json!("s")))),
            ErrorKind::InvalidRequest,
        ),
    ];
    for (request, kind) in cases {
        assert_eq!(bench.run(request.clone()).await.unwrap_err().kind(), kind, "{request:?}");
    }
    let cancel = CancelToken::new();
    cancel.cancel();
    let host = TurnHost::new().with_cancel(cancel);
    let error = bench.backend.run_turn(request(), host, &mut |_event| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(*bench.backend.cli().spawned.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_clamped_effort_is_reported() {
    let bench = Bench::new(Script::new(r#"echo '{"done":"x"}'"#));
    let mut warnings = Vec::new();
    let mut sink = |envelope: EventEnvelope| {
        if let TurnEvent::Warning(warning) = envelope.event {
            warnings.push(warning.text);
        }
    };
    let turn = bench.backend.run_turn(request().with_effort(Effort::Max), TurnHost::new(), &mut sink);
    let result = turn.await.unwrap();
    assert_eq!(result.provenance.effort.unwrap().applied, Effort::High);
    assert_eq!(warnings, ["the effort max is not supported; high is used"]);
}

#[tokio::test]
async fn a_stream_gives_the_events_and_then_the_outcome() {
    use nexus_core::StreamItem;

    let script = Script::new(r#"echo '{"text":"a"}'; echo '{"done":"a"}'"#);
    let backend = Arc::new(Bench::new(script).backend);
    let items: Vec<_> = backend.stream_turn(request(), TurnHost::new()).collect().await;
    assert_eq!(items.len(), 4);
    assert!(matches!(items.last(), Some(StreamItem::Outcome(Ok(_)))));
}
