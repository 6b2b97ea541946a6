//! The sessions of a home: each is a conversation of one agent, apart from all others.

use nexus_conversations::{ConversationSummary, Conversations};

use crate::{
    error::{BrokerError, of_conversation},
    session_key::SessionKey,
};

/// The sessions of a home. Every call reads or writes files: in async code, call it by the runtime's `spawn_blocking`.
#[derive(Clone, Debug)]
pub struct Sessions {
    conversations: Conversations,
}

/// The sessions of a home.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct SessionList {
    /// By key.
    pub sessions: Vec<(SessionKey, ConversationSummary)>,
    /// Why others cannot be read.
    pub unreadable: Vec<BrokerError>,
}

impl Sessions {
    /// Sessions that are these conversations.
    #[must_use]
    pub fn new(conversations: Conversations) -> Self {
        Self { conversations }
    }

    /// Every session, by its key. What cannot be read is told beside them.
    ///
    /// # Errors
    ///
    /// [`Failed`](crate::BrokerErrorKind::Failed) if the folder cannot be read.
    pub fn list(&self) -> Result<SessionList, BrokerError> {
        let list = self.conversations.list().map_err(of_conversation)?;
        let keyed = |summary: ConversationSummary| {
            SessionKey::of_conversation(&summary.name).map(|key| (key, summary))
        };
        Ok(SessionList {
            sessions: list.conversations.into_iter().filter_map(keyed).collect(),
            unreadable: list.unreadable.into_iter().map(of_conversation).collect(),
        })
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
        fork.map_err(of_conversation)
    }
}
