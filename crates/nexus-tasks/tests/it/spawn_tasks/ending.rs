//! What is left of tasks that ended, how they are gone on with, and how they are removed.

use std::fs;

use nexus_core::{
    Cost, CostSource, EventEnvelope, EventSink as _, FinishReason, NullSink, Provenance, Recorder, TurnEvent,
    TurnHost, TurnRequest, Usage, Usd,
    turn::{MessageEnded, Started},
};
use nexus_tasks::{
    TaskCancelRequest, TaskCreateRequest, TaskErrorKind, TaskListRequest, TaskLogEvent, TaskRemoveRequest,
    TaskReopenRequest, TaskStatusRequest, TaskStore, Tasks, task_report,
};
use nexus_work::WorkBudget;
use serde_json::json;

use super::kit::{
    CopyingClock, World, commit_all, git, honest, log, options, orchestrate, router, run_step, status, walk,
};

fn copies(world: &World, id: &str) -> Vec<&'static str> {
    let folder = world.task_folder(id);
    ["work", "checks", "map"].into_iter().filter(|name| folder.join(name).exists()).collect()
}

fn reopen(id: &str) -> TaskReopenRequest {
    TaskReopenRequest { task_id: id.to_owned(), note: "Go on.".to_owned(), ..TaskReopenRequest::default() }
}

async fn cancel(world: &World, id: &str) {
    let report = world.tasks.cancel(TaskCancelRequest { task_id: id.to_owned() }).await.unwrap();
    assert_eq!(report.status, "cancelled");
}

fn remove(id: &str) -> TaskRemoveRequest {
    TaskRemoveRequest { task_id: id.to_owned() }
}

#[tokio::test]
async fn a_task_stores_the_configuration_with_which_it_began_and_each_later_one() {
    let Some(world) = World::new(honest) else { return };
    let id = world.framed().await;
    let another = json!({ "executor": { "tier": "execution", "phase": "implement", "group": "first", "model": { "exact": "any" }, "effort": "max" } });
    let next = Tasks::new(router(&world.agents, &another), options(&world.root));
    walk(&next, &id).await;
    let stored: Vec<_> = log(&next, &id).await.into_iter().filter(|(kind, _)| kind == "configured").collect();
    let executors: Vec<_> =
        stored.iter().map(|(_, data)| data["types"]["executor"].as_str().unwrap()).collect();
    assert_eq!(executors, ["beta (any) at effort max", "alpha (any) at effort max"]);
    assert_eq!(
        stored[0].1["types"]["reviewer"],
        "a panel of alpha (any) at effort max | beta (any) at effort max"
    );
    let page = task_report(&TaskStore::in_home(&world.root.join("home")).open(&id).unwrap()).unwrap();
    assert!(page.contains("executor is now alpha (any) at effort max, and was beta (any) at effort max"));
}

#[tokio::test]
async fn a_task_that_was_cancelled_keeps_no_copies_of_the_project_and_can_be_reopened() {
    let Some(world) = World::new(honest) else { return };
    let id = world.framed().await;
    run_step(&world.tasks, &id).await;
    assert!(!copies(&world, &id).is_empty(), "there is something to remove");
    cancel(&world, &id).await;
    assert_eq!(copies(&world, &id), [""; 0]);
    world.tasks.reopen(reopen(&id)).await.unwrap();
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
    assert_eq!(copies(&world, &id), [""; 0]);
}

#[tokio::test]
async fn copies_that_a_killed_server_left_of_an_ended_task_are_removed_by_the_next_one() {
    let Some(world) = World::new(honest) else { return };
    let id = world.framed().await;
    walk(&world.tasks, &id).await;
    let left = world.task_folder(&id).join("work/unit-1/src");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("old.txt"), "old").unwrap();
    fs::create_dir_all(world.task_folder(&id).join("map/src")).unwrap();
    let next = world.another();
    assert_eq!(status(&next, &id).await.status, "complete");
    // The sweep of that server may have it in hand, beside the call.
    world.until(|world| copies(world, &id).is_empty()).await;
    // Also where the project is gone meanwhile.
    fs::create_dir_all(&left).unwrap();
    fs::rename(world.project(), world.root.join("elsewhere")).unwrap();
    status(&next, &id).await;
    world.until(|world| copies(world, &id).is_empty()).await;
}

