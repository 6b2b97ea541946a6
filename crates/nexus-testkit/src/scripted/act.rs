//! Scripts as data.

use std::{fmt, sync::Arc, time::Duration};

use nexus_core::{AgentQuestion, ApprovalRequest, ErrorKind, FinishReason, TurnEvent};
use serde_json::Value;
use tokio::sync::{Barrier, Semaphore};

/// One thing that a scripted backend does in a turn.
#[derive(Clone)]
pub enum Act {
    /// Sends an event.
    Tell(TurnEvent),
    /// Sends a whole message.
    Say(String),
    /// Calls a tool of the caller's. No event reports the call.
    Call(&'static str, Value),
    /// Requests an approval. If it is denied, the acts up to the end of the call `c1` are skipped, and the call ends as denied.
    Ask(ApprovalRequest),
    /// Puts a question to the host, and says the reply as a message.
    Question(AgentQuestion),
    /// Performs the acts that this computes from the results of the turn's calls.
    Then(Arc<ByAnswers>),
    /// Performs a side effect outside of any tool.
    Beside(Arc<dyn Fn() + Send + Sync>),
    /// Waits at the barrier until enough turns have reached it.
    Meet(Arc<Barrier>),
    /// Waits until the test adds a permit, and takes it.
    Wait(Arc<Semaphore>),
    /// States the cost of the turn in US dollars.
    Cost(f64),
    /// Waits until the turn is cancelled or out of time.
    Hang,
    /// Panics.
    Panic,
    /// Fails, without a message.
    Fail(ErrorKind),
    /// Fails with a message.
    FailSaying(ErrorKind, &'static str),
    /// Refuses the turn, and takes turns again after this time.
    Refuse(ErrorKind, Duration),
    /// Sets why the model stopped.
    Finish(FinishReason),
}

/// Computes acts from answers.
pub type ByAnswers = dyn Fn(&[String]) -> Vec<Act> + Send + Sync;

impl Act {
    /// [`Act::Then`]
    pub fn then(compute: impl Fn(&[String]) -> Vec<Self> + Send + Sync + 'static) -> Self {
        Self::Then(Arc::new(compute))
    }

    /// [`Act::Beside`]
    pub fn beside(effect: impl Fn() + Send + Sync + 'static) -> Self {
        Self::Beside(Arc::new(effect))
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tell(event) => f.debug_tuple("Tell").field(event).finish(),
            Self::Say(text) => f.debug_tuple("Say").field(text).finish(),
            Self::Call(tool, arguments) => f.debug_tuple("Call").field(tool).field(arguments).finish(),
            Self::Fail(kind) => f.debug_tuple("Fail").field(kind).finish(),
            _ => f.write_str("Act"),
        }
    }
}

/// A turn that answers with `text`.
pub fn answer(text: impl Into<String>) -> Vec<Act> {
    vec![Act::Say(text.into())]
}
