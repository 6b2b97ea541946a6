//! A turn that ends well, and places to record it.

use std::path::{Path, PathBuf};

use nexus_core::{
    BackendId, EventEnvelope, FinishReason, NullSink, RecordFile, RecordLog, TurnError, TurnEvent, TurnHost,
    TurnRequest, TurnResult, harness::TurnLog, turn::MessageEnded,
};
use tempfile::TempDir;

pub(crate) struct Stage {
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("turns.jsonl")
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn read(&self) -> RecordLog {
        RecordLog::read(self.path()).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }
}

/// A result whose answer is `text`.
pub(crate) fn answered(text: &str) -> TurnResult {
    let mut log = TurnLog::new(BackendId::new("alpha"), None, None);
    log.event(MessageEnded::new("m".into(), text));
    log.into_result(FinishReason::Stop, None, false)
}

pub(crate) fn envelopes(events: impl IntoIterator<Item = TurnEvent>) -> Vec<EventEnvelope> {
    let number =
        |(sequence, event)| EventEnvelope::new(sequence, std::time::Duration::from_millis(sequence), event);
    (0..).zip(events).map(number).collect()
}

/// Records a whole turn.
pub(crate) fn record(
    file: &RecordFile,
    name: &str,
    events: &[EventEnvelope],
    outcome: &Result<TurnResult, TurnError>,
) {
    let mut recording = file.begin(name, &TurnRequest::new("Hello."), &TurnHost::new()).unwrap();
    let mut unwatched = NullSink;
    let mut sink = recording.beside(&mut unwatched);
    events.iter().for_each(|event| nexus_core::EventSink::accept(&mut sink, event.clone()));
    recording.end(outcome).unwrap();
}