#[tokio::test]
async fn a_removed_task_leaves_neither_its_folder_nor_its_ref() {
    let Some(world) = World::new(honest) else { return };
    let project = world.project();
    commit_all(&project);
    let pins = || git(&project, &["for-each-ref", "refs/nexus"]).lines().count();
    let id = world.framed().await;
    let other = world.framed().await;
    assert_eq!(pins(), 2);
    let error = world.tasks.remove(remove(&id)).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::WrongStatus, "{error}");
    assert!(error.advice.contains("task_cancel"), "{error}");
    cancel(&world, &id).await;
    // Whoever looks at it or goes on with it needs the ref: it stays until the task is removed.
    assert_eq!(pins(), 1 + 1);
    let removed = world.tasks.remove(remove(&id)).await.unwrap();
    assert_eq!((removed.task_id.as_str(), removed.project), (id.as_str(), project.display().to_string()));
    assert_eq!(pins(), 1);
    assert!(!world.task_folder(&id).exists());
    let left: Vec<_> = fs::read_dir(world.root.join("home/tasks"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [other.as_str()], "nothing half removed lies beside it");
    let gone =
        world.tasks.status(TaskStatusRequest { task_id: id.clone(), wait_s: Some(0) }).await.unwrap_err();
    assert_eq!(gone.kind, TaskErrorKind::UnknownTask);
    assert_eq!(world.tasks.remove(remove(&id)).await.unwrap_err().kind, TaskErrorKind::UnknownTask);
    assert_eq!(walk(&world.tasks, &other).await.last().unwrap().status, "complete");
    // One whose project is gone is removed, too.
    fs::rename(&project, world.root.join("elsewhere")).unwrap();
    world.tasks.remove(remove(&other)).await.unwrap();
    assert!(world.tasks.list(TaskListRequest::default()).await.unwrap().tasks.is_empty());
}

#[tokio::test]
async fn a_task_that_used_up_its_budget_goes_on_with_a_larger_one() {
    let Some(world) = World::new(honest) else { return };
    let budget = |output_tokens| Some(WorkBudget { usd: None, output_tokens: Some(output_tokens) });
    let request = TaskCreateRequest { budget: budget(400), ..world.request() };
    let id = world.tasks.create(request).await.unwrap().task_id;
    assert_eq!(orchestrate(&world.tasks, &id).await.status, "active");
    let reports = walk(&world.tasks, &id).await;
    let reason = reports.last().unwrap().step.as_ref().unwrap().reason.clone().unwrap();
    assert!(reason.contains("task_reopen with a larger `budget`"), "{reason}");
    let spent = status(&world.tasks, &id).await.spent;
    // A turn that was refused before anything ran is none.
    assert_eq!((spent.turns, spent.output_tokens), (4, 400));
    let told = serde_json::to_value(spent).unwrap();
    assert_eq!(told["usd"], serde_json::Value::Null, "no turn told a cost: {told}");
    for wrong in [
        WorkBudget { usd: Some(-1.0), output_tokens: None },
        WorkBudget { usd: Some(f64::NAN), output_tokens: None },
        WorkBudget { usd: None, output_tokens: Some(0) },
    ] {
        let error =
            world.tasks.reopen(TaskReopenRequest { budget: Some(wrong), ..reopen(&id) }).await.unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::InvalidArgument, "{error}");
    }
    // Without a larger one, or with one that is too small, the answer says so.
    for too_small in [None, budget(300)] {
        let report =
            world.tasks.reopen(TaskReopenRequest { budget: too_small, ..reopen(&id) }).await.unwrap();
        assert_eq!(report.status, "active");
        assert!(report.warnings[0].contains("the task's budget is used up"), "{:?}", report.warnings);
        cancel(&world, &id).await;
    }
    let report =
        world.tasks.reopen(TaskReopenRequest { budget: budget(100_000), ..reopen(&id) }).await.unwrap();
    assert_eq!(report.warnings, [""; 0]);
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
}

