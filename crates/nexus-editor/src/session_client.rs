//! Messages from one session to the client.

use agent_client_protocol_schema::v1::{
    ClientCapabilities, ContentBlock, ContentChunk, ElicitationCapabilities, Meta, Notice, NoticeSeverity,
    SessionId, SessionNotification, SessionUpdate,
};
use serde_json::Value;

use crate::{client_text::harmless, outgoing::Outgoing};

/// The client from the point of view of one session.
#[derive(Clone, Debug)]
pub(crate) struct SessionClient {
    pub(crate) out: Outgoing,
    pub(crate) session: SessionId,
    /// True if the client shows notices.
    shows_notices: bool,
    /// Kinds of questions that the client shows.
    pub(crate) questions: ElicitationCapabilities,
}

impl SessionClient {
    pub(crate) fn new(out: Outgoing, session: SessionId, capabilities: Option<&ClientCapabilities>) -> Self {
        let of_sessions = capabilities.and_then(|client| client.session.as_ref());
        let questions = capabilities.and_then(|client| client.elicitation.clone());
        Self {
            out,
            session,
            shows_notices: of_sessions.is_some_and(|sessions| sessions.notices.is_some()),
            questions: questions.unwrap_or_default(),
        }
    }

    pub(crate) fn update(&self, update: SessionUpdate) {
        self.out.notify("session/update", &SessionNotification::new(self.session.clone(), update));
    }

    /// Sends a message to the user outside of the answer: as a notice, or as a thought if the client has no notices. `data`
    /// has the same content for programs.
    pub(crate) fn notice(&self, severity: NoticeSeverity, text: &str, data: Value) {
        let (text, meta) = (harmless(text), meta(data));
        self.update(match self.shows_notices {
            true => SessionUpdate::Notice(Notice::new(severity, text).meta(meta)),
            false => SessionUpdate::AgentThoughtChunk(
                ContentChunk::new(ContentBlock::from(format!("[nexus] {text}\n\n"))).meta(meta),
            ),
        });
    }
}

/// Wraps data for programs under Nexus's own key.
pub(crate) fn meta(data: Value) -> Meta {
    Meta::from_iter([("nexus".to_owned(), data)])
}
