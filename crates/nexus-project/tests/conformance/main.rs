//! Servers of the eleven tools before the fixtures: ours passes all, and three that are wrong fail for their own reason. Ours is also
//! killed, and written to by many at once.
//!
//! This program is also the servers and the writers that it starts, told apart by their first argument.

use std::{
    collections::BTreeSet,
    env, fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use async_trait::async_trait;
use libtest_mimic::{Failed, Trial};
use nexus_mcp::{
    CallAnswer, CallContext, JsonObject, ServedTool, ServiceInfo, StdioSettings, ToolService, serve_stdio,
};
use nexus_project::{
    ProjectFolder, ProjectTools, ToolPrefix,
    conformance::{Action, FIXTURES, FixtureFile, Report, ServerCommand, run},
    state::{Document as _, ProjectPlan, ProjectTasks, schema_of},
    tools::{PlanAction, PlanStartRequest, PlanUpdateRequest, TaskAddRequest},
};
use nexus_testkit::{conformance::run_trials, effort};
use serde_json::json;

/// The ways in which a server can be wrong, and the fixture that tells.
const WRONG: [(&str, &str, &str); 3] = [
    ("forgets-plans", "tools/plan_start.json", "an existing plan goes to the history first"),
    ("ignores-order", "tools/task_list.json", "ready is what is pending with every dependency completed"),
    ("leads-out", "tools/artifact_write.json", "a name never leads out"),
];

const WRITERS: usize = 8;
/// How often each of them adds a task and an issue, in each round.
const ADDED: usize = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("serve") => return serve(arguments.get(2).map_or("", String::as_str)),
        Some("write") => return write(),
        _ => {}
    }
    let mut trials = vec![
        Trial::test("ours_passes_every_fixture", ours_passes_every_fixture),
        Trial::test("a_prefix_is_part_of_every_name", a_prefix_is_part_of_every_name),
        Trial::test("each_tool_has_six_fixtures_at_least", each_tool_has_six_fixtures_at_least),
        Trial::test("no_plan_is_lost_or_archived_twice_by_kills", no_plan_is_lost_or_archived_twice_by_kills),
        Trial::test("many_writers_lose_nothing", many_writers_lose_nothing),
    ];
    for (way, file, fixture) in WRONG {
        let name = format!("a_server_that_{}_fails_for_it", way.replace('-', "_"));
        trials.push(Trial::test(name, move || a_wrong_server_fails_for_its_own_fixture(way, file, fixture)));
    }
    run_trials(trials)
}

fn server(way: &str, prefix: &str) -> ServerCommand {
    ServerCommand {
        program: env::current_exe().unwrap().to_str().unwrap().to_owned(),
        arguments: vec!["serve".to_owned(), way.to_owned()],
        prefix: prefix.to_owned(),
    }
}

fn judged(server: &ServerCommand, file: &FixtureFile) -> Report {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run(server, file)).unwrap()
}

fn ours_passes_every_fixture() -> Result<(), Failed> {
    for (name, text) in FIXTURES {
        let file = FixtureFile::read(name, text)?;
        let report = judged(&server("", ""), &file);
        if !report.failures.is_empty() || report.passed == 0 {
            return Err(format!("{name}: {:#?}", report.failures).into());
        }
    }
    Ok(())
}

fn a_prefix_is_part_of_every_name() -> Result<(), Failed> {
    let (name, text) = FIXTURES[11];
    let file = FixtureFile::read(name, text)?;
    let report = judged(&server("prefixed", "nx_"), &file);
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    let report = judged(&server("prefixed", ""), &file);
    assert!(report.passed == 0, "names without the prefix were taken");
    Ok(())
}

fn each_tool_has_six_fixtures_at_least() -> Result<(), Failed> {
    let tools = ProjectTools::new(ProjectFolder::at("."), ToolPrefix::default()).tools();
    assert!(tools.len() == 11);
    for tool in tools {
        let name = format!("tools/{}.json", tool.name);
        let (_, text) =
            FIXTURES.iter().find(|(file, _)| *file == name).ok_or(format!("{name} is missing"))?;
        assert!(FixtureFile::read(&name, text)?.fixtures.len() >= 6, "{name}");
    }
    assert!(FIXTURES.iter().filter(|(name, _)| name.starts_with("scenarios/")).count() >= 6);
    // Every fixture on disk is one that is run.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    for kind in ["tools", "scenarios"] {
        for entry in fs::read_dir(folder.join(kind))? {
            let name = format!("{kind}/{}", entry?.file_name().to_str().unwrap());
            assert!(FIXTURES.iter().any(|(file, _)| *file == name), "{name} is not run");
        }
    }
    Ok(())
}

fn a_wrong_server_fails_for_its_own_fixture(way: &str, file: &str, fixture: &str) -> Result<(), Failed> {
    for (name, text) in FIXTURES.iter().filter(|(name, _)| name.starts_with("tools/")) {
        let report = judged(&server(way, ""), &FixtureFile::read(name, text)?);
        let failed: Vec<_> = report.failures.iter().map(|failure| failure.fixture.as_str()).collect();
        let expected: &[&str] = if *name == file { &[fixture] } else { &[] };
        assert!(failed == expected, "{way}, {name}: {:#?}", report.failures);
    }
    Ok(())
}

