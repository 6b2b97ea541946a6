//! From a goal to a brief: the orchestrator's part.

use std::{
    fmt::Write as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use nexus_core::{
    Brief, CancelToken, EventSink, FileTools, ForgetError, Limits, ParticipantScope, RecordError,
    ResumeHandle, ScopeError, Submission, Tool, ToolAccess, ToolPattern, Toolbox, TurnHost, TurnRequest,
};
use nexus_router::Router;
use nexus_work::{
    AgentFailure, AgentRecord, AgentReport, AgentRoute, AgentTurn, AgentTypeError, AgentTypes, Assignment,
    DraftError, Quote, run_agent,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    agent::{AgentPhase, Prompts},
    problem_brief::{BriefDraft, ProblemBrief},
    task_state::MAX_QUESTIONS,
};

/// Maximum number of briefs of one orchestrator that may be rejected. The next rejection stops it.
const MAX_REFUSALS: usize = 2;
/// Longest question, in bytes.
const MAX_QUESTION_BYTES: usize = 1 << 10;

/// Input of the caller: the goal, and the facts that the caller gathered.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// The goal itself.
    pub goal: String,
    /// Knowledge of the caller: findings, decisions, places.
    pub context: Option<String>,
    /// Questions of earlier turns, each with the caller's answer.
    pub answers: Vec<(String, String)>,
    /// Facts about the tree, in the words of Nexus: unchanged files, uncommitted changes that were included.
    pub remarks: Vec<String>,
    /// Memories of earlier tasks.
    pub recalled: Option<String>,
    /// Map of the project, if an agent has drawn it.
    pub context_map: Option<String>,
}

/// Setup of a framing turn: the agent, its texts and the tree.
#[derive(Debug)]
pub struct Framing<'a> {
    /// Router that runs the turn.
    pub router: &'a Router,
    /// Work-kind of the orchestrator.
    pub route: AgentRoute,
    /// Type of the orchestrator, of the phase `orchestrate`.
    pub agent_type: &'a str,
    /// Types that a plan may name.
    pub types: &'a AgentTypes,
    /// System prompts of agents.
    pub prompts: &'a Prompts,
    /// Folder of the tree in which the task begins.
    pub root: &'a Path,
    /// Other bounds of the turn: a deadline, a cost.
    pub limits: Limits,
    /// Maximum number of rejected submissions before the agent counts as silent. Three briefs that break the rules end the turn earlier.
    pub refused_submissions: u32,
    /// Cancellation and budget.
    pub host: TurnHost,
    /// Log to which the turns are written.
    pub record: Option<AgentRecord>,
}

/// Answer of an orchestrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed {
    /// An accepted brief.
    Brief(Box<ProblemBrief>),
    /// One to three questions that only the caller can answer.
    Questions(Vec<String>),
}

