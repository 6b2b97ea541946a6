//! The calls on tasks.

use std::{convert::Infallible, fmt, future::Future, path::PathBuf, sync::Arc, time::Duration};

use nexus_core::CancelToken;
use nexus_router::Router;
use nexus_workspace::{
    WorkspaceState as _,
    tree::{LandObstacle, Landing},
};
use tokio::{sync::watch, time::Instant};

use super::{
    answer::{
        AgentList, AgentView, BaselineView, CommitView, LandingOutcome, LogEntryView, TaskArtifact,
        TaskCreated, TaskFramed, TaskLanding, TaskLogPage, TaskPage, TaskReport, TaskResult, TaskTurnReport,
        TierList, TierView,
    },
    artifact::ArtifactName,
    blocking::blocking,
    inner::{Inner, TasksOptions, lock, read},
    jobs::{Job, JobKind},
    memory::CompletedTask,
    new_task::{invalid, text},
    page::{MOST_BYTES, cut, cut_list, fitted, fitted_within, json_bytes, most_of, page, text_page},
    registry::{agent_list, tier_list},
    report::{ReportParts, RunningNow, baseline_view, next_call, outcome, reason_of, row, step_view, time},
    request::{
        AgentListRequest, AgentRegisterRequest, AgentRemoveRequest, TaskArtifactRequest, TaskCancelRequest,
        TaskCreateRequest, TaskLandRequest, TaskListRequest, TaskLogRequest, TaskOrchestrateRequest,
        TaskReopenRequest, TaskResultRequest, TaskRunTurnRequest, TaskStatusRequest, TierListRequest,
        TierRegisterRequest,
    },
    step_job::{brief_of, finish_cancel, recover},
};
use crate::{
    problem_brief::ProblemBrief,
    store::{StepHold, Task, TaskData, TaskListing, TaskLogEvent, TaskStore},
    task_error::{TaskError, TaskErrorKind},
    task_state::{StepEnd, TaskEvent, TaskState, TaskStatus},
};

/// How long a call waits where its caller says nothing, and at most. Source: clients give a call up after 60 seconds.
const WAIT: Duration = Duration::from_secs(45);
const MOST_WAIT: Duration = Duration::from_secs(50);
/// Longest note and answer, in bytes. Source: our own bounds.
const MOST_NOTE_BYTES: usize = 2 << 10;
const MOST_ANSWER_BYTES: usize = 8 << 10;
/// Most bytes of a changed file's path in an answer.
const MOST_PATH_BYTES: usize = 1_000;
/// How often another process is looked at that has the step.
const PAUSE: Duration = Duration::from_millis(100);
/// How long another call may hold a task that only looks after it, before that counts as work on it.
const LOOK: Duration = Duration::from_secs(1);
/// How often a running job looks whether another process wants the task cancelled.
const STOP_PAUSE: Duration = Duration::from_millis(500);
/// The tasks of one home: creates them, runs them, and shows them. Clones share what runs.
///
/// What is true of a task is what its folder says: any number of these, in any number of processes, may be of one home. A step is
/// run by one of them at a time.
///
/// # Errors
///
/// Every call gives a [`TaskError`], whose `instead` says what to do or to call.
#[derive(Clone)]
pub struct Tasks(Arc<Inner>);

impl Tasks {
    /// The tasks of a home. Nothing is read or made yet.
    pub fn new(router: Router, options: TasksOptions) -> Self {
        Self(Inner::new(router, options))
    }

    /// Creates a task in a project below the configured roots. See [`Tasks::create_below`].
    pub async fn create(&self, request: TaskCreateRequest) -> Result<TaskCreated, TaskError> {
        self.create_below(request, &[]).await
    }

    /// Creates a task in a project below the configured roots or those of the client, and runs the project's tests on it
    /// before anything is changed. A project whose tests fail gets its task, with a warning.
    pub async fn create_below(
        &self,
        request: TaskCreateRequest,
        client_roots: &[PathBuf],
    ) -> Result<TaskCreated, TaskError> {
        self.0.sweep();
        let wait = wait(request.wait_s);
        let began = Instant::now();
        let inner = self.0.handle();
        let mut roots = self.0.roots.clone();
        roots.extend_from_slice(client_roots);
        let configuration = self.0.check_configuration()?;
        let asked = request.clone();
        let (mut data, parent, links) = blocking(move || inner.new_data(asked, &roots)).await?;
        data.warnings.extend(configuration);
        self.0.check_sandbox(&data.settings).await?;
        let (inner, labels) = (self.0.handle(), request.labels);
        let task = blocking(move || {
            let task = inner.store.create(&data, parent, links, labels)?;
            match inner.prepare_tree(&task) {
                Ok(_) => Ok(task),
                Err(error) => {
                    // Nobody knows of it yet. What cannot be removed is listed, and can be cancelled.
                    let _ = inner.store.discard(&task);
                    Err(error)
                }
            }
        })
        .await?;
        let baseline = self.0.first_tests(&task, wait.saturating_sub(began.elapsed())).await?;
        let snapshot = read(&task, Task::snapshot).await?;
        let data = &snapshot.data;
        Ok(fitted(|most| TaskCreated {
            task_id: task.id().to_string(),
            status: snapshot.state.status.name().to_owned(),
            next: snapshot.state.status.next_call().to_owned(),
            base: data.head.as_ref().map(ToString::to_string).unwrap_or_default(),
            baseline: baseline.clone().map(|view| BaselineView { output: cut(&view.output, most), ..view }),
            warnings: cut_list(data.warnings.iter().map(String::as_str), most),
        }))
    }

