//! Running an agent until it has handed something in.

use std::{error::Error, fmt, fmt::Write as _, sync::Arc};

use nexus_core::{
    BackendId, ConversationMode, ErrorKind, EventSink, ForgetError, RecordError, ResumeHandle, Session,
    SessionBounds, ToolRouter, TurnError, TurnHost, TurnRequest, TurnResult, VendorId,
};
use nexus_router::Router;

use super::{AgentRecord, AgentRoute, Assignment, terminal_tools::TerminalTools};

/// Prompt for an agent that ended without a submission.
const REMINDER: &str = include_str!("../../prompts/reminder.md");

/// Why a turn of an agent's was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentTurnPurpose {
    /// It is the first.
    Work,
    /// The turn before ended without a submission: the agent is asked for that alone, in the same conversation.
    Reminder,
    /// The one before handed nothing in, and its conversation is lost: all of it is done again.
    Afresh,
}

impl fmt::Display for AgentTurnPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Work => "work",
            Self::Reminder => "reminder",
            Self::Afresh => "afresh",
        })
    }
}

/// One turn of an agent's.
#[derive(Debug)]
pub struct AgentTurn {
    /// Why it was run.
    pub purpose: AgentTurnPurpose,
    /// The backend that decided.
    pub backend: BackendId,
    /// The company behind it, where that is known.
    pub vendor: Option<VendorId>,
    /// The session that it called tools with: what was called, and what was decided.
    pub session: Arc<Session>,
    /// Outcome of the turn.
    pub outcome: Result<TurnResult, TurnError>,
    /// Its name in the file where it is written down.
    pub recorded_as: Option<String>,
}

/// Result of an agent's part.
#[derive(Debug)]
pub struct AgentReport<T> {
    /// Its submission, or the reason for a missing one.
    pub answer: Result<T, AgentFailure>,
    /// Its turns, in order: one, or two, or three where the conversation of the second one was lost.
    pub turns: Vec<AgentTurn>,
    /// Conversations that could not be forgotten, and why: the backends still store them.
    pub left_behind: Vec<(ResumeHandle, ForgetError)>,
    /// Failed records of turns that ran.
    pub unrecorded: Vec<RecordError>,
}

/// Why an agent handed nothing in: a failure of the infrastructure. Its words are for logs and the caller, never for another
/// agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentFailure {
    /// Its last turn failed.
    #[error("{backend} failed: {message}")]
    Turn {
        /// The backend that decided.
        backend: BackendId,
        /// The kind of failure.
        kind: ErrorKind,
        /// The failure in words.
        message: String,
    },
    /// A turn could not be written down, as on a full disk, and was not run.
    #[error("its turn cannot be recorded: {message}")]
    Unrecorded {
        /// Where, and why.
        message: String,
    },
    /// Too many of its submissions were refused. It is not asked again, and no other backend is.
    #[error("{backend} failed: {refused} of its submissions were rejected, which is the limit")]
    Refused {
        /// The backend of the last turn.
        backend: BackendId,
        /// Number of refused submissions, over all of its turns.
        refused: u32,
    },
    /// It ended well, was asked once more, and submitted nothing in both turns.
    #[error("{backend} ended twice without a submission")]
    Silent {
        /// The backend of the last turn.
        backend: BackendId,
    },
}

/// Runs an agent until it has submitted an answer: one turn, and another one if the first submitted nothing.
///
/// It does not run a failed turn again: the router decides which backend may take over, by the effects of the
/// turn. A submission counts, even if the turn failed afterwards. A conversation is stored for the one reminder
/// alone, and deleted at the end.
pub async fn run_agent<T>(
    router: &Router,
    assignment: &Assignment<T>,
    events: &mut dyn EventSink,
) -> AgentReport<T> {
    let mut agent = AssignmentRun { router, assignment, turns: Vec::new(), unrecorded: Vec::new() };
    let answer = agent.run(events).await;
    let left_behind = agent.forget().await;
    AgentReport { answer, turns: agent.turns, left_behind, unrecorded: agent.unrecorded }
}

/// Run of one assignment, with its turns so far.
struct AssignmentRun<'a, T> {
    router: &'a Router,
    assignment: &'a Assignment<T>,
    turns: Vec<AgentTurn>,
    unrecorded: Vec<RecordError>,
}

