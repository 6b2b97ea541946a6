//! Drawing the map of a project, in the background after a task was completed.

use std::{fmt::Write as _, sync::Arc};

use nexus_core::{
    BeforeRetry, Brief, CancelToken, FileTools, Limits, NullSink, ParticipantScope, Submission, Tool,
    ToolAccess, ToolPattern, Toolbox, TurnHost, TurnRequest, harness::try_blocking,
};
use nexus_router::{WorkKind, spending::WorkLabel};
use nexus_work::{AgentRecord, AgentRoute, Assignment, LoggedTurn, Quote, run_agent};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    inner::{TasksCore, read},
    maps::MOST_MAP_BYTES,
    watch::{LogWriter, MAP_TURNS, log_unlogged},
};
use crate::{
    agent::AgentPhase,
    store::{Task, TaskLogEvent},
    task_error::TaskError,
};

/// Work-kind of the agent that draws maps.
const CARTOGRAPHER: &str = "cartographer";
/// A map as an agent submits it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MapDraft {
    /// Locations of the parts of the project, and facts to know before changing them. At most 4 KiB.
    map: String,
}

impl TasksCore {
    /// Returns true if the configuration binds a backend to drawing maps.
    pub(super) fn has_cartographer(&self) -> bool {
        self.router.binding(WorkKind::from(CARTOGRAPHER)).is_ok()
    }

    /// Draws a new map of the project, as the task left it. A failure is logged, and the old map stays. Returns false if `cancel` was
    /// cancelled before the end.
    pub(super) async fn draw_map(&self, task: &Task, cancel: &CancelToken) -> bool {
        if cancel.is_cancelled() {
            return false;
        }
        let log = LogWriter::of(task);
        let error = self.map(task, cancel, &log).await.err();
        if let Err(error) = read(task, Task::clear_map).await {
            let what = format!("a copy of the project could not be removed: {error}");
            // The next call on the task tries again.
            log.log(TaskLogEvent::WentWrong { what });
        }
        let is_done = error.is_none() || !cancel.is_cancelled();
        if is_done {
            log.log(TaskLogEvent::ContextMapDrawn { error });
        }
        log.finish().await;
        is_done
    }

    async fn map(&self, task: &Task, cancel: &CancelToken, log: &LogWriter) -> Result<(), String> {
        let in_words = |error: TaskError| error.to_string();
        let reading = task.clone();
        let maps = self.maps.clone();
        let (data, folder, old, turns) = try_blocking(move || {
            let (_, data) = reading.data()?;
            let tree = reading.tree()?;
            // Do not use the agents' working folders: the caller may reopen this task while the map is drawn.
            let folder = reading.map_folder();
            let head = data.head.clone().unwrap_or_else(|| tree.base().commit.clone());
            tree.restore(&head, &folder, &[])?;
            let old = maps.read(&data.project)?;
            log_unlogged(&reading, |name| name == MAP_TURNS);
            Ok((data, folder, old, reading.turns()?))
        })
        .await
        .map_err(in_words)?;
        let phase = AgentPhase::Cartographer;
        let patterns = phase.tools().into_iter().filter_map(|name| name.parse::<ToolPattern>().ok());
        let brief = patterns.fold(Brief::new(&folder).reading("."), Brief::tool);
        let scope = ParticipantScope::assemble(&brief, None, None).map_err(|error| error.to_string())?;
        let map = Submission::<MapDraft>::new().checked_by(|draft: &MapDraft| match draft.map.len() {
            0 => Err("the map is empty".to_owned()),
            bytes if bytes > MOST_MAP_BYTES => {
                Err(format!("the map has {bytes} bytes, more than {MOST_MAP_BYTES}"))
            }
            _ => Ok(()),
        });
        let mut opening = Quote::new("the work of the last task in the project", &data.goal).to_string();
        if let Some(old) = &old {
            let _ = write!(opening, "\n{}", Quote::new("the present map of the project", old));
        }
        let said = |name: &str, description: &str, text: String| {
            Tool::without_arguments(name, description, move || {
                let text = text.clone();
                async move { text }
            })
            .read_only()
        };
        let toolbox = Toolbox::new()
            .with(said(
                "read_my_brief",
                "Returns the work of the last task and the present map of the \
                project. Call it first.",
                opening.clone(),
            ))
            .with(said(
                "read_handoffs",
                "Returns the submissions of earlier steps.",
                "There are no submissions in this task.".to_owned(),
            ));
        let toolbox = FileTools::new(scope.files()).reading().into_iter().fold(toolbox, Toolbox::with).with(
            Tool::submit(
                "submit_context_map",
                "Submits the map as Markdown, and ends your work. Fails \
                if it is empty or longer than 4 KiB.",
                &map,
            ),
        );
        let prompts = self.prompts().await.map_err(in_words)?;
        let deadline = std::time::Duration::from_secs(data.settings.turn_seconds);
        let request = TurnRequest::new(opening)
            .with_system(prompts.system_with(phase, None))
            .with_tool_access(ToolAccess::ScopedOnly)
            .with_limits(Limits::new().with_deadline(deadline));
        // A cartographer changes no files, so there is nothing to restore before a retry.
        let nothing = BeforeRetry::new(|_| async { Ok::<(), std::convert::Infallible>(()) });
        let mut host = TurnHost::new().with_cancel(cancel.clone()).with_before_retry(nothing);
        if let Some(budget) = self.budget(task, &data).await.map_err(in_words)? {
            host = host.with_budget(budget);
        }
        let assignment = Assignment {
            route: AgentRoute::Kind(WorkKind::from(CARTOGRAPHER)),
            request,
            participant: CARTOGRAPHER.into(),
            scope,
            tools: Arc::new(toolbox),
            tool_calls: phase.tool_calls(),
            refused_submissions: data.settings.max_refused_submissions,
            host,
            record: Some(AgentRecord { file: turns, name: MAP_TURNS.to_owned() }),
            answer: Box::new(move || map.take()),
        };
        let router = self.router.labelled(WorkLabel::Task, task.id().to_string());
        let report = run_agent(&router, &assignment, &mut NullSink).await;
        for turn in &report.turns {
            log.log(TaskLogEvent::TurnEnded(LoggedTurn::of(
                turn,
                None,
                CARTOGRAPHER,
                CARTOGRAPHER,
                phase.name(),
            )));
        }
        let drawn = report.answer.map_err(|failure| failure.to_string())?;
        let (maps, project) = (self.maps.clone(), data.project);
        try_blocking(move || maps.write(&project, drawn.map)).await.map_err(in_words)
    }
}
