//! A home, a project, and agents that do what a test says.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use nexus_core::{
    BuildContext, Clock, Enforcement, ExecutionBackend, FinishReason, LimitSupport, Registry, Usage, VendorId,
};
use nexus_router::Router;
use nexus_tasks::{
    SandboxKind, TaskCreateRequest, TaskCreated, TaskOrchestrateRequest, TaskReport, TaskRunTurnRequest,
    TaskSettings, TaskStatusRequest, TaskTurnReport, Tasks, TasksOptions,
};
pub(crate) use nexus_testkit::scripted::Act;
use nexus_testkit::scripted::{ScriptedBackend, ScriptedEnd, ScriptedTurn, text_of};
use nexus_trees::Git;
use serde_json::{Value, json};
use tempfile::TempDir;

/// What an agent sees when its turn begins.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// `orchestrate`, `implement`, `review`, `reflect`, `cartographer`.
    pub(crate) phase: &'static str,
    /// What `read_my_brief` answers.
    pub(crate) brief: String,
    /// What it was asked.
    pub(crate) prompt: String,
    /// What it was told beside that.
    pub(crate) system: String,
    /// The tools that it was offered.
    pub(crate) tools: Vec<String>,
    /// Which turn of this phase it is, over all agents of a world, from 0 on.
    pub(crate) turn: usize,
}

type Script = dyn Fn(&Seen) -> Vec<Act> + Send + Sync;

/// What all agents of a world have in common.
pub(crate) struct Agents {
    script: Box<Script>,
    pub(crate) seen: Mutex<Vec<Seen>>,
    pub(crate) answers: Mutex<Vec<(String, String)>>,
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Agents")
    }
}

/// An agent of one vendor.
fn puppet(id: &str, agents: &Arc<Agents>) -> ScriptedBackend {
    let agents = Arc::clone(agents);
    let backend = ScriptedBackend::new(id, move |turn| {
        let agents = Arc::clone(&agents);
        Box::pin(async move { agents.play(turn).await })
    });
    backend.capable(|capabilities| {
        capabilities.limits =
            LimitSupport::new().with_output_tokens(Enforcement::Ours).with_cost(Enforcement::Ours);
    })
}

impl Agents {
    async fn play(&self, turn: &mut ScriptedTurn<'_>) -> ScriptedEnd {
        let offered: Vec<String> = turn.session.definitions().iter().map(|tool| tool.name.clone()).collect();
        let phases = [
            ("submit_brief", "orchestrate"),
            ("submit_handoff", "implement"),
            ("submit_verdict", "review"),
            ("submit_reflection", "reflect"),
            ("submit_context_map", "cartographer"),
        ];
        let phase = phases
            .iter()
            .find(|(tool, _)| offered.iter().any(|name| name == tool))
            .expect("a terminal tool")
            .1;
        let mut usage = Usage::new();
        usage.output_tokens = Some(100);
        turn.log.recorder.set_usage(usage);
        let brief = match offered.iter().any(|name| name == "read_my_brief") {
            true => text_of(&turn.call("read_my_brief", json!({})).await?),
            false => String::new(),
        };
        let seen = {
            let mut all = self.seen.lock().unwrap();
            let seen = Seen {
                phase,
                brief,
                prompt: turn.request.prompt_text(),
                system: turn.request.system.clone().unwrap_or_default(),
                tools: offered,
                turn: all.iter().filter(|seen| seen.phase == phase).count(),
            };
            all.push(seen.clone());
            seen
        };
        for act in (self.script)(&seen) {
            match act {
                Act::Call(tool, arguments) => {
                    let answer = turn.call(tool, arguments).await?;
                    self.answers.lock().unwrap().push((tool.to_owned(), text_of(&answer)));
                }
                act => {
                    turn.play(vec![act]).await?;
                }
            }
        }
        Ok((FinishReason::Stop, None))
    }
}

