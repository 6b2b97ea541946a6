//! Runs an agent until it has submitted an answer.

use std::{error::Error, fmt, fmt::Write as _, sync::Arc};

use nexus_core::{
    BackendId, ConversationMode, ErrorKind, EventSink, ForgetError, RecordError, ResumeHandle, Session,
    SessionBounds, ToolRouter, TurnError, TurnHost, TurnRequest, TurnResult, VendorId,
};
use nexus_router::Router;

use super::{AgentRecord, AgentRoute, Assignment, terminal_tools::TerminalTools};

/// Prompt for an agent that ended without a submission.
const REMINDER: &str = include_str!("../../prompts/reminder.md");

/// Purpose of an agent's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentTurnPurpose {
    /// The first turn.
    Work,
    /// The earlier turn ended without a submission. This one asks only for the submission, in the same conversation.
    Reminder,
    /// The earlier turn ended without a submission, and its conversation is lost. This one does all of the work again.
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

/// One turn of an agent.
#[derive(Debug)]
pub struct AgentTurn {
    /// Purpose of the turn.
    pub purpose: AgentTurnPurpose,
    /// Backend whose outcome counts.
    pub backend: BackendId,
    /// Vendor of the backend, if it is known.
    pub vendor: Option<VendorId>,
    /// Session of the turn, with its tool calls and the decisions on them.
    pub session: Arc<Session>,
    /// Outcome of the turn.
    pub outcome: Result<TurnResult, TurnError>,
    /// Id of the turn in the file of records.
    pub recorded_as: Option<String>,
}

/// Result of an agent's part.
#[derive(Debug)]
pub struct AgentReport<T> {
    /// The submission, or the reason for a missing one.
    pub answer: Result<T, AgentFailure>,
    /// Turns in order: one, two, or three if the conversation of the second one was lost.
    pub turns: Vec<AgentTurn>,
    /// Conversations that could not be deleted, with the errors: the backends still store them.
    pub left_behind: Vec<(ResumeHandle, ForgetError)>,
    /// Errors of records of turns that ran.
    pub unrecorded: Vec<RecordError>,
}

/// Reason why an agent submitted nothing: a failure of the infrastructure. The text is for logs and the caller, never for
/// another agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentFailure {
    /// The last turn failed.
    #[error("{backend} failed: {message}")]
    Turn {
        /// Backend whose outcome counts.
        backend: BackendId,
        /// The kind of failure.
        kind: ErrorKind,
        /// The failure in words.
        message: String,
    },
    /// A turn could not be recorded, for example on a full disk, so it did not run.
    #[error("its turn cannot be recorded: {message}")]
    Unrecorded {
        /// Path of the file, and the reason.
        message: String,
    },
    /// Too many submissions were rejected. Neither this agent nor another backend gets a further turn.
    #[error("{backend} failed: {refused} of its submissions were rejected, which is the limit")]
    Refused {
        /// The backend of the last turn.
        backend: BackendId,
        /// Number of rejected submissions in all turns.
        refused: u32,
    },
    /// Both the first turn and the reminder succeeded without a submission.
    #[error("{backend} ended twice without a submission")]
    Silent {
        /// The backend of the last turn.
        backend: BackendId,
    },
}

/// Runs an agent until it has submitted an answer: one turn, and a reminder if the first turn submitted nothing.
///
/// It does not repeat a failed turn: the router decides which backend may take over, by the effects of the turn. A
/// submission counts, even if the turn failed afterwards. The conversation is stored only for the reminder, and deleted at
/// the end.
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
        // The vendor stores the conversation, so that a reminder can continue it. `forget` deletes it at the end.
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
                    // The vendor has lost the conversation, so the work starts again.
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

    /// Runs one turn, and returns its submission.
    async fn turn(
        &mut self,
        purpose: AgentTurnPurpose,
        request: TurnRequest,
        events: &mut dyn EventSink,
    ) -> Result<Option<T>, AgentFailure> {
        let Assignment { participant, scope, tools, tool_calls, refused_submissions, .. } = self.assignment;
        let tools: Arc<dyn ToolRouter> = match purpose {
            // A reminder asks for the submission alone, so it offers no other tools.
            AgentTurnPurpose::Reminder => Arc::new(TerminalTools(Arc::clone(tools))),
            AgentTurnPurpose::Work | AgentTurnPurpose::Afresh => Arc::clone(tools),
        };
        let refused_before = self.refused();
        let bounds = SessionBounds::new()
            .with_tool_calls(*tool_calls)
            // The limit counts for all turns of the agent together.
            .with_refused_submissions(refused_submissions.saturating_sub(refused_before));
        let session = Session::mint_with_bounds(participant.clone(), scope.clone(), tools, bounds);
        let host = self.assignment.host.clone().with_session(Arc::clone(&session));
        let mut recording = match &self.assignment.record {
            Some(AgentRecord { file, name }) => {
                // Record the beginning first, so that a turn that cannot be recorded does not run.
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
            // Check this first: a backend may end such a turn with success.
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
        // A submission counts, even if the turn failed after it.
        match ((self.assignment.answer)(), failure) {
            (Some(answer), _) => Ok(Some(answer)),
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(None),
        }
    }

    /// Returns the number of rejected submissions in the turns so far.
    fn refused(&self) -> u32 {
        self.turns.iter().map(|turn| turn.session.refused_submissions()).sum()
    }

    /// Runs the turn, and returns its backend and outcome.
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
            // The scope would reject a call of any other tool.
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

    /// Deletes the agent's conversations on their backends.
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

/// Returns the message of an error with all of its causes.
fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
