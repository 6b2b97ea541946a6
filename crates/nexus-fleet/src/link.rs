//! The connection to the servers.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_nats::{
    Client, ConnectErrorKind, ConnectOptions, Event, Subscriber,
    connection::State,
    jetstream::{
        self, Context,
        context::PublishErrorKind,
        message::PublishMessage,
        stream::{DirectGetErrorKind, Stream},
    },
};
use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    error::FleetError,
    protocol::{STARTED_STREAM, started_subject},
    settings::{FleetCredentials, FleetSettings},
};

/// How long the server has to acknowledge what it stores. Source: an election was seen to take 5.1 to 6.1 s.
const ACK_TIME: Duration = Duration::from_secs(5);
/// How long a connection to one of the servers may take to be made.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// How often the server is asked whether it is there. Source: at 2 s a stalled link was noticed after 5.8 s.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// How long the last messages of a program may take.
const FLUSH_TIME: Duration = Duration::from_secs(1);
/// Denials that are remembered for those whose requests were sent before.
const MAX_DENIALS: usize = 64;
/// How long the task that is told of denials may take. It is awaited where something is begun for good.
const TOLD_WITHIN: Duration = Duration::from_millis(10);
/// What may wait to be sent before frames are not sent again, in bytes.
const MAX_BEHIND: usize = 16 << 20;
/// What the requests of JetStream begin with.
pub(crate) const API: &str = "$JS.API.";

/// A connection to the servers of a fleet. It connects again by itself. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) settings: Arc<FleetSettings>,
    denials: Arc<Denials>,
    outgoing: mpsc::UnboundedSender<QueuedSend>,
    /// What waits to be sent, in bytes.
    behind: Arc<AtomicUsize>,
}

/// Message or flush that is sent in its order.
enum QueuedSend {
    Message(String, Bytes),
    /// Everything before this is to be on its way.
    Flush(oneshot::Sender<()>),
}

/// Subjects that the server refused: it says so beside the connection, and the publish or the subscription itself succeeds.
#[derive(Default)]
struct Denials {
    seen: Mutex<Denied>,
    changed: Notify,
}

#[derive(Default)]
struct Denied {
    /// That no message may be published on.
    publish: VecDeque<(Instant, String)>,
    /// That may not be listened to. They stay so for as long as the connection.
    subscribe: VecDeque<String>,
}

