//! The part of a task until it has a brief: its repository, the first run of its tests, and the orchestrator.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use nexus_core::{
    BeforeRetry, CancelToken, EventEnvelope, Limits, TurnEvent, TurnHost,
    harness::{run_blocking, try_blocking},
};
use nexus_router::{WorkKind, spending::WorkLabel};
use nexus_trees::{Base, Project, Tree};
use nexus_work::{AgentRecord, AgentRoute, AgentTypes, LoggedTurn, agent::AgentTypeRegistry};
use tokio::sync::watch;

use super::{
    admission::ORCHESTRATOR,
    creation::TaskCreation,
    inner::{TasksCore, read},
    report::baseline_view,
    settle::{draft_of, pin_head},
    step_job::{NO_BUDGET, is_used_up},
    watch::{AgentWait, LogWriter, MAP_TURNS, log_unlogged},
};
use crate::{
    agent::AgentPhase,
    checks::{Baseline, SuiteEnd},
    framing::{Framed, Framing, FramingFailure, Goal},
    problem_brief::ProblemBrief,
    store::{Task, TaskData, TaskLogEvent},
    task_error::{TaskError, TaskErrorKind},
    task_state::TaskEvent,
};

/// Maximum number of paths that a remark names.
const MOST_PATHS: usize = 20;

impl TasksCore {
    /// Creates the task's repository, unless it exists. Records peculiarities of the project's files as remarks.
    pub(super) fn prepare_tree(&self, task: &Task) -> Result<Tree, TaskError> {
        self.prepare_tree_with(task, &TaskCreation::default(), None)
    }

    /// Does the same as [`prepare_tree`](Self::prepare_tree), for a task that is being created.
    pub(super) fn prepare_tree_with(
        &self,
        task: &Task,
        creation: &TaskCreation,
        read_bound: Option<(usize, u64)>,
    ) -> Result<Tree, TaskError> {
        let (_, data) = task.data()?;
        // The head is written once the repository is complete.
        if data.head.is_some() {
            return task.tree();
        }
        let project = Project::find(&data.project)?;
        let options = creation.tree_options(data.include_uncommitted, read_bound);
        let tree = task.make_tree_with(&project, &options, &creation.cancel)?;
        // Create the ref before the head is stored: a status with a head stands for a complete repository.
        pin_head(&tree)?;
        let found = remarks(tree.base());
        let head = tree.base().commit.clone();
        task.update(|_, data| {
            data.head = Some(head.clone());
            data.remarks.extend(found.iter().cloned());
            data.warnings.extend(found);
            Ok(())
        })?;
        let _ = task.log(&TaskLogEvent::Created {
            project: data.project.to_string_lossy().into_owned(),
            base: head.to_string(),
        });
        Ok(tree)
    }

    /// Runs the project's tests before any change, unless they already ran.
    pub(super) async fn baseline(
        &self,
        task: &Task,
        cancel: &CancelToken,
    ) -> Result<Option<Baseline>, TaskError> {
        let reading = task.clone();
        let (_, data) = try_blocking(move || reading.data()).await?;
        if data.baseline.is_some() || data.settings.test_command.is_none() {
            return Ok(data.baseline);
        }
        let tree = read(task, Task::tree).await?;
        let checks = self.checks(task, &tree, &data).await?;
        let Some(baseline) = checks.baseline(cancel).await? else { return Ok(None) };
        let outcome = baseline_view(&baseline, 300);
        let warning = baseline_warning(&baseline);
        let (writing, kept) = (task.clone(), baseline.clone());
        try_blocking(move || {
            writing.update(|_, data| {
                // Another process may have stored its baseline meanwhile.
                if data.baseline.is_none() {
                    data.baseline = Some(kept.clone());
                    data.remarks.extend(warning.clone());
                    data.warnings.extend(warning);
                }
                Ok(())
            })?;
            let _ = writing.log(&TaskLogEvent::BaselineRan { outcome: outcome.outcome.to_string() });
            Ok::<_, TaskError>(())
        })
        .await?;
        Ok(Some(baseline))
    }

