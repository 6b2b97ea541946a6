//! What a project's files hold to where somebody means it ill, or where there is very much of it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_project::{
    ProjectErrorKind, ProjectFolder,
    harness::Harness,
    hook::{HookEvent, HookReply},
    state::ProjectTaskStatus::{self, Completed, InProgress},
    tools::{
        HistorySearchRequest, PlanDecideRequest, PlanStartRequest, PlanStatusRequest, TaskAddRequest,
        TaskCloseRequest, TaskUpdateRequest, TasksRequest,
    },
};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

struct Stage {
    folder: TempDir,
    project: ProjectFolder,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&root).unwrap();
        let project = ProjectFolder::at(root);
        project.init().unwrap();
        Self { folder, project }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.project.root().join(below)
    }

    fn hook(&self, event: HookEvent, input: &Value) -> HookReply {
        let harness = Harness::find("claude").unwrap();
        let input = harness.read(input);
        self.project.on_hook(&harness, event, &input).unwrap()
    }

    fn write_tasks(&self, count: u32, dependencies: impl Fn(u32) -> Vec<u32>) {
        let tasks: Vec<_> = (1..=count)
            .map(|id| {
                json!({
                    "id": id, "title": "a", "status": "pending", "created_at": "2026-01-31T12:00:00.000Z",
                    "dependencies": dependencies(id),
                })
            })
            .collect();
        let text = json!({ "version": 1, "id": "x", "tasks": tasks }).to_string();
        fs::write(self.path(".nexus/state/tasks.json"), text).unwrap();
    }
}

/// Every answer of a tool is one that every client passes on.
fn fits<T: Serialize>(answer: &T) {
    let bytes = serde_json::to_vec(answer).unwrap().len();
    assert!(bytes <= 9_900, "{bytes} bytes");
}

#[test]
fn many_issues_have_answers_that_clients_pass_on() {
    let Stage { project, folder: _folder } = Stage::new();
    let issues = (0..5_000).map(|number| format!("issue {number}")).collect();
    fits(
        &project.plan_start(PlanStartRequest { topic: "t".into(), issues, research_summary: None }).unwrap(),
    );
    let decision = "\u{1}".repeat(60_000);
    let decided = project.plan_decide(PlanDecideRequest { issue: 3, decision }).unwrap();
    fits(&decided);
    assert_eq!((decided.pending.len(), decided.pending[2]), (300, 4));
    fits(&project.plan_status(&PlanStatusRequest::default()).unwrap());
    let error = project.plan_decide(PlanDecideRequest { issue: 9_999, decision: "x".into() }).unwrap_err();
    assert!(error.advice.contains("and 4950 more") && error.advice.len() < 1_000, "{error}");
}

