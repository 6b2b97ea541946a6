//! Replies that depend on the conversation.

use std::{fmt, sync::Arc};

use super::{conversation::Conversation, reply::Reply};

/// Makes the reply to a call from its conversation, where a script cannot: what comes next depends on what a tool answered.
#[derive(Clone)]
pub(super) struct Responder(Arc<MakeReply>);

type MakeReply = dyn Fn(&Conversation) -> Option<Reply> + Send + Sync;

impl Responder {
    pub(super) fn new(reply: impl Fn(&Conversation) -> Option<Reply> + Send + Sync + 'static) -> Self {
        Self(Arc::new(reply))
    }

    /// The reply, unless the script is to give it.
    pub(super) fn reply(&self, conversation: &Conversation) -> Option<Reply> {
        (self.0)(conversation)
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}
