//! Messages from one session to the client.

use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, Meta, Notice, NoticeSeverity, SessionId, SessionNotification, SessionUpdate,
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
}

impl SessionClient {
    pub(crate) fn new(out: Outgoing, session: SessionId, shows_notices: bool) -> Self {
        Self { out, session, shows_notices }
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
