//! What a step of a task costs its server beside the very same turns run bare, and how that grows with tasks at once.
//!
//! `cargo bench -p nexus-turn-tasks --bench task`, or with `-- --quick` for a first look. The models are simulated in a process of their own, so that none of
//! their time is counted. With `--strict` the program ends with 1 if something that must hold does not. See README.md.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use nexus::{
    Availability, BackendId, BuildContext, Capabilities, EventSink, ExecutionBackend, ForgetError, Forgotten,
    NullSink, ResumeHandle, Router, ToolCall, ToolDefinition, ToolResult, ToolRouter, TurnError, TurnHost,
    TurnRequest, TurnResult,
};
use nexus_tasks::{
    SandboxKind, TaskCreateRequest, TaskOrchestrateRequest, TaskRunTurnRequest, TaskStatusRequest, Tasks,
    TasksOptions,
};
use nexus_testkit::sim::{Conversation, Dialect, Reply, Scenario, Sim, ToolCall as SimCall};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// What a step may cost beside its turns.
const MUST: Duration = Duration::from_millis(30);
const AIM: Duration = Duration::from_millis(10);
const MOST_STATUS: Duration = Duration::from_millis(50);
/// Steps of a task: each is one piece of work, reviewed by two.
const STEPS: u32 = 5;

/// A turn as it was asked, and the answers of its tools.
#[derive(Clone)]
struct Asked {
    backend: usize,
    request: TurnRequest,
    definitions: Vec<ToolDefinition>,
    answers: Arc<Mutex<Vec<ToolResult>>>,
}

/// A backend that keeps what it is asked while `kept` is there.
#[derive(Clone)]
struct Keeping {
    number: usize,
    inner: Arc<dyn ExecutionBackend>,
    kept: Arc<Mutex<Option<Vec<Asked>>>>,
}

impl std::fmt::Debug for Keeping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Keeping").field(&self.number).finish()
    }
}

#[async_trait]
impl ExecutionBackend for Keeping {
    fn id(&self) -> &BackendId {
        self.inner.id()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn probe(&self) -> Availability {
        self.inner.probe().await
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        self.inner.forget(handle).await
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let definitions = host.session().definitions().to_vec();
        let answers = Arc::<Mutex<Vec<ToolResult>>>::default();
        if let Some(kept) = &mut *self.kept.lock().expect("nobody panics") {
            let (backend, request, answers) = (self.number, request.clone(), Arc::clone(&answers));
            kept.push(Asked { backend, request, definitions, answers });
        }
        let result = self.inner.run_turn(request, host, events).await?;
        let given = result.tool_calls.iter().map(|call| ToolResult::ok(call.output.clone()));
        *answers.lock().expect("nobody panics") = given.collect();
        Ok(result)
    }
}

/// Tools that answer as they were answered before, in the same order.
#[derive(Debug)]
struct Replay {
    definitions: Vec<ToolDefinition>,
    answers: Mutex<std::vec::IntoIter<ToolResult>>,
}

#[async_trait]
impl ToolRouter for Replay {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.definitions.clone()
    }

    fn check_arguments(&self, _tool: &str, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, _call: ToolCall) -> ToolResult {
        let answer = self.answers.lock().expect("nobody panics").next();
        answer.unwrap_or_else(|| ToolResult::error("there was no such call"))
    }
}

struct Bench {
    tasks: Tasks,
    project: std::path::PathBuf,
    backends: [Keeping; 2],
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if has("--models") {
        return models();
    }
    let models = Models::start();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let missed = runtime.expect("a runtime").block_on(async {
        let bench = Bench::new(folder.path(), &models.url).await;
        let beyond = bench.steps(if has("--quick") { 2 } else { 12 }).await;
        let status = bench.at_once(if has("--quick") { &[1, 10] } else { &[1, 10, 50] }).await;
        bench.tasks.shutdown().await;
        usize::from(beyond > MUST) + usize::from(status > MOST_STATUS)
    });
    ExitCode::from(u8::from(has("--strict") && missed > 0))
}

