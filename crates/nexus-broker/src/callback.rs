//! Messages for callers, delivered as they arrive instead of fetched from an inbox.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use nexus_core::CancelToken;

use crate::{
    broker::Broker,
    error::{BrokerError, BrokerErrorKind},
    message::{Address, Envelope, MessagePriority},
    route::queue_of,
    store::Delivery,
};

/// Lease of a message while it is delivered.
const LEASE: Duration = Duration::from_secs(60);
/// Longest delivery. Shorter than the lease, so that no second one begins meanwhile.
const LONGEST_DELIVERY: Duration = Duration::from_secs(30);
/// Longest wait for a message before the queue is checked again.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Longest pause after deliveries that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Receives the messages for one caller.
#[async_trait]
pub trait CallerCallback: fmt::Debug + Send + Sync + 'static {
    /// Delivers one message. The same message, with the same [`message_id`](Envelope::message_id), may be delivered again:
    /// after a failure, and if the broker ended before it stored the success.
    ///
    /// Fails with [`Invalid`](BrokerErrorKind::Invalid) if the receiver rejects this message but may accept others. Every
    /// other failure counts for all messages.
    async fn deliver(&self, envelope: &Envelope) -> Result<(), BrokerError>;
}

impl Broker {
    /// Delivers the messages for a caller to `callback`, one at a time and in the order of their queue, until
    /// `drain` is cancelled. A delivery that runs at that time completes. Several brokers may do so at once,
    /// each with one delivery.
    ///
    /// A message leaves its queue after its delivery has succeeded. A delivery that fails, or takes more than
    /// 30 s, is logged as a warning. It is repeated after a pause of 1 s, which grows up to 5 min, until the
    /// message expires.
    ///
    /// Messages behind a failed one wait. Messages behind a [refused](CallerCallback::deliver) one do not. When
    /// this returns, the remaining messages are in the [inbox](Self::inbox); a refused one appears there after
    /// its pause.
    pub async fn call_back(&self, caller: &str, callback: &dyn CallerCallback, drain: &CancelToken) {
        let queue = queue_of(&Address::Caller(caller.to_owned()));
        let mut failures = 0_u64;
        while !drain.is_cancelled() {
            let delivered = match self.store().take(&queue, MessagePriority::Low, LEASE).await {
                Ok(Some(delivery)) => self.deliver(&delivery, callback).await,
                Ok(None) => tokio::select! {
                    () = drain.cancelled() => Ok(()),
                    waited = self.store().wait(&queue, LOOK_EVERY) => waited,
                },
                Err(error) => Err(error),
            };
            let Err(error) = delivered else {
                failures = 0;
                continue;
            };
            let pause = pause_after(failures);
            failures = failures.saturating_add(1);
            tracing::warn!(caller, %error, seconds = pause.as_secs(), "a message was not delivered; the broker tries again");
            tokio::select! {
                () = drain.cancelled() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn deliver(&self, delivery: &Delivery, callback: &dyn CallerCallback) -> Result<(), BrokerError> {
        let delivered = tokio::time::timeout(LONGEST_DELIVERY, callback.deliver(&delivery.envelope)).await;
        let delivered = delivered.unwrap_or_else(|_| {
            let seconds = LONGEST_DELIVERY.as_secs();
            Err(BrokerError::new(BrokerErrorKind::Failed, format!("it took more than {seconds} s"), ""))
        });
        match delivered {
            Ok(()) => self.store().finish(&delivery.lease, &[]).await,
            // Keep the lease for the pause, so that the messages behind this one can be delivered.
            Err(error) if error.kind == BrokerErrorKind::Invalid => {
                let pause = pause_after(delivery.deliveries.saturating_sub(1));
                let (id, seconds) = (&delivery.envelope.message_id, pause.as_secs());
                tracing::warn!(%id, %error, seconds, "a message was rejected; the broker tries again, and delivers the next ones");
                self.store().extend(&delivery.lease, pause).await
            }
            Err(error) => {
                let id = &delivery.envelope.message_id;
                if let Err(error) = self.store().put_back(&delivery.lease).await {
                    tracing::debug!(%id, %error, "a message will be delivered again later");
                }
                Err(BrokerError::new(error.kind, format!("{id}: {error}"), ""))
            }
        }
    }
}

/// Returns the pause after this number of earlier failures.
fn pause_after(failures: u64) -> Duration {
    Duration::from_secs(1 << failures.min(16)).min(LONGEST_PAUSE)
}
