//! Sessions: each is a conversation of one agent, apart from all others.

use std::{fmt, str::FromStr};

use nexus_conversation::{ConversationError, ConversationName, ConversationSummary, Conversations};

use crate::{
    error::{BrokerError, BrokerErrorKind},
    memory::MemoryIndex,
    message::Address,
};

/// What the conversations of sessions are called at the beginning.
const PREFIX: &str = "agent.";
/// The session of messages that name none.
pub(crate) const MAIN: &str = "main";

/// Which session of which agent: `agent:NAME:CONTEXT`.
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
    /// The session that a message to this address goes into.
    pub(crate) fn of(agent: &str, target: &Address) -> Self {
        let context = match target {
            Address::Session { context, .. } => context,
            _ => MAIN,
        };
        Self { agent: agent.to_owned(), context: context.to_owned() }
    }

    /// The agent.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Which of its sessions.
    #[must_use]
    pub fn context(&self) -> &str {
        &self.context
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::Session { agent: self.agent.clone(), context: self.context.clone() }
    }

    /// The conversation that it is. No two sessions have one: names have no dot.
    #[must_use]
    pub fn conversation(&self) -> ConversationName {
        let name = format!("{PREFIX}{}.{}", self.agent, self.context).parse();
        name.expect("two names of 40 bytes and what stands between them are a name")
    }

    /// The session that a conversation is. `None` for one that is no session.
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
            _ => Err(BrokerError::new(
                BrokerErrorKind::Invalid,
                format!("{text:?} is no session"),
                "write agent:NAME:CONTEXT",
            )),
        }
    }
}

/// The sessions of a home. Every call reads or writes files: in async code, call it by the runtime's `spawn_blocking`.
#[derive(Clone, Debug)]
pub struct Sessions {
    conversations: Conversations,
    memory: MemoryIndex,
}

impl Sessions {
    /// Sessions that are these conversations, found again in this index.
    #[must_use]
    pub fn new(conversations: Conversations, memory: MemoryIndex) -> Self {
        Self { conversations, memory }
    }

    /// Every session, by its key.
    ///
    /// # Errors
    ///
    /// [`Failed`](BrokerErrorKind::Failed), and [`Damaged`](BrokerErrorKind::Damaged) for one that cannot be read.
    pub fn list(&self) -> Result<Vec<(SessionKey, ConversationSummary)>, BrokerError> {
        let list = self.conversations.list().map_err(|error| of_conversation(&error))?;
        if let Some(error) = list.unreadable.first() {
            return Err(of_conversation(error));
        }
        let keyed = |summary: ConversationSummary| {
            SessionKey::of_conversation(&summary.name).map(|key| (key, summary))
        };
        Ok(list.conversations.into_iter().filter_map(keyed).collect())
    }

    /// A session up to one of its messages, counted from 1, as a further one. Nothing is copied: both have the messages up to there, and
    /// those stay for as long as one of the two is there.
    ///
    /// # Errors
    ///
    /// [`Conflict`](BrokerErrorKind::Conflict) if there is such a session, [`Unknown`](BrokerErrorKind::Unknown) if there is no `from`,
    /// [`Invalid`](BrokerErrorKind::Invalid) for a message that it does not have.
    pub fn fork(
        &self,
        from: &SessionKey,
        to: &SessionKey,
        at: Option<u64>,
    ) -> Result<ConversationSummary, BrokerError> {
        let fork = self.conversations.fork(&from.conversation(), &to.conversation(), at);
        let fork = fork.map_err(|error| of_conversation(&error))?;
        // What both have is found in the one that it comes from.
        self.memory.begin_behind(to, fork.messages)?;
        Ok(fork)
    }
}

/// A failure of a conversation as one of the broker.
pub(crate) fn of_conversation(error: &ConversationError) -> BrokerError {
    use nexus_conversation::ConversationErrorKind as Kind;
    let kind = match error.kind() {
        Kind::Unknown => BrokerErrorKind::Unknown,
        Kind::NameTaken | Kind::InUse => BrokerErrorKind::Conflict,
        Kind::Damaged | Kind::NewerVersion => BrokerErrorKind::Damaged,
        Kind::NoSpace => BrokerErrorKind::NoSpace,
        Kind::InvalidName | Kind::NoSuchMessage => BrokerErrorKind::Invalid,
        _ => BrokerErrorKind::Failed,
    };
    BrokerError::new(kind, error.to_string(), "")
}
