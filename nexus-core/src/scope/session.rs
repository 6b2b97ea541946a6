//! The one gate.

use std::{
    fmt,
    ops::Deref,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::{Map, Value};

use super::{
    Decision, DecisionLog, Denial, ParticipantScope, PathAccess, SessionToken, Verdict, budget::Budget,
};
use crate::id::{CallId, ParticipantId};
use crate::tool::{ToolCall, ToolDefinition, ToolResult, ToolRouter};

/// Holds one participant to its scope: every call of a tool passes [`Session::authorize`], whatever carried it.
///
/// A session is minted for one participant, with a token that lives in memory alone. Whoever runs a turn mints one
/// below it, by [`Session::for_turn`], which ends with the turn: its token is of no use afterwards. The two share
/// the decisions; the calls of a turn count for both budgets.
///
/// ```
/// use std::sync::Arc;
/// use nexus_core::{ParticipantScope, Session, Tool, Toolbox, TurnHost, Verdict};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let tools = Toolbox::new().with(Tool::without_arguments("noon", "Says when.", || async { "12:00" }));
/// let session = Session::mint("clerk", ParticipantScope::unrestricted(), Arc::new(tools));
/// let answer = session.call(session.token(), nexus_core::ToolCall::new("1", "midnight", ().into())).await;
/// assert!(answer.is_error);
/// assert!(matches!(session.decisions()[0].verdict, Verdict::Denied(_)));
/// let host = TurnHost::new().with_session(session);
/// # let _ = host; }
/// ```
pub struct Session {
    participant: ParticipantId,
    scope: Arc<ParticipantScope>,
    token: SessionToken,
    catalogue: Arc<Catalogue>,
    budget: Arc<Budget>,
    log: DecisionLog,
    is_closed: AtomicBool,
    above: Option<Arc<Session>>,
}

/// The tools of a scope.
struct Catalogue {
    tools: Arc<dyn ToolRouter>,
    definitions: Vec<ToolDefinition>,
}

impl Catalogue {
    fn find(&self, name: &str) -> Option<&ToolDefinition> {
        self.definitions.iter().find(|tool| tool.name == name)
    }
}

/// That a call may be made. Only [`Session::authorize`] makes one, and only [`Session::answer`] takes it.
#[derive(Debug)]
pub struct Permit<'s> {
    definition: &'s ToolDefinition,
    arguments: Value,
}

impl Permit<'_> {
    /// The tool.
    pub fn definition(&self) -> &ToolDefinition {
        self.definition
    }

    /// The arguments as the tool gets them: each path is the one that was checked.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }
}

impl Session {
    /// A session of `participant`, which may use those of `tools` that are in `scope`. The tools are listed now:
    /// one that is added later is not in the session.
    pub fn mint(
        participant: impl Into<ParticipantId>,
        scope: ParticipantScope,
        tools: Arc<dyn ToolRouter>,
    ) -> Arc<Self> {
        Self::mint_with_budget(participant, scope, tools, None)
    }

    /// As [`Session::mint`]; `tool_calls` calls may be made in all, those of terminal tools excepted.
    pub fn mint_with_budget(
        participant: impl Into<ParticipantId>,
        scope: ParticipantScope,
        tools: Arc<dyn ToolRouter>,
        tool_calls: impl Into<Option<u32>>,
    ) -> Arc<Self> {
        let definitions = tools.definitions();
        let in_scope = definitions.into_iter().filter(|tool| scope.allows_tool(&tool.name)).collect();
        Arc::new(Self {
            participant: participant.into(),
            scope: Arc::new(scope),
            token: SessionToken::random(),
            catalogue: Arc::new(Catalogue { tools, definitions: in_scope }),
            budget: Arc::new(Budget::of(tool_calls.into())),
            log: DecisionLog::new(),
            is_closed: AtomicBool::new(false),
            above: None,
        })
    }

    /// A session for one turn of this one's participant: with a token of its own, and closed when the guard is
    /// dropped. `tool_calls` is what the turn may make, beside what is left of this session's budget.
    pub fn for_turn(self: &Arc<Self>, tool_calls: Option<u32>) -> TurnSession {
        TurnSession(Arc::new(Self {
            participant: self.participant.clone(),
            scope: Arc::clone(&self.scope),
            token: SessionToken::random(),
            catalogue: Arc::clone(&self.catalogue),
            budget: Arc::new(Budget::below(&self.budget, tool_calls)),
            log: self.log.clone(),
            is_closed: AtomicBool::new(false),
            above: Some(Arc::clone(self)),
        }))
    }

    /// The session as a router, for a loop that knows nothing of tokens.
    pub fn router(self: &Arc<Self>) -> Arc<dyn ToolRouter> {
        Arc::new(SessionRouter(Arc::clone(self)))
    }

    /// Whose session it is.
    pub fn participant(&self) -> &ParticipantId {
        &self.participant
    }

    /// What the participant may use and touch.
    pub fn scope(&self) -> &ParticipantScope {
        &self.scope
    }

    /// What a caller must show.
    pub fn token(&self) -> &SessionToken {
        &self.token
    }

