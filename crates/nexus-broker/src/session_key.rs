//! Keys of sessions.

use std::{fmt, str::FromStr};

use nexus_conversations::ConversationName;

use crate::{error::BrokerError, message::Address};

/// Prefix of the names of conversations that are sessions.
const PREFIX: &str = "agent.";
/// Context of messages whose address names no session.
pub(crate) const MAIN: &str = "main";

/// Key of a session of an agent: `agent:NAME:CONTEXT`.
///
/// ```
/// use nexus_broker::SessionKey;
///
/// let key: SessionKey = "agent:poet:main".parse()?;
/// assert_eq!((key.agent(), key.context()), ("poet", "main"));
/// assert_eq!(key.conversation().as_str(), "agent.poet.main");
/// # Ok::<(), nexus_broker::BrokerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    agent: String,
    context: String,
}

impl SessionKey {
    /// Returns the session of `agent` that handles a message to `target`.
    pub(crate) fn of(agent: &str, target: &Address) -> Self {
        let context = match target {
            Address::Session { context, .. } => context,
            _ => MAIN,
        };
        Self { agent: agent.to_owned(), context: context.to_owned() }
    }

    /// Returns the name of the agent.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Returns the context of the session.
    #[must_use]
    pub fn context(&self) -> &str {
        &self.context
    }

    /// Returns the address of the session.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::Session { agent: self.agent.clone(), context: self.context.clone() }
    }

    /// Returns the name of the session's conversation. It is unique, because names of agents and contexts contain no dot.
    #[must_use]
    pub fn conversation(&self) -> ConversationName {
        let name = format!("{PREFIX}{}.{}", self.agent, self.context).parse();
        name.expect("the prefix, two names of at most 40 bytes and a dot form a valid name")
    }

    /// Returns the session of a conversation. `None` if the conversation is not a session.
    #[must_use]
    pub fn of_conversation(name: &ConversationName) -> Option<Self> {
        let (agent, context) = name.as_str().strip_prefix(PREFIX)?.split_once('.')?;
        format!("agent:{agent}:{context}").parse().ok()
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent:{}:{}", self.agent, self.context)
    }
}

impl FromStr for SessionKey {
    type Err = BrokerError;

    fn from_str(text: &str) -> Result<Self, BrokerError> {
        match text.parse()? {
            Address::Session { agent, context } => Ok(Self { agent, context }),
            _ => Err(BrokerError::invalid(format!("{text:?} is not a session"), "write agent:NAME:CONTEXT")),
        }
    }
}
