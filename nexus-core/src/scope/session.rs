//! A session, which decides on all calls of a caller's tools.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{FutureExt as _, future::Either};
use serde_json::{Map, Value};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{
    Decision, Denial, ParticipantScope, PathDenial, Permit, RemoteSession, SessionToken,
    arguments::{Obstacle, replace_paths},
    audit_log::{AuditLog, CallAdmission, Counts, SessionMark, UndecidedCall},
    decision::Fingerprint,
    permit::Answerer,
};
use crate::approval::{ApprovalAction, ApprovalRequest, Approver, NotApproved};
use crate::id::{CallId, ParticipantId};
use crate::lenient_json;
use crate::question::{AgentQuestion, QuestionReply};
use crate::redact::Redactor;
use crate::tool::{ToolCall, ToolDefinition, ToolResult, ToolRouter};
use crate::turn::{Effects, ToolOrigin};

/// Default number of refused submissions that ends a session. Source: our own bound. A model that does not fix the fault after five
/// messages does not learn from a sixth, and each is a paid call.
pub const DEFAULT_REFUSED_SUBMISSIONS: u32 = 5;

/// Longest fault of the arguments in a message, in bytes. Source: our own bound.
const MAX_PROBLEM_BYTES: usize = 4 << 10;

/// Enforces the scope of one participant: every call of a tool passes [`Session::authorize`], over any transport.
///
/// A session is created for one participant, with a token that exists only in memory. The code that runs a turn
/// creates a session below it with [`Session::for_turn`]. That session ends with the turn, and its token is useless
/// afterwards. Calls of the turn's session count for both budgets, and its decisions are in both lists.
/// ```
/// use std::sync::Arc;
/// use nexus_core::{ParticipantScope, Session, Tool, ToolCall, Toolbox, TurnHost, DecisionOutcome};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let tools = Toolbox::new().with(Tool::without_arguments("noon", "Says when.", || async { "12:00" }));
/// let session = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools));
/// let answer = session.call(session.token(), ToolCall::new("1", "midnight", ().into())).await;
/// assert!(answer.is_error);
/// assert!(matches!(session.decisions()[0].outcome, DecisionOutcome::Denied(_)));
/// let host = TurnHost::new().with_session(session);
/// # let _ = host; }
/// ```
///
/// # The tool budget
///
/// Each session has a budget of its own. Allowed and denied calls both count, so a model that repeatedly calls missing tools also
/// ends. Terminal tools are exempt, so that an answer can always be submitted. Callers with a wrong token and calls after the end are
/// exempt too. [`Session::over_budget_calls`] tells the code that runs the turn if the model ignores the budget.
///
/// # The submitted answer
///
/// The first successful call of a [terminal tool](crate::Tool::terminal) closes the session and those above it. The answer is
/// final, every later call is denied, and the turn succeeds. A call that the tool answers with an error submits nothing.
///
/// A submission that is denied or answered with an error is refused. It does not use the tool budget, and has a limit of its own:
/// after [`DEFAULT_REFUSED_SUBMISSIONS`] of them, or the number in [`Session::mint_with_bounds`], the session is over, and the turn
/// ends with [`ErrorKind::LimitReached`](crate::ErrorKind::LimitReached).
///
/// # Concurrent calls
///
/// Calls may be decided on at the same time, and turns of one session may run at the same time. Concurrency never exceeds a budget,
/// and decisions are in the order in which the calls used the budget. Closing a session denies every later call; a call that was allowed
/// before gets its answer. A transport whose calls have no order of their own waits for [`Session::in_order`], so that no other call
/// runs while an answer is submitted.
pub struct Session {
    participant: ParticipantId,
    scope: Arc<ParticipantScope>,
    token: SessionToken,
    catalogue: Arc<Catalogue>,
    /// Names of tools that cannot be offered in this session.
    withdrawn: Mutex<BTreeSet<String>>,
    audit_log: Arc<AuditLog>,
    approver: Option<Approver>,
    redactor: Redactor,
    /// Running calls lock it shared; a call of a terminal tool locks it exclusively.
    running: RwLock<()>,
}

/// Order of a call among those of its session: see [`Session::in_order`].
#[derive(Debug)]
pub struct CallPlace<'s> {
    _running: Either<RwLockReadGuard<'s, ()>, RwLockWriteGuard<'s, ()>>,
}