impl Bench {
    async fn new(folder: &Path, url: &str) -> Self {
        let folder = folder.canonicalize().expect("it is there");
        let project = folder.join("project");
        fs::create_dir_all(project.join("src")).expect("a project");
        for number in 0..100 {
            fs::write(project.join(format!("src/old-{number}.txt")), "old\n").expect("a file");
        }
        let git = |arguments: &[&str]| {
            let name = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"];
            let status = Command::new("git").args(name).args(arguments).current_dir(&project).status();
            assert!(status.is_ok_and(|status| status.success()), "git {arguments:?}");
        };
        git(&["init", "-q", "-b", "main"]);
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "Begin"]);

        let context = || BuildContext::in_home(folder.join("home"));
        let inner = |name: &str| {
            let settings = json!({ "base_url": url, "model": "simulated" });
            let kind = nexus::registry().kind("responses").expect("it is built in").clone();
            kind.build(name.into(), settings.as_object().expect("an object"), &context()).expect("a backend")
        };
        let kept = Arc::<Mutex<Option<Vec<Asked>>>>::default();
        let backends = ["north-model", "south-model"].map(|name| Keeping {
            number: usize::from(name.starts_with('s')),
            inner: inner(name),
            kept: Arc::clone(&kept),
        });
        let configuration = json!({
            "groups": { "north": ["north-model"], "south": ["south-model"] },
            "types": {
                "orchestrator": { "tier": "operations", "phase": "orchestrate", "group": "north" },
                "executor": { "tier": "execution", "phase": "implement", "group": "south" },
                "reviewer": { "tier": "operations", "phase": "review", "panel": "review" },
            },
            "panels": { "review": [{ "group": "north" }, { "group": "south" }] },
        });
        let builder = Router::builder(nexus::registry(), context())
            .backend_of("north".into(), Arc::new(backends[0].clone()))
            .backend_of("south".into(), Arc::new(backends[1].clone()));
        let router = builder.from_value(configuration).expect("a configuration");
        let mut options = TasksOptions::in_home(folder.join("home"));
        options.roots = vec![project.clone()];
        options.settings.sandbox.kind = SandboxKind::None;
        Self { tasks: Tasks::new(router, options), project, backends }
    }

    /// A task that has its brief.
    async fn framed(&self) -> String {
        let request = TaskCreateRequest {
            goal: "Make the files.".to_owned(),
            project: self.project.clone(),
            ..TaskCreateRequest::default()
        };
        let id = self.tasks.create(request).await.expect("a task").task_id;
        let request = TaskOrchestrateRequest { task_id: id.clone(), ..TaskOrchestrateRequest::default() };
        let framed = self.tasks.orchestrate(request).await.expect("a brief");
        assert_eq!(framed.task.status, "active", "{framed:?}");
        id
    }

    async fn walk(&self, id: &str) {
        for step in 1..=STEPS {
            let request = TaskRunTurnRequest { task_id: id.to_owned(), ..TaskRunTurnRequest::default() };
            let turn = self.tasks.run_turn(request).await.expect("a step");
            let expected = if step == STEPS { "complete" } else { "active" };
            assert_eq!(turn.status, expected, "{turn:?}");
        }
    }

    /// The same turns as those of a task's steps, with tools that only answer.
    async fn bare(&self, turns: &[Asked]) {
        for asked in turns {
            let answers = asked.answers.lock().expect("nobody panics").clone();
            let definitions = asked.definitions.clone();
            let tools = Replay { definitions, answers: Mutex::new(answers.into_iter()) };
            let host = TurnHost::new().with_tools(Arc::new(tools));
            let backend = &self.backends[asked.backend].inner;
            let mut events = NullSink;
            let result = backend.run_turn(asked.request.clone(), host, &mut events).await.expect("a turn");
            assert_eq!(result.tool_calls.len(), asked.answers.lock().expect("nobody panics").len());
        }
    }

    /// What a step costs beyond its turns.
    async fn steps(&self, rounds: u32) -> Duration {
        // One that is not counted: pages, caches, connections.
        let first = self.framed().await;
        self.walk(&first).await;
        let (mut of_steps, mut of_turns, mut of_git) = (Vec::new(), Vec::new(), Vec::new());
        let mut turns = 0;
        for _ in 0..rounds {
            let id = self.framed().await;
            *self.backends[0].kept.lock().expect("nobody panics") = Some(Vec::new());
            let (own, children) = (own_time(), children_time());
            self.walk(&id).await;
            of_steps.push((own_time() - own) / STEPS);
            of_git.push((children_time() - children) / STEPS);
            let kept = self.backends[0].kept.lock().expect("nobody panics").take().unwrap_or_default();
            turns = kept.len() / STEPS as usize;
            let own = own_time();
            self.bare(&kept).await;
            of_turns.push((own_time() - own) / STEPS);
        }
        let (steps, bare, git) = (median(&mut of_steps), median(&mut of_turns), median(&mut of_git));
        let beyond = steps.saturating_sub(bare);
        println!("processor time of a step of {turns} turns, median of {rounds} tasks of {STEPS} steps");
        println!("  the server's own                     {:>8.1} ms", millis(steps));
        println!("  the same turns, bare                 {:>8.1} ms", millis(bare));
        let verdict = |bound: Duration| if beyond <= bound { "met" } else { "MISSED" };
        println!(
            "  the server's own beyond its turns    {:>8.1} ms   must 30 ms {}, aim 10 ms {}",
            millis(beyond),
            verdict(MUST),
            verdict(AIM)
        );
        println!("  git and other programs, beside       {:>8.1} ms", millis(git));
        beyond
    }

    /// What a task costs among others. Gives what a call of `task_status` takes at most.
    async fn at_once(&self, counts: &[u32]) -> Duration {
        let mut most = Duration::ZERO;
        println!(
            "\n{:>13} {:>14} {:>14} {:>14} {:>14}",
            "tasks at once", "time of each", "own CPU", "resident", "a status call"
        );
        for count in counts {
            let began = Instant::now();
            let own = own_time();
            let ids = futures::future::join_all((0..*count).map(|_| async {
                let id = self.framed().await;
                self.walk(&id).await;
                id
            }))
            .await;
            let (took, own) = (began.elapsed() / *count, (own_time() - own) / *count);
            let calls = 100;
            let before = own_time();
            for _ in 0..calls {
                let request = TaskStatusRequest { task_id: ids[0].clone(), wait_s: Some(0) };
                self.tasks.status(request).await.expect("a status");
            }
            let status = (own_time() - before) / calls;
            most = most.max(status);
            println!(
                "{count:>13} {:>11.0} ms {:>11.0} ms {:>10} KiB {:>11.2} ms",
                millis(took),
                millis(own),
                resident_kib(),
                millis(status)
            );
        }
        most
    }
}

