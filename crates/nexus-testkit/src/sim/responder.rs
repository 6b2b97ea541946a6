//! Replies that depend on the conversation.

use std::{fmt, sync::Arc};

use super::{conversation::Conversation, reply::Reply};

/// Computes the reply to a call from its conversation. A script cannot do that, since the reply depends on a tool result.
#[derive(Clone)]
pub(super) struct Responder(Arc<MakeReply>);

type MakeReply = dyn Fn(&Conversation) -> Option<Reply> + Send + Sync;

impl Responder {
    pub(super) fn new(reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self(Arc::new(reply))
    }

    /// Returns the reply. `None` leaves the reply to the script.
    pub(super) fn reply(&self, conversation: &Conversation) -> Option<Reply> {
        (self.0)(conversation)
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}