/// Bounds on the calls of a session.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionBounds {
    /// Maximum number of calls in total, without those of terminal tools. `None` means unlimited.
    pub tool_calls: Option<u32>,
    /// Maximum number of refused submissions: calls of terminal tools that were denied or answered with an error.
    pub refused_submissions: u32,
}

impl SessionBounds {
    /// Returns bounds without a limit on calls, and with [`DEFAULT_REFUSED_SUBMISSIONS`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the calls, except those of terminal tools.
    #[must_use]
    pub fn with_tool_calls(mut self, tool_calls: impl Into<Option<u32>>) -> Self {
        self.tool_calls = tool_calls.into();
        self
    }

    /// Limits the refused submissions. 0 allows none.
    #[must_use]
    pub fn with_refused_submissions(mut self, refused_submissions: u32) -> Self {
        self.refused_submissions = refused_submissions;
        self
    }
}

impl Default for SessionBounds {
    fn default() -> Self {
        Self { tool_calls: None, refused_submissions: DEFAULT_REFUSED_SUBMISSIONS }
    }
}

/// The tools of a scope.
struct Catalogue {
    answerer: Answerer,
    definitions: Arc<[ToolDefinition]>,
}

impl Session {
    /// Creates a session of `participant` with the tools of `tools` that are in `scope`. The list of tools is fixed now; tools that
    /// `tools` adds later are not in the session.
    pub fn mint(
        participant: impl Into<ParticipantId>,
        scope: ParticipantScope,
        tools: Arc<dyn ToolRouter>,
    ) -> Arc<Self> {
        Self::mint_with_budget(participant, scope, tools, None)
    }

    /// Like [`Session::mint`], with at most `tool_calls` calls in total, without those of terminal tools.
    pub fn mint_with_budget(
        participant: impl Into<ParticipantId>,
        scope: ParticipantScope,
        tools: Arc<dyn ToolRouter>,
        tool_calls: impl Into<Option<u32>>,
    ) -> Arc<Self> {
        Self::mint_with_bounds(participant, scope, tools, SessionBounds::new().with_tool_calls(tool_calls))
    }

    /// Like [`Session::mint`], with these bounds on calls.
    pub fn mint_with_bounds(
        participant: impl Into<ParticipantId>,
        scope: ParticipantScope,
        tools: Arc<dyn ToolRouter>,
        bounds: SessionBounds,
    ) -> Arc<Self> {
        // Copy the list only if the scope removes a tool: sessions of one router otherwise share it.
        let mut definitions = tools.shared_definitions();
        if !definitions.iter().all(|tool| scope.allows_tool(&tool.name)) {
            definitions = definitions.iter().filter(|tool| scope.allows_tool(&tool.name)).cloned().collect();
        }
        let catalogue = Catalogue { answerer: Answerer::Tools(tools), definitions };
        let audit_log = AuditLog::of(bounds.tool_calls).refusing_submissions(bounds.refused_submissions);
        Self::of(participant.into(), scope, catalogue, audit_log)
    }

    /// Creates a session of one turn for calls that another machine decides on. `remote` decides on them and answers them.
    /// `definitions` are those of the caller's session.
    ///
    /// The code that runs the turn uses it like any other session. [`Session::authorize`] allows every call with the token, with any
    /// tool, arguments and paths; [`Session::answer`] may deny it. A call counts, and has effects, once it is answered. A call that
    /// is cancelled before its answer may have run, so it counts and has the effects of its tool. The effects are
    /// [`Effects::Unknown`] if the tool is not among the definitions.
    ///
    /// The session has no budget of its own, whatever limit a turn below it has. It accepts as many submissions as the caller's
    /// session, and requests no approval itself. Its host has an approver if the caller's host has one, because some programs run
    /// differently without possible approvals.
    ///
    /// A closed session denies calls itself. After a submitted answer, the caller's session is over too, and denies later calls.
    /// [`Session::scope`] restricts nothing here, and [`Session::rewind`] does not reset the caller's session.
    pub fn remote(
        participant: impl Into<ParticipantId>,
        definitions: Vec<ToolDefinition>,
        remote: Arc<dyn RemoteSession>,
    ) -> Arc<Self> {
        let catalogue = Catalogue { answerer: Answerer::Session(remote), definitions: definitions.into() };
        Self::of(participant.into(), ParticipantScope::unrestricted(), catalogue, AuditLog::of(None))
    }

