//! [`ExecutionBackend`] for any [`Dialect`](super::dialect::Dialect).

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use futures::future::BoxFuture;
use nexus_core::{
    Availability, BackendId, Capabilities, ConversationMode, CostReport, Enforcement, EventSink,
    ExecutionBackend, ForgetError, Forgotten, ModelListError, ModelListing, ResumeHandle, TurnError,
    TurnHost, TurnRequest, TurnResult,
    harness::{TurnSpan, admit},
};

use super::model_list;
use super::model_server::ModelServer;
use super::probe::probe;
use super::turn_loop::TurnLoop;
use super::wires::{holds_conversation, is_of_this_loop};

/// One server, as an [`ExecutionBackend`].
#[derive(Debug)]
pub(crate) struct NativeBackend(pub(crate) ModelServer);

#[async_trait]
impl ExecutionBackend for NativeBackend {
    fn id(&self) -> &BackendId {
        &self.0.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.dialect.capabilities();
        capabilities.server = self.0.transport.server();
        if capabilities.cost == CostReport::Never && !self.0.prices.is_empty() {
            capabilities.cost = CostReport::Estimated;
            capabilities.limits = capabilities.limits.with_cost(Enforcement::Ours);
        }
        capabilities
    }

    async fn probe(&self) -> Availability {
        probe(&self.0).await
    }

    // The handle of every native backend contains the conversation, in a form that each wire can read.
    fn can_resume(&self, handle: &ResumeHandle) -> bool {
        is_of_this_loop(handle)
    }

    async fn models(&self) -> Result<ModelListing, ModelListError> {
        model_list::offered(&self.0).await
    }

    fn project_instructions(&self, folder: &Path) -> Vec<PathBuf> {
        self.0.surroundings.project_files(folder)
    }

    // Nothing to delete: neither this machine nor the server (`store: false`) stores a conversation.
    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        ForgetError::unless_of(&self.0.id, handle)?;
        match holds_conversation(handle) {
            true => Ok(Forgotten::InHandle),
            false => Err(ForgetError::InvalidHandle { backend: self.0.id.clone() }),
        }
    }

    // Equal to the expansion of `async_trait`, but without its box: a future keeps its arguments in memory as long as
    // it lives.
    fn run_turn<'s, 'e, 't>(
        &'s self,
        request: TurnRequest,
        host: TurnHost,
        events: &'e mut dyn EventSink,
    ) -> BoxFuture<'t, Result<TurnResult, TurnError>>
    where
        's: 't,
        'e: 't,
        Self: 't,
    {
        let asked = Box::new((request, host));
        Box::pin(async move {
            let (span, turn) = self.begin(asked);
            span.run(async move { turn?.run(events).await }).await
        })
    }
}

impl NativeBackend {
    /// Returns the turn if it is admitted. It has its own box, because it is large.
    fn begin(&self, asked: Box<(TurnRequest, TurnHost)>) -> (TurnSpan, Result<Box<TurnLoop<'_>>, TurnError>) {
        let (mut request, host) = *asked;
        if let ConversationMode::Resume { handle, .. } = &mut request.conversation
            && self.can_resume(handle)
        {
            *handle = handle.clone().of_backend(self.0.id.clone());
        }
        let capabilities = self.capabilities();
        let steered = host.steered(capabilities.steering);
        let span = TurnSpan::new(&self.0.id, &capabilities, &request);
        let turn = match admit(&self.0.id, &capabilities, &request, &host) {
            Ok(()) => Ok(Box::new(TurnLoop::new(&self.0, request, host, steered, &span))),
            Err(failure) => Err(failure.into_error(self.0.id.clone())),
        };
        (span, turn)
    }
}
