//! Connection to the servers.

use std::{
    fmt::{self, Display},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_nats::{
    Client, ConnectErrorKind, ConnectOptions, Event, Subscriber,
    connection::State,
    jetstream::{self, Context, message::PublishMessage},
};
use bytes::Bytes;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    error::{NatsError, NatsStoreError},
    refused_subjects::{RefusedSubject, RefusedSubjects},
    settings::NatsSettings,
};

/// Longest wait until the server acknowledges a stored message. Source: an election was observed to take 5.1 to 6.1 s.
const ACK_TIME: Duration = Duration::from_secs(5);
/// Longest wait for one answer of the servers. Longer than an election.
pub const ANSWER_TIME: Duration = Duration::from_secs(7);
/// Longest time to connect to one server.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// Time between two pings. Source: with 2 s a stalled connection was noticed after 5.8 s.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait for sending a program's last messages.
const FLUSH_TIME: Duration = Duration::from_secs(1);
/// Time until the event of a refused subscription has been handled. The connection waits for it once per subscription.
const REFUSED_WITHIN: Duration = Duration::from_millis(10);
/// Bytes of queued messages above which callers should not send a message twice.
const MAX_BEHIND: usize = 16 << 20;
/// Prefix of the subjects of JetStream requests.
pub const API: &str = "$JS.API.";

/// Connection to NATS servers with JetStream. It reconnects by itself. Clones share it.
#[derive(Clone)]
pub struct NatsConnection {
    client: Client,
    jetstream: Context,
    inbox: Arc<str>,
    refused: Arc<RefusedSubjects>,
    outgoing: mpsc::UnboundedSender<QueuedSend>,
    /// Bytes of messages in `outgoing`.
    unsent_bytes: Arc<AtomicUsize>,
}

/// A queued message or flush, processed in order.
enum QueuedSend {
    Message(String, Bytes),
    /// Completes once all earlier messages were sent.
    Flush(oneshot::Sender<()>),
}

impl NatsConnection {
    /// Connects to the servers. The tasks of the connection run on the current runtime.
    ///
    /// # Errors
    ///
    /// [`NatsError`]: no server answers, the credentials are rejected or cannot be read, or the server is too old.
    pub async fn connect(settings: &NatsSettings) -> Result<Self, NatsError> {
        let refused = Arc::new(RefusedSubjects::default());
        let options = with_events(settings.options().await?, settings.inbox(), &refused);
        let servers = settings.servers.join(", ");
        let addresses: Vec<async_nats::ServerAddr> =
            settings.servers.iter().filter_map(|server| server.parse().ok()).collect();
        // Each address without an answer may take the whole connect time.
        let patience = CONNECT_TIME * u32::try_from(addresses.len()).unwrap_or(u32::MAX) + CONNECT_TIME;
        let client = match timeout(patience, options.connect(addresses.as_slice())).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) if error.kind() == ConnectErrorKind::AuthorizationViolation => {
                return Err(NatsError::Refused { reason: error.to_string() });
            }
            Ok(Err(error)) => return Err(NatsError::Unreachable { servers, reason: error.to_string() }),
            Err(_elapsed) => {
                let reason = format!("no answer within {} s", patience.as_secs());
                return Err(NatsError::Unreachable { servers, reason });
            }
        };
        let found = client.server_info().version;
        if !is_new_enough(&found) {
            return Err(NatsError::TooOld { found });
        }
        let jetstream =
            jetstream::ContextBuilder::new().timeout(ACK_TIME).ack_timeout(ACK_TIME).build(client.clone());
        let (outgoing, queue) = mpsc::unbounded_channel();
        let unsent_bytes = Arc::new(AtomicUsize::new(0));
        tokio::spawn(send_on(client.clone(), queue, Arc::clone(&unsent_bytes)));
        let inbox = format!("{}.", settings.inbox()).into();
        Ok(Self { client, jetstream, inbox, refused, outgoing, unsent_bytes })
    }

    /// Returns the client. Its own methods return `Ok`, or wait until a timeout, if the account lacks a permission.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The client's view of JetStream, with the same caveat as [`client`](Self::client).
    pub fn jetstream(&self) -> &Context {
        &self.jetstream
    }

    /// Returns the size of the largest message that the servers accept, in bytes, including its headers.
    pub fn max_payload_bytes(&self) -> usize {
        self.client.server_info().max_payload
    }

    /// Returns true while the connection is established.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Queues a message for core NATS, after all earlier ones. Does not wait, so callers must limit the number of queued
    /// messages.
    pub fn send(&self, subject: &str, message: impl Into<Bytes>) {
        let message = message.into();
        self.unsent_bytes.fetch_add(message.len(), Ordering::Relaxed);
        // The receiver ends with the runtime of the connection, so ignore the error.
        let _ = self.outgoing.send(QueuedSend::Message(subject.to_owned(), message));
    }

    /// Returns true if so many bytes wait to be sent that callers should not send a message twice.
    pub fn is_behind(&self) -> bool {
        self.unsent_bytes.load(Ordering::Relaxed) > MAX_BEHIND
    }

    /// Waits until all queued messages were sent, for at most one second.
    pub async fn flush(&self) {
        let (sender, flushed) = oneshot::channel();
        let _ = self.outgoing.send(QueuedSend::Flush(sender));
        let _ = timeout(FLUSH_TIME, flushed).await;
    }

    /// Stores a message in the stream of its subject, and returns its number in the stream.
    pub async fn store(&self, subject: &str, message: PublishMessage) -> Result<u64, NatsStoreError> {
        let publish = async {
            let acknowledged = self.jetstream.send_publish(subject.to_owned(), message).await?;
            Ok(acknowledged.await?.sequence)
        };
        tokio::select! {
            // `biased`: an answer shows that the server permitted the request, so it counts before a refusal of the
            // subject.
            biased;
            // Longer than the client's own limit, so that normally the client's error is returned.
            stored = timeout(ACK_TIME + Duration::from_secs(1), publish) => {
                stored.unwrap_or_else(|_elapsed| Err(NatsStoreError::Unclear("the servers did not answer".to_owned())))
            }
            refused = self.refused(Instant::now(), |refused| refused == subject) => Err(NatsStoreError::Forbidden(refused)),
        }
    }

    /// Awaits a request on a subject that begins with `subject`. Also ends if the server refuses the subject, which no
    /// answer reports.
    pub async fn permitted<T>(
        &self,
        subject: &str,
        request: impl Future<Output = T>,
    ) -> Result<T, NatsError> {
        self.permitted_if(|refused| refused.starts_with(subject), request).await
    }

    /// Like [`permitted`](Self::permitted), for requests on every subject that `is_ours` accepts.
    pub(crate) async fn permitted_if<T>(
        &self,
        is_ours: impl Fn(&str) -> bool,
        request: impl Future<Output = T>,
    ) -> Result<T, NatsError> {
        let since = Instant::now();
        tokio::select! {
            // `biased`: an answer shows that the server permitted the request, so it counts before a refusal of the
            // subject.
            biased;
            answer = request => Ok(answer),
            subject = self.refused(since, is_ours) => Err(NatsError::Forbidden { subject }),
        }
    }

    /// Like [`permitted`](Self::permitted), with a time limit. The inner result is the server's answer.
    pub(crate) async fn ask<T, E: Display>(
        &self,
        subject: &str,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, NatsError> {
        let answer = self.permitted(subject, timeout(ANSWER_TIME, request)).await?;
        answer.map_err(NatsError::unclear)
    }

    /// Subscribes to a subject. `next` is any permitted request: the server reports a refused subscription before it answers
    /// that request.
    ///
    /// # Errors
    ///
    /// [`NatsError::Forbidden`] if the account may not subscribe to the subject; [`NatsError::Unclear`].
    pub async fn subscribe(&self, subject: String, next: impl Future) -> Result<Subscriber, NatsError> {
        let subscriber = self.client.subscribe(subject.clone()).await.map_err(NatsError::unclear)?;
        next.await;
        tokio::time::sleep(REFUSED_WITHIN).await;
        match self.refused.has_subscription(&subject) {
            true => Err(NatsError::Forbidden { subject }),
            false => Ok(subscriber),
        }
    }

    /// Waits until the server has refused a message that was sent after `since` on a subject that `is_ours` accepts, or the
    /// subscription to the inbox. Returns the refused subject.
    pub async fn refused(&self, since: Instant, is_ours: impl Fn(&str) -> bool) -> String {
        self.refused.next(since, is_ours, &self.inbox).await
    }
}

