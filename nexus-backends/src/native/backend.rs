//! [`ExecutionBackend`] for any [`Dialect`](super::dialect::Dialect).

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures::future::BoxFuture;
use nexus_core::{
    Availability, BackendId, Capabilities, EventSink, ExecutionBackend, ForgetError, Forgotten, ResumeHandle,
    TurnError, TurnHost, TurnRequest, TurnResult,
    harness::{TurnSpan, admit},
};

use super::model_server::ModelServer;
use super::turn_loop::TurnLoop;
use super::wires::holds_conversation;

/// Time limit of a probe for the server's response.
const REACH_PATIENCE: Duration = Duration::from_secs(5);
/// Clock difference between a server and this machine above which a probe reports it. Tokens expire by these clocks.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(120);

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
        capabilities
    }

    async fn probe(&self) -> Availability {
        let standing = match &self.0.credential {
            Some(source) => source.standing().await.map(drop).map_err(|error| error.to_string()),
            None => self.0.dialect.credential_remedy().map_or(Ok(()), |remedy| Err(remedy.to_owned())),
        };
        if let Err(remedy) = standing {
            return Availability::Unauthenticated { remedy };
        }
        match self.0.transport.reach(REACH_PATIENCE).await {
            Ok(date) => {
                let skew = date.and_then(|date| clock_note(date, SystemTime::now()));
                Availability::Ready { version: None, notes: skew.into_iter().collect() }
            }
            Err(error) => {
                Availability::Unusable { reason: format!("{:?}: {error}", self.0.transport.place()) }
            }
        }
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
        let (request, host) = *asked;
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

/// Returns a note if the server's clock differs much from this machine's.
fn clock_note(server: SystemTime, now: SystemTime) -> Option<String> {
    let (apart, which) = match now.duration_since(server) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    (apart > CLOCK_TOLERANCE).then(|| {
        format!("the clock of this machine is {} minutes {which} the server's", apart.as_secs() / 60)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_far_apart_are_told() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let told = |server| clock_note(server, now);
        assert_eq!(told(now - Duration::from_secs(120)), None);
        let said = "the clock of this machine is 10 minutes ahead of the server's";
        assert_eq!(told(now - Duration::from_secs(600)).as_deref(), Some(said));
        let said = "the clock of this machine is 10 minutes behind the server's";
        assert_eq!(told(now + Duration::from_secs(600)).as_deref(), Some(said));
    }
}