    fn of(
        participant: ParticipantId,
        scope: ParticipantScope,
        catalogue: Catalogue,
        audit_log: AuditLog,
    ) -> Arc<Self> {
        Arc::new(Self {
            participant,
            scope: Arc::new(scope),
            token: SessionToken::random(),
            catalogue: Arc::new(catalogue),
            withdrawn: Mutex::default(),
            audit_log: Arc::new(audit_log),
            approver: None,
            redactor: Redactor::default(),
            running: RwLock::default(),
        })
    }

    /// Creates a session below this one, for the same participant and with a token of its own. It allows at most `tool_calls` calls,
    /// and never more than remain in this session's budget. It requests approvals from `approver`; if that is `None`, from this
    /// session's approver.
    pub(super) fn below(&self, tool_calls: Option<u32>, approver: Option<&Approver>) -> Arc<Self> {
        Arc::new(Self {
            participant: self.participant.clone(),
            scope: Arc::clone(&self.scope),
            token: SessionToken::random(),
            catalogue: Arc::clone(&self.catalogue),
            withdrawn: Mutex::new(self.withdrawn().clone()),
            audit_log: Arc::new(AuditLog::below(&self.audit_log, tool_calls)),
            approver: approver.or(self.approver.as_ref()).cloned(),
            // Each turn has its own lent credentials, so it has its own redactor.
            redactor: Redactor::default(),
            running: RwLock::default(),
        })
    }

    /// Returns the participant of the session.
    pub fn participant(&self) -> &ParticipantId {
        &self.participant
    }

    /// Returns the tools and paths of the participant.
    pub fn scope(&self) -> &ParticipantScope {
        &self.scope
    }

    /// Returns the token that a caller must present.
    pub fn token(&self) -> &SessionToken {
        &self.token
    }