    /// Frames the goal of a task. The caller owns the lock of the task's step.
    pub(super) async fn frame(
        &self,
        task: &Task,
        cancel: &CancelToken,
        said: &watch::Sender<String>,
    ) -> Result<(), TaskError> {
        let (inner, preparing) = (self.handle(), task.clone());
        let tree = try_blocking(move || inner.prepare_tree(&preparing)).await?;
        said.send_replace("the project's own tests run".to_owned());
        self.baseline(task, cancel).await?;
        let reading = task.clone();
        let (_, data) = try_blocking(move || reading.data()).await?;
        let (base, registry) = (task.clone(), AgentTypeRegistry::in_home(&self.home));
        let (root, types, turns) = try_blocking(move || {
            Ok::<_, TaskError>((base.base_folder(&tree)?, registry.read()?, base.turns()?))
        })
        .await?;
        let goal = self.goal(&data).await;
        said.send_replace("the orchestrator plans".to_owned());
        let log = LogWriter::of(task);
        let looking = task.clone();
        let _ = run_blocking(move || log_unlogged(&looking, |name| name != MAP_TURNS)).await;
        log.log(TaskLogEvent::FramingBegan);
        let budget = self.budget(task, &data).await?;
        // The orchestrator changes no files, so there is nothing to restore before a retry.
        let nothing = BeforeRetry::new(|_| async { Ok::<(), std::convert::Infallible>(()) });
        let mut host = TurnHost::new()
            .with_cancel(cancel.clone())
            .with_before_retry(nothing)
            .with_longest_wait(data.settings.max_wait_seconds.longest());
        if let Some(budget) = budget.clone() {
            host = host.with_budget(budget);
        }
        let prompts = self.prompts().await?;
        let router = self.router.labelled(WorkLabel::Task, task.id().to_string());
        let framing = Framing {
            router: &router,
            route: AgentRoute::Kind(WorkKind::from(ORCHESTRATOR)),
            agent_type: ORCHESTRATOR,
            types: &types,
            prompts: &prompts,
            root: &root,
            limits: Limits::new().with_deadline(std::time::Duration::from_secs(data.settings.turn_seconds)),
            refused_submissions: data.settings.max_refused_submissions,
            host,
            record: Some(AgentRecord { file: turns, name: "framing".to_owned() }),
        };
        let calls = Arc::new(AtomicU32::new(0));
        let (counted, telling) = (Arc::clone(&calls), said.clone());
        let (mut wait, logging) = (AgentWait::default(), log.sender());
        let mut events = move |envelope: EventEnvelope| {
            if let Some(changed) = wait.see(None, ORCHESTRATOR, &envelope.event) {
                let _ = logging.send(changed);
            }
            if let Some(waits) = wait.in_words() {
                telling.send_replace(format!("the orchestrator {waits}"));
            }
            if matches!(envelope.event, TurnEvent::ToolCallStarted(_)) {
                let calls = counted.fetch_add(1, Ordering::Relaxed) + 1;
                let noun = if calls == 1 { "call" } else { "calls" };
                telling.send_replace(format!("the orchestrator plans, {calls} tool {noun}"));
            }
        };
        let report = framing.run(&goal, &mut events).await;
        // `events` owns a sender of the log, and `finish` below waits until all senders are dropped.
        drop(events);
        for refused in &report.refused {
            log.log(TaskLogEvent::BriefRefused { reason: refused.to_string() });
        }
        for turn in &report.turns {
            let turn = LoggedTurn::of(turn, None, ORCHESTRATOR, ORCHESTRATOR, AgentPhase::Orchestrate.name());
            log.log(TaskLogEvent::TurnEnded(turn));
        }
        // A brief that arrived before the cancellation still counts.
        let stopped = cancel.is_cancelled() && report.outcome.is_err();
        let outcome = match &report.outcome {
            _ if stopped => "interrupted",
            Ok(Framed::Brief(_)) => "brief",
            Ok(Framed::Questions(_)) => "questions",
            Err(_) => "failed",
        };
        log.log(TaskLogEvent::FramingEnded { outcome: outcome.to_owned() });
        log.finish().await;
        if stopped {
            let instead = "call task_orchestrate, which starts it again";
            return Err(TaskError::new(TaskErrorKind::Interrupted, "framing was interrupted", instead));
        }
        let settling = task.clone();
        let no_budget = is_used_up(budget.as_ref());
        try_blocking(move || settle_framing(&settling, report.outcome, types, no_budget)).await
    }