    /// Frames a task, or joins what frames it. After its questions were asked, it begins when they are answered.
    pub async fn orchestrate(&self, request: TaskOrchestrateRequest) -> Result<TaskFramed, TaskError> {
        self.0.sweep();
        let deadline = Instant::now() + wait(request.wait_s);
        let left = || deadline.saturating_duration_since(Instant::now());
        let task = self.0.open(&request.task_id).await?;
        if let Some(error) = self.0.jobs.take_failure(task.id()) {
            return Err(error);
        }
        let job = match self.0.jobs.of(task.id()) {
            Some(job) if matches!(job.kind, JobKind::Step { .. }) => {
                return Err(wrong("a step of the task runs", "call task_run_turn, which joins it"));
            }
            // The tests on the base come first; framing begins behind them.
            Some(job) if job.kind == JobKind::Baseline => {
                if job.ended_within(left()).await.is_none() {
                    return self.0.framed(&task, Some(&job)).await;
                }
                None
            }
            job => job,
        };
        let job = match job {
            Some(job) => job,
            None => {
                let (answering, answers) = (task.clone(), request.answers);
                if !blocking(move || is_to_be_framed(&answering, answers)).await? {
                    return self.0.framed(&task, None).await;
                }
                let (inner, framed) = (self.0.handle(), task.clone());
                self.0.jobs.start(
                    task.id(),
                    JobKind::Framing,
                    "the task is prepared",
                    move |cancel, said| {
                        inner.held(framed, cancel, said, |inner, task, cancel, said| async move {
                            let reading = task.clone();
                            let inner_too = inner.handle();
                            let state = blocking(move || {
                                let tree = inner_too.prepare_tree(&reading)?;
                                recover(&reading, &tree)?;
                                Ok(reading.data()?.0)
                            })
                            .await?;
                            // Another process may have framed it meanwhile.
                            match state.status {
                                TaskStatus::Framing | TaskStatus::ClarificationNeeded { .. } => {
                                    inner.frame(&task, &cancel, &said).await
                                }
                                _ => Ok(()),
                            }
                        })
                    },
                )?
            }
        };
        match job.ended_within(left()).await {
            None => self.0.framed(&task, Some(&job)).await,
            Some(outcome) => {
                self.0.jobs.take_failure(task.id());
                outcome?;
                self.0.framed(&task, None).await
            }
        }
    }

    /// Runs the next step of a task over all of its retries, or joins what runs it. What was settled and told nobody yet comes
    /// first; with `entry`, a step that is settled is told again.
    pub async fn run_turn(&self, request: TaskRunTurnRequest) -> Result<TaskTurnReport, TaskError> {
        self.0.sweep();
        let wait = wait(request.wait_s);
        let task = self.0.open(&request.task_id).await?;
        if let Some(error) = self.0.jobs.take_failure(task.id()) {
            return Err(error);
        }
        let job = match self.0.jobs.of(task.id()) {
            Some(job) => job,
            None => {
                let (reading, entry) = (task.clone(), request.entry);
                match blocking(move || next_turn(&reading, entry)).await? {
                    NextTurn::Tell { attempt } => return self.0.told(&task, attempt).await,
                    NextTurn::Run { entry } => self.0.start_step(&task, entry)?,
                }
            }
        };
        let JobKind::Step { entry } = job.kind else {
            return Err(wrong("the task is still framed", "call task_orchestrate, which joins that"));
        };
        if let Some(asked) = request.entry {
            let reading = task.clone();
            if !blocking(move || is_of_step(&reading, entry, asked)).await? {
                let message = format!("entry {asked} is not the one that runs, which is {entry}");
                return Err(wrong(&message, "call task_run_turn without entry, which joins what runs"));
            }
        }
        match job.ended_within(wait).await {
            None => {
                let state = read(&task, Task::data).await?.0;
                Ok(TaskTurnReport {
                    task_id: task.id().to_string(),
                    running: true,
                    progress: Some(cut(&job.progress(), 500)),
                    step: None,
                    status: state.status.name().to_owned(),
                    next: next_call(&state, true).to_owned(),
                })
            }
            Some(outcome) => {
                self.0.jobs.take_failure(task.id());
                outcome?;
                let data = read(&task, Task::data).await?.1;
                self.0.told(&task, data.settled).await
            }
        }
    }