#[tokio::test]
async fn what_a_killed_turn_reported_is_booked_and_in_the_log_once() {
    let Some(world) = World::new(honest) else { return };
    let budget = WorkBudget { usd: None, output_tokens: Some(1_000) };
    let request = TaskCreateRequest { budget: Some(budget), ..world.request() };
    let id = world.tasks.create(request).await.unwrap().task_id;
    orchestrate(&world.tasks, &id).await;
    // As a server leaves it that is killed in the middle of a turn.
    let task = world.tasks.store().open(&id).unwrap();
    task.update(|state, data| {
        data.begun = state.attempts;
        Ok(())
    })
    .unwrap();
    // The record of a turn has no phase: that of a unit which reads is in the log.
    let begun = TaskLogEvent::AgentBegan {
        attempt: Some(1),
        agent: "unit 1".to_owned(),
        agent_type: "surveyor".to_owned(),
        phase: "survey".to_owned(),
    };
    task.log(&begun).unwrap();
    let mut recording =
        task.turns().unwrap().begin("0.1 unit 1 work", &TurnRequest::new("x"), &TurnHost::new()).unwrap();
    let mut nobody = NullSink;
    let mut usage = Usage::new();
    usage.output_tokens = Some(450);
    let message = || MessageEnded::new("m".into(), "said").with_usage(Some(usage));
    let events = [
        TurnEvent::Started(Started::new("beta".into())),
        TurnEvent::MessageEnded(message()),
        TurnEvent::MessageEnded(message()),
    ];
    for (number, event) in events.into_iter().enumerate() {
        recording.beside(&mut nobody).accept(EventEnvelope::new(
            number as u64,
            std::time::Duration::ZERO,
            event,
        ));
    }
    drop(recording);
    // The first call may come back while the server still looks after it.
    let first = world.another();
    let looking = async {
        loop {
            status(&first, &id).await;
            if task.data().unwrap().1.interrupted == 1 && task.try_hold_step().unwrap().is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), looking).await.expect("it is booked");
    for _ in 0..2 {
        let report = status(&world.another(), &id).await;
        assert!(report.next.contains("interrupted"), "{report:?}");
        assert_eq!((report.spent.turns, report.spent.output_tokens), (2, 1_000));
    }
    let cut_off: Vec<_> = log(&world.tasks, &id)
        .await
        .into_iter()
        .filter(|(kind, data)| kind == "turn_ended" && data["agent"] == "unit 1")
        .collect();
    assert_eq!(cut_off.len(), 1, "{cut_off:?}");
    let turn = &cut_off[0].1;
    assert_eq!(
        (&turn["attempt"], &turn["agent_type"], &turn["phase"], &turn["backend"]),
        (&1.into(), &"surveyor".into(), &"survey".into(), &"beta".into())
    );
    assert!(turn["failure"].as_str().unwrap().contains("interrupted"), "{turn}");
    let turns = world.turns("implement");
    let report = run_step(&world.another(), &id).await;
    assert_eq!(report.status, "escalated", "nothing is left: {report:?}");
    assert_eq!(world.turns("implement"), turns);
}

#[tokio::test]
async fn a_status_that_there_is_not_is_answered_with_those_that_there_are() {
    let Some(world) = World::new(honest) else { return };
    let request = TaskListRequest { status: Some("done".to_owned()), ..TaskListRequest::default() };
    let error = world.tasks.list(request).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::InvalidArgument);
    for name in ["framing", "clarification_needed", "active", "complete", "blocked", "escalated", "cancelled"]
    {
        assert!(error.advice.contains(name), "{error}");
        let request = TaskListRequest { status: Some(name.to_owned()), ..TaskListRequest::default() };
        assert!(world.tasks.list(request).await.unwrap().tasks.is_empty());
    }
}

#[tokio::test]
async fn a_task_that_needs_more_vendors_than_review_is_refused_before_anything_runs() {
    let Some(world) = World::new(honest) else { return };
    let why =
        "no step can advance: it needs votes of 3 vendors, but the reviewers in nexus.yaml have at most 2";
    let create = |min_vendors| TaskCreateRequest { min_vendors, ..world.request() };
    let refused = world.tasks.create(create(Some(3))).await.unwrap_err();
    assert_eq!((refused.kind, refused.message.as_str()), (TaskErrorKind::NotConfigured, why));
    assert!(refused.advice.contains("`min_vendors`"), "{refused}");
    assert!(world.tasks.list(TaskListRequest::default()).await.unwrap().tasks.is_empty());
    world.tasks.create(create(None)).await.unwrap();
    let id = world.tasks.create(create(Some(2))).await.unwrap().task_id;

    world.tasks.cancel(TaskCancelRequest { task_id: id.clone() }).await.unwrap();
    let again = |min_vendors| TaskReopenRequest { min_vendors, ..reopen(&id) };
    assert_eq!(world.tasks.reopen(again(Some(3))).await.unwrap_err().message, why);
    assert_eq!(world.tasks.reopen(again(Some(0))).await.unwrap_err().kind, TaskErrorKind::InvalidArgument);
    world.tasks.reopen(again(Some(1))).await.unwrap();
    let task = world.tasks.store().open(&id).unwrap();
    assert_eq!(task.data().unwrap().1.settings.min_vendors, Some(1));
}

