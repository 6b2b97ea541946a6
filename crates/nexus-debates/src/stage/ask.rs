//! One agent's part of a stage.

use std::{sync::Arc, time::Duration};

use nexus_core::{
    BeforeRetry, Limits, NullSink, ParticipantScope, Submission, Tool, ToolAccess, Toolbox, TurnHost,
    TurnRequest, VendorId, harness::try_blocking,
};
use nexus_work::{
    AgentFailure, AgentRecord, AgentReport, AgentRoute, AgentTurn, Assignment, LoggedTurn, PageRequest,
    TextPage, run_agent,
};

use super::StageRun;
use crate::{debate::DebateLogEvent, debate_error::DebateError, sources};

/// How many calls an agent may make in a stage, beside the one that hands in and those that read its texts. Source: our own bound.
const TOOL_CALLS: u32 = 40;
/// How many bytes of a text a page has at least, over all but the last: what does not fit into one of 9,000 bytes begins the next.
const PAGE_BYTES: usize = 4_500;

/// What one agent is given.
pub(super) struct Part<'p, T> {
    /// Who it is: `arbiter`, or the name of a panelist.
    pub(super) name: &'p str,
    pub(super) route: AgentRoute,
    /// What stands above what it is asked.
    pub(super) system: String,
    /// What it is asked; also what `read_my_brief` answers.
    pub(super) brief: String,
    /// Texts that it may read page by page: a tool's name, its description, and the text.
    pub(super) texts: Vec<(&'static str, &'static str, String)>,
    /// The sources that it may read.
    pub(super) sources: &'p [String],
    /// The tool by which it hands in.
    pub(super) submit: (&'static str, &'static str),
    /// Where that lies afterwards, checked.
    pub(super) place: Submission<T>,
}

impl StageRun<'_> {
    /// Runs an agent, one of so many at once, until it has handed something in.
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
        let pages = part.texts.iter().map(|(.., text)| text.len() / PAGE_BYTES + 1).sum::<usize>();
        let request = TurnRequest::new(part.brief)
            .with_system(part.system)
            .with_tool_access(ToolAccess::ScopedOnly)
            .with_limits(self.limits(at_once));
        let hook = {
            let place = part.place.clone();
            BeforeRetry::new(move |_| {
                // What was handed in by the one that failed is nothing that the next one said. It changes no file.
                place.take();
                async { Ok::<(), std::convert::Infallible>(()) }
            })
        };
        let place = part.place;
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
        let AgentReport { answer, turns, .. } = run_agent(self.router, &assignment, &mut NullSink).await;
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
        let brief = ("read_my_brief", "What is asked of you.", part.brief.clone());
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

    /// What bounds a turn that is one of so many at once: of what is left of the budget each has an equal share.
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

    /// Takes down an agent's turns for the caller.
    pub(super) async fn log_turns(&self, agent: &str, turns: &[AgentTurn]) {
        let events: Vec<DebateLogEvent> = turns
            .iter()
            .map(|turn| LoggedTurn::of(turn, None, agent, agent, self.stage))
            .map(|turn| DebateLogEvent::TurnEnded(Box::new(turn)))
            .collect();
        self.log(events).await;
    }

    /// What cannot be written is missing in the log, and nowhere else.
    pub(super) async fn log(&self, events: Vec<DebateLogEvent>) {
        let debate = self.debate.clone();
        let _: Result<(), DebateError> =
            try_blocking(move || events.iter().try_for_each(|event| debate.log(event))).await;
    }
}