    /// Where a task is; waits while something runs for it.
    pub async fn status(&self, request: TaskStatusRequest) -> Result<TaskReport, TaskError> {
        self.0.sweep();
        let deadline = Instant::now() + wait(request.wait_s);
        let task = self.0.open(&request.task_id).await?;
        loop {
            let now = self.0.running_now(&task).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if !now.is_running || left.is_zero() {
                let unrecovered = match now.is_running {
                    true => None,
                    false => self.0.recover_if_free(&task).await.err(),
                };
                let parts = read(&task, ReportParts::read).await?;
                let mut report = parts.report(&now);
                // Where the task is can be told nevertheless, as on a full disk.
                let warning = unrecovered.map(|error| cut(&error.to_string(), 300));
                report.warnings.splice(0..0, warning);
                return Ok(report);
            }
            match self.0.jobs.of(task.id()) {
                Some(job) => {
                    let _ = job.ended_within(left).await;
                }
                None => tokio::time::sleep(PAUSE.min(left)).await,
            }
        }
    }

    /// What a task has come to. Changes nothing.
    pub async fn result(&self, request: TaskResultRequest) -> Result<TaskResult, TaskError> {
        let task = self.0.open(&request.task_id).await?;
        read(&task, move |task| result_of(task, request.offset)).await
    }

    /// What happened in a task, the oldest first.
    pub async fn log(&self, request: TaskLogRequest) -> Result<TaskLogPage, TaskError> {
        let task = self.0.open(&request.task_id).await?;
        read(&task, move |task| {
            let events = task.events()?.events;
            let views = events.into_iter().map(|event| LogEntryView {
                number: event.sequence,
                time: time(event.time),
                kind: event.kind,
                data: bounded(event.data),
            });
            let (events, next_offset) = page(views, request.offset, MOST_BYTES - 200);
            Ok(TaskLogPage { task_id: task.id().to_string(), events, next_offset })
        })
        .await
    }

    /// Tasks, the newest first.
    pub async fn list(&self, request: TaskListRequest) -> Result<TaskPage, TaskError> {
        self.0.sweep();
        let inner = self.0.handle();
        blocking(move || {
            let TaskListing { tasks, unreadable } = inner.store.list()?;
            let project = request
                .project
                .as_deref()
                .map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
            let rows = tasks.iter().rev().filter(|(_, snapshot)| {
                let fits = |(name, value): (&String, &String)| snapshot.labels.get(name) == Some(value);
                request.status.as_deref().is_none_or(|status| snapshot.state.status.name() == status)
                    && project.as_ref().is_none_or(|project| snapshot.data.project == *project)
                    && request.labels.iter().all(fits)
            });
            let unreadable: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
            let unreadable = cut_list(unreadable.iter().map(String::as_str), 300);
            let room = MOST_BYTES - 200 - json_bytes(&unreadable);
            let (tasks, next_offset) =
                page(rows.map(|(task, snapshot)| row(task, snapshot)), request.offset, room);
            Ok(TaskPage { tasks, unreadable, next_offset })
        })
        .await
    }

    /// A page of something that a task made.
    pub async fn artifact(&self, request: TaskArtifactRequest) -> Result<TaskArtifact, TaskError> {
        let name: ArtifactName = request.artifact.parse()?;
        let task = self.0.open(&request.task_id).await?;
        let maps = self.0.maps.clone();
        read(&task, move |task| {
            let map = maps.read(&task.data()?.1.project)?;
            let text = name.text(task, map)?;
            let (shown, next_offset) = text_page(&text, request.offset, MOST_BYTES - 400);
            Ok(TaskArtifact {
                task_id: task.id().to_string(),
                artifact: name.to_string(),
                text: shown.to_owned(),
                bytes: text.len() as u64,
                next_offset,
            })
        })
        .await
    }