#[tokio::test]
async fn a_task_with_a_decided_settling_is_cancelled_without_its_project_and_goes_on_with_it() {
    let world =
        World::with(honest, &serde_json::json!({}), |options| options.clock = CopyingClock::of(options));
    let Some(world) = world else { return };
    commit_all(&world.project());
    let id = world.framed().await;
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
    world.cut_off(&id).await;
    // As a server leaves it that is killed between the ref and the status.
    let task = world.tasks.store().open(&id).unwrap();
    let (_, data) = task.data().unwrap();
    let (tree, intent) = (task.tree().unwrap(), data.intent.unwrap());
    let (commit, base) = (tree.commit(&intent.commit).unwrap(), tree.base().commit.clone());
    if tree.read_ref("head").unwrap().as_ref() != Some(&commit) {
        tree.move_ref("head", Some(&base), &commit).unwrap();
    }
    drop(tree);
    let elsewhere = world.root.join("elsewhere");
    fs::rename(world.project(), &elsewhere).unwrap();
    let next = world.another();
    let report = next.cancel(TaskCancelRequest { task_id: id.clone() }).await.unwrap();
    assert_eq!(report.status, "cancelled");
    assert!(task.data().unwrap().1.intent.is_none());
    // What was not settled counts nowhere.
    assert_eq!(task.step_record(1).unwrap(), None);
    fs::rename(&elsewhere, world.project()).unwrap();
    let agents = world.turns("implement");
    next.reopen(reopen(&id)).await.unwrap();
    assert_eq!(task.tree().unwrap().read_ref("head").unwrap(), Some(base));
    assert_eq!(walk(&next, &id).await.last().unwrap().status, "complete");
    assert_eq!(world.turns("implement") - agents, 4);
    let head = task.data().unwrap().1.head;
    assert_eq!(task.tree().unwrap().read_ref("head").unwrap(), head);
    next.shutdown().await;
}

#[tokio::test]
async fn turns_of_a_killed_agent_that_had_ended_are_in_the_log_and_in_what_was_spent() {
    for is_cancelled in [false, true] {
        let Some(world) = World::new(honest) else { return };
        commit_all(&world.project());
        let budget = WorkBudget { usd: Some(10.0), output_tokens: Some(1_000) };
        let request = TaskCreateRequest { budget: Some(budget), ..world.request() };
        let id = world.tasks.create(request).await.unwrap().task_id;
        orchestrate(&world.tasks, &id).await;
        world.tasks.shutdown().await;
        let task = world.tasks.store().open(&id).unwrap();
        let file = task.turns().unwrap();
        let begin = |name: &str| file.begin(name, &TurnRequest::new("x"), &TurnHost::new()).unwrap();
        let mut usage = Usage::new();
        usage.output_tokens = Some(300);
        let mut recorder = Recorder::new();
        recorder.set_usage(usage);
        let mut result = recorder.into_result(FinishReason::Stop, Provenance::new("beta".into()));
        result.cost = Some(Cost { usd: Usd(2.5), source: CostSource::Reported });
        begin("0.1 unit 1 work").end(&Ok(result)).unwrap();
        drop(begin("0.1 unit 1 reminder"));
        task.update(|state, data| {
            data.begun = state.attempts;
            Ok(())
        })
        .unwrap();
        let next = world.another();
        if is_cancelled {
            // Also where nothing can be put back.
            fs::rename(world.project(), world.root.join("elsewhere")).unwrap();
            next.cancel(TaskCancelRequest { task_id: id.clone() }).await.unwrap();
        }
        let logged = || {
            let events = task.events().unwrap().events;
            let of_unit = events
                .into_iter()
                .filter(|event| event.kind == "turn_ended" && event.data["agent"] == "unit 1");
            of_unit.map(|event| event.data).collect::<Vec<_>>()
        };
        let spent = status(&next, &id).await.spent;
        world.until(|_| logged().len() == 2).await;
        status(&world.another(), &id).await;
        let turns = logged();
        assert_eq!(turns.len(), 2, "{turns:?}");
        let [work, reminder] = [&turns[0], &turns[1]];
        assert_eq!(
            (&work["purpose"], &work["output_tokens"], &work["failure"]),
            (&"work".into(), &300.into(), &().into())
        );
        assert_eq!((&work["backend"], &work["cost"]["usd"]), (&"beta".into(), &2.5.into()));
        assert!(
            reminder["purpose"] == "reminder"
                && reminder["failure"].as_str().unwrap().contains("interrupted")
        );
        let spent = if is_cancelled { spent } else { status(&next, &id).await.spent };
        assert_eq!((spent.output_tokens, spent.usd), (400, Some(2.5)));
        next.shutdown().await;
    }
}