/// The server is killed so often in `task_close`, and so often in `plan_start`.
fn no_plan_is_lost_or_archived_twice_by_kills() -> Result<(), Failed> {
    let (name, text) =
        FIXTURES.iter().find(|(name, _)| *name == "scenarios/crash.json").ok_or("it is missing")?;
    let mut file = FixtureFile::read(name, text)?;
    for step in file.fixtures.iter_mut().flat_map(|fixture| &mut fixture.steps) {
        if let Action::Kill { rounds, .. } = &mut step.action {
            *rounds = effort::rounds();
        }
    }
    let report = judged(&server("", ""), &file);
    assert!(report.failures.is_empty() && report.passed == 2, "{:#?}", report.failures);
    Ok(())
}

/// Eight processes that write, and one that reads all the time.
fn many_writers_lose_nothing() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let project = ProjectFolder::at(folder.path());
    project.init()?;
    project
        .plan_start(PlanStartRequest { topic: "many writers".to_owned(), ..PlanStartRequest::default() })?;
    let schemas = [
        jsonschema::validator_for(&schema_of::<ProjectTasks>())?,
        jsonschema::validator_for(&schema_of::<ProjectPlan>())?,
    ];
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let mut command = Command::new(env::current_exe()?);
        writers.push(command.arg("write").current_dir(folder.path()).stdin(Stdio::null()).spawn()?);
    }
    let mut seen = 0;
    loop {
        let is_over = writers.iter_mut().all(|writer| writer.try_wait().is_ok_and(|status| status.is_some()));
        for (file, schema) in ["tasks.json", "plan.json"].iter().zip(&schemas) {
            let Ok(text) = fs::read_to_string(folder.path().join(".nexus/state").join(file)) else {
                continue;
            };
            let value = serde_json::from_str(&text)?;
            assert!(schema.is_valid(&value), "{file} broke its schema: {text}");
        }
        // Nothing goes away again.
        let tasks = project.tasks()?.map_or(0, |tasks| tasks.tasks.len());
        assert!(tasks >= seen, "there were {seen} tasks, and now {tasks}");
        seen = tasks;
        if is_over {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    for mut writer in writers {
        assert!(writer.wait()?.success(), "a writer failed");
    }
    let tasks = project.tasks()?.ok_or("there are no tasks")?;
    let plan = project.plan()?.ok_or("there is no plan")?;
    let added = WRITERS * ADDED * effort::rounds();
    assert!(tasks.tasks.len() == added && plan.issues.len() == added);
    let titles: BTreeSet<_> = tasks.tasks.iter().map(|task| &task.title).collect();
    assert!(titles.len() == tasks.tasks.len(), "a task was written over");
    for entry in fs::read_dir(folder.path().join(".nexus/state"))? {
        let name = entry?.file_name();
        assert!(!name.to_str().unwrap().ends_with(".new"), "{name:?} was left");
    }
    Ok(())
}

fn write() -> ExitCode {
    let project = ProjectFolder::at(env::current_dir().unwrap());
    let process = std::process::id();
    for call in 0..ADDED * effort::rounds() {
        let title = format!("{process} {call}");
        project.task_add(TaskAddRequest { title: title.clone(), ..TaskAddRequest::default() }).unwrap();
        let request = PlanUpdateRequest { action: PlanAction::Add, issue: None, title: Some(title) };
        project.plan_update(&request).unwrap();
    }
    ExitCode::SUCCESS
}

fn serve(way: &str) -> ExitCode {
    let project = ProjectFolder::at(env::current_dir().unwrap());
    let prefix = if way == "prefixed" { "nx_".parse().unwrap() } else { ToolPrefix::default() };
    let tools = ProjectTools::new(project.clone(), prefix);
    let wrong = Arc::new(Wrong { tools, project, way: way.to_owned() });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let end = runtime.block_on(serve_stdio(wrong, StdioSettings::default(), std::future::pending()));
    if end.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ours, but for one thing.
struct Wrong {
    tools: ProjectTools,
    project: ProjectFolder,
    way: String,
}

#[async_trait]
impl ToolService for Wrong {
    fn info(&self) -> ServiceInfo {
        self.tools.info()
    }

    fn tools(&self) -> Vec<ServedTool> {
        self.tools.tools()
    }

    async fn call(&self, name: &str, arguments: JsonObject, context: CallContext) -> CallAnswer {
        let text = |key: &str| arguments.get(key).and_then(|value| value.as_str()).unwrap_or_default();
        match (&*self.way, name) {
            ("forgets-plans", "plan_start") if !text("topic").trim().is_empty() => {
                if self.project.plan().is_ok() && self.project.history().is_ok() {
                    let _ = fs::remove_file(self.project.root().join(".nexus/state").join(ProjectPlan::NAME));
                }
                self.tools.call(name, arguments, context).await
            }
            ("ignores-order", "task_list") => {
                let mut answer = self.tools.call(name, arguments, context).await;
                if let (Some(structured), Ok(Some(tasks))) = (&mut answer.structured, self.project.tasks()) {
                    let pending = tasks.tasks.iter().filter(|task| task.changed_at.is_none());
                    structured["ready"] = pending.map(|task| json!(task.id)).collect();
                }
                answer
            }
            ("leads-out", "artifact_write") if text("name").contains("../") => {
                let folder = self.project.root().join(".nexus/state/artifacts");
                let _ = fs::create_dir_all(&folder);
                let _ = fs::write(folder.join(text("name")), text("content"));
                CallAnswer::structured(json!({}))
            }
            _ => self.tools.call(name, arguments, context).await,
        }
    }

    async fn stop(&self) {
        self.tools.stop().await;
    }
}