    /// The tools in scope, in the order in which the model should see them. There are no others, as far as anybody
    /// can tell from here.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.catalogue.definitions
    }

    /// Every decision so far, those of the turns included.
    pub fn decisions(&self) -> Vec<Decision> {
        self.log.decisions()
    }

    /// The decisions, as they go on.
    pub fn log(&self) -> &DecisionLog {
        &self.log
    }

    /// Calls that counted so far: every call with this token but those of terminal tools, and those of turns below.
    pub fn calls_made(&self) -> u32 {
        self.budget.spent()
    }

    /// Ends the session: every later call is denied. Calls under way go on.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Whether the session, or the one it was minted from, has ended.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst) || self.above.as_ref().is_some_and(|above| above.is_closed())
    }

    /// Decides on one call, and records the decision.
    ///
    /// A call counts for the budget whatever is decided, unless its tool is terminal or its token is wrong: a model
    /// that calls what it does not have comes to an end, too.
    ///
    /// # Errors
    ///
    /// [`Denial`]: the tool is not to be asked.
    pub fn authorize(
        &self,
        token: &SessionToken,
        tool: &str,
        arguments: &Value,
    ) -> Result<Permit<'_>, Denial> {
        let decided = self.decide(token, tool, arguments);
        let verdict = match &decided {
            Ok(_) => Verdict::Allowed,
            Err(denial) => Verdict::Denied(denial.clone()),
        };
        let shown = if matches!(decided, Err(Denial::WrongToken)) { &Value::Null } else { arguments };
        self.log.add(Decision::new(self.participant.clone(), tool, shown, verdict));
        decided
    }

    fn decide(&self, token: &SessionToken, tool: &str, arguments: &Value) -> Result<Permit<'_>, Denial> {
        if !self.token.is(token) {
            return Err(Denial::WrongToken);
        }
        if self.is_closed() {
            return Err(Denial::Closed);
        }
        let definition = self.catalogue.find(tool);
        if !definition.is_some_and(|tool| tool.terminal) {
            self.budget
                .spend()
                .map_err(|budget| Denial::OverBudget { budget, terminal: self.terminal_tools() })?;
        }
        let definition = definition.ok_or_else(|| Denial::UnknownTool {
            name: tool.chars().take(100).collect(),
            known: self.definitions().iter().map(|tool| tool.name.clone()).collect(),
        })?;
        let mut arguments = match arguments {
            Value::Object(_) => arguments.clone(),
            // No arguments at all are what some models write for a tool that takes none.
            Value::Null => Value::Object(Map::new()),
            _ => return Err(Denial::NotAnObject { tool: tool.to_owned() }),
        };
        for path in &definition.paths {
            let mut pointers = path.pointer.split('/').skip(1);
            self.check_paths(definition, &mut arguments, &mut pointers, "", path.access)?;
        }
        Ok(Permit { definition, arguments })
    }

    /// Checks every path at `rest` of a pointer below `value`, and puts the checked one in its place.
    fn check_paths<'p>(
        &self,
        tool: &ToolDefinition,
        value: &mut Value,
        rest: &mut (impl Iterator<Item = &'p str> + Clone),
        place: &str,
        access: PathAccess,
    ) -> Result<(), Denial> {
        let not_a_path =
            || Denial::NotAPath { tool: tool.name.clone(), pointer: place.chars().take(200).collect() };
        let Some(step) = rest.next() else {
            return match value {
                // An optional argument that is not given.
                Value::Null => Ok(()),
                Value::String(path) => {
                    let checked = self
                        .scope
                        .check_path(path, access)
                        .map_err(|denial| Denial::Path { tool: tool.name.clone(), denial })?;
                    let checked = checked.into_os_string().into_string().map_err(|_| not_a_path())?;
                    *path = checked;
                    Ok(())
                }
                _ => Err(not_a_path()),
            };
        };
        let name = step.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Array(items) if step == "*" => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.check_paths(tool, item, &mut rest.clone(), &format!("{place}/{index}"), access)?;
                }
                Ok(())
            }
            Value::Object(fields) => match fields.get_mut(&name) {
                Some(field) => self.check_paths(tool, field, rest, &format!("{place}/{step}"), access),
                None => Ok(()),
            },
            Value::Null => Ok(()),
            _ => Err(not_a_path()),
        }
    }

    fn terminal_tools(&self) -> Vec<String> {
        let terminal = self.definitions().iter().filter(|tool| tool.terminal);
        terminal.map(|tool| tool.name.clone()).collect()
    }

    /// Asks the tool, as the permit says.
    pub async fn answer(&self, call: CallId, permit: Permit<'_>) -> ToolResult {
        let name = permit.definition.name.as_str();
        let call = ToolCall::new(call, name, permit.arguments);
        // Also the making of the future may panic, so that happens inside.
        let answered = AssertUnwindSafe(async move { self.catalogue.tools.call(call).await });
        let result = answered.catch_unwind().await;
        result.unwrap_or_else(|_| ToolResult::error(format!("the tool {name} broke down")))
    }

    /// Decides on one call and has it answered: by the tool if it may be asked, else by why not.
    pub async fn call(&self, token: &SessionToken, call: ToolCall) -> ToolResult {
        match self.authorize(token, &call.name, &call.arguments) {
            Ok(permit) => self.answer(call.call, permit).await,
            Err(denial) => ToolResult::error(denial.to_string()),
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

/// The session of one turn, closed when this is dropped.
#[derive(Debug)]
pub struct TurnSession(Arc<Session>);

impl TurnSession {
    /// The session, for whoever serves it as long as the turn runs. It is closed with this guard all the same.
    pub fn share(&self) -> Arc<Session> {
        Arc::clone(&self.0)
    }
}

impl Deref for TurnSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for TurnSession {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Calls through the gate, with the session's own token.
#[derive(Debug)]
struct SessionRouter(Arc<Session>);

#[async_trait]
impl ToolRouter for SessionRouter {
    fn definitions(&self) -> Vec<ToolDefinition> {
        self.0.definitions().to_vec()
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        self.0.call(self.0.token(), call).await
    }
}