    /// Returns the redactor. It removes secrets from the calls of this session, but not from calls of sessions below. A
    /// model never needs a credential of the turn, so neither a tool nor a decision receives a credential that a server
    /// repeats. The code that runs the turn adds the lent credentials, and removes the same secrets from all output of
    /// the turn.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Returns the tools in scope, in the order for the model. Other tools do not exist for this session.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.catalogue.definitions
    }

    /// Returns the tools in scope, shared with every other session that has exactly these tools of the same router. See
    /// [`ToolRouter::shared_definitions`].
    pub fn shared_definitions(&self) -> &Arc<[ToolDefinition]> {
        &self.catalogue.definitions
    }

    /// Returns every decision so far in order, including those of sessions below. Beyond 65,536 decisions or 64 MiB the oldest are
    /// dropped: [`Session::forgotten_decisions`].
    pub fn decisions(&self) -> Vec<Decision> {
        self.audit_log.decisions()
    }

    /// Returns the number of decisions that [`Session::decisions`] does not list any more.
    pub fn forgotten_decisions(&self) -> u64 {
        self.audit_log.forgotten()
    }

    /// Returns true if a failed call was certainly denied by this session. The call is known only by its tool and arguments.
    /// So such a call must have been denied, and every allowed one must have succeeded: an allowed call that failed could
    /// be the call in question.
    ///
    /// A denied call had no effects, and its status is [`ToolCallStatus::Denied`](crate::ToolCallStatus::Denied). A backend that
    /// learns of calls from a vendor's program uses this method, and never infers the denial from the answer's text.
    pub fn was_denied(&self, tool: &str, arguments: &Value) -> bool {
        let call = Clean::of(&self.redactor, tool, arguments);
        self.audit_log.was_denied(Fingerprint::of(&call.tool, &call.arguments))
    }

    /// Returns the possible effects of the allowed calls, including those of turns below; also if their
    /// decisions were dropped, or their ends are unknown.
    pub fn effects(&self) -> Effects {
        self.audit_log.effects()
    }

    /// Returns a mark of the session's present effects and number of calls.
    pub fn mark(&self) -> SessionMark {
        self.audit_log.mark()
    }

    /// Resets the record to a mark, after the host restored the state before the calls since then: [`Session::effects`] no longer
    /// includes them, and they no longer count for the budget, because the work will be repeated. An answer that was submitted since
    /// then may be submitted again. The decisions stay.
    ///
    /// This affects all users of the session: concurrent turns of one session have no common moment to return
    /// to, so give each such turn a session of its own.
    pub fn rewind(&self, mark: &SessionMark) {
        self.audit_log.rewind(mark);
    }

    /// Returns the number of calls that counted so far, including those of sessions below.
    pub fn calls_made(&self) -> u32 {
        self.audit_log.spent()
    }

    /// Returns the number of calls that were denied because the budget was used up, including those of sessions below. If the session
    /// has a [terminal tool](Session::has_terminal_tools), the first such denial tells the model to submit its answer.
    pub fn over_budget_calls(&self) -> u32 {
        self.audit_log.over_budget()
    }

    /// Returns the number of refused submissions so far, including those of sessions below.
    pub fn refused_submissions(&self) -> u32 {
        self.audit_log.refused_submissions()
    }

    /// Returns true if the session, or its parent, is over because too many submissions were refused.
    pub fn is_out_of_submissions(&self) -> bool {
        self.audit_log.is_out_of_submissions()
    }

    /// Returns true if the session has tools that may be called beyond the budget.
    pub fn has_terminal_tools(&self) -> bool {
        self.offered().any(|tool| tool.terminal)
    }

    /// Returns true if a call of `tool` may submit the answer.
    pub fn is_terminal(&self, tool: &str) -> bool {
        self.offered().any(|offered| offered.terminal && offered.name == tool)
    }

    /// Returns true if the answer was submitted: a terminal tool of this session or of a session below succeeded.
    pub fn is_handed_in(&self) -> bool {
        self.audit_log.is_handed_in()
    }

    /// Waits until a call of `tool` may be decided on and answered. A call of a terminal tool waits for all earlier calls.
    /// Any other call waits for the earlier terminal calls. Store the returned value until the call has ended.
    ///
    /// Use it for calls without a fixed order, such as those from a vendor's program. A loop that has the calls of a reply in order
    /// need not wait: see [`batches`](crate::harness::batches). A tool that hangs delays the submission of an answer until a time
    /// limit ends the turn; a tool that calls its own session may wait for itself.
    pub async fn in_order(&self, tool: &str) -> CallPlace<'_> {
        // Tokio's lock is fair: a waiting terminal call also delays the calls that arrive after it.
        let running = match self.is_terminal(tool) {
            true => Either::Right(self.running.write().await),
            false => Either::Left(self.running.read().await),
        };
        CallPlace { _running: running }
    }

    /// Removes a tool from this session because it cannot be offered to the model: from now on it counts as
    /// unknown, like a tool out of scope. [`Session::definitions`] still lists it.
    pub fn withdraw(&self, tool: &str) {
        let is_new = self.withdrawn().insert(tool.to_owned());
        if let Some(remote) = self.remote_session().filter(|_| is_new) {
            remote.withdraw(tool);
        }
    }

    /// Ends the session and those below it: every later call is denied. Running calls continue.
    pub fn close(&self) {
        self.audit_log.close();
    }

    /// Returns true if the session, or its parent, has ended.
    pub fn is_closed(&self) -> bool {
        self.audit_log.is_closed()
    }

    /// Decides on one call, and records the decision.
    ///
    /// Resolves the paths among the arguments in the file system. The permit has the arguments for the tool. A
    /// call that needs an approval, and a call of a [remote session](Session::remote), can still be denied by
    /// [`Session::answer`].
    ///
    /// # Errors
    ///
    /// [`Denial`]: the tool must not run.
    pub fn authorize(
        &self,
        token: &SessionToken,
        tool: &str,
        arguments: &Value,
    ) -> Result<Permit<'_>, Denial> {
        self.decide(token, tool, arguments, None)
    }

    /// Denies a call on unreliable arguments, such as those of a message that was [repaired](crate::lenient_json), and records the
    /// decision.
    pub fn deny_flawed(&self, token: &SessionToken, tool: &str, arguments: &Value, flaw: &str) -> Denial {
        match self.decide(token, tool, arguments, Some(flaw)) {
            Err(denial) => denial,
            Ok(_never) => Denial::Unfit { tool: tool.to_owned(), problem: flaw.to_owned() },
        }
    }

    fn decide(
        &self,
        token: &SessionToken,
        tool: &str,
        arguments: &Value,
        flaw: Option<&str>,
    ) -> Result<Permit<'_>, Denial> {
        if !self.token.is(token) {
            // Store no arguments of a stranger: nothing has checked or redacted them.
            let call = (tool, &Value::Null);
            let asked = UndecidedCall::new(self.participant.clone(), call, Counts::Stranger, Effects::None);
            return self.audit_log.settle(asked, |_| Err(Denial::WrongToken));
        }
        let call = Clean::of(&self.redactor, tool, arguments);
        let (tool, arguments) = (&*call.tool, &*call.arguments);
        let empty = Value::Object(Map::new());
        // Some models write `null` for a tool without arguments.
        let arguments = if arguments.is_null() { &empty } else { arguments };
        let definition = self.offered().find(|offered| offered.name == tool);
        if self.remote_session().is_some() && flaw.is_none() {
            return self.leave_to_other(tool, arguments, definition);
        }
        let counts = Counts::of(definition);
        // Judge the call before `settle` locks the log, because the checks read the disk and run the caller's
        // code.
        let judged = match (definition, flaw) {
            (Some(_), Some(flaw)) => Err(Denial::Unfit { tool: tool.to_owned(), problem: flaw.to_owned() }),
            (Some(definition), None) => self.permit(Cow::Borrowed(definition), arguments),
            (None, _) => Err(Denial::unknown(tool, self.offered().map(|tool| tool.name.as_str()))),
        };
        let effects = match definition {
            // A call that needs an approval has no effects before the approval.
            Some(definition) if !definition.needs_approval => definition.effects,
            _ => Effects::None,
        };
        let mut asked = UndecidedCall::new(self.participant.clone(), (tool, arguments), counts, effects);
        if definition.is_some_and(|definition| definition.needs_approval) {
            asked = asked.awaiting_approval();
        }
        let outcome = asked.outcome();
        self.audit_log.settle(asked, |standing| match standing {
            CallAdmission::Open => judged.map(|permit| permit.telling(outcome)),
            CallAdmission::Closed => Err(Denial::Closed),
            CallAdmission::OverBudget(budget) => {
                let terminal = self.offered().filter(|tool| tool.terminal);
                let terminal = terminal.map(|tool| tool.name.clone()).collect();
                Err(Denial::OverBudget { budget, terminal })
            }
        })
    }

    /// Allows a call so that another session decides on it.
    fn leave_to_other<'s>(
        &'s self,
        tool: &str,
        arguments: &Value,
        definition: Option<&'s ToolDefinition>,
    ) -> Result<Permit<'s>, Denial> {
        let definition = match definition {
            Some(definition) => Cow::Borrowed(definition),
            // The caller's session has no such tool either, as far as this side knows.
            None => Cow::Owned(ToolDefinition::new(tool, "", Value::Object(Map::new()))),
        };
        let asked =
            UndecidedCall::new(self.participant.clone(), (tool, arguments), Counts::Elsewhere, Effects::None)
                .awaiting_other_side(definition.needs_approval);
        let permit = Permit::new(&self.catalogue.answerer, definition, arguments.clone(), &self.audit_log)
            .telling(asked.outcome());
        self.audit_log.settle(asked, |standing| match standing {
            CallAdmission::Open => Ok(permit),
            CallAdmission::Closed | CallAdmission::OverBudget(_) => Err(Denial::Closed),
        })
    }

    /// Returns the permit for a tool, with each path checked.
    fn permit<'s>(
        &'s self,
        definition: Cow<'s, ToolDefinition>,
        arguments: &Value,
    ) -> Result<Permit<'s>, Denial> {
        let tool = definition.name.as_str();
        let mut arguments = match arguments {
            Value::Object(_) => arguments.clone(),
            Value::String(text) => {
                let problem = lenient_json::read_decision(text).err().map(|problem| problem.to_string());
                return Err(Denial::NotAnObject { tool: tool.to_owned(), problem });
            }
            _ => return Err(Denial::NotAnObject { tool: tool.to_owned(), problem: None }),
        };
        // Replace each path by its real path, so that the tool opens the file that was checked.
        for path in &definition.paths {
            let mut check = |given: &str| {
                let checked = self.scope.check_path(given, path.access)?;
                let not_text = |_| PathDenial::new(given, path.access, "its target is not Unicode");
                checked.into_os_string().into_string().map_err(not_text)
            };
            replace_paths(&mut arguments, path, &mut check).map_err(|obstacle| match obstacle {
                Obstacle::NotText(pointer) => Denial::NotAPath { tool: tool.to_owned(), pointer },
                Obstacle::Refused(denial) => Denial::path(tool, denial),
            })?;
        }
        let check = || self.catalogue.answerer.check_arguments(tool, &arguments);
        // The check runs code of the caller, such as a `Deserialize`, which may panic.
        let checked = catch_unwind(AssertUnwindSafe(check));
        match checked.unwrap_or_else(|_panic| Err("they cannot be read".to_owned())) {
            Ok(()) => Ok(Permit::new(&self.catalogue.answerer, definition, arguments, &self.audit_log)),
            Err(mut problem) => {
                problem.truncate(problem.floor_char_boundary(MAX_PROBLEM_BYTES));
                Err(Denial::Unfit { tool: tool.to_owned(), problem })
            }
        }
    }

    /// Answers a call with its tool, as the permit allows. Waits for approval first if the tool needs it. A terminal tool that
    /// succeeds closes the session.
    ///
    /// # Errors
    ///
    /// [`Denial::NotApproved`]; [`Denial::Closed`] if the session ended during the wait for approval; [`Denial::Path`] if a path
    /// leads elsewhere by then. The tool did not run. In a [remote session](Session::remote) any [`Denial`].
    pub async fn answer<'s>(&'s self, call: CallId, mut permit: Permit<'s>) -> Result<ToolResult, Denial> {
        if let Some(definition) = permit.needs_approval() {
            let (effects, is_terminal) = (definition.effects, definition.terminal);
            let request = ApprovalRequest {
                participant: self.participant.clone(),
                tool: definition.name.clone(),
                origin: ToolOrigin::Caller,
                action: ApprovalAction::Tool,
                title: None,
                paths: Vec::new(),
                arguments: permit.arguments().clone(),
            };
            let answer = self.ask(request).await;
            let outcome = permit.outcome().clone();
            // Check the paths again: while the host decided, another program may have replaced them by links.
            let checked = answer.and_then(|()| self.permit(definition, permit.arguments()));
            let (answer, checked) = match checked {
                Ok(checked) => (Ok(()), Some(checked)),
                Err(denial) => (Err(denial), None),
            };
            // `settle` allowed this submission, so it does not count as refused yet.
            if answer.is_err() && is_terminal {
                self.audit_log.refuse_submission();
            }
            self.audit_log.settle_approval(&outcome, answer, effects)?;
            permit = checked.map_or(permit, |checked| checked.telling(outcome));
        }
        permit.answer(call).await
    }

    /// Requests the host's approval for a call of the running program's own tool. Records the decision, and does not use the budget.
    ///
    /// # Errors
    ///
    /// [`Denial::NotApproved`], and [`Denial::Closed`] if the session has ended.
    pub async fn approve(&self, mut request: ApprovalRequest) -> Result<(), Denial> {
        request.participant = self.participant.clone();
        // Redact before the decision is recorded and before the host sees the request.
        if let Some(tool) = self.redactor.without_secrets(&request.tool) {
            request.tool = tool;
        }
        if let Some(title) = request.title.as_deref().and_then(|title| self.redactor.without_secrets(title)) {
            request.title = Some(title);
        }
        if let Some(arguments) = self.redactor.value_without_secrets(&request.arguments) {
            request.arguments = arguments;
        }
        for path in &mut request.paths {
            if let Some(clean) = path.to_str().and_then(|text| self.redactor.without_secrets(text)) {
                *path = clean.into();
            }
        }
        let mut asked =
            UndecidedCall::of_harness(self.participant.clone(), (&request.tool, &request.arguments));
        if self.remote_session().is_some() {
            asked = asked.left_to_other_side();
        }
        let outcome = asked.outcome();
        self.audit_log.settle(asked, |standing| match standing {
            CallAdmission::Open => Ok(()),
            CallAdmission::Closed | CallAdmission::OverBudget(_) => Err(Denial::Closed),
        })?;
        let answer = self.ask(request).await;
        self.audit_log.settle_approval(&outcome, answer, Effects::None)
    }

    /// Puts a question of the running program to the host, and returns the answer. Values of an answer fit the question's
    /// fields. No answer is recorded.
    ///
    /// A question that nobody can answer is declined: one without a handler ([`Approver::with_questions`]), one with a
    /// faulty form or a secret in a name or a value, and one of a [remote session](Session::remote), which carries no
    /// questions.
    pub async fn question(&self, mut question: AgentQuestion) -> QuestionReply {
        question.participant = self.participant.clone();
        if self.is_closed() {
            return QuestionReply::Cancelled;
        }
        if self.remote_session().is_some() {
            return QuestionReply::declined("a turn on another machine cannot ask its caller");
        }
        if let Err(problem) = question.prepare(&self.redactor) {
            return QuestionReply::declined(problem);
        }
        match &self.approver {
            Some(approver) => approver.question(question).await,
            None => QuestionReply::declined("the host has no approver to ask"),
        }
    }

    async fn ask(&self, request: ApprovalRequest) -> Result<(), Denial> {
        let tool = request.tool.clone();
        if let Some(remote) = self.remote_session() {
            // The transport is the host's code. A panic in it denies the call and does not end the turn.
            let asked = AssertUnwindSafe(async move { remote.approve(request).await }).catch_unwind();
            return asked
                .await
                .unwrap_or_else(|_panic| Err(Denial::not_approved(&tool, NotApproved::Failed)));
        }
        let answer = match &self.approver {
            Some(approver) => approver.approve(request).await,
            None => Err(NotApproved::NobodyAsked),
        };
        answer.map_err(|why| Denial::not_approved(&tool, why))
    }

    /// Decides on one call and answers it, with the tool's answer or the reason of the denial.
    pub async fn call(&self, token: &SessionToken, call: ToolCall) -> ToolResult {
        let answered = self.try_call(token, call).await;
        answered.unwrap_or_else(|denial| ToolResult::error(denial.to_string()))
    }

    /// Like [`Session::call`], with a denial as an error. Runs [`Session::in_order`], [`Session::authorize`] and [`Session::answer`].
    ///
    /// # Errors
    ///
    /// [`Denial`]: the tool did not run.
    pub async fn try_call(&self, token: &SessionToken, call: ToolCall) -> Result<ToolResult, Denial> {
        let _place = self.in_order(&call.name).await;
        let permit = self.authorize(token, &call.name, &call.arguments)?;
        self.answer(call.call, permit).await
    }

    /// Checks the arguments of a call by its tool's rules. A missing tool has no rules.
    pub(super) fn check_arguments(&self, tool: &str, arguments: &Value) -> Result<(), String> {
        if !self.offered().any(|offered| offered.name == tool) {
            return Ok(());
        }
        self.catalogue.answerer.check_arguments(tool, arguments)
    }

    /// Returns the session that decides on the calls of this session, if another one does.
    fn remote_session(&self) -> Option<&dyn RemoteSession> {
        match &self.catalogue.answerer {
            Answerer::Tools(_) => None,
            Answerer::Session(remote) => Some(&**remote),
        }
    }

    /// Returns the tools that are not withdrawn.
    fn offered(&self) -> impl Iterator<Item = &ToolDefinition> + Clone {
        // Copy the names, so that the lock ends before the iteration begins.
        let withdrawn = self.withdrawn().clone();
        self.definitions().iter().filter(move |tool| !withdrawn.contains(&tool.name))
    }

    fn withdrawn(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.withdrawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call after the removal of the turn's secrets.
struct Clean<'a> {
    tool: Cow<'a, str>,
    arguments: Cow<'a, Value>,
}

impl<'a> Clean<'a> {
    fn of(redactor: &Redactor, tool: &'a str, arguments: &'a Value) -> Self {
        Self {
            tool: redactor.without_secrets(tool).map_or(Cow::Borrowed(tool), Cow::Owned),
            arguments: redactor.value_without_secrets(arguments).map_or(Cow::Borrowed(arguments), Cow::Owned),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.definitions().iter().map(|tool| &tool.name).collect();
        f.debug_struct("Session")
            .field("participant", &self.participant)
            .field("tools", &names)
            .field("calls_made", &self.calls_made())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