impl<T> AssignmentRun<'_, T> {
    async fn run(&mut self, events: &mut dyn EventSink) -> Result<T, AgentFailure> {
        let keep = || self.assignment.request.clone().with_conversation(ConversationMode::Keep);
        let first = keep();
        let again = keep();
        if let Some(answer) = self.turn(AgentTurnPurpose::Work, first, events).await? {
            return Ok(answer);
        }
        let handle = self.turns.last().and_then(|turn| turn.outcome.as_ref().ok()?.resume.clone());
        let answer = match handle {
            Some(handle) => {
                match self.turn(AgentTurnPurpose::Reminder, self.reminder(handle), events).await {
                    Err(AgentFailure::Turn { kind: ErrorKind::ConversationLost, .. }) => {
                        self.turn(AgentTurnPurpose::Afresh, again, events).await?
                    }
                    answered => answered?,
                }
            }
            None => self.turn(AgentTurnPurpose::Afresh, again, events).await?,
        };
        answer.ok_or_else(|| AgentFailure::Silent { backend: self.last_backend() })
    }

    /// One turn, and its submission.
    async fn turn(
        &mut self,
        purpose: AgentTurnPurpose,
        request: TurnRequest,
        events: &mut dyn EventSink,
    ) -> Result<Option<T>, AgentFailure> {
        let Assignment { participant, scope, tools, tool_calls, refused_submissions, .. } = self.assignment;
        let tools: Arc<dyn ToolRouter> = match purpose {
            AgentTurnPurpose::Reminder => Arc::new(TerminalTools(Arc::clone(tools))),
            AgentTurnPurpose::Work | AgentTurnPurpose::Afresh => Arc::clone(tools),
        };
        let refused_before = self.refused();
        let bounds = SessionBounds::new()
            .with_tool_calls(*tool_calls)
            .with_refused_submissions(refused_submissions.saturating_sub(refused_before));
        let session = Session::mint_with_bounds(participant.clone(), scope.clone(), tools, bounds);
        let host = self.assignment.host.clone().with_session(Arc::clone(&session));
        let mut recording = match &self.assignment.record {
            Some(AgentRecord { file, name }) => {
                let begun = file.begin(format!("{name} {purpose}"), &request, &host);
                Some(begun.map_err(|error| AgentFailure::Unrecorded { message: in_full(&error) })?)
            }
            None => None,
        };
        let (backend, vendor, outcome) = match &mut recording {
            Some(recording) => self.ask(request, host, &mut recording.beside(events)).await,
            None => self.ask(request, host, events).await,
        };
        let failure = match &outcome {
            // Also of a backend that ends such a turn well.
            _ if session.is_out_of_submissions() => {
                let refused = refused_before + session.refused_submissions();
                Some(AgentFailure::Refused { backend: backend.clone(), refused })
            }
            Ok(_) => None,
            Err(error) => Some(AgentFailure::Turn {
                backend: backend.clone(),
                kind: error.kind(),
                message: error.to_string(),
            }),
        };
        let recorded_as = recording.as_ref().map(|recording| recording.id().to_owned());
        self.unrecorded.extend(recording.and_then(|recording| recording.end(&outcome).err()));
        self.turns.push(AgentTurn { purpose, backend, vendor, session, outcome, recorded_as });
        // A submission is final, with any later event.
        match ((self.assignment.answer)(), failure) {
            (Some(answer), _) => Ok(Some(answer)),
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(None),
        }
    }

    /// Submissions that were refused in the turns so far.
    fn refused(&self) -> u32 {
        self.turns.iter().map(|turn| turn.session.refused_submissions()).sum()
    }

    /// Backend and outcome of the turn.
    async fn ask(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> (BackendId, Option<VendorId>, Result<TurnResult, TurnError>) {
        match &self.assignment.route {
            AgentRoute::Kind(kind) => {
                let outcome = self.router.run_turn(kind, request, host, events).await;
                let backend = match &outcome {
                    Ok(result) => result.provenance.backend.clone(),
                    Err(error) => error.backend().clone(),
                };
                let vendor = self.router.vendor(&backend);
                (backend, vendor, outcome)
            }
            AgentRoute::Seat(seat) => {
                let ended = self.router.run_seat(seat, request, host, events).await;
                (ended.backend, ended.vendor, ended.outcome)
            }
        }
    }

    fn reminder(&self, handle: ResumeHandle) -> TurnRequest {
        let mut tools = String::new();
        for tool in TerminalTools(Arc::clone(&self.assignment.tools)).definitions() {
            if self.assignment.scope.allows_tool(&tool.name) {
                let _ = writeln!(
                    tools,
                    "- `{}`, with arguments of this schema: {}",
                    tool.name, tool.input_schema
                );
            }
        }
        let mut request = self.assignment.request.clone();
        request.prompt = TurnRequest::new(REMINDER.replace("{tools}", tools.trim_end())).prompt;
        request.with_conversation(ConversationMode::resume(handle))
    }

    /// Has the backends delete what they keep of the agent's conversations.
    async fn forget(&mut self) -> Vec<(ResumeHandle, ForgetError)> {
        let mut left_behind = Vec::new();
        for turn in &self.turns {
            let Some(handle) = turn.outcome.as_ref().ok().and_then(|result| result.resume.as_ref()) else {
                continue;
            };
            match (self.router.forget(handle).await, &self.assignment.record, &turn.recorded_as) {
                (Err(error), ..) => left_behind.push((handle.clone(), error)),
                (Ok(_), Some(record), Some(name)) => {
                    self.unrecorded.extend(record.file.forgotten(name).err());
                }
                (Ok(_), ..) => {}
            }
        }
        left_behind
    }

    fn last_backend(&self) -> BackendId {
        self.turns.last().map_or_else(|| BackendId::new("none"), |turn| turn.backend.clone())
    }
}

/// An error with all that is behind it.
fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