impl Link {
    /// Connects. The tasks of the connection run on the runtime that this is called in.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: nobody answers, the credentials are not accepted, the server is too old, or has no JetStream.
    pub(crate) async fn connect(settings: Arc<FleetSettings>) -> Result<Self, FleetError> {
        let denials = Arc::new(Denials::default());
        let options = options(&settings, &denials).await?;
        let servers = settings.servers.join(", ");
        let addresses: Vec<async_nats::ServerAddr> =
            settings.servers.iter().filter_map(|server| server.parse().ok()).collect();
        // Each may be the one that does not answer.
        let patience = CONNECT_TIME * u32::try_from(addresses.len()).unwrap_or(u32::MAX) + CONNECT_TIME;
        let connecting = tokio::time::timeout(patience, options.connect(addresses.as_slice()));
        let client = match connecting.await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) if error.kind() == ConnectErrorKind::AuthorizationViolation => {
                return Err(FleetError::Refused { reason: error.to_string() });
            }
            Ok(Err(error)) => return Err(FleetError::Unreachable { servers, reason: error.to_string() }),
            Err(_elapsed) => {
                return Err(FleetError::Unreachable {
                    servers,
                    reason: format!("no answer within {} s", patience.as_secs()),
                });
            }
        };
        let found = client.server_info().version;
        if !is_new_enough(&found) {
            return Err(FleetError::TooOld { found });
        }
        let jetstream =
            jetstream::ContextBuilder::new().timeout(ACK_TIME).ack_timeout(ACK_TIME).build(client.clone());
        let (outgoing, queue) = mpsc::unbounded_channel();
        let behind = Arc::new(AtomicUsize::new(0));
        tokio::spawn(send_on(client.clone(), queue, Arc::clone(&behind)));
        Ok(Self { client, jetstream, settings, denials, outgoing, behind })
    }

    /// Sends a message by core NATS, after those before. It does not wait; what bounds it is what its callers have under way.
    pub(crate) fn send(&self, subject: &str, message: impl Into<Bytes>) {
        let message = message.into();
        self.behind.fetch_add(message.len(), Ordering::Relaxed);
        // The other end goes with the runtime of the connection.
        let _ = self.outgoing.send(QueuedSend::Message(subject.to_owned(), message));
    }

    /// Whether so much waits to be sent that nothing is to be sent twice.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed) > MAX_BEHIND
    }

    /// Waits until everything that was sent is on its way, but not for long.
    pub(crate) async fn flush(&self) {
        let (sender, flushed) = oneshot::channel();
        let _ = self.outgoing.send(QueuedSend::Flush(sender));
        let _ = tokio::time::timeout(FLUSH_TIME, flushed).await;
    }

    /// Whether there is a connection just now.
    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Stores a message. `Ok` is its number in its stream.
    ///
    /// # Errors
    ///
    /// [`FleetStoreError`]
    pub(crate) async fn store(&self, subject: &str, message: PublishMessage) -> Result<u64, FleetStoreError> {
        let publish = async {
            let acknowledged =
                self.jetstream.send_publish(subject.to_owned(), message).await.map_err(store_error)?;
            let ack = acknowledged.await.map_err(store_error)?;
            Ok(ack.sequence)
        };
        tokio::select! {
            biased;
            stored = tokio::time::timeout(ACK_TIME + Duration::from_secs(1), publish) => {
                stored.unwrap_or_else(|_elapsed| Err(FleetStoreError::Unclear("the servers did not answer".to_owned())))
            }
            denied = self.denied(Instant::now(), |denied| denied == subject) => Err(FleetStoreError::Forbidden(denied)),
        }
    }

    /// What a request to the servers comes to, on a subject that begins so; else that it is not permitted, which no answer tells.
    ///
    /// # Errors
    ///
    /// [`FleetError::Forbidden`]
    pub(crate) async fn permitted<T>(
        &self,
        subject: &str,
        request: impl Future<Output = T>,
    ) -> Result<T, FleetError> {
        self.permitted_if(|denied| denied.starts_with(subject), request).await
    }

    /// As [`permitted`](Self::permitted), for requests on subjects of which `is_ours` tells.
    pub(crate) async fn permitted_if<T>(
        &self,
        is_ours: impl Fn(&str) -> bool,
        request: impl Future<Output = T>,
    ) -> Result<T, FleetError> {
        let since = Instant::now();
        tokio::select! {
            biased;
            answer = request => Ok(answer),
            subject = self.denied(since, is_ours) => Err(FleetError::Forbidden { subject }),
        }
    }

    /// Listens to a subject.
    ///
    /// # Errors
    ///
    /// [`FleetError::Forbidden`]: the account may not. [`FleetError::Unclear`]
    pub(crate) async fn subscribe(&self, subject: String) -> Result<Subscriber, FleetError> {
        let subscriber = self.client.subscribe(subject.clone()).await;
        let subscriber = subscriber.map_err(|error| FleetError::Unclear { reason: error.to_string() })?;
        // A refusal is told before the answer to whatever is asked next, which callers and workers both may.
        let _ = self.last(STARTED_STREAM, &started_subject(self.settings.name(), "none")).await;
        tokio::time::sleep(TOLD_WITHIN).await;
        match self.denials.lock().subscribe.contains(&subject) {
            true => Err(FleetError::Forbidden { subject }),
            false => Ok(subscriber),
        }
    }

    /// The last message on a subject of a stream, if there is one. It may be an old one for a moment.
    ///
    /// # Errors
    ///
    /// [`FleetError`]
    pub(crate) async fn last(&self, stream: &str, subject: &str) -> Result<Option<Bytes>, FleetError> {
        let request = format!("{API}DIRECT.GET.{stream}.{subject}");
        let stream = self.stream(stream).await?;
        let found = tokio::time::timeout(ACK_TIME, stream.direct_get_last_for_subject(subject));
        match self.permitted(&request, found).await? {
            Ok(Ok(message)) => Ok(Some(message.payload)),
            Ok(Err(error)) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Ok(Err(error)) => Err(FleetError::Unclear { reason: error.to_string() }),
            Err(_elapsed) => Err(FleetError::Unclear { reason: format!("the last message on {subject}") }),
        }
    }

    /// A stream, without asking the server for it.
    pub(crate) async fn stream(&self, name: &str) -> Result<Stream<()>, FleetError> {
        self.jetstream
            .get_stream_no_info(name)
            .await
            .map_err(|error| FleetError::Unclear { reason: error.to_string() })
    }

    /// Waits until the server has refused a message on a subject of ours after `since`, or the answers to all. Returns the subject.
    pub(crate) async fn denied(&self, since: Instant, is_ours: impl Fn(&str) -> bool) -> String {
        let inbox = format!("_INBOX_{}.", self.settings.name());
        loop {
            let mut changed = std::pin::pin!(self.denials.changed.notified());
            changed.as_mut().enable();
            if let Some(subject) = self.denials.of(since, &is_ours, &inbox) {
                return subject;
            }
            changed.await;
        }
    }
}