/// Reason why a goal has no brief.
#[derive(Debug, thiserror::Error)]
pub enum FramingFailure {
    /// The agent failed, or submitted nothing.
    #[error(transparent)]
    Agent(#[from] AgentFailure),
    /// Three briefs were rejected. This is the fault of the last one.
    #[error("the orchestrator submitted {} invalid briefs; the last one: {last}", MAX_REFUSALS + 1)]
    Refused {
        /// Faults of the last brief.
        last: DraftError,
    },
    /// An agent cannot get access to the tree.
    #[error("the project's tree cannot be read by an agent")]
    Tree(#[from] ScopeError),
    /// The type of the orchestrator is not registered.
    #[error(transparent)]
    Type(#[from] AgentTypeError),
}

/// Outcome of framing a goal.
#[derive(Debug)]
pub struct FramingReport {
    /// A brief, questions, or the reason for neither.
    pub outcome: Result<Framed, FramingFailure>,
    /// Faults of each rejected brief.
    pub refused: Vec<DraftError>,
    /// Turns of the agent.
    pub turns: Vec<AgentTurn>,
    /// Conversations that could not be deleted, with the errors.
    pub left_behind: Vec<(ResumeHandle, ForgetError)>,
    /// Errors of the turn log. The turns themselves ran.
    pub unrecorded: Vec<RecordError>,
}

/// Accepted brief, and the faults of rejected ones so far.
#[derive(Debug, Default)]
struct Drafts {
    accepted: Option<ProblemBrief>,
    refused: Vec<DraftError>,
}

/// Questions as the orchestrator asks them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Clarification {
    /// One to three questions, each of at most 1 KiB.
    questions: Vec<String>,
}

impl Framing<'_> {
    /// Runs the orchestrator on a goal. It reads the tree, then submits a brief or asks questions. For a brief that breaks a rule it
    /// gets the list of faults; after the third rejected brief the turn is stopped.
    pub async fn run(&self, goal: &Goal, events: &mut dyn EventSink) -> FramingReport {
        let drafts = Arc::new(Mutex::new(Drafts::default()));
        let (outcome, turns, left_behind, unrecorded) = match self.assignment(goal, &drafts) {
            Ok(assignment) => {
                let AgentReport { answer, turns, left_behind, unrecorded } =
                    run_agent(self.router, &assignment, events).await;
                (answer.map_err(FramingFailure::from), turns, left_behind, unrecorded)
            }
            Err(failure) => (Err(failure), Vec::new(), Vec::new(), Vec::new()),
        };
        let refused = std::mem::take(&mut lock(&drafts).refused);
        // The cancelled turn reports its own error, but the rejected briefs are the reason.
        let outcome = match (outcome, refused.last()) {
            (Err(_), Some(last)) if refused.len() > MAX_REFUSALS => {
                Err(FramingFailure::Refused { last: last.clone() })
            }
            (outcome, _) => outcome,
        };
        FramingReport { outcome, refused, turns, left_behind, unrecorded }
    }

    fn assignment(
        &self,
        goal: &Goal,
        drafts: &Arc<Mutex<Drafts>>,
    ) -> Result<Assignment<Framed>, FramingFailure> {
        let phase = AgentPhase::of(self.agent_type, self.types)?;
        let names = AgentPhase::tools_of(self.agent_type, self.types)?;
        let patterns = names.iter().filter_map(|name| name.parse::<ToolPattern>().ok());
        let brief = patterns.fold(Brief::new(self.root).reading("."), Brief::tool);
        let scope = ParticipantScope::assemble(&brief, None, None)?;

        // A child token: too many rejected briefs cancel this turn, not the whole task.
        let cancel = self.host.cancel.child();
        let briefs = self.briefs(drafts, cancel.clone());
        let questions = Submission::new().checked_by(check_questions);
        let tools = self.tools(goal, &scope, &briefs, &questions);
        let of_the_type = self.types.find(self.agent_type)?.prompt.as_deref();
        let request = TurnRequest::new(opening(goal))
            .with_system(self.prompts.system_with(phase, of_the_type))
            .with_tool_access(ToolAccess::ScopedOnly)
            .with_limits(self.limits.clone());
        let drafts = Arc::clone(drafts);
        // The submission holds only the draft. The checked brief is in `drafts`.
        let answer = move || match briefs.take() {
            Some(_) => lock(&drafts).accepted.take().map(Box::new).map(Framed::Brief),
            None => questions.take().map(|asked| Framed::Questions(asked.questions)),
        };
        Ok(Assignment {
            route: self.route.clone(),
            request,
            participant: self.agent_type.into(),
            scope,
            tools: Arc::new(tools),
            tool_calls: phase.tool_calls(),
            refused_submissions: self.refused_submissions,
            host: self.host.clone().with_cancel(cancel),
            record: self.record.clone(),
            answer: Box::new(answer),
        })
    }

    /// Creates the submission that accepts briefs, each checked on the tree. One rejection too many stops the turn.
    fn briefs(&self, drafts: &Arc<Mutex<Drafts>>, cancel: CancelToken) -> Submission<BriefDraft> {
        let (drafts, types, root) = (Arc::clone(drafts), self.types.clone(), self.root.to_owned());
        Submission::new().checked_by(move |draft: &BriefDraft| {
            let checked = ProblemBrief::accept(draft.clone(), &types, &root);
            let mut drafts = lock(&drafts);
            let error = match checked {
                Ok(brief) if drafts.refused.len() <= MAX_REFUSALS => {
                    drafts.accepted = Some(brief);
                    return Ok(());
                }
                // The model may send one more brief before the cancellation arrives.
                Ok(_) => return Err("too many briefs were refused".to_owned()),
                Err(error) => error,
            };
            let words = error.to_string();
            drafts.refused.push(error);
            if drafts.refused.len() > MAX_REFUSALS {
                cancel.cancel();
            }
            Err(words)
        })
    }

    fn tools(
        &self,
        goal: &Goal,
        scope: &ParticipantScope,
        briefs: &Submission<BriefDraft>,
        questions: &Submission<Clarification>,
    ) -> Toolbox {
        let said = |name: &str, description: &str, text: String| {
            Tool::without_arguments(name, description, move || {
                let text = text.clone();
                async move { text }
            })
            .read_only()
        };
        let map = match &goal.context_map {
            Some(map) => Quote::new("the map of the project", map).to_string(),
            None => "There is no map of this project yet.".to_owned(),
        };
        let types: String = self.types.types().fold(String::new(), |mut types, known| {
            let _ = writeln!(
                types,
                "{} (tier {}, phase {}): {}",
                known.name, known.tier, known.phase, known.description
            );
            types
        });
        let my_brief = format!("{}\n{}", opening(goal), Quote::new("the types of agents", types.trim_end()));
        let files = FileTools::new(scope.files()).reading();
        let toolbox = Toolbox::new()
            .with(said(
                "read_my_brief",
                "Returns the goal, its context, and the agent types that a plan may name. Call it first.",
                my_brief,
            ))
            .with(said(
                "read_handoffs",
                "Returns the submissions of earlier steps.",
                "There are no submissions in this task yet.".to_owned(),
            ))
            .with(said(
                "read_context_map",
                "Returns the map of the project from earlier tasks: its parts, \
                and how it is built and tested. Call it before you read files.",
                map,
            ));
        files
            .into_iter()
            .fold(toolbox, Toolbox::with)
            .with(Tool::submit(
                "submit_brief",
                "Submits the brief and ends your work. If the brief is \
                invalid, the error names the fault: correct it, and submit again.",
                briefs,
            ))
            .with(Tool::submit(
                "request_clarification",
                "Asks the caller up to three questions and ends your work. Use it only if the goal cannot be \
                planned without an answer. Example question: \"Must the old file format still be readable?\"",
                questions,
            ))
    }
}

/// Formats the goal for the orchestrator.
fn opening(goal: &Goal) -> String {
    let mut text = Quote::new("the goal", &goal.goal).to_string();
    let mut part = |origin: &str, quoted: &str| {
        let _ = write!(text, "\n{}", Quote::new(origin, quoted));
    };
    if let Some(context) = &goal.context {
        part("the context that the caller gave", context);
    }
    for (question, answer) in &goal.answers {
        part("a question that was asked", question);
        part("the caller's answer to it", answer);
    }
    if let Some(recalled) = &goal.recalled {
        part("memories of earlier tasks in this project", recalled);
    }
    for remark in &goal.remarks {
        part("about the project's files", remark);
    }
    text
}

fn check_questions(asked: &Clarification) -> Result<(), String> {
    let fits = |question: &String| !question.trim().is_empty() && question.len() <= MAX_QUESTION_BYTES;
    match (1..=MAX_QUESTIONS).contains(&asked.questions.len()) && asked.questions.iter().all(fits) {
        true => Ok(()),
        false => {
            Err(format!("ask one to {MAX_QUESTIONS} questions, each of at most {MAX_QUESTION_BYTES} bytes"))
        }
    }
}

fn lock(drafts: &Mutex<Drafts>) -> std::sync::MutexGuard<'_, Drafts> {
    drafts.lock().unwrap_or_else(PoisonError::into_inner)
}