    /// Builds the input of the orchestrator.
    async fn goal(&self, data: &TaskData) -> Goal {
        let mut context = data.context.clone();
        for note in &data.notes {
            let context = context.get_or_insert_default();
            context.push_str("\n\nSince then: ");
            context.push_str(note);
        }
        // A failed memory must not prevent framing.
        let recalled = self.memory.recall(&data.project, &data.goal).await.unwrap_or_else(|error| {
            tracing::warn!(project = %data.project.display(), %error, "the notes on a project could not be read");
            Default::default()
        });
        let (maps, project) = (self.maps.clone(), data.project.clone());
        let context_map = try_blocking(move || maps.read(&project)).await.unwrap_or_else(|error| {
            tracing::warn!(project = %data.project.display(), %error, "the context map of a project could not be read");
            None
        });
        Goal {
            goal: data.goal.clone(),
            context,
            answers: data.answers.clone(),
            remarks: data.remarks.clone(),
            recalled,
            context_map,
        }
    }
}

/// Writes the outcome of framing into the status.
fn settle_framing(
    task: &Task,
    outcome: Result<Framed, FramingFailure>,
    types: AgentTypes,
    no_budget: bool,
) -> Result<(), TaskError> {
    match outcome {
        Ok(Framed::Brief(brief)) => {
            let types = named_types(&brief, types);
            task.update(|state, data| {
                *state = state.after(TaskEvent::BriefAccepted, Some(brief.plan()))?;
                data.brief = draft_of(&brief);
                data.types = types;
                Ok(())
            })
        }
        Ok(Framed::Questions(questions)) => {
            task.update(|state, _| {
                *state = state.after(TaskEvent::QuestionsAsked(questions.clone()), None)?;
                Ok(())
            })?;
            let _ = task.log(&TaskLogEvent::QuestionsAsked { questions });
            Ok(())
        }
        Err(failure) => {
            let (reason, error) = match &failure {
                FramingFailure::Refused { .. } => (failure.to_string(), None),
                _ => {
                    let more = if no_budget { NO_BUDGET } else { "" };
                    (format!("the orchestrator could not finish its work{more}"), Some(failure.to_string()))
                }
            };
            task.update(|state, _| {
                *state = state.after(TaskEvent::FramingFailed { reason, error }, None)?;
                Ok(())
            })
        }
    }
}

/// Returns the types of agents that the plan names. The task keeps its own copy of them.
fn named_types(brief: &ProblemBrief, types: AgentTypes) -> AgentTypes {
    let is_named = |name: &str| brief.plan().entries().iter().any(|entry| entry.agent_type() == name);
    let others: Vec<String> =
        types.types().filter(|known| !is_named(&known.name)).map(|known| known.name.clone()).collect();
    // `without_type` fails for built-in types, so they stay.
    others.iter().fold(types, |types, name| types.clone().without_type(name).unwrap_or(types))
}

/// Describes peculiarities of a base's files, for the orchestrator and the caller.
fn remarks(base: &Base) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut remark = |paths: &[std::path::PathBuf], what: &str| {
        if paths.is_empty() {
            return;
        }
        let named: Vec<String> =
            paths.iter().take(MOST_PATHS).map(|path| path.display().to_string()).collect();
        let more = match paths.len().saturating_sub(MOST_PATHS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        remarks.push(format!("{what}: {}{more}", named.join(", ")));
    };
    match base.includes_uncommitted {
        true => remark(&base.uncommitted, "not committed, and included in the task"),
        false => {
            remark(&base.uncommitted, "changed but not committed, so the task does not see the change");
        }
    }
    remark(&base.left_out, "not committed, and left out although other uncommitted files are included");
    remark(
        &base.filtered,
        "stored with a filter such as LFS: the task has only pointers, which cannot be changed",
    );
    remark(&base.submodules, "submodules: they are empty in the task, and out of scope");
    remarks
}

fn baseline_warning(baseline: &Baseline) -> Option<String> {
    Some(match &baseline.run.end {
        SuiteEnd::Passed => return None,
        SuiteEnd::Failed { exit } => {
            format!(
                "the project's tests fail before any change, with {exit}: later failures may not be caused \
                by this task"
            )
        }
        SuiteEnd::DidNotStart { missing } => {
            format!(
                "the project's tests do not start, because this is missing: {missing}; agents cannot run \
                them"
            )
        }
        SuiteEnd::TimedOut => "the project's tests do not end in time, before any change".to_owned(),
        SuiteEnd::ReachedLimit { limit } => {
            format!("the project's tests reach the limit of {limit} before any change")
        }
    })
}
