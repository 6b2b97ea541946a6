//! Splits a response body into events, by its framing.

use bytes::Bytes;

use super::call_route::StreamFraming;
use super::frame_splitter::{FrameSplitter, StreamFault};
use super::sse::{Event, EventSplitter};

/// Splitter of a body with any framing.
#[derive(Debug)]
pub(crate) enum StreamSplitter {
    Sse(Box<EventSplitter>),
    Aws(FrameSplitter),
}

impl StreamSplitter {
    /// Creates a splitter for events of up to `max_event_bytes` bytes.
    pub(crate) fn new(framing: StreamFraming, max_event_bytes: usize) -> Self {
        match framing {
            StreamFraming::Sse => Self::Sse(Box::new(EventSplitter::new(max_event_bytes))),
            StreamFraming::AwsEventStream => Self::Aws(FrameSplitter::new(max_event_bytes)),
        }
    }

    /// Adds the next chunk of the body. The previous chunk must be fully read.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Sse(splitter) => splitter.push(chunk),
            Self::Aws(splitter) => splitter.push(&chunk),
        }
    }

    /// Returns the next complete event; `None` if more input is needed.
    pub(crate) fn next(&mut self) -> Result<Option<Event<'_>>, StreamFault> {
        match self {
            Self::Sse(splitter) => Ok(splitter.next()?),
            Self::Aws(splitter) => splitter.next(),
        }
    }

    /// Returns the last event at the end of the body. A binary message that the end cuts off is none.
    pub(crate) fn finish(&mut self) -> Result<Option<Event<'_>>, StreamFault> {
        match self {
            Self::Sse(splitter) => Ok(splitter.finish()?),
            Self::Aws(splitter) => splitter.next(),
        }
    }
}