    /// Ends a task. What runs for it is stopped first, here or in another process, and put back.
    pub async fn cancel(&self, request: TaskCancelRequest) -> Result<TaskReport, TaskError> {
        self.0.sweep();
        let task = self.0.open(&request.task_id).await?;
        let marking = task.clone();
        let is_over = blocking(move || {
            marking.update(|state, data| {
                data.stop = !state.is_final();
                match &state.status {
                    TaskStatus::Cancelled { .. } => Ok(true),
                    status if state.is_final() => Err(wrong(
                        &format!("the task is {}, and nothing of it runs", status.name()),
                        status.next_call(),
                    )),
                    _ => Ok(false),
                }
            })
        })
        .await?;
        if !is_over {
            if let Some(job) = self.0.jobs.of(task.id()) {
                job.cancel.cancel();
                // How it ended is for those who asked for it.
                let _ = job.ended().await;
                self.0.jobs.take_failure(task.id());
            }
            let ending = task.clone();
            let _hold = self.0.hold(&task, MOST_WAIT).await?;
            let inner = self.0.handle();
            blocking(move || {
                // A tree that is gone keeps nobody from ending the task.
                if let Ok(tree) = inner.prepare_tree(&ending) {
                    recover(&ending, &tree)?;
                }
                finish_cancel(&ending)
            })
            .await?;
            self.0.forget_unsettled(&task);
        }
        Ok(read(&task, ReportParts::read).await?.report(&RunningNow::default()))
    }

    /// Goes on with a task that ended. The note reaches its agents as the caller's words.
    pub async fn reopen(&self, request: TaskReopenRequest) -> Result<TaskReport, TaskError> {
        self.0.sweep();
        if request.note.trim().is_empty() || request.note.len() > MOST_NOTE_BYTES {
            let message = format!("`note` has 1 to {MOST_NOTE_BYTES} bytes");
            return Err(invalid(&message, "say what changed, or what to do otherwise"));
        }
        let task = self.0.open(&request.task_id).await?;
        let _hold = self.0.hold(&task, LOOK).await?;
        let reopening = task.clone();
        let inner = self.0.handle();
        blocking(move || {
            let tree = inner.prepare_tree(&reopening)?;
            recover(&reopening, &tree)?;
            let (_, data) = reopening.data()?;
            let brief = reopening.brief(&data)?;
            let entry = reopening.update(|state, data| reopen(state, data, brief.as_ref(), &request))?;
            let _ = reopening.log(&TaskLogEvent::Reopened { note: request.note.clone(), entry });
            Ok(())
        })
        .await?;
        Ok(read(&task, ReportParts::read).await?.report(&RunningNow::default()))
    }

    /// Moves the person's branch to what a task committed, or says why not.
    pub async fn land(&self, request: TaskLandRequest) -> Result<TaskLanding, TaskError> {
        self.0.sweep();
        let task = self.0.open(&request.task_id).await?;
        let _hold = self.0.hold(&task, LOOK).await?;
        let inner = self.0.handle();
        read(&task, move |task| {
            let tree = inner.prepare_tree(task)?;
            recover(task, &tree)?;
            let (_, data) = task.data()?;
            let mut landing = TaskLanding {
                task_id: task.id().to_string(),
                outcome: LandingOutcome::Nothing,
                branch: None,
                commit: None,
                obstacle: None,
                patch: None,
            };
            let head = data.head.filter(|_| !data.commits.is_empty());
            let Some(head) = head else {
                landing.obstacle = Some("the task has committed nothing".to_owned());
                return Ok(landing);
            };
            match tree.land(&head)? {
                Landing::FastForwarded { branch, to, .. } => {
                    landing.outcome = LandingOutcome::Landed;
                    landing.branch = Some(branch);
                    landing.commit = Some(to.to_string());
                }
                Landing::Patch { obstacle, .. } => {
                    landing.outcome = LandingOutcome::Patch;
                    landing.obstacle = Some(cut(&obstacle_in_words(&obstacle), 2_000));
                    landing.patch = Some(ArtifactName::Patch.to_string());
                }
                _ => landing.obstacle = Some("this version does not know what became of it".to_owned()),
            }
            let outcome = match landing.outcome {
                LandingOutcome::Landed => "landed",
                LandingOutcome::Patch => "patch",
                LandingOutcome::Nothing => "nothing",
            };
            let _ = task.log(&TaskLogEvent::Landed {
                outcome: outcome.to_owned(),
                obstacle: landing.obstacle.clone(),
            });
            Ok(landing)
        })
        .await
    }

    /// Registers a tier.
    pub async fn tier_register(&self, request: TierRegisterRequest) -> Result<TierView, TaskError> {
        let file = self.0.type_file();
        blocking(move || file.register_tier(request)).await
    }

    /// The tiers.
    pub async fn tier_list(&self, request: TierListRequest) -> Result<TierList, TaskError> {
        let file = self.0.type_file();
        blocking(move || Ok(tier_list(&file.read()?, request.offset))).await
    }

    /// Registers a type of agent, or replaces one that was registered.
    pub async fn agent_register(&self, request: AgentRegisterRequest) -> Result<AgentView, TaskError> {
        let file = self.0.type_file();
        blocking(move || file.register_agent(request)).await
    }

