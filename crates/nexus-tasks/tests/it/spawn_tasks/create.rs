//! Creating tasks: what is taken, what is refused, and with which words.

use std::{fs, process::Command};

use nexus_core::{BuildContext, Registry};
use nexus_router::Router;
use nexus_tasks::{
    TaskCreateRequest, TaskErrorKind, TaskListRequest, TaskRunTurnRequest, TaskStatusRequest, Tasks,
    TasksOptions,
};
use nexus_work::WorkBudget;
use serde_json::json;

use super::kit::{World, honest, status};

fn git(folder: &std::path::Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", folder)
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
}

#[tokio::test]
async fn a_task_is_created_and_is_to_be_framed() {
    let Some(world) = World::new(honest) else { return };
    let mut request = world.request();
    request.labels.insert("issue".to_owned(), "12".to_owned());
    let created = world.tasks.create(request).await.unwrap();
    assert_eq!((created.status.as_str(), created.next.as_str()), ("framing", "call task_orchestrate"));
    assert_eq!(created.base.len(), 40);
    assert!(created.baseline.is_none());
    let report = status(&world.tasks, &created.task_id).await;
    assert_eq!((report.goal.as_str(), report.running), ("Make three files.", false));
    assert_eq!(report.labels["issue"], "12");
    let list = world.tasks.list(TaskListRequest::default()).await.unwrap();
    assert_eq!(list.tasks[0].task_id, created.task_id);
    use std::os::unix::fs::PermissionsExt as _;
    let folder = world.task_folder(&created.task_id);
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(folder.join("status.json")).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_project_outside_of_the_roots_is_refused_unless_the_client_names_it() {
    let Some(world) = World::with(honest, &json!({}), |options| options.roots.clear()) else { return };
    let error = world.tasks.create(world.request()).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::OutsideRoots);
    assert!(error.advice.contains("nexus.yaml"), "{error}");
    let elsewhere = world.root.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let error =
        world.tasks.create_below(world.request(), std::slice::from_ref(&elsewhere)).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::OutsideRoots);
    // Neither dots nor a link lead out.
    let link = elsewhere.join("link");
    std::os::unix::fs::symlink(world.project(), &link).unwrap();
    for path in [elsewhere.join("../project"), link] {
        let request = TaskCreateRequest { project: path, ..world.request() };
        let error = world.tasks.create_below(request, std::slice::from_ref(&elsewhere)).await.unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::OutsideRoots);
    }
    assert!(world.tasks.create_below(world.request(), std::slice::from_ref(&world.root)).await.is_ok());
}

#[tokio::test]
async fn a_large_project_is_refused_by_its_sizes_until_the_caller_allows_it() {
    let Some(world) = World::new(honest) else { return };
    let large = world.root.join("large");
    fs::create_dir(&large).unwrap();
    // Sparse, and each within the bound of one file.
    for name in ["one.bin", "two.bin"] {
        fs::File::create(large.join(name)).unwrap().set_len(101 << 20).unwrap();
    }
    let request = TaskCreateRequest { project: large.clone(), ..world.request() };
    let error = world.tasks.create_below(request.clone(), std::slice::from_ref(&large)).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::NeedsConsent, "{error}");
    assert!(error.message.contains("2 files of 202.0 MiB"), "{error}");
    assert!(error.advice.contains("`allow_large`"), "{error}");
    assert!(world.tasks.list(TaskListRequest::default()).await.unwrap().tasks.is_empty());
    let request = TaskCreateRequest { allow_large: true, ..request };
    world.tasks.create_below(request, &[large]).await.unwrap();
}

#[tokio::test]
async fn what_is_no_project_or_no_argument_is_refused_and_leaves_nothing() {
    let Some(world) = World::new(honest) else { return };
    let inside = world.root.join("repository/below");
    fs::create_dir_all(&inside).unwrap();
    git(&world.root.join("repository"), &["init"]);
    let good = || world.request();
    let requests = [
        (TaskCreateRequest { project: world.root.join("missing"), ..good() }, TaskErrorKind::NotAProject),
        (TaskCreateRequest { project: "relative".into(), ..good() }, TaskErrorKind::InvalidArgument),
        (TaskCreateRequest { project: inside, ..good() }, TaskErrorKind::NotAProject),
        (TaskCreateRequest { goal: " \n".to_owned(), ..good() }, TaskErrorKind::InvalidArgument),
        (TaskCreateRequest { goal: "x".repeat(20_000), ..good() }, TaskErrorKind::InvalidArgument),
        (TaskCreateRequest { test_command: Some(Vec::new()), ..good() }, TaskErrorKind::InvalidArgument),
        (TaskCreateRequest { min_vendors: Some(0), ..good() }, TaskErrorKind::InvalidArgument),
        (TaskCreateRequest { max_review_retries: Some(1_000), ..good() }, TaskErrorKind::InvalidArgument),
        (
            TaskCreateRequest { budget: Some(WorkBudget { usd: Some(-1.0), output_tokens: None }), ..good() },
            TaskErrorKind::InvalidArgument,
        ),
        (
            TaskCreateRequest { parent_workspace_id: Some("../x".to_owned()), ..good() },
            TaskErrorKind::InvalidArgument,
        ),
        (
            TaskCreateRequest { parent_workspace_id: Some("gone".to_owned()), ..good() },
            TaskErrorKind::UnknownTask,
        ),
    ];
    for (request, kind) in requests {
        let error = world.tasks.create(request.clone()).await.unwrap_err();
        assert_eq!(error.kind, kind, "{request:?}: {error}");
        assert!(!error.advice.is_empty());
    }
    assert!(world.tasks.list(TaskListRequest::default()).await.unwrap().tasks.is_empty());
}

