//! Interface between the loop and the reader of a wire's stream.

use http::HeaderMap;
use nexus_core::{MessageId, TurnEvent};

use super::reply::ModelReply;
use super::sse::Event;

/// Reader of one model call. It converts the events of a wire into turn events and, at the end, the reply.
pub(crate) trait WireReader: Send {
    /// Stores the response headers that matter to an error in the stream.
    fn answer_has(&mut self, headers: &HeaderMap);

    /// Reads bytes of the stream before they are split into events. Default: does nothing.
    fn received(&mut self, _bytes: &[u8]) {}

    /// Reads one event of the stream, and appends turn events for the caller to `events`. Ignores everything after the
    /// terminal event.
    fn event(&mut self, event: Event<'_>, events: &mut Vec<TurnEvent>);

    /// Reads a complete reply, from a server that does not stream.
    fn whole(&mut self, body: &[u8], events: &mut Vec<TurnEvent>);

    /// Returns true after the terminal event.
    fn is_finished(&self) -> bool;

    /// Records that reading the body failed, so that something may be missing. Default: does nothing.
    fn body_broke(&mut self) {}

    /// Returns true if only an addition to the end is missing, such as the reason of a failure. It is waited for
    /// briefly.
    fn awaits_rest(&self) -> bool;

    /// Returns the messages sent so far, which must be retracted if the call is repeated.
    fn shown(&self) -> &[MessageId];

    /// Ends the reading, and emits the end of each complete message.
    fn into_reply(self: Box<Self>, events: &mut Vec<TurnEvent>) -> ModelReply;
}
