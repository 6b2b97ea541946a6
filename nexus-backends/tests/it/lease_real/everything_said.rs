//! Everything that is logged at any level by anyone in this program, and whatever else is added.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex, atomic::AtomicU64, atomic::Ordering},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// What was heard so far.
#[derive(Clone, Default)]
pub(crate) struct EverythingSaid {
    text: Arc<Mutex<String>>,
    spans: Arc<AtomicU64>,
}

impl EverythingSaid {
    /// Listens to the whole program from now on.
    pub(crate) fn listen() -> Self {
        let said = Self::default();
        tracing::subscriber::set_global_default(said.clone()).expect("nobody else listens");
        said
    }

    /// Adds what was said elsewhere.
    pub(crate) fn add(&self, text: impl AsRef<str>) {
        let mut said = self.text.lock().unwrap();
        said.push_str(text.as_ref());
        said.push('\n');
    }

    /// What was heard.
    pub(crate) fn stop(&self) -> String {
        self.text.lock().unwrap().clone()
    }
}

/// Writes the fields of one event or span.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for EverythingSaid {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut line = Line(attributes.metadata().name().to_owned());
        attributes.record(&mut line);
        self.add(line.0);
        span::Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _span: &span::Id, values: &span::Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        self.add(line.0);
    }

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        self.add(line.0);
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}
