//! The sessions of a home: each is a conversation of one agent, apart from all others.

use nexus_conversations::{ConversationSummary, Conversations};

use crate::{
    error::{BrokerError, of_conversation},
    session_key::SessionKey,
};

/// The sessions of a home. Every call reads or writes files: in async code, call it inside `spawn_blocking`.
#[derive(Clone, Debug)]
pub struct Sessions {
    conversations: Conversations,
}

/// Result of [`Sessions::list`].
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct SessionList {
    /// Readable sessions, by key.
    pub sessions: Vec<(SessionKey, ConversationSummary)>,
    /// Errors of the unreadable sessions.
    pub unreadable: Vec<BrokerError>,
}

impl Sessions {
    /// Returns the sessions among these conversations.
    #[must_use]
    pub fn new(conversations: Conversations) -> Self {
        Self { conversations }
    }

    /// Returns every session, by its key, and an error for each unreadable one.
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

    /// Forks a session at one of its messages, counted from 1, as a new session. Nothing is copied: both share
    /// the messages up to there, which stay for as long as one of the two exists.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::BrokerErrorKind::Conflict) if the session exists,
    /// [`Unknown`](crate::BrokerErrorKind::Unknown) if `from` does not,
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