    /// The types of agents.
    pub async fn agent_list(&self, request: AgentListRequest) -> Result<AgentList, TaskError> {
        let file = self.0.type_file();
        blocking(move || Ok(agent_list(&file.read()?, request.offset))).await
    }

    /// Removes a registered type of agent.
    pub async fn agent_remove(&self, request: AgentRemoveRequest) -> Result<AgentList, TaskError> {
        let file = self.0.type_file();
        blocking(move || file.remove_agent(&request.name)).await
    }

    /// Lines for a person about what runs for a task in this process: the last one now, and each that follows. `None` if nothing
    /// runs here.
    pub fn progress(&self, task_id: &str) -> Option<watch::Receiver<String>> {
        Some(self.0.jobs.of(&task_id.parse().ok()?)?.follow())
    }

    /// The folders of the tasks.
    pub fn store(&self) -> &TaskStore {
        &self.0.store
    }

    /// Stops what runs here, and comes back when all agents are gone. Steps that were stopped are put back, and begin anew with the
    /// next call on them, here or elsewhere.
    pub async fn shutdown(&self) {
        self.0.background.cancel.cancel();
        self.0.jobs.close().await;
        let running = std::mem::take(&mut *lock(&self.0.background.running));
        for task in running {
            let _ = task.await;
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("home", &self.0.home).finish_non_exhaustive()
    }
}

impl Inner {
    /// Runs the tests on the base, and waits for them so long.
    async fn first_tests(&self, task: &Task, wait: Duration) -> Result<Option<BaselineView>, TaskError> {
        let settings = read(task, Task::data).await?.1.settings;
        if settings.test_command.is_none() {
            return Ok(None);
        }
        let (inner, tested) = (self.handle(), task.clone());
        let job = self.jobs.start(
            task.id(),
            JobKind::Baseline,
            "the project's own tests run",
            move |cancel, said| {
                inner.held(tested, cancel, said, |inner, task, cancel, _said| async move {
                    inner.baseline(&task, &cancel).await.map(drop)
                })
            },
        )?;
        match job.ended_within(wait).await {
            None => Ok(Some(BaselineView { outcome: "running".to_owned(), output: String::new() })),
            Some(Ok(())) => {
                let baseline = read(task, Task::data).await?.1.baseline;
                Ok(baseline.map(|baseline| baseline_view(&baseline, 3_000)))
            }
            // The task is there: what keeps its tests from running is told, and tried again when it is framed.
            Some(Err(error)) => {
                self.jobs.take_failure(task.id());
                Ok(Some(BaselineView { outcome: "did_not_start".to_owned(), output: error.to_string() }))
            }
        }
    }

    /// Does `work` with the task's step held, once nobody else has it.
    async fn held<F>(
        self: Arc<Self>,
        task: Task,
        cancel: CancelToken,
        said: watch::Sender<String>,
        work: impl FnOnce(Arc<Self>, Task, CancelToken, watch::Sender<String>) -> F + Send + 'static,
    ) -> Result<(), TaskError>
    where
        F: Future<Output = Result<(), TaskError>> + Send,
    {
        let _hold = loop {
            let trying = task.clone();
            if let Some(hold) = blocking(move || trying.try_hold_step()).await? {
                break hold;
            }
            said.send_if_modified(|line| {
                let waiting = "another process works on this task; this call waits for it";
                let is_news = line != waiting;
                waiting.clone_into(line);
                is_news
            });
            tokio::select! {
                () = cancel.cancelled() => {
                    let message = "the call was interrupted while another process worked on the task";
                    return Err(TaskError::new(TaskErrorKind::Interrupted, message, "make the same call again"));
                }
                () = tokio::time::sleep(PAUSE) => {}
            }
        };
        let (watched, stopping) = (task.clone(), cancel.clone());
        tokio::select! {
            done = work(self, task, cancel, said) => done,
            never = stop_when_asked(&watched, &stopping) => match never {},
        }
    }

    fn start_step(&self, task: &Task, entry: usize) -> Result<Arc<Job>, TaskError> {
        let (inner, stepping) = (self.handle(), task.clone());
        self.jobs.start(task.id(), JobKind::Step { entry }, "the step begins", move |cancel, said| {
            inner.held(stepping, cancel, said, move |inner, task, cancel, said| async move {
                inner.run_step(&task, entry, &cancel, &said).await
            })
        })
    }

