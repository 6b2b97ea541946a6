//! Extension methods for [`ExecutionBackend`].

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{
    future::BoxFuture,
    stream::{FusedStream, Stream},
};

use crate::{
    backend::{ExecutionBackend, TurnHost},
    error::TurnError,
    harness::EventQueue,
    turn::{EventEnvelope, NullSink, TurnRequest, TurnResult},
};

/// Methods that every backend has.
pub trait ExecutionBackendExt: ExecutionBackend {
    /// Runs a turn without observing its events, and returns its result.
    ///
    /// # Errors
    ///
    /// Errors of [`ExecutionBackend::run_turn`].
    fn run_text(
        &self,
        request: TurnRequest,
    ) -> impl Future<Output = Result<TurnResult, TurnError>> + Send + '_ {
        async move { self.run_turn(request, TurnHost::new(), &mut NullSink).await }
    }

    /// Runs a turn as a stream of its events, which ends with the outcome. Dropping the stream stops the turn.
    fn stream_turn(self: Arc<Self>, request: TurnRequest, host: TurnHost) -> TurnStream {
        TurnStream::new(self, request, host)
    }
}

impl<B: ExecutionBackend + ?Sized> ExecutionBackendExt for B {}

/// One item of a [`TurnStream`].
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "one outcome comes after many events, and how large it is depends on the features of `serde_json` that others ask for"
)]
pub enum StreamItem {
    /// An event of the turn.
    Event(EventEnvelope),
    /// The end of the turn. It is the last item.
    Outcome(Result<TurnResult, TurnError>),
}

/// The events of a running turn, then its outcome. The turn advances only while the stream is polled, and dropping the stream
/// stops it.
///
/// ```
/// use std::sync::Arc;
/// use futures::StreamExt as _;
/// use nexus_core::{
///     ExecutionBackend, ExecutionBackendExt as _, StreamItem, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult,
/// };
/// # use async_trait::async_trait;
/// # use nexus_core::{
/// #     AccessSupport, Availability, BackendId, Capabilities, EventSink, FinishReason, LoopMode, AccessEnforcer, TextGranularity,
/// #     harness::RunningTurn, turn::{MessageEnded, TextDelta},
/// # };
/// # #[derive(Debug)]
/// # struct Speaker(BackendId);
/// # #[async_trait]
/// # impl ExecutionBackend for Speaker {
/// #     fn id(&self) -> &BackendId {
/// #         &self.0
/// #     }
/// #     fn capabilities(&self) -> Capabilities {
/// #         let mut capabilities = Capabilities::new(LoopMode::Native);
/// #         capabilities.text = TextGranularity::Deltas;
/// #         capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
/// #         capabilities
/// #     }
/// #     async fn probe(&self) -> Availability {
/// #         Availability::ready(None)
/// #     }
/// #     async fn forget(&self, _handle: &nexus_core::ResumeHandle) -> Result<nexus_core::Forgotten, nexus_core::ForgetError> {
/// #         Err(nexus_core::ForgetError::Unsupported { backend: self.0.clone() })
/// #     }
/// #     async fn run_turn(
/// #         &self, request: TurnRequest, host: TurnHost, events: &mut dyn EventSink,
/// #     ) -> Result<TurnResult, TurnError> {
/// #         let mut turn = RunningTurn::begin(&self.0, &self.capabilities(), request, host, events)?;
/// #         turn.event(TextDelta::new("m".into(), "Titan, "));
/// #         turn.event(TextDelta::new("m".into(), "Rhea"));
/// #         turn.event(MessageEnded::new("m".into(), "Titan, Rhea"));
/// #         turn.end(Ok((FinishReason::Stop, None))).await
/// #     }
/// # }
///
/// /// Prints the answer as it comes. `Router::backends` of `nexus-router` returns backends of this type.
/// async fn show(backend: Arc<dyn ExecutionBackend>, request: TurnRequest) -> Result<TurnResult, TurnError> {
///     let mut turn = backend.stream_turn(request, TurnHost::new());
///     while let Some(item) = turn.next().await {
///         match item {
///             StreamItem::Event(envelope) => match envelope.event {
///                 TurnEvent::TextDelta(delta) => print!("{}", delta.text),
///                 // What was shown of the message is to be taken back: another try follows.
///                 TurnEvent::MessageVoided(_) => println!(" (taken back)"),
///                 _ => {}
///             },
///             // Always the last item, and there is one unless the stream is dropped first.
///             StreamItem::Outcome(outcome) => return outcome,
///         }
///     }
///     unreachable!("the outcome ends the stream")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), TurnError> {
/// # let backend = Arc::new(Speaker(BackendId::new("speaker")));
/// let result = show(backend, TurnRequest::new("Name two moons of Saturn.")).await?;
/// assert_eq!(result.text, "Titan, Rhea");
/// # Ok(())
/// # }
/// ```
pub struct TurnStream {
    turn: Option<BoxFuture<'static, Result<TurnResult, TurnError>>>,
    events: EventQueue,
    outcome: Option<Result<TurnResult, TurnError>>,
}

impl TurnStream {
    /// Creates the stream. The turn starts at the first poll.
    pub fn new<B>(backend: Arc<B>, request: TurnRequest, host: TurnHost) -> Self
    where
        B: ExecutionBackend + ?Sized,
    {
        let events = EventQueue::new();
        let mut sink = events.clone();
        let turn = Box::pin(async move { backend.run_turn(request, host, &mut sink).await });
        Self { turn: Some(turn), events, outcome: None }
    }
}

impl fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnStream").field("ended", &self.is_terminated()).finish_non_exhaustive()
    }
}

impl Stream for TurnStream {
    type Item = StreamItem;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Poll the turn even while events wait, so that its limits and its cancellation stay active.
        if let Some(turn) = self.turn.as_mut()
            && let Poll::Ready(outcome) = turn.as_mut().poll(context)
        {
            self.turn = None;
            self.outcome = Some(outcome);
        }
        if let Some(event) = self.events.pop() {
            return Poll::Ready(Some(StreamItem::Event(event)));
        }
        match self.outcome.take() {
            Some(outcome) => Poll::Ready(Some(StreamItem::Outcome(outcome))),
            None if self.turn.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl FusedStream for TurnStream {
    fn is_terminated(&self) -> bool {
        self.turn.is_none() && self.outcome.is_none() && self.events.is_empty()
    }
}
