//! A task in a folder of its own, and scripted backends as its agents, for tests of attempts at its steps.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use nexus_core::{BuildContext, CancelToken, EventEnvelope, ExecutionBackend, RecordFile, Registry};
use nexus_router::Router;
use nexus_tasks::{
    AgentEnding, AgentProgress, AttemptPlace, BriefDraft, Checks, Cursor, ProbeStore, ProblemBrief, Prompts,
    SandboxKind, StepAgent, StepAttempt, StepRecord, StepWatcher, TaskSettings,
};
use nexus_testkit::scripted::{Act, ScriptedBackend};
use nexus_trees::{CommitId, CommitIntent, Git, Project, Tree, TreeOptions};
use nexus_work::{AgentTurn, AgentTypes, ResetWait};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A task's folder.
pub(crate) struct World {
    _folder: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) tree: Tree,
    pub(crate) base: CommitId,
    pub(crate) settings: TaskSettings,
    pub(crate) types: AgentTypes,
    pub(crate) prompts: Prompts,
    pub(crate) brief: ProblemBrief,
    pub(crate) checks: Checks,
    pub(crate) watched: Arc<Watched>,
    pub(crate) cancel: CancelToken,
}

/// All that was told of agents.
#[derive(Debug, Default)]
pub(crate) struct Watched(pub(crate) Mutex<Vec<String>>);

impl StepWatcher for Watched {
    fn agent_began(&self, agent: &StepAgent) {
        self.0.lock().unwrap().push(format!("{}.{} {agent} began", agent.entry, agent.attempt));
    }

    fn agent_event(&self, _agent: &StepAgent, _progress: AgentProgress, _event: &EventEnvelope) {}

    fn agent_ended(&self, agent: &StepAgent, ending: &AgentEnding, _turns: &[AgentTurn]) {
        let vendor = ending.vendor.as_ref().map_or("nobody", |vendor| vendor.as_str());
        let line = format!("{agent} ended: {vendor}, {} calls, {:?}", ending.tool_calls, ending.failure);
        self.0.lock().unwrap().push(line);
    }