    /// Takes the right to change a task, within so long.
    async fn hold(&self, task: &Task, patience: Duration) -> Result<StepHold, TaskError> {
        if let Some(job) = self.jobs.of(task.id()) {
            let message = format!("something runs for the task: {}", cut(&job.progress(), 300));
            return Err(TaskError::new(
                TaskErrorKind::InUse,
                message,
                "call task_status with wait_s, which comes back when it ends; or task_cancel, which stops it",
            ));
        }
        let deadline = Instant::now() + patience;
        loop {
            let trying = task.clone();
            if let Some(hold) = blocking(move || trying.try_hold_step()).await? {
                return Ok(hold);
            }
            if Instant::now() >= deadline {
                let message = format!("another process works on the task {}", task.id());
                let instead = "call task_status with wait_s, which comes back when it ends";
                return Err(TaskError::new(TaskErrorKind::InUse, message, instead));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What runs for a task: here, or in another process.
    async fn running_now(&self, task: &Task) -> Result<RunningNow, TaskError> {
        if let Some(job) = self.jobs.of(task.id()) {
            return Ok(RunningNow { is_running: true, progress: Some(job.progress()) });
        }
        let is_free = read(task, |task| Ok(task.try_hold_step()?.is_some())).await?;
        let progress = (!is_free).then(|| "another process works on this task".to_owned());
        Ok(RunningNow { is_running: !is_free, progress })
    }

    /// Carries out what a process that was killed left half done, if nobody works on the task.
    async fn recover_if_free(&self, task: &Task) -> Result<(), TaskError> {
        let inner = self.handle();
        read(task, move |task| {
            let (state, data) = task.data()?;
            let was_begun =
                matches!(state.status, TaskStatus::Active { cursor } if data.begun == cursor.attempt);
            if data.intent.is_none() && !was_begun && !data.stop {
                return Ok(());
            }
            if let Some(_hold) = task.try_hold_step()? {
                let tree = inner.prepare_tree(task)?;
                recover(task, &tree)?;
            }
            Ok(())
        })
        .await
    }

    /// Looks after the tasks that were left half done, once, beside the first call.
    fn sweep(&self) {
        self.swept.call_once(|| {
            let inner = self.handle();
            self.in_background(async move {
                let listing = {
                    let inner = inner.handle();
                    blocking(move || inner.store.list()).await
                };
                for (task, _) in listing.map(|listing| listing.tasks).unwrap_or_default() {
                    if inner.background.cancel.is_cancelled() {
                        return;
                    }
                    // What is wrong with a task is told to whoever asks for it.
                    let _ = inner.recover_if_free(&task).await;
                }
            });
        });
    }

    fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut running = lock(&self.background.running);
        running.retain(|task| !task.is_finished());
        running.push(tokio::spawn(work));
    }

    /// Does what follows the completion of a task, after the answer to its caller.
    pub(super) async fn after_step(&self, task: &Task) {
        let Ok((state, data)) = read(task, Task::data).await else { return };
        if state.is_final()
            && let Err(error) = read(task, Task::clear_work).await
        {
            let (writing, what) =
                (task.clone(), format!("copies of the project could not be removed: {error}"));
            let _ = blocking(move || writing.log(&TaskLogEvent::WentWrong { what })).await;
        }
        if !matches!(state.status, TaskStatus::Complete { .. }) {
            return;
        }
        let (inner, task) = (self.handle(), task.clone());
        self.in_background(async move {
            let outcomes = data
                .brief
                .as_ref()
                .map(|brief| data.commits.iter().map(|commit| outcome(brief, commit.entry)).collect());
            let completed = CompletedTask {
                task_id: task.id().to_string(),
                project: data.project.clone(),
                goal: data.goal.clone(),
                problem: data.brief.as_ref().map(|brief| brief.problem.clone()).unwrap_or_default(),
                outcomes: outcomes.unwrap_or_default(),
            };
            if let Err(error) = inner.memory.remember(&completed).await {
                let writing = task.clone();
                let what = format!("the task could not be remembered: {error}");
                let _ = blocking(move || writing.log(&TaskLogEvent::WentWrong { what })).await;
            }
            if inner.has_cartographer() {
                inner.draw_map(&task, &inner.background.cancel).await;
            }
        });
    }

    /// Where framing is, with the task.
    async fn framed(&self, task: &Task, job: Option<&Job>) -> Result<TaskFramed, TaskError> {
        let parts = read(task, ReportParts::read).await?;
        let progress = job.map(Job::progress);
        let now = RunningNow { is_running: job.is_some(), progress: progress.clone() };
        let mut report = parts.report(&now);
        // It is said beside the report.
        report.progress = None;
        Ok(TaskFramed {
            running: job.is_some(),
            progress: progress.map(|line| cut(&line, 300)),
            task: report,
        })
    }

    /// How the step ended whose last attempt is `attempt`; it counts as told from now on.
    async fn told(&self, task: &Task, attempt: u32) -> Result<TaskTurnReport, TaskError> {
        read(task, move |task| {
            let (state, data) = task.data()?;
            let records = task.step_records(&state)?;
            let last = records.iter().rposition(|record| record.attempt == attempt);
            let Some(last) = last else {
                let message = format!("nothing is known of attempt {attempt}");
                return Err(wrong(&message, state.status.next_call()));
            };
            let mut first = last;
            while first > 0
                && records[first - 1].entry == records[last].entry
                && matches!(records[first - 1].end, StepEnd::Retried { .. })
            {
                first -= 1;
            }
            let answer = fitted(|most| TaskTurnReport {
                task_id: task.id().to_string(),
                running: false,
                progress: None,
                step: step_view(&records[first..=last], &data, most),
                status: state.status.name().to_owned(),
                next: next_call(&state, false).to_owned(),
            });
            if data.delivered < attempt {
                // Told again at worst.
                let _ = task.update(|_, data| {
                    data.delivered = data.delivered.max(attempt);
                    Ok(())
                });
            }
            Ok(answer)
        })
        .await
    }
}

/// Cancels what runs when another process wants the task cancelled.
async fn stop_when_asked(task: &Task, cancel: &CancelToken) -> Infallible {
    loop {
        tokio::time::sleep(STOP_PAUSE).await;
        let reading = task.clone();
        if blocking(move || Ok(reading.data()?.1.stop)).await.unwrap_or(false) {
            cancel.cancel();
        }
    }
}

/// What a call of `task_run_turn` comes to.
enum NextTurn {
    /// How the step ended whose last attempt is this.
    Tell { attempt: u32 },
    /// The step that begins with this entry is run.
    Run { entry: usize },
}

fn next_turn(task: &Task, entry: Option<usize>) -> Result<NextTurn, TaskError> {
    let (state, data) = task.data()?;
    let untold = data.settled > data.delivered;
    let Some(asked) = entry else {
        return match &state.status {
            _ if untold => Ok(NextTurn::Tell { attempt: data.settled }),
            TaskStatus::Active { cursor } => Ok(NextTurn::Run { entry: cursor.entry }),
            status => Err(wrong(&format!("the task is {}", status.name()), status.next_call())),
        };
    };
    if data.brief.is_none() {
        return Err(wrong(&format!("the task is {}", state.status.name()), state.status.next_call()));
    }
    let brief = brief_of(task, &data)?;
    let Some(step) = brief.plan().step_of(asked) else {
        let message = format!("the plan has no entry {asked}");
        return Err(invalid(&message, "call task_status, which lists the plan; entries are counted from 0"));
    };
    if let TaskStatus::Active { cursor } = &state.status
        && cursor.entry == step.first()
    {
        return Ok(NextTurn::Run { entry: cursor.entry });
    }
    let records = task.step_records(&state)?;
    match records.iter().rfind(|record| record.entry == step.first()) {
        Some(record) => Ok(NextTurn::Tell { attempt: record.attempt }),
        None => {
            let message = format!("entry {asked} is not to be done yet, and was not done");
            Err(wrong(&message, "call task_run_turn without entry, which does what is next"))
        }
    }
}

fn is_of_step(task: &Task, first: usize, asked: usize) -> Result<bool, TaskError> {
    let (_, data) = task.data()?;
    let brief = brief_of(task, &data)?;
    Ok(brief.plan().step_of(asked).is_some_and(|step| step.first() == first))
}

/// Whether there is something to be framed, once the answers were taken down.
fn is_to_be_framed(task: &Task, answers: Option<Vec<String>>) -> Result<bool, TaskError> {
    task.update(|state, data| {
        let questions = match &state.status {
            TaskStatus::Framing => {
                return match answers {
                    Some(_) => {
                        Err(invalid("no questions were asked", "call task_orchestrate without answers"))
                    }
                    None => Ok(true),
                };
            }
            TaskStatus::ClarificationNeeded { questions } => questions,
            TaskStatus::Active { .. } | TaskStatus::Escalated { entry: None, .. } => return Ok(false),
            status => return Err(wrong(&format!("the task is {}", status.name()), status.next_call())),
        };
        let known = data.answers.len().saturating_sub(questions.len());
        let is_answered = data.answers[known..].iter().map(|(question, _)| question).eq(questions);
        let Some(answers) = answers else { return Ok(is_answered) };
        if answers.len() != questions.len() {
            let message = format!("{} answers were given to {} questions", answers.len(), questions.len());
            return Err(invalid(&message, "give one answer to each question, in their order"));
        }
        for answer in &answers {
            text("answers", answer, MOST_ANSWER_BYTES)?;
        }
        if is_answered {
            data.answers.truncate(known);
        }
        data.answers.extend(questions.iter().cloned().zip(answers));
        Ok(true)
    })
}

fn reopen(
    state: &mut TaskState,
    data: &mut TaskData,
    brief: Option<&ProblemBrief>,
    request: &TaskReopenRequest,
) -> Result<Option<usize>, TaskError> {
    let ended_with = match &state.status {
        TaskStatus::Escalated { entry, .. } | TaskStatus::Cancelled { entry } => *entry,
        _ => None,
    };
    let event = TaskEvent::Reopened { from_entry: request.from_entry };
    *state = state.after(event, brief.map(ProblemBrief::plan))?;
    let entry = match &state.status {
        TaskStatus::Active { cursor } => Some(cursor.entry),
        _ => None,
    };
    // What a review sent back is gone on with in its own step alone.
    if entry.is_none() || entry != ended_with {
        data.work = None;
        data.hints.clear();
    }
    data.notes.push(request.note.clone());
    let most = TaskData::NOTES;
    data.notes.drain(..data.notes.len().saturating_sub(most));
    data.delivered = data.settled;
    Ok(entry)
}

fn result_of(task: &Task, offset: u64) -> Result<TaskResult, TaskError> {
    let parts = ReportParts::read(task)?;
    let (state, data) = (&parts.snapshot.state, &parts.snapshot.data);
    let (reason, _) = reason_of(state);
    let mut files = Vec::new();
    if let (Some(head), false) = (&data.head, data.commits.is_empty()) {
        let tree = task.tree()?;
        for change in tree.changes(&tree.base().commit, head)? {
            let word = match (&change.old, &change.new) {
                (None, _) => "added",
                (_, None) => "removed",
                _ => "modified",
            };
            files.push(cut(&format!("{word} {}", change.path.display()), MOST_PATH_BYTES));
        }
    }
    let landing = match (data.commits.is_empty(), state.is_final()) {
        (true, _) => "nothing was committed yet".to_owned(),
        (false, true) => format!(
            "`nexus task land {}` moves the branch of the project to it; the artifact `patch` has it as a patch",
            task.id()
        ),
        (false, false) => {
            "it is not done yet; what is committed so far is in the artifact `patch`".to_owned()
        }
    };
    let in_all = files.len() as u64;
    // At least one file is on every page.
    let without_files = MOST_BYTES - 2 * MOST_PATH_BYTES - 100;
    let mut result = fitted_within(without_files, |most| TaskResult {
        task_id: parts.task_id.clone(),
        status: state.status.name().to_owned(),
        reason: reason.as_deref().map(|reason| cut(reason, most)),
        criteria: parts.criteria(most.min(300)),
        // The newest: the patch has what all of them come to.
        commits: data.commits[data.commits.len().saturating_sub(most_of(48, most))..]
            .iter()
            .map(|commit| CommitView {
                id: commit.commit.to_string(),
                attempt: commit.attempt,
                outcome: data
                    .brief
                    .as_ref()
                    .map(|brief| cut(&outcome(brief, commit.entry), most.min(300)))
                    .unwrap_or_default(),
            })
            .collect(),
        files: Vec::new(),
        files_in_all: in_all,
        next_offset: None,
        landing: landing.clone(),
        spent: parts.spent,
    });
    let room = MOST_BYTES.saturating_sub(json_bytes(&result));
    (result.files, result.next_offset) = page(files, offset, room);
    Ok(result)
}

fn obstacle_in_words(obstacle: &LandObstacle) -> String {
    obstacle.to_string()
}

/// What a log entry says, with texts that fit into a page.
fn bounded(data: serde_json::Value) -> serde_json::Value {
    if json_bytes(&data) <= MOST_BYTES / 3 {
        return data;
    }
    fn cut_all(value: &mut serde_json::Value, most: usize) {
        match value {
            serde_json::Value::String(text) => *text = cut(text, most),
            serde_json::Value::Array(values) => {
                values.truncate(32);
                values.iter_mut().for_each(|value| cut_all(value, most));
            }
            serde_json::Value::Object(fields) => fields.values_mut().for_each(|value| cut_all(value, most)),
            _ => {}
        }
    }
    fitted(|most| {
        let mut value = data.clone();
        cut_all(&mut value, most.min(2_000));
        value
    })
}

fn wrong(message: &str, instead: &str) -> TaskError {
    TaskError::new(TaskErrorKind::WrongStatus, message, instead)
}

fn wait(seconds: Option<u64>) -> Duration {
    seconds.map_or(WAIT, Duration::from_secs).min(MOST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_45_seconds_unless_told_and_50_at_most() {
        let waited = [None, Some(0), Some(7), Some(50), Some(51), Some(u64::MAX)].map(wait);
        assert_eq!(waited.map(|time| time.as_secs()), [45, 0, 7, 50, 50, 50]);
    }
}