/// A home and a project, and the agents at work in them.
pub(crate) struct World {
    pub(crate) _folder: Option<TempDir>,
    pub(crate) root: PathBuf,
    pub(crate) agents: Arc<Agents>,
    pub(crate) tasks: Tasks,
}

/// Whether there is git. Where it is required and missing, the test fails.
pub(crate) fn has_git() -> bool {
    if Git::find().is_ok() {
        return true;
    }
    assert!(std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
    println!("NOT TESTED: there is no git");
    false
}

/// What git prints, as the person whose project it is.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(["-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes the project a repository with one commit.
pub(crate) fn commit_all(project: &Path) {
    git(project, &["init", "--quiet"]);
    git(project, &["add", "-A"]);
    git(project, &["commit", "--quiet", "-m", "first"]);
}

/// Agents that follow a script.
pub(crate) fn agents(script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Arc<Agents> {
    Arc::new(Agents { script: Box::new(script), seen: Mutex::default(), answers: Mutex::default() })
}

/// A router whose work is done by such agents, of two vendors where it is reviewed.
pub(crate) fn router(agents: &Arc<Agents>, more: &Value) -> Router {
    let kind = |tier: &str, phase: &str, group: &str| json!({ "tier": tier, "phase": phase, "group": group, "model": { "exact": "any" }, "effort": "max", "fallback": "restore" });
    let seat = |group: &str| json!({ "group": group, "model": { "exact": "any" }, "effort": "max" });
    let mut configuration = json!({
        "groups": { "first": ["alpha"], "second": ["beta"] },
        "types": {
            "orchestrator": kind("operations", "orchestrate", "first"),
            "executor": kind("execution", "implement", "second"),
            "reviewer": { "tier": "operations", "phase": "review", "panel": "both" },
        },
        "panels": { "both": { "seats": [seat("first"), seat("second")] } },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        configuration["types"][name] = value.clone();
    }
    let puppet = |id: &str| Arc::new(puppet(id, agents)) as Arc<dyn ExecutionBackend>;
    Router::builder(Registry::new(), BuildContext::in_home("home"))
        .backend_of(VendorId::new("first-vendor"), puppet("alpha"))
        .backend_of(VendorId::new("second-vendor"), puppet("beta"))
        .from_value(configuration)
        .unwrap()
}

/// Options of a home in `root`, for projects in `root`.
pub(crate) fn options(root: &Path) -> TasksOptions {
    let mut options = TasksOptions::in_home(root.join("home"));
    options.roots = vec![root.to_owned()];
    options.settings = settings();
    options
}

pub(crate) fn settings() -> TaskSettings {
    let mut settings = TaskSettings::default();
    settings.sandbox.kind = SandboxKind::None;
    settings.turn_seconds = 60;
    settings
}

/// Makes a project in `root`: a plain folder with one file.
pub(crate) fn make_project(root: &Path) -> PathBuf {
    let project = root.join("project");
    fs::create_dir_all(project.join("src")).unwrap();
    fs::write(project.join("src/old.txt"), "old\n").unwrap();
    project
}

/// A clock that copies the folder of a task when it is asked while a settling is decided and not carried out: what is left of a
/// server that is killed then.
#[derive(Debug)]
pub(crate) struct CopyingClock {
    home: PathBuf,
}

impl CopyingClock {
    /// One for the tasks of these options.
    pub(crate) fn of(options: &TasksOptions) -> Arc<dyn Clock> {
        Arc::new(Self { home: options.home.clone() })
    }
}

impl Clock for CopyingClock {
    fn now(&self) -> SystemTime {
        let copies = self.home.with_file_name("cut-off");
        for folder in fs::read_dir(self.home.join("tasks")).into_iter().flatten().flatten() {
            let status = fs::read(folder.path().join("status.json")).unwrap_or_default();
            let status: Value = serde_json::from_slice(&status).unwrap_or_default();
            let copy = copies.join(folder.file_name());
            if status["data"]["intent"].is_object() && !copy.exists() {
                fs::create_dir_all(&copies).unwrap();
                let copied = Command::new("cp").arg("-a").arg(folder.path()).arg(copy).status().unwrap();
                assert!(copied.success());
            }
        }
        SystemTime::now()
    }
}

impl World {
    /// Makes a task that was completed what it was when its first settling was decided and not carried out: see [`CopyingClock`].
    pub(crate) async fn cut_off(&self, id: &str) {
        self.tasks.shutdown().await;
        let folder = self.task_folder(id);
        fs::remove_dir_all(&folder).unwrap();
        fs::rename(self.root.join("cut-off").join(id), folder).unwrap();
    }

    /// `None`, which is printed, where there is no git.
    pub(crate) fn new(script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Option<Self> {
        Self::with(script, &json!({}), |_| {})
    }

    pub(crate) fn with(
        script: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static,
        more: &Value,
        change: impl FnOnce(&mut TasksOptions),
    ) -> Option<Self> {
        if !has_git() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        make_project(&root);
        let agents = agents(script);
        let mut options = options(&root);
        change(&mut options);
        let tasks = Tasks::new(router(&agents, more), options);
        Some(Self { _folder: Some(folder), root, agents, tasks })
    }

    /// Another server of the same home, with the same agents.
    pub(crate) fn another(&self) -> Tasks {
        Tasks::new(router(&self.agents, &json!({})), options(&self.root))
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    pub(crate) fn task_folder(&self, id: &str) -> PathBuf {
        self.root.join("home/tasks").join(id)
    }

    pub(crate) fn request(&self) -> TaskCreateRequest {
        TaskCreateRequest {
            goal: "Make three files.".to_owned(),
            project: self.project(),
            ..Default::default()
        }
    }

    pub(crate) async fn create(&self) -> TaskCreated {
        self.tasks.create(self.request()).await.unwrap()
    }

    /// A task that has its brief.
    pub(crate) async fn framed(&self) -> String {
        let id = self.create().await.task_id;
        let framed = orchestrate(&self.tasks, &id).await;
        assert_eq!(framed.status, "active", "{framed:?}");
        id
    }

    /// Waits until something holds; fails if it does not within half a minute.
    pub(crate) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), waiting).await.expect("it comes to hold");
    }

    /// How many turns of a phase began.
    pub(crate) fn turns(&self, phase: &str) -> usize {
        self.agents.seen.lock().unwrap().iter().filter(|seen| seen.phase == phase).count()
    }
}

pub(crate) async fn orchestrate(tasks: &Tasks, id: &str) -> TaskReport {
    loop {
        let request = TaskOrchestrateRequest { task_id: id.to_owned(), ..Default::default() };
        let framed = tasks.orchestrate(request).await.unwrap();
        if !framed.running {
            return framed.task;
        }
    }
}

/// Runs a step to its end, also where a call comes back before that.
pub(crate) async fn run_step(tasks: &Tasks, id: &str) -> TaskTurnReport {
    loop {
        let report = tasks.run_turn(run(id)).await.unwrap();
        if !report.running {
            return report;
        }
    }
}

pub(crate) fn run(id: &str) -> TaskRunTurnRequest {
    TaskRunTurnRequest { task_id: id.to_owned(), ..Default::default() }
}

pub(crate) fn run_entry(id: &str, entry: usize) -> TaskRunTurnRequest {
    TaskRunTurnRequest { entry: Some(entry), ..run(id) }
}

/// Runs steps until the task is no longer active.
pub(crate) async fn walk(tasks: &Tasks, id: &str) -> Vec<TaskTurnReport> {
    let mut reports = Vec::new();
    loop {
        let report = run_step(tasks, id).await;
        let is_over = report.status != "active";
        reports.push(report);
        if is_over {
            return reports;
        }
    }
}

pub(crate) async fn status(tasks: &Tasks, id: &str) -> TaskReport {
    tasks.status(TaskStatusRequest { task_id: id.to_owned(), wait_s: Some(0) }).await.unwrap()
}

/// The kinds of events in a task's log, in order.
pub(crate) async fn log(tasks: &Tasks, id: &str) -> Vec<(String, Value)> {
    let mut offset = 0;
    let mut events = Vec::new();
    loop {
        let page = tasks.log(nexus_tasks::TaskLogRequest { task_id: id.to_owned(), offset }).await.unwrap();
        events.extend(page.events.into_iter().map(|event| (event.kind, event.data)));
        match page.next_offset {
            Some(next) => offset = next,
            None => return events,
        }
    }
}

/// A brief for making files, one entry for each; those with the same group are a band.
pub(crate) fn brief(files: &[(&str, Option<&str>)]) -> Value {
    let entry = |(path, group): &(&str, Option<&str>)| {
        let mut entry = json!({
            "tier": "execution", "phase": "implement", "agent_type": "executor", "outcome": format!("make {path}"),
        });
        if let Some(group) = group {
            entry["parallel_group"] = json!(group);
            entry["write_slice"] = json!([path]);
        }
        entry
    };
    json!({
        "problem": "Files are missing.",
        "criteria": [{ "id": "files", "text": "All of them are there." }],
        "read": ["."],
        "write": ["src"],
        "plan": files.iter().map(entry).collect::<Vec<_>>(),
    })
}

/// One file, then two at once, then one.
pub(crate) fn three_steps() -> Value {
    brief(&[
        ("src/one.txt", None),
        ("src/left.txt", Some("both")),
        ("src/right.txt", Some("both")),
        ("src/last.txt", None),
    ])
}

/// Agents that do what they are asked.
pub(crate) fn honest(seen: &Seen) -> Vec<Act> {
    match seen.phase {
        "orchestrate" => vec![Act::Call("submit_brief", three_steps())],
        "implement" => work(seen, "step_done"),
        "review" => vec![Act::Call("submit_verdict", verdict(seen, "advance"))],
        "cartographer" => vec![Act::Call("submit_context_map", json!({ "map": "src: files" }))],
        other => panic!("nobody asks for {other}"),
    }
}

/// The files that an agent's brief speaks of.
pub(crate) fn files(seen: &Seen) -> Vec<String> {
    let lines = seen.brief.lines().filter_map(|line| line.strip_prefix("> make "));
    lines.map(str::to_owned).collect()
}

/// Makes the file of the entry, and hands it in.
pub(crate) fn work(seen: &Seen, action: &str) -> Vec<Act> {
    let path = files(seen).first().cloned().expect("an outcome");
    let content = format!("{path} was made\n");
    vec![
        Act::Call("write_file", json!({ "path": path, "content": content })),
        Act::Call(
            "submit_handoff",
            json!({ "claims": [{ "text": format!("{path} is there.") }], "files": [path], "action": action }),
        ),
    ]
}

/// A verdict on all that is to be judged, with a line of the diff for evidence.
pub(crate) fn verdict(seen: &Seen, decision: &str) -> Value {
    let path = files(seen).first().cloned().expect("an outcome");
    let due = seen.brief.lines().filter_map(|line| {
        let rest = line.strip_prefix("[criterion ")?;
        let (id, when) = rest.split_once(", which ")?;
        when.starts_with("has to hold after this step").then(|| id.to_owned())
    });
    let judgement = if decision == "advance" { "pass" } else { "fail" };
    let criteria: Vec<Value> = due
        .chain(["outcome".to_owned()])
        .map(|id| json!({ "id": id, "judgement": judgement, "evidence": [format!("diff:{path}:1")] }))
        .collect();
    json!({ "decision": decision, "criteria": criteria, "alignment": 0.9, "retry_hint": "look again" })
}