    fn said(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

impl World {
    /// A project with these files, and a brief for it. `None`, which is printed, where there is no git and none is required.
    pub(crate) fn new(files: &[(&str, &str)], brief: Value) -> Option<Self> {
        Self::with_settings(files, brief, TaskSettings::default())
    }

    pub(crate) fn with_settings(
        files: &[(&str, &str)],
        brief: Value,
        mut settings: TaskSettings,
    ) -> Option<Self> {
        let Ok(git) = Git::find() else {
            assert!(std::env::var_os("NEXUS_TEST_GIT").is_none(), "git is required here");
            println!("NOT TESTED: there is no git");
            return None;
        };
        settings.turn_seconds = 60;
        // A test of waits allows them itself.
        settings.max_wait_seconds = ResetWait::of_seconds(0);
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (project, workspace) = (root.join("project"), root.join("workspace"));
        fs::create_dir(&workspace).unwrap();
        write_files(&project, files);
        let found = Project::folder(&project).unwrap();
        let tree = Tree::create(&git, &workspace, &found, &TreeOptions::new()).unwrap();
        let base = tree.base().commit.clone();
        let types = AgentTypes::built_in();
        let draft: BriefDraft = serde_json::from_value(brief).unwrap();
        let brief = ProblemBrief::accept(draft, &types, &project).unwrap();
        let checks = checks(&tree, &root, &settings);
        Some(Self {
            _folder: folder,
            root,
            tree,
            base,
            settings,
            types,
            prompts: Prompts::built_in(),
            brief,
            checks,
            watched: Arc::default(),
            cancel: CancelToken::new(),
        })
    }

    /// The first attempt at the first step.
    pub(crate) fn attempt<'a>(&'a self, router: &'a Router) -> StepAttempt<'a> {
        StepAttempt {
            router,
            types: &self.types,
            prompts: &self.prompts,
            settings: &self.settings,
            brief: &self.brief,
            place: AttemptPlace {
                tree: self.tree.clone(),
                checks: self.checks.clone(),
                work: self.root.join("work"),
                task_base: self.base.clone(),
                step_base: self.base.clone(),
                from: self.base.clone(),
            },
            cursor: Cursor { entry: 0, attempt: 1, retries: 0 },
            hints: Vec::new(),
            settled: Vec::new(),
            turns: Some(RecordFile::open(self.root.join("turns.jsonl")).unwrap()),
            watcher: Arc::clone(&self.watched) as Arc<dyn StepWatcher>,
            budget: None,
            cancel: self.cancel.clone(),
        }
    }

    /// The attempt after one that is to be done again.
    pub(crate) fn attempt_after<'a>(&'a self, router: &'a Router, record: &StepRecord) -> StepAttempt<'a> {
        let mut attempt = self.attempt(router);
        attempt.cursor.attempt = record.attempt + 1;
        attempt.cursor.retries += 1;
        attempt.place.from = record.work.clone().unwrap_or_else(|| self.base.clone());
        attempt.settled.push(record.clone());
        attempt
    }

    /// The paths that a commit changes.
    pub(crate) fn changed(&self, commit: &CommitId) -> Vec<String> {
        let changes = self.tree.changes(&self.base, commit).unwrap();
        changes.iter().map(|change| change.path.to_str().unwrap().to_owned()).collect()
    }

    /// A file as a commit has it.
    pub(crate) fn file(&self, commit: &CommitId, path: &str) -> String {
        let folder = tempfile::tempdir_in(&self.root).unwrap();
        self.tree.restore(commit, folder.path(), &[]).unwrap();
        fs::read_to_string(folder.path().join(path)).unwrap()
    }

    /// A commit of the base with these files in it.
    pub(crate) fn commit(&self, files: &[(&str, &str)]) -> CommitId {
        let folder = tempfile::tempdir_in(&self.root).unwrap();
        self.tree.restore(&self.base, folder.path(), &[]).unwrap();
        write_files(folder.path(), files);
        let snapshot = self.tree.snapshot(folder.path()).unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH;
        self.tree.commit(&CommitIntent::new(snapshot, self.base.clone(), time, "x")).unwrap()
    }

    pub(crate) fn watched(&self) -> Vec<String> {
        self.watched.0.lock().unwrap().clone()
    }
}

/// Runs of programs on this machine, without a sandbox, unless the settings say otherwise.
pub(crate) fn checks(tree: &Tree, root: &Path, settings: &TaskSettings) -> Checks {
    let probes = ProbeStore::new(root.join("probes"));
    Checks::new(tree.clone(), root.join("checks"), root.join("project"), settings, probes)
}

/// Settings by which programs run without a sandbox.
pub(crate) fn without_sandbox() -> TaskSettings {
    let mut settings = TaskSettings::default();
    settings.sandbox.kind = SandboxKind::None;
    settings
}

fn write_files(root: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// The agents of a task: each group's backends in order, each with the company behind it.
#[derive(Default)]
pub(crate) struct Cast<'a> {
    pub(crate) executors: Vec<(&'a Arc<ScriptedBackend>, &'a str)>,
    /// The seats of the panel of reviewers.
    pub(crate) seats: Vec<Vec<(&'a Arc<ScriptedBackend>, &'a str)>>,
    pub(crate) reflector: Option<(&'a Arc<ScriptedBackend>, &'a str)>,
    /// Of the panel. `None` leaves it out.
    pub(crate) min_vendors: Option<usize>,
    /// Of the executor's type. `None` leaves it out.
    pub(crate) fallback: Option<&'a str>,
    /// Whether the reviewer is bound to the group of the first seat, and there is no panel.
    pub(crate) without_panel: bool,
}

impl Cast<'_> {
    pub(crate) fn router(&self) -> Router {
        let ids = |backends: &[(&Arc<ScriptedBackend>, &str)]| -> Vec<String> {
            backends.iter().map(|(backend, _)| backend.id().as_str().to_owned()).collect()
        };
        let mut groups = json!({ "makers": ids(&self.executors) });
        let (mut seats, mut lenses) = (Vec::new(), json!({}));
        for (index, seat) in self.seats.iter().enumerate() {
            let group = format!("readers-{index}");
            groups[&group] = json!(ids(seat));
            let lens = ["boundary-inputs", "hidden-contracts", "third"][index];
            lenses[lens] = json!(format!("Look with lens {index}."));
            seats.push(json!({ "group": group, "model": { "exact": "any" }, "lens": lens }));
        }
        let mut panel = json!({ "seats": seats });
        if let Some(min_vendors) = self.min_vendors {
            panel["min_vendors"] = json!(min_vendors);
        }
        let mut types = json!({
            "executor": {
                "tier": "execution", "phase": "implement", "group": "makers",
                "model": { "exact": "any" },
            },
            "reviewer": { "tier": "operations", "phase": "review", "panel": "review" },
        });
        if let Some(rule) = self.fallback {
            types["executor"]["fallback"] = json!(rule);
        }
        if self.without_panel {
            types["reviewer"] = json!({
                "tier": "operations", "phase": "review", "group": "readers-0", "model": { "exact": "any" },
            });
        }
        if let Some(reflector) = self.reflector {
            groups["thinkers"] = json!(ids(&[reflector]));
            types["reflector"] = json!({
                "tier": "operations", "phase": "reflect", "group": "thinkers", "model": { "exact": "any" },
            });
        }
        let mut configuration = json!({ "groups": groups, "types": types, "lenses": lenses });
        if !self.without_panel {
            configuration["panels"] = json!({ "review": panel });
        }
        let all = self.executors.iter().chain(self.seats.iter().flatten()).chain(&self.reflector);
        let builder = Router::builder(Registry::new(), BuildContext::in_home("home"));
        let builder = all.fold(builder, |builder, (backend, vendor)| {
            builder.backend_of((*vendor).into(), Arc::clone(backend) as Arc<dyn ExecutionBackend>)
        });
        builder.from_value(configuration).unwrap()
    }
}

/// A brief with one step, which may write `src`.
pub(crate) fn one_step() -> Value {
    json!({
        "problem": "Signs are lost.",
        "criteria": [{ "id": "signs", "text": "sum(-1) is -1" }],
        "read": ["."],
        "write": ["src"],
        "plan": [{
            "tier": "execution", "phase": "implement", "agent_type": "executor",
            "outcome": "It keeps the sign.", "criteria": ["signs"],
        }],
    })
}

pub(crate) fn call(tool: &'static str, arguments: Value) -> Act {
    Act::Call(tool, arguments)
}

pub(crate) fn write(path: &str, content: &str) -> Act {
    call("write_file", json!({ "path": path, "content": content }))
}

/// Hands work in, with this action.
#[expect(clippy::needless_pass_by_value, reason = "it is written where it is handed in")]
pub(crate) fn hand_in(action: Value) -> Act {
    call("submit_handoff", json!({ "claims": [{ "text": "It is done." }], "action": action }))
}

/// A verdict on these criteria, all of which pass, shown by `evidence`.
pub(crate) fn verdict(decision: &str, criteria: &[&str], evidence: &str) -> Value {
    let judged = |id: &&str| json!({ "id": id, "judgement": "pass", "evidence": [evidence] });
    json!({
        "decision": decision,
        "criteria": criteria.iter().map(judged).collect::<Vec<_>>(),
        "alignment": 0.9,
    })
}

/// Hands in that a step with the one criterion `signs` advances, as line 1 of `src/new` shows.
pub(crate) fn advance() -> Act {
    call("submit_verdict", verdict("advance", &["outcome", "signs"], "diff:src/new:1"))
}

/// Hands in a concern, and says to advance all the same.
pub(crate) fn refute(hint: &str) -> Act {
    let mut refuted = verdict("advance", &["outcome", "signs"], "diff:src/new:1");
    refuted["blocking_concerns"] = json!([{ "text": "Zero is lost.", "evidence": ["diff:src/new:1"] }]);
    refuted["retry_hint"] = json!(hint);
    call("submit_verdict", refuted)
}
