//! One agent's part of a stage.

use std::{sync::Arc, time::Duration};

use nexus_core::{
    BeforeRetry, Limits, NullSink, ParticipantScope, Submission, Tool, ToolAccess, Toolbox, TurnHost,
    TurnRequest, VendorId, harness::try_blocking,
};
use nexus_router::spending::WorkLabel;
use nexus_work::{
    AgentFailure, AgentRecord, AgentReport, AgentRoute, AgentTurn, Assignment, LoggedTurn, PageRequest,
    TextPage, run_agent,
};

use super::{PANELIST, StageRun};
use crate::{debate::DebateLogEvent, debate_error::DebateError, sources};

/// Maximum number of an agent's calls in a stage. Calls that submit, and calls that read its texts, do not count. Source:
/// our own bound.
const TOOL_CALLS: u32 = 40;
/// Lower bound of the average size of a text's pages, in bytes. Two consecutive pages have more than 9,000 bytes together.
const PAGE_BYTES: usize = 4_500;

/// One agent's inputs for a stage.
pub(super) struct Part<'p, T> {
    /// Name of the agent: `arbiter`, or the panelist.
    pub(super) name: &'p str,
    pub(super) route: AgentRoute,
    /// System prompt.
    pub(super) system: String,
    /// Task of the agent, which `read_my_brief` returns, too.
    pub(super) brief: String,
    /// Texts that the agent may read in pages: name and description of the tool, and the text.
    pub(super) texts: Vec<(&'static str, &'static str, String)>,
    /// Sources that the agent may read.
    pub(super) sources: &'p [String],
    /// Tool that submits: name and description.
    pub(super) submit: (&'static str, &'static str),
    /// Receives the checked submission.
    pub(super) place: Submission<T>,
}

impl StageRun<'_> {
    /// Runs an agent until it has submitted. `turns` is the number of agents that run at once.
    pub(super) async fn ask<T>(
        &self,
        part: Part<'_, T>,
        at_once: usize,
    ) -> (Option<VendorId>, Result<T, AgentFailure>)
    where
        T: serde::de::DeserializeOwned + schemars::JsonSchema + Send + 'static,
    {
        let unusable = |message: String| (None, Err(AgentFailure::Unrecorded { message }));
        let name = part.name.to_owned();
        let (scope, toolbox) = match self.tools(&part) {
            Ok(tools) => tools,
            Err(message) => return unusable(message),
        };
        // A long text takes one call for each page, which must not use up the limit.
        let pages = part.texts.iter().map(|(.., text)| text.len() / PAGE_BYTES + 1).sum::<usize>();
        let request = TurnRequest::new(part.brief)
            .with_system(part.system)
            .with_tool_access(ToolAccess::ScopedOnly)
            .with_limits(self.limits(at_once));
        let hook = {
            let place = part.place.clone();
            BeforeRetry::new(move |_| {
                // Before a fallback, drop the submission of the failed agent. Its turn has changed no file.
                place.take();
                async { Ok::<(), std::convert::Infallible>(()) }
            })
        };
        let place = part.place;
        // A seat has no type of its own.
        let router = match &part.route {
            AgentRoute::Seat(_) => self.router.labelled(WorkLabel::Type, PANELIST),
            AgentRoute::Kind(_) => self.router.clone(),
        };
        let assignment = Assignment {
            route: part.route,
            request,
            participant: part.name.into(),
            scope,
            tools: Arc::new(toolbox),
            tool_calls: TOOL_CALLS.saturating_add(u32::try_from(pages).unwrap_or(u32::MAX)),
            refused_submissions: self.data.settings.max_refused_submissions,
            host: self.host().with_before_retry(hook),
            record: Some(AgentRecord { file: self.turns.clone(), name: format!("{} {name}", self.stage) }),
            answer: Box::new(move || place.take()),
        };
        let AgentReport { answer, turns, .. } = run_agent(&router, &assignment, &mut NullSink).await;
        let vendor = turns.last().and_then(|turn| turn.vendor.clone());
        self.log_turns(&name, &turns).await;
        (vendor, answer)
    }

    fn tools<T>(&self, part: &Part<'_, T>) -> Result<(ParticipantScope, Toolbox), String>
    where
        T: serde::de::DeserializeOwned + schemars::JsonSchema + Send + 'static,
    {
        let mut names = vec!["read_my_brief", part.submit.0];
        names.extend(part.texts.iter().map(|(name, ..)| *name));
        if !part.sources.is_empty() {
            names.extend(["list_files", "read_file", "search_files"]);
        }
        let scope = sources::scope(&self.debate.sources_folder(), part.sources, &names)
            .map_err(|error| error.to_string())?;
        let brief = (
            "read_my_brief",
            "Returns the question, the claims and your role. Call it first.",
            part.brief.clone(),
        );
        let texts = [brief].into_iter().chain(part.texts.iter().cloned());
        let toolbox = texts.fold(Toolbox::new(), |toolbox, (name, description, text)| {
            let text: Arc<str> = text.into();
            let read = move |page: PageRequest| {
                let text = Arc::clone(&text);
                async move { TextPage::of_quotes(&text, page.offset) }
            };
            toolbox.with(Tool::new(name, description, read).read_only())
        });
        let toolbox = match part.sources.is_empty() {
            true => toolbox,
            false => sources::file_tools(&scope).into_iter().fold(toolbox, Toolbox::with),
        };
        Ok((scope, toolbox.with(Tool::submit(part.submit.0, part.submit.1, &part.place))))
    }

    /// Returns the limits of one of `turns` simultaneous turns. Each gets an equal share of the remaining budget.
    pub(super) fn limits(&self, turns: usize) -> Limits {
        let mut limits = Limits::new().with_deadline(Duration::from_secs(self.data.settings.turn_seconds));
        if let Some(budget) = &self.budget {
            budget.share(&mut limits, turns);
        }
        limits
    }

    pub(super) fn host(&self) -> TurnHost {
        let host = TurnHost::new().with_cancel(self.cancel.clone());
        match &self.budget {
            Some(budget) => host.with_budget(budget.clone()),
            None => host,
        }
    }

    /// Logs an agent's turns for the caller.
    pub(super) async fn log_turns(&self, agent: &str, turns: &[AgentTurn]) {
        let events: Vec<DebateLogEvent> = turns
            .iter()
            .map(|turn| LoggedTurn::of(turn, None, agent, agent, self.stage))
            .map(|turn| DebateLogEvent::TurnEnded(Box::new(turn)))
            .collect();
        self.log(events).await;
    }

    /// Appends events to the log of the debate. Ignores a failed write: only the log lacks the events then.
    pub(super) async fn log(&self, events: Vec<DebateLogEvent>) {
        let debate = self.debate.clone();
        // No stage depends on the log.
        let _: Result<(), DebateError> =
            try_blocking(move || events.iter().try_for_each(|event| debate.log(event))).await;
    }
}