/// The simulated models, in a process of their own.
struct Models {
    child: Child,
    url: String,
}

impl Models {
    fn start() -> Self {
        let own = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(own);
        command.arg("--models").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the models");
        let mut url = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut url).expect("where they listen");
        Self { child, url: url.trim().to_owned() }
    }
}

impl Drop for Models {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Serves the models until standard input ends.
fn models() -> ExitCode {
    let sim =
        Sim::builder(Dialect::Responses, Scenario::text("")).answered_by(model).start().expect("a server");
    println!("{}", sim.base_url());
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().lines().count();
    ExitCode::SUCCESS
}

/// What a model does next: by what its phase's text says, and by what its tools answered.
fn model(conversation: &Conversation) -> Option<Reply> {
    let answers = conversation.tool_results();
    let call = |tool: &str, arguments| Some(Reply::call(SimCall::function(tool, arguments)));
    if conversation.system.contains("You turn a goal into a brief") {
        return call("submit_brief", brief());
    }
    let Some(brief) = answers.first() else { return call("read_my_brief", json!({})) };
    let path = brief.lines().find_map(|line| line.strip_prefix("> make ")).unwrap_or("nothing");
    if conversation.system.contains("You do one step of a task") {
        return match answers.len() {
            1 => call("read_file", json!({ "path": "src/old-1.txt" })),
            2 => call("write_file", json!({ "path": path, "content": format!("{path} was made\n") })),
            _ => call(
                "submit_handoff",
                json!({ "claims": [{ "text": format!("{path} is there.") }], "files": [path], "action": "step_done" }),
            ),
        };
    }
    if answers.len() == 1 {
        return call("read_diff", json!({}));
    }
    let due = brief.lines().filter_map(|line| {
        let (id, when) = line.strip_prefix("[criterion ")?.split_once(", which ")?;
        when.starts_with("has to hold after this step").then_some(id)
    });
    let judged: Vec<Value> = due
        .chain(["outcome"])
        .map(|id| json!({ "id": id, "judgement": "pass", "evidence": [format!("diff:{path}:1")] }))
        .collect();
    call("submit_verdict", json!({ "decision": "advance", "criteria": judged, "alignment": 0.9 }))
}

fn brief() -> Value {
    let entry = |number: u32| {
        json!({
            "tier": "execution", "phase": "implement", "agent_type": "executor",
            "outcome": format!("make src/new-{number}.txt"),
        })
    };
    json!({
        "problem": "Files are missing.",
        "criteria": [{ "id": "files", "text": "All of them are there." }],
        "read": ["."],
        "write": ["src"],
        "plan": (0..STEPS).map(entry).collect::<Vec<_>>(),
    })
}

/// Processor time of this process, all of its threads, without the programs that it starts.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of the programs that it started and waited for. Source: proc(5), in ticks of 10 ms.
fn children_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // Fields 16 and 17 of the line; the first of these is the third.
    Duration::from_millis(10 * (ticks(13) + ticks(14)))
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn median(values: &mut [Duration]) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