#[test]
fn many_tasks_have_answers_that_clients_pass_on_and_soon() {
    let stage = Stage::new();
    let began = std::time::Instant::now();
    // Each waits for many, of which the last is not done.
    stage.write_tasks(3_000, |id| (1.max(id.saturating_sub(20))..id).collect());
    let project = &stage.project;
    fits(&project.task_list(&TasksRequest::default()).unwrap());
    fits(&project.context().unwrap());
    let begin =
        TaskUpdateRequest { task: 1, status: InProgress, agent: None, files_touched: BTreeSet::new() };
    fits(&project.task_update(begin).unwrap());
    let dependencies = (1..=3_000).collect();
    fits(
        &project.task_add(TaskAddRequest { title: "b".into(), dependencies, ..Default::default() }).unwrap(),
    );
    fits(&project.task_list(&TasksRequest { offset: Some(3_000) }).unwrap());
    let closed = project.task_close(&TaskCloseRequest { force: true }).unwrap();
    fits(&closed);
    assert_eq!((closed.tasks, closed.open.len()), (3_001, 300));
    assert!(began.elapsed().as_secs() < 300, "{:?}", began.elapsed());
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let stage = Stage::new();
    let project = &stage.project;
    let plan = |topic: &str| PlanStartRequest { topic: topic.into(), ..Default::default() };
    project.plan_start(plan("first")).unwrap();
    let cycle =
        json!({ "id": "0", "closed_at": "2026-01-31T12:00:00.000Z", "branch": "b".repeat((64 << 20) - 200) });
    let history = json!({ "version": 1, "cycles": [cycle] }).to_string();
    fs::write(stage.path(".nexus/history.json"), &history).unwrap();
    let error = project.plan_start(plan("second")).unwrap_err();
    assert_eq!(error.kind, ProjectErrorKind::WrongState, "{error}");
    assert!(error.message.contains("history.json") && error.advice.contains("move the file away"), "{error}");
    // Nothing was begun that could not be finished.
    assert_eq!(project.plan().unwrap().unwrap().topic, "first");
    assert!(fs::read(stage.path(".nexus/history.json")).unwrap() == history.as_bytes());
    fs::remove_file(stage.path(".nexus/history.json")).unwrap();
    project.task_close(&TaskCloseRequest::default()).unwrap();
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_folder_leads_nowhere() {
    for place in [".nexus", ".nexus/state"] {
        let stage = Stage::new();
        let elsewhere = stage.folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::remove_dir_all(stage.path(place)).unwrap();
        std::os::unix::fs::symlink(&elsewhere, stage.path(place)).unwrap();
        let add = TaskAddRequest { title: "a".into(), ..Default::default() };
        let error = stage.project.task_add(add).unwrap_err();
        assert_eq!(error.kind, ProjectErrorKind::Damaged, "{error}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "{place}");
    }
}

#[test]
fn the_same_file_has_one_name_and_is_in_its_folder() {
    let stage = Stage::new();
    let files = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let add = |owner: &str, names: &[&str]| {
        let request = TaskAddRequest {
            title: "t".into(),
            owner: Some(owner.into()),
            files: files(names),
            ..Default::default()
        };
        stage.project.task_add(request).unwrap().id
    };
    let update = |task: u32, status: ProjectTaskStatus, agent: &str, touched: &[&str]| {
        let request =
            TaskUpdateRequest { task, status, agent: Some(agent.into()), files_touched: files(touched) };
        stage.project.task_update(request).unwrap().resume_agent
    };
    let first = add("engineer", &["src"]);
    let (second, third) = (add("engineer", &["./src//a.rs"]), add("engineer", &["src"]));
    let other = add("writer", &[]);
    assert_eq!(update(first, InProgress, "one", &[]), None);
    update(first, Completed, "one", &["src/"]);
    // The file is in the folder that was worked on.
    assert_eq!(update(second, InProgress, "one", &[]).as_deref(), Some("one"));
    update(second, Completed, "one", &["src/"]);
    update(other, InProgress, "two", &[]);
    update(other, Completed, "two", &["./src/b.rs"]);
    // Another has touched a file of the folder since.
    assert_eq!(update(third, InProgress, "three", &[]), None);
    assert_eq!(stage.project.tasks().unwrap().unwrap().tasks[1].files, files(&["src/a.rs"]));
    let out = TaskAddRequest { title: "t".into(), files: files(&["."]), ..Default::default() };
    assert_eq!(stage.project.task_add(out).unwrap_err().kind, ProjectErrorKind::InvalidArgument);
}

#[cfg(unix)]
#[test]
fn an_edit_by_another_name_of_the_folder_is_refused_too() {
    let stage = Stage::new();
    let link = stage.folder.path().join("link");
    std::os::unix::fs::symlink(stage.project.root(), &link).unwrap();
    let edit = |cwd: &std::path::Path, path: PathBuf| {
        let input = json!({ "cwd": cwd, "tool_name": "Write", "tool_input": { "file_path": path } });
        stage.hook(HookEvent::PreToolUse, &input).refusal.is_some()
    };
    let root = stage.project.root();
    assert!(edit(root, link.join("new/a.rs")));
    assert!(edit(&link, root.join("a.rs")));
    assert!(edit(&link, "a.rs".into()));
    assert!(!edit(root, link.join(".nexus/memory/a.md")));
    assert!(!edit(root, stage.folder.path().join("elsewhere.rs")));
}

#[test]
fn a_skill_ends_with_its_session_and_goes_on_with_it() {
    let stage = Stage::new();
    let session = |name: &str| json!({ "session_id": name, "cwd": stage.project.root() });
    let active = || stage.project.context().unwrap().active_skill;
    stage.hook(
        HookEvent::UserMessage,
        &json!({ "session_id": "a", "cwd": stage.project.root(), "prompt": "[plan:auto] x" }),
    );
    assert_eq!(active().as_deref(), Some("plan:auto"));
    stage.hook(HookEvent::SessionEnd, &session("b"));
    assert_eq!(active().as_deref(), Some("plan:auto"));
    stage.hook(HookEvent::SessionEnd, &session("a"));
    assert_eq!(active(), None);
    // The same session again, as `--continue` has it.
    stage.hook(HookEvent::SessionStart, &session("a"));
    assert_eq!(active().as_deref(), Some("plan:auto"));
    let told = stage.hook(HookEvent::ContextCompact, &session("a")).context.unwrap();
    assert!(told.contains("Variant: auto"), "{told}");
    stage.hook(HookEvent::SessionEnd, &session("a"));
    stage.hook(HookEvent::SessionStart, &session("c"));
    assert_eq!(active(), None);
    stage.hook(HookEvent::SessionStart, &session("a"));
    assert_eq!(active(), None);
}

#[test]
fn a_decision_is_recorded_whatever_its_first_line_has() {
    let stage = Stage::new();
    stage.project.plan_start(PlanStartRequest { topic: "t".into(), ..Default::default() }).unwrap();
    let say = |prompt: String| {
        let input = json!({ "session_id": "a", "cwd": stage.project.root(), "prompt": prompt });
        stage.hook(HookEvent::UserMessage, &input).context.unwrap()
    };
    let told = say("[d] by key:\tvalue\nand why".to_owned());
    assert!(told.contains("was recorded"), "{told}");
    let told = say(format!("[d] {}", "long ".repeat(20_000)));
    assert!(told.contains("was not executed") && told.contains("65536"), "{told}");
    // The one that was not taken left no issue behind.
    let plan = stage.project.plan().unwrap().unwrap();
    assert_eq!(plan.issues.len(), 1);
    assert_eq!(plan.issues[0].title, "by key: value");
}

#[test]
fn what_a_killed_writer_left_is_taken_away_everywhere() {
    let stage = Stage::new();
    for folder in [".nexus", ".nexus/state", ".nexus/memory", ".nexus/rules"] {
        fs::write(stage.path(folder).join(".a.md.x1.new"), "").unwrap();
    }
    stage.project.init().unwrap();
    for folder in [".nexus", ".nexus/state", ".nexus/memory", ".nexus/rules"] {
        assert!(!stage.path(folder).join(".a.md.x1.new").exists(), "{folder}");
    }
}

#[test]
fn a_file_of_no_version_is_not_said_to_be_of_a_later_one() {
    let stage = Stage::new();
    fs::write(stage.path(".nexus/history.json"), r#"{ "version": 0, "cycles": [] }"#).unwrap();
    let error = stage.project.history_search(&HistorySearchRequest::default()).unwrap_err();
    assert!(error.message.contains("`version` is 0") && !error.advice.contains("update"), "{error}");
}

#[cfg(unix)]
#[test]
fn who_may_only_read_is_told_where_things_stand() {
    use std::os::unix::fs::PermissionsExt as _;

    let stage = Stage::new();
    let add = || stage.project.task_add(TaskAddRequest { title: "the task".into(), ..Default::default() });
    add().unwrap();
    let set = |below: &str, mode: u32| {
        fs::set_permissions(stage.path(below), fs::Permissions::from_mode(mode)).unwrap();
    };
    set(".nexus/state/.lock", 0o444);
    set(".nexus/state", 0o555);
    set(".nexus", 0o555);
    // Root may write nevertheless.
    let is_root = fs::write(stage.path(".nexus/state/x"), "").is_ok();
    let added = add();
    assert_eq!(added.is_ok(), is_root, "{added:?}");
    assert!(stage.project.task_list(&TasksRequest::default()).unwrap().exists);
    assert!(stage.project.context().unwrap().tasks.is_some());
    assert_eq!(stage.project.history_search(&HistorySearchRequest::default()).unwrap().found, 0);
    let session = json!({ "session_id": "a", "cwd": stage.project.root(), "tool_name": "Read" });
    let told = stage.hook(HookEvent::SessionStart, &session).context.unwrap();
    assert!(told.contains("the task"), "{told}");
    assert_eq!(stage.hook(HookEvent::PostToolUse, &session), HookReply::default());
    // The folder is removed at the end.
    set(".nexus", 0o755);
    set(".nexus/state", 0o755);
}

#[cfg(unix)]
#[test]
fn a_lock_has_the_mode_that_other_files_have() {
    use std::os::unix::fs::PermissionsExt as _;

    let stage = Stage::new();
    let mode = |below: &str| fs::metadata(stage.path(below)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(".nexus/state/.lock"), mode(".nexus/.gitignore"));
}

/// Input of an event of the agent `id`.
fn of_agent(stage: &Stage, id: &str) -> Value {
    json!({ "session_id": "s", "cwd": stage.project.root(), "agent_id": id })
}

/// Reports that the agent `id` has edited `file`.
fn edit(stage: &Stage, id: &str, file: &str) {
    let mut input = of_agent(stage, id);
    input["tool_name"] = json!("Edit");
    input["tool_input"] = json!({ "file_path": stage.path(file) });
    stage.hook(HookEvent::PostToolUse, &input);
}

/// Adds a task that is in progress and names the agent `id`. Returns its number.
fn task_of(stage: &Stage, id: &str) -> u32 {
    let task = stage.project.task_add(TaskAddRequest { title: id.into(), ..Default::default() }).unwrap().id;
    let files_touched = BTreeSet::new();
    let update = TaskUpdateRequest { task, status: InProgress, agent: Some(id.into()), files_touched };
    stage.project.task_update(update).unwrap();
    task
}

fn touched(stage: &Stage, task: u32) -> Vec<String> {
    let tasks = stage.project.tasks().unwrap().unwrap();
    tasks.task(task).unwrap().files_touched.iter().cloned().collect()
}

#[test]
fn the_files_of_an_agent_reach_its_task_at_its_end_without_the_log_of_tools() {
    let stage = Stage::new();
    let (one, two) = (task_of(&stage, "one"), task_of(&stage, "two"));
    stage.hook(HookEvent::SubagentSpawn, &of_agent(&stage, "one"));
    for (agent, file) in [("one", "a.txt"), ("one", "b.txt"), ("two", "c.txt"), ("one", "a.txt")] {
        edit(&stage, agent, file);
    }
    let log = stage.path(".nexus/state/tool-log.jsonl");
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 4);
    fs::remove_file(&log).unwrap();
    assert_eq!(touched(&stage, one), [""; 0]);
    stage.hook(HookEvent::SubagentComplete, &of_agent(&stage, "one"));
    assert_eq!((touched(&stage, one), touched(&stage, two)), (vec!["a.txt".into(), "b.txt".into()], vec![]));
    // The next change of the tasks stores the files. Those of the running agent stay until its end, which no hook announced.
    let files_touched = BTreeSet::new();
    let update = TaskUpdateRequest { task: one, status: Completed, agent: None, files_touched };
    stage.project.task_update(update).unwrap();
    let waiting = fs::read_to_string(stage.path(".nexus/state/agent-files.jsonl")).unwrap();
    assert_eq!(waiting, "{\"harness\":\"claude\",\"agent\":\"two\",\"files\":[\"c.txt\"]}\n");
    stage.hook(HookEvent::SubagentComplete, &of_agent(&stage, "two"));
    assert_eq!(
        (touched(&stage, one), touched(&stage, two)),
        (vec!["a.txt".into(), "b.txt".into()], vec!["c.txt".into()])
    );
    stage.project.task_close(&TaskCloseRequest { force: true }).unwrap();
    assert!(!stage.path(".nexus/state/agent-files.jsonl").exists());
    let history = stage.project.history().unwrap();
    let closed = &history.cycles[0].tasks.as_ref().unwrap().tasks;
    assert_eq!(closed[1].files_touched, BTreeSet::from(["c.txt".to_owned()]));
}

#[test]
fn the_notes_about_agents_stay_small() {
    let stage = Stage::new();
    let task = task_of(&stage, "busy");
    let folder = "x".repeat(20_000);
    // An agent that ends, and agents that never do: their files have 4 MB.
    for number in 0..100 {
        edit(&stage, "busy", &format!("{folder}/{number}"));
        edit(&stage, &format!("lost {number}"), &format!("{folder}/{number}"));
    }
    let notes = stage.path(".nexus/state/agent-files.jsonl");
    assert!(fs::metadata(&notes).unwrap().len() <= 2 << 20);
    stage.hook(HookEvent::SubagentComplete, &of_agent(&stage, "busy"));
    assert!(touched(&stage, task).contains(&format!("{folder}/99")));
    for number in 0..150 {
        stage.hook(HookEvent::SubagentSpawn, &of_agent(&stage, &format!("{number}")));
        if number % 2 == 0 {
            stage.hook(HookEvent::SubagentComplete, &of_agent(&stage, &format!("{number}")));
        }
    }
    let text = fs::read_to_string(stage.path(".nexus/state/claude/agent-tracker.json")).unwrap();
    let tracker: Value = serde_json::from_str(&text).unwrap();
    let known: Vec<_> =
        tracker["agents"].as_array().unwrap().iter().map(|known| known["id"].clone()).collect();
    assert_eq!(known.len(), 100);
    // Agents that ended go first.
    assert!(known.contains(&json!("1")) && known.contains(&json!("149")) && !known.contains(&json!("0")));
}

/// Overwrites a file in place with `text`, of the same length, and restores the time of its last change.
fn overwrite(path: &Path, text: &str) {
    let before = fs::metadata(path).unwrap();
    let length = usize::try_from(before.len()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    std::io::Write::write_all(&mut &file, format!("{text:length$}").as_bytes()).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
    assert_eq!(file.metadata().unwrap().len(), before.len());
}

/// Damages a document without an effect on its stamp, by a change of the stamp that its summary has.
#[cfg(unix)]
fn damage_unseen(path: &Path, summary: &Path) {
    use std::os::unix::fs::MetadataExt as _;

    overwrite(path, "damaged");
    let found = fs::metadata(path).unwrap();
    let mut stored: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    stored["stamp"]["changed_ns"] = json!(found.ctime() * 1_000_000_000 + found.ctime_nsec());
    fs::write(summary, stored.to_string()).unwrap();
}

#[cfg(unix)]
#[test]
fn a_hook_reads_the_summaries_of_tasks_and_plan_and_never_an_old_one() {
    let stage = Stage::new();
    let add = |title: &str| {
        stage.project.task_add(TaskAddRequest { title: title.into(), ..Default::default() }).unwrap()
    };
    add("first");
    let issues = vec!["an issue".to_owned()];
    stage
        .project
        .plan_start(PlanStartRequest { topic: "a plan".into(), issues, ..Default::default() })
        .unwrap();
    let session = json!({ "session_id": "s", "cwd": stage.project.root() });
    let mut call = session.clone();
    call["tool_name"] = json!("Edit");
    call["tool_input"] = json!({ "file_path": stage.path("a.txt") });
    let (tasks, plan) = (stage.path(".nexus/state/tasks.json"), stage.path(".nexus/state/plan.json"));
    let (good_tasks, good_plan) = (fs::read(&tasks).unwrap(), fs::read(&plan).unwrap());
    damage_unseen(&tasks, &stage.path(".nexus/state/.tasks-summary.json"));
    damage_unseen(&plan, &stage.path(".nexus/state/.plan-summary.json"));
    // No hook reads the files themselves, right after the change too.
    let events = [
        (HookEvent::SessionStart, &session),
        (HookEvent::ContextCompact, &session),
        (HookEvent::PreToolUse, &call),
        (HookEvent::SubagentComplete, &of_agent(&stage, "one")),
    ];
    for (event, input) in events {
        let reply = stage.hook(event, input);
        assert_eq!((reply.refusal, reply.skipped), (None, vec![]), "{event:?}");
        if let Some(context) = reply.context {
            let is_whole =
                context.contains("(pending): first") && context.contains("plan: a plan (1 pending)");
            assert!(is_whole, "{event:?}: {context}");
        }
    }
    // A person's edit counts at once: of the same length, and in a file that was replaced.
    fs::write(&tasks, String::from_utf8(good_tasks).unwrap().replace("first", "other")).unwrap();
    fs::write(&plan, good_plan).unwrap();
    let shown = |session: &Value| stage.hook(HookEvent::SessionStart, session).context.unwrap();
    assert!(shown(&session).contains("(pending): other"), "{}", shown(&session));
    fs::remove_file(&tasks).unwrap();
    assert!(shown(&session).contains("no tasks"));
    assert!(stage.hook(HookEvent::PreToolUse, &call).refusal.is_some());
    fs::write(&tasks, "damaged").unwrap();
    assert!(stage.hook(HookEvent::PreToolUse, &call).refusal.unwrap().contains("cannot be read"));
    // A summary that is damaged, or of another version, is made again.
    fs::remove_file(&tasks).unwrap();
    add("again");
    for text in ["damaged", "{}", "{\"version\":2}"] {
        fs::write(stage.path(".nexus/state/.tasks-summary.json"), text).unwrap();
        assert!(shown(&session).contains("(pending): again"));
    }
}

#[cfg(unix)]
#[test]
fn a_hook_sees_a_change_that_restores_size_and_time() {
    let stage = Stage::new();
    task_of(&stage, "one");
    let mut call = json!({ "session_id": "s", "cwd": stage.project.root() });
    call["tool_name"] = json!("Edit");
    call["tool_input"] = json!({ "file_path": stage.path("a.txt") });
    assert_eq!(stage.hook(HookEvent::PreToolUse, &call).refusal, None);
    let tasks = stage.path(".nexus/state/tasks.json");
    let good = fs::read_to_string(&tasks).unwrap();
    // The kernel's clock has ticked since the file was written.
    std::thread::sleep(Duration::from_millis(50));
    overwrite(&tasks, &good.replace("\"one\"", "\"two\""));
    let shown = stage.hook(HookEvent::SessionStart, &call).context.unwrap();
    assert!(shown.contains("(in_progress): two"), "{shown}");
    // The summary of this content is stored once its time is reliable.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(stage.hook(HookEvent::PreToolUse, &call).refusal, None);
    std::thread::sleep(Duration::from_millis(50));
    overwrite(&tasks, "damaged");
    assert!(stage.hook(HookEvent::PreToolUse, &call).refusal.is_some());
}

/// Creates something at a path that is not a log of values.
#[cfg(unix)]
type MakeUnreadable = fn(&Path);

/// Returns what may be in the place of the log of the files of agents, each with its name.
#[cfg(unix)]
fn unreadable_logs() -> [(&'static str, MakeUnreadable); 5] {
    fn folder(path: &Path) {
        fs::create_dir(path).unwrap();
        fs::write(path.join("file"), "").unwrap();
    }
    fn link(path: &Path) {
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    }
    fn pipe(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }
    fn long_line(path: &Path) {
        fs::write(path, "x".repeat(5 << 20)).unwrap();
    }
    fn huge(path: &Path) {
        fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    }
    [("folder", folder), ("link", link), ("pipe", pipe), ("long line", long_line), ("huge", huge)]
}

#[cfg(unix)]
#[test]
fn a_log_that_cannot_be_read_hinders_no_tool_and_is_replaced() {
    for (name, make) in unreadable_logs() {
        let stage = Stage::new();
        let log = stage.path(".nexus/state/agent-files.jsonl");
        make(&log);
        let task = task_of(&stage, "one");
        assert_eq!(touched(&stage, task), [""; 0], "{name}");
        edit(&stage, "one", "a.txt");
        stage.hook(HookEvent::SubagentComplete, &of_agent(&stage, "one"));
        assert_eq!(touched(&stage, task), ["a.txt"], "{name}");
        assert!(fs::symlink_metadata(log.with_extension("jsonl.unreadable")).is_ok(), "{name}");
        let files_touched = BTreeSet::new();
        let update = TaskUpdateRequest { task, status: Completed, agent: None, files_touched };
        stage.project.task_update(update).unwrap();
        assert!(!log.exists(), "{name}");
        assert_eq!(touched(&stage, task), ["a.txt"], "{name}");
    }
}

#[test]
fn the_files_of_an_agent_of_an_earlier_version_survive_a_failure() {
    let stage = Stage::new();
    let task = task_of(&stage, "one");
    stage.hook(HookEvent::SubagentSpawn, &of_agent(&stage, "one"));
    let path = stage.path(".nexus/state/claude/agent-tracker.json");
    let mut tracker: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    tracker["agents"][0]["files_touched"] = json!(["a.txt"]);
    fs::write(&path, tracker.to_string()).unwrap();
    // Two folders, so that the log can neither be written nor be renamed.
    let log = stage.path(".nexus/state/agent-files.jsonl");
    let folders = [log.clone(), log.with_extension("jsonl.unreadable")];
    for folder in &folders {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("file"), "").unwrap();
    }
    let harness = Harness::find("claude").unwrap();
    let input = harness.read(&of_agent(&stage, "one"));
    stage.project.on_hook(&harness, HookEvent::SubagentComplete, &input).unwrap_err();
    for folder in &folders {
        fs::remove_dir_all(folder).unwrap();
    }
    stage.hook(HookEvent::SubagentComplete, &of_agent(&stage, "one"));
    assert_eq!(touched(&stage, task), ["a.txt"]);
    assert!(!fs::read_to_string(&path).unwrap().contains("a.txt"));
}