/// Why a message was not stored.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetStoreError {
    /// Another message was the last on the subject.
    Superseded,
    /// The stream, or the subject's share of it, is full.
    Full,
    /// There is no stream that takes it.
    NoStream,
    /// The account may not.
    Forbidden(String),
    /// It is not known whether it is stored.
    Unclear(String),
}

impl From<FleetStoreError> for FleetError {
    fn from(error: FleetStoreError) -> Self {
        match error {
            FleetStoreError::Forbidden(subject) => Self::Forbidden { subject },
            FleetStoreError::NoStream => Self::NotSetUp {
                what: "a stream of the fleet".to_owned(),
                reason: "no stream takes the message".to_owned(),
            },
            FleetStoreError::Superseded => Self::Unclear { reason: "another message came first".to_owned() },
            FleetStoreError::Full => Self::Unclear { reason: "the stream is full".to_owned() },
            FleetStoreError::Unclear(reason) => Self::Unclear { reason },
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it stands where an error is mapped")]
fn store_error(error: async_nats::jetstream::context::PublishError) -> FleetStoreError {
    match error.kind() {
        PublishErrorKind::WrongLastSequence => FleetStoreError::Superseded,
        PublishErrorKind::StreamNotFound => FleetStoreError::NoStream,
        _ => {
            // The client has no kind of its own for error 10077 of the server.
            let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            if source.contains("maximum messages") {
                FleetStoreError::Full
            } else {
                FleetStoreError::Unclear(format!("{error}: {source}"))
            }
        }
    }
}

impl Denials {
    fn lock(&self) -> MutexGuard<'_, Denied> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, denial: RefusedSubject) {
        let mut seen = self.lock();
        match denial {
            RefusedSubject::Publish(subject) => {
                seen.publish.truncate(MAX_DENIALS - 1);
                seen.publish.push_front((Instant::now(), subject));
            }
            RefusedSubject::Subscribe(subject) if seen.subscribe.contains(&subject) => {}
            RefusedSubject::Subscribe(subject) => {
                seen.subscribe.truncate(MAX_DENIALS - 1);
                seen.subscribe.push_front(subject);
            }
        }
        drop(seen);
        self.changed.notify_waiters();
    }

    /// A subject that was refused to a request of ours. It stays for others: what one may not, they may not.
    fn of(&self, since: Instant, is_ours: impl Fn(&str) -> bool, inbox: &str) -> Option<String> {
        let seen = self.lock();
        let publish = seen.publish.iter().find(|(at, subject)| *at >= since && is_ours(subject));
        let inbox = || seen.subscribe.iter().find(|subject| subject.starts_with(inbox));
        publish.map(|(_, subject)| subject).or_else(inbox).cloned()
    }
}

async fn send_on(client: Client, mut queue: mpsc::UnboundedReceiver<QueuedSend>, behind: Arc<AtomicUsize>) {
    while let Some(next) = queue.recv().await {
        match next {
            QueuedSend::Message(subject, message) => {
                behind.fetch_sub(message.len(), Ordering::Relaxed);
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

async fn options(settings: &FleetSettings, denials: &Arc<Denials>) -> Result<ConnectOptions, FleetError> {
    let reading = |what: &std::path::Path| {
        let what = what.display().to_string();
        move |source| FleetError::Settings { what, source }
    };
    let options = match &settings.credentials {
        None => ConnectOptions::new(),
        Some(FleetCredentials::File(file)) => {
            ConnectOptions::with_credentials_file(file).await.map_err(reading(file))?
        }
        Some(FleetCredentials::NkeyFile(file)) => {
            let seed = std::fs::read_to_string(file).map_err(reading(file))?;
            ConnectOptions::with_nkey(seed.trim().to_owned())
        }
        Some(FleetCredentials::Password { user, file }) => {
            let password = std::fs::read_to_string(file).map_err(reading(file))?;
            ConnectOptions::with_user_and_password(
                user.clone(),
                password.trim_end_matches(['\r', '\n']).to_owned(),
            )
        }
    };
    let denials = Arc::clone(denials);
    let mut options = options
        .name("nexus")
        // So that permissions can tell whose answers go where.
        .custom_inbox_prefix(format!("_INBOX_{}", settings.name()))
        .connection_timeout(CONNECT_TIME)
        .ping_interval(PING_INTERVAL)
        .subscription_capacity(1 << 16)
        .client_capacity(1 << 13)
        .event_callback(move |event| {
            let denials = Arc::clone(&denials);
            async move {
                match &event {
                    Event::ServerError(error) => match RefusedSubject::of(&error.to_string()) {
                        Some(denial) => denials.add(denial),
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
        });
    if let Some(file) = &settings.ca_file {
        options = options.add_root_certificates(file.clone());
    }
    if settings.servers.iter().any(|server| server.starts_with("tls://")) {
        options = options.require_tls(true);
    }
    Ok(options)
}

/// Subject that a server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RefusedSubject {
    Publish(String),
    Subscribe(String),
}

impl RefusedSubject {
    /// Reads `Permissions Violation for Publish to "…"`, or `Subscription`, in either case of letters.
    fn of(error: &str) -> Option<Self> {
        let subject = |word: &str| {
            let from = error.to_lowercase().find(word)? + word.len();
            Some(error.get(from..)?.split_once('"')?.0.to_owned())
        };
        let publish = subject("publish to \"").map(Self::Publish);
        publish.or_else(|| subject("subscription to \"").map(Self::Subscribe))
    }
}

/// Whether a server has what the fleet needs: time limits of single messages, which came with 2.11.
fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or_default());
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) >= (2, 11)
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("state", &self.client.connection_state()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_new_enough("2.11.0") && is_new_enough("2.15.1") && is_new_enough("3.0.0-beta.1"));
        assert!(
            !is_new_enough("2.10.26")
                && !is_new_enough("1.99.0")
                && !is_new_enough("")
                && !is_new_enough("x")
        );
    }

    #[test]
    fn a_denial_names_its_subject() {
        let text = "nats: Permissions Violation for Publish to \"nexus.queue.builders.normal.eve\"";
        assert_eq!(
            RefusedSubject::of(text),
            Some(RefusedSubject::Publish("nexus.queue.builders.normal.eve".to_owned()))
        );
        let text = "permissions violation for subscription to \"_INBOX_eve.X.*\"";
        assert_eq!(RefusedSubject::of(text), Some(RefusedSubject::Subscribe("_INBOX_eve.X.*".to_owned())));
        for other in ["Authorization Violation", "publish to \"x", ""] {
            assert_eq!(RefusedSubject::of(other), None, "{other}");
        }
    }
}
