//! Captured `tracing` data of a turn: its spans, and all words of spans and logs at every level.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use tracing::{
    Dispatch, Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::NoSubscriber,
};

/// One span.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SeenSpan {
    /// Index of its parent among the spans, if a parent was named.
    pub(super) parent: Option<usize>,
    /// Its fields by name, as last recorded.
    pub(super) fields: BTreeMap<&'static str, String>,
}

impl SeenSpan {
    /// A field; empty if it was never recorded.
    pub(super) fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// Captures every level. Clones share the captured data.
#[derive(Clone, Debug, Default)]
pub(super) struct Telemetry(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    spans: Vec<SeenSpan>,
    words: String,
}

/// A second subscriber that ignores everything and is never dropped. With a single subscriber, the thread that first reaches a
/// span decides for all threads whether `tracing` enables it. The thread of another test may have no subscriber.
static SECOND_SUBSCRIBER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

impl Telemetry {
    /// Starts to capture.
    pub(super) fn start() -> Self {
        LazyLock::force(&SECOND_SUBSCRIBER);
        Self::default()
    }

    /// The spans so far, oldest first.
    pub(super) fn spans(&self) -> Vec<SeenSpan> {
        self.lock().spans.clone()
    }

    /// All words of spans and logs so far, in one text.
    pub(super) fn words(&self) -> String {
        self.lock().words.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps fields as text.
struct Fields<'a>(&'a mut dyn FnMut(&'static str, String));

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        (self.0)(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        (self.0)(field.name(), format!("{value:?}"));
    }
}

impl Heard {
    fn say(&mut self, name: &str, value: &str) {
        self.words.push_str(&format!("{name}={value}\n"));
    }

    fn record(&mut self, index: usize, name: &'static str, value: String) {
        self.say(name, &value);
        if let Some(span) = self.spans.get_mut(index) {
            span.fields.insert(name, value);
        }
    }
}

/// Index of a span: ids are counted from one.
fn place(id: &Id) -> usize {
    usize::try_from(id.into_u64()).map_or(usize::MAX, |id| id.saturating_sub(1))
}

impl Subscriber for Telemetry {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut heard = self.lock();
        let index = heard.spans.len();
        heard.spans.push(SeenSpan { parent: attributes.parent().map(place), fields: BTreeMap::new() });
        attributes.record(&mut Fields(&mut |name, value| heard.record(index, name, value)));
        Id::from_u64(index as u64 + 1)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut heard = self.lock();
        values.record(&mut Fields(&mut |name, value| heard.record(place(span), name, value)));
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut heard = self.lock();
        event.record(&mut Fields(&mut |name, value| heard.say(name, &value)));
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