async fn send_on(
    client: Client,
    mut queue: mpsc::UnboundedReceiver<QueuedSend>,
    unsent_bytes: Arc<AtomicUsize>,
) {
    while let Some(next) = queue.recv().await {
        match next {
            QueuedSend::Message(subject, message) => {
                unsent_bytes.fetch_sub(message.len(), Ordering::Relaxed);
                if let Err(error) = client.publish(subject, message).await {
                    tracing::warn!(%error, "a message of the fleet could not be sent");
                }
            }
            QueuedSend::Flush(flushed) => {
                let _ = client.flush().await;
                let _ = flushed.send(());
            }
        }
    }
}

fn with_events(options: ConnectOptions, inbox: String, refused: &Arc<RefusedSubjects>) -> ConnectOptions {
    let refused = Arc::clone(refused);
    options
        .name("nexus")
        // A prefix per program lets permissions include only the answers to that program.
        .custom_inbox_prefix(inbox)
        .connection_timeout(CONNECT_TIME)
        .ping_interval(PING_INTERVAL)
        // A full subscription drops messages, which only an event reports.
        .subscription_capacity(1 << 16)
        .client_capacity(1 << 13)
        .event_callback(move |event| {
            let refused = Arc::clone(&refused);
            async move {
                match &event {
                    Event::ServerError(error) => match RefusedSubject::of(&error.to_string()) {
                        Some(subject) => refused.add(subject),
                        None => tracing::warn!(%event, "a server of the fleet reports an error"),
                    },
                    Event::SlowConsumer(_)
                    | Event::ClientError(_)
                    | Event::Disconnected
                    | Event::LameDuckMode => {
                        tracing::warn!(%event, "the connection to the fleet");
                    }
                    _ => tracing::debug!(%event, "the connection to the fleet"),
                }
            }
        })
}

/// Returns true if the server supports time limits of single messages, which need version 2.11.
fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or_default());
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) >= (2, 11)
}

impl fmt::Debug for NatsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsConnection")
            .field("state", &self.client.connection_state())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for new in ["2.11.0", "2.15.1", "3.0.0-beta.1"] {
            assert!(is_new_enough(new), "{new}");
        }
        for old in ["2.10.26", "1.99.0", "", "x"] {
            assert!(!is_new_enough(old), "{old}");
        }
    }
}