#[tokio::test]
async fn a_work_kind_that_nobody_is_bound_to_is_told_before_anything_is_made() {
    let Some(world) = World::new(honest) else { return };
    let router = Router::from_value(json!({}), Registry::new(), BuildContext::in_home("home")).unwrap();
    let mut options = TasksOptions::in_home(world.root.join("home"));
    options.roots = vec![world.root.clone()];
    let error = Tasks::new(router, options).create(world.request()).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::NotConfigured);
    assert!(error.message.contains("orchestrator"), "{error}");
}

#[tokio::test]
async fn a_low_effort_of_who_works_or_reviews_draws_a_warning() {
    let low = json!({ "executor": {
        "tier": "execution", "phase": "implement", "group": "second", "model": { "exact": "any" }, "effort": "low",
    } });
    let Some(world) = World::with(honest, &low, |_| {}) else { return };
    let warnings = world.create().await.warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("executor runs with the effort low")),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn what_is_not_committed_is_told_to_caller_and_orchestrator() {
    let Some(world) = World::new(honest) else { return };
    let project = world.project();
    git(&project, &["init"]);
    git(&project, &["add", "."]);
    git(&project, &["commit", "-m", "first"]);
    fs::write(project.join("src/old.txt"), "newer\n").unwrap();
    let created = world.create().await;
    assert!(created.warnings[0].contains("src/old.txt"), "{:?}", created.warnings);
    crate::spawn_tasks::kit::orchestrate(&world.tasks, &created.task_id).await;
    let seen = world.agents.seen.lock().unwrap()[0].clone();
    assert!(seen.prompt.contains("src/old.txt"), "{}", seen.prompt);
    let base = world.task_folder(&created.task_id).join("base/src/old.txt");
    assert_eq!(fs::read_to_string(base).unwrap(), "old\n");

    let request = TaskCreateRequest { include_uncommitted: true, ..world.request() };
    let taken = world.tasks.create(request).await.unwrap();
    let base = world.task_folder(&taken.task_id).join("base/src/old.txt");
    assert_eq!(fs::read_to_string(base).unwrap(), "newer\n");
    assert_eq!(fs::read_to_string(project.join("src/old.txt")).unwrap(), "newer\n");
}

#[tokio::test]
async fn links_and_parents_are_two_sided() {
    let Some(world) = World::new(honest) else { return };
    let parent = world.create().await.task_id;
    let other = world.create().await.task_id;
    let request = TaskCreateRequest {
        parent_workspace_id: Some(parent.clone()),
        linked_workspace_ids: vec![other.clone()],
        ..world.request()
    };
    let child = world.tasks.create(request).await.unwrap().task_id;
    assert_eq!(status(&world.tasks, &child).await.parent_workspace_id, Some(parent.clone()));
    for id in [parent, other] {
        assert_eq!(status(&world.tasks, &id).await.linked_workspace_ids, std::slice::from_ref(&child));
    }
}

#[tokio::test]
async fn ids_are_parsed_and_never_joined_into_paths() {
    let Some(world) = World::new(honest) else { return };
    let id = world.create().await.task_id;
    for odd in [
        "",
        "..",
        "../tasks",
        "a/b",
        "/etc",
        "x\0y",
        &format!("../tasks/{id}"),
        &format!("./{id}"),
        &"x".repeat(5_000),
    ] {
        let error = world
            .tasks
            .status(TaskStatusRequest { task_id: odd.to_owned(), wait_s: None })
            .await
            .unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::UnknownTask, "{odd:?}: {error}");
        assert!(error.advice.contains("task_list"));
        assert!(error.message.len() < 1_000);
        let request = TaskRunTurnRequest { task_id: odd.to_owned(), ..Default::default() };
        assert_eq!(world.tasks.run_turn(request).await.unwrap_err().kind, TaskErrorKind::UnknownTask);
    }
}

#[tokio::test]
async fn lists_come_in_pages_that_fit() {
    let Some(world) = World::new(honest) else { return };
    for number in 0..30 {
        let goal = format!("{number} \" \u{1} {}", "x".repeat(1_000));
        world.tasks.create(TaskCreateRequest { goal, ..world.request() }).await.unwrap();
    }
    let (mut offset, mut ids) = (0, std::collections::BTreeSet::new());
    loop {
        let page = world.tasks.list(TaskListRequest { offset, ..Default::default() }).await.unwrap();
        assert!(serde_json::to_vec(&page).unwrap().len() <= 9_000);
        ids.extend(page.tasks.into_iter().map(|row| row.task_id));
        match page.next_offset {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(ids.len(), 30);
    let none = TaskListRequest { status: Some("active".to_owned()), ..Default::default() };
    assert!(world.tasks.list(none).await.unwrap().tasks.is_empty());
}
