//! A clock, messages, and places in which stores are.

use std::{
    fmt::Debug,
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use nexus_broker::{
    Address, BrokerError, BrokerErrorKind, BrokerStore, Delivery, Envelope, MessagePriority, Payload,
    QueueLimits,
};
use nexus_core::Clock;
use serde_json::json;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// A lease for all that a test does.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// What is awaited happens within this time, on a busy machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Where a store is. It is gone with this.
#[async_trait]
pub(crate) trait Place: Send + Sync {
    /// Opens the store, once more if it is open.
    async fn open(&self, limits: QueueLimits, clock: Arc<dyn Clock>) -> Arc<dyn BrokerStore>;

    /// Has another text stored of a message, past the store.
    async fn overwrite_message(&self, id: &str, text: &str);

    /// Has another text stored of an agent, past the store.
    async fn overwrite_agent(&self, key: &str, text: &str);
}

/// What was warned of since the first call, in this process.
pub(crate) fn warnings() -> Vec<String> {
    static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    static LISTENS: Once = Once::new();
    struct Listener;
    struct Line(String);
    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.push_str(&format!("{field}={value:?} "));
        }
    }
    impl Subscriber for Listener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::WARN
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut line = Line(String::new());
            event.record(&mut line);
            WARNINGS.lock().unwrap().push(line.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }
    LISTENS.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
    WARNINGS.lock().unwrap().clone()
}

/// A clock that a test sets, in milliseconds.
#[derive(Debug)]
pub(crate) struct Hands(AtomicI64);

impl Hands {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_770_000_000_000)))
    }

    /// Moves it, back too.
    pub(crate) fn turn(&self, by_millis: i64) {
        self.0.fetch_add(by_millis, Ordering::SeqCst);
    }

    pub(crate) fn after(&self, time: Duration) -> SystemTime {
        self.now() + time
    }
}

impl Clock for Hands {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// A message with this id, which says it.
pub(crate) fn message(id: &str, clock: &dyn Clock) -> Envelope {
    let payload: Payload =
        serde_json::from_value(json!({ "type": "message", "payload": { "content": id } })).unwrap();
    let agent = |name| Address::agent(name).unwrap();
    let mut envelope = Envelope::new(agent("a"), agent("b"), payload, clock);
    envelope.message_id = id.parse().unwrap();
    envelope
}

pub(crate) fn with_priority(id: &str, priority: MessagePriority, clock: &dyn Clock) -> Envelope {
    let mut envelope = message(id, clock);
    envelope.priority = priority;
    envelope
}

pub(crate) fn id(envelope: &Envelope) -> String {
    envelope.message_id.to_string()
}

pub(crate) fn limits(change: impl FnOnce(&mut QueueLimits)) -> QueueLimits {
    let mut limits = QueueLimits::default();
    change(&mut limits);
    limits
}

pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T, BrokerError>) -> BrokerErrorKind {
    result.expect_err("it is refused").kind
}

/// Takes any message.
pub(crate) async fn take(store: &dyn BrokerStore, queue: &str) -> Option<Delivery> {
    store.take(queue, MessagePriority::Low, LEASE).await.unwrap()
}

/// Takes and finishes all that waits, and tells the ids in that order.
pub(crate) async fn drain(store: &dyn BrokerStore, queue: &str) -> Vec<String> {
    let mut ids = Vec::new();
    while let Some(delivery) = take(store, queue).await {
        ids.push(id(&delivery.envelope));
        store.finish(&delivery.lease, &[]).await.unwrap();
    }
    ids
}
