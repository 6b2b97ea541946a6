//! The sessions of a home: each is a conversation of one agent, apart from all others.

use nexus_conversation::{ConversationSummary, Conversations};

use crate::{error::BrokerError, memory::MemoryIndex, session_key::SessionKey};

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
    /// [`Failed`](crate::BrokerErrorKind::Failed), and [`Damaged`](crate::BrokerErrorKind::Damaged) for one that cannot be read.
    pub fn list(&self) -> Result<Vec<(SessionKey, ConversationSummary)>, BrokerError> {
        let list = self.conversations.list().map_err(|error| BrokerError::of_conversation(&error))?;
        if let Some(error) = list.unreadable.first() {
            return Err(BrokerError::of_conversation(error));
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
    /// [`Conflict`](crate::BrokerErrorKind::Conflict) if there is such a session, [`Unknown`](crate::BrokerErrorKind::Unknown) if there is no `from`,
    /// [`Invalid`](crate::BrokerErrorKind::Invalid) for a message that it does not have.
    pub fn fork(
        &self,
        from: &SessionKey,
        to: &SessionKey,
        at: Option<u64>,
    ) -> Result<ConversationSummary, BrokerError> {
        let fork = self.conversations.fork(&from.conversation(), &to.conversation(), at);
        let fork = fork.map_err(|error| BrokerError::of_conversation(&error))?;
        // What both have is found in the one that it comes from.
        self.memory.begin_behind(to, fork.messages)?;
        Ok(fork)
    }
}
