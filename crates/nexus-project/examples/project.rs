//! A project from its first plan to its history, in files that people and agents share. It needs no login and no network.
//!
//! `cargo run -p nexus-turn-project --example project` prints what an agent would be told of a task, and what is found again of the cycle later.

use std::{collections::BTreeSet, error::Error};

use nexus_project::{
    ProjectFolder,
    role::{HarnessMap, Role, RoleTools},
    state::ProjectTaskStatus,
    tools::{
        HistorySearchRequest, PlanDecideRequest, PlanStartRequest, TaskAddRequest, TaskCloseRequest,
        TaskUpdateRequest,
    },
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("No login needed: no model is asked.\n");
    let folder = tempfile::tempdir()?;
    let project = ProjectFolder::at(folder.path());
    project.init()?;

    // Start a plan with one open issue, then decide the issue.
    project.plan_start(PlanStartRequest {
        topic: "Faster reads".to_owned(),
        issues: vec!["cache?".to_owned()],
        research_summary: Some("the slowest of a hundred takes 900 ms".to_owned()),
    })?;
    project.plan_decide(PlanDecideRequest { issue: 1, decision: "yes, in memory".to_owned() })?;

    // Add a task with its owner.
    let added = project.task_add(TaskAddRequest {
        title: "write the cache".to_owned(),
        context: Some("reads go through src/store.rs".to_owned()),
        acceptance: Some("the slowest of a hundred takes less than 100 ms".to_owned()),
        owner: Some("engineer".to_owned()),
        files: BTreeSet::from(["src/store.rs".to_owned()]),
        ..TaskAddRequest::default()
    })?;
    let tasks = project.tasks()?.ok_or("there are no tasks")?;
    let task = tasks.task(added.id).ok_or("there is no such task")?;
    println!("--- what its agent is told\n{}", project.task_prompt(task)?);
    let role = Role::find("engineer").ok_or("there is no such role")?;
    let tools = RoleTools::of(&role.capabilities, &[], &HarnessMap::of_nexus());
    println!("--- its access: {}; it is not given: {:?}\n", tools.access.as_str(), tools.taken);

    for status in [ProjectTaskStatus::InProgress, ProjectTaskStatus::Completed] {
        let files_touched = BTreeSet::from(["src/store.rs".to_owned()]);
        project.task_update(TaskUpdateRequest { task: added.id, status, agent: None, files_touched })?;
    }
    project.task_close(&TaskCloseRequest::default())?;

    // A later cycle finds it.
    let found =
        project.history_search(&HistorySearchRequest { query: Some("cache".to_owned()), offset: None })?;
    for cycle in found.cycles {
        println!("--- found again: {}", cycle.topic.unwrap_or_default());
        for decision in cycle.decisions {
            println!("{} {}", decision.issue, decision.decision);
        }
    }
    Ok(())
}
