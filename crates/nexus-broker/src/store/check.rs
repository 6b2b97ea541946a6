//! Input checks of both stores, and the texts of their errors.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::{Envelope, EnvelopeId},
    store::{DocumentKind, HandlingLease, QueueLimits, StoredDocument, Told},
};

/// Maximum length of a queue's name and of a document's key, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Maximum size of a document, in bytes of its JSON.
const MAX_DOCUMENT_BYTES: usize = 512 << 10;
/// Maximum length of a lease.
const MAX_LEASE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Maximum number of messages in the outcome of one message.
const MAX_OUTCOME: usize = 1_000;

/// A valid message with its JSON.
#[derive(Debug)]
pub(crate) struct StorableMessage {
    pub(crate) queue: String,
    pub(crate) envelope: Envelope,
    pub(crate) json: String,
}

fn name(what: &str, text: &str) -> Result<(), BrokerError> {
    if (1..=MAX_NAME_BYTES).contains(&text.len()) && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(BrokerError::invalid(
        format!("{:?} is not a valid {what}", text.chars().take(80).collect::<String>()),
        format!("write 1 to {MAX_NAME_BYTES} bytes without control characters"),
    ))
}

/// Checks the name of a queue.
pub(crate) fn queue(text: &str) -> Result<(), BrokerError> {
    name("name of a queue", text)
}

/// Checks the key of a document.
pub(crate) fn key(text: &str) -> Result<(), BrokerError> {
    name("key of a document", text)
}

/// Checks a message for a queue, and returns its stored form.
pub(crate) fn message(
    to: &str,
    envelope: &Envelope,
    limits: &QueueLimits,
) -> Result<StorableMessage, BrokerError> {
    queue(to)?;
    let id = &envelope.message_id;
    let unwritable = |error: serde_json::Error| {
        BrokerError::invalid(format!("the message {id} cannot be written: {error}"), String::new())
    };
    let json = serde_json::to_string(envelope).map_err(unwritable)?;
    if json.len() > limits.max_message_bytes {
        return Err(BrokerError::invalid(
            format!("the message {id} has {} bytes, more than {}", json.len(), limits.max_message_bytes),
            "write large content to a file, and send its path".to_owned(),
        ));
    }
    // A key of `other` with the name of a known field would make the message unreadable for its recipient.
    serde_json::from_str::<Envelope>(&json).map_err(unwritable)?;
    Ok(StorableMessage { queue: to.to_owned(), envelope: envelope.clone(), json })
}

/// Checks the outcome of a message.
pub(crate) fn outcome(
    outcome: &[(String, Envelope)],
    limits: &QueueLimits,
) -> Result<Vec<StorableMessage>, BrokerError> {
    if outcome.len() > MAX_OUTCOME {
        return Err(BrokerError::invalid(
            format!("one message produced {} messages, more than {MAX_OUTCOME}", outcome.len()),
            String::new(),
        ));
    }
    let checked: Result<Vec<_>, _> =
        outcome.iter().map(|(queue, envelope)| message(queue, envelope, limits)).collect();
    let checked = checked?;
    let bytes: usize = checked.iter().map(|message| message.json.len()).sum();
    if bytes > limits.max_outcome_bytes {
        return Err(BrokerError::invalid(
            format!("the result of the message has {bytes} bytes, more than {}", limits.max_outcome_bytes),
            "write large content to files, and send their paths".to_owned(),
        ));
    }
    Ok(checked)
}

/// Checks a document, and returns its stored form.
pub(crate) fn document(key_text: &str, value: &Value) -> Result<String, BrokerError> {
    key(key_text)?;
    let json = value.to_string();
    if json.len() > MAX_DOCUMENT_BYTES {
        return Err(BrokerError::invalid(
            format!("the document {key_text} has {} bytes, more than {MAX_DOCUMENT_BYTES}", json.len()),
            String::new(),
        ));
    }
    Ok(json)
}

/// Returns the length of a lease in milliseconds, at least one.
pub(crate) fn lease(time: Duration) -> Result<i64, BrokerError> {
    if time > MAX_LEASE {
        return Err(BrokerError::invalid(
            "a message can be leased for at most 30 days".to_owned(),
            "extend the lease from time to time".to_owned(),
        ));
    }
    Ok(i64::try_from(time.as_millis()).unwrap_or(i64::MAX).max(1))
}

/// Returns the milliseconds since 1970, negative for earlier times.
pub(crate) fn millis(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(error) => i64::try_from(error.duration().as_millis()).map_or(i64::MIN, |before| -before),
    }
}

/// Returns the time this many milliseconds after 1970, or 1970 itself if the system cannot represent it.
pub(crate) fn time(millis: i64) -> SystemTime {
    let distance = Duration::from_millis(millis.unsigned_abs());
    let time = if millis < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

/// Returns true if a lease from `taken_at` to `until` has lapsed. The clock of these times may step back. If it steps back
/// by more than the length of the lease, the age of the lease is unknown, and the lease counts as lapsed.
#[cfg(feature = "jetstream")]
pub(crate) fn has_lapsed(now: i64, taken_at: i64, until: i64) -> bool {
    now >= until || now < taken_at.saturating_sub(until.saturating_sub(taken_at))
}

/// Returns the name of a kind in a store.
pub(crate) fn kind_name(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Agent => "agent",
        DocumentKind::Trigger => "trigger",
        DocumentKind::Lock => "lock",
        DocumentKind::TurnCount => "turn-count",
    }
}

/// Returns the error for a lease that is no longer valid.
pub(crate) fn lapsed(held: &HandlingLease) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Conflict,
        format!("the lease on the message {} of the queue {} has ended", held.message, held.queue),
        "take it again",
    )
}

/// Returns the error for a full queue.
pub(crate) fn full(queue: &str, limits: &QueueLimits) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::QueueFull,
        format!("the queue {queue} has {} messages, which is the limit", limits.max_waiting),
        "send it again after some of them were handled",
    )
}

/// Returns the error for a document that is not in the expected state.
pub(crate) fn not_as_expected(kind: DocumentKind, key: &str) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Conflict,
        format!("the document {key} ({}) was changed by another process", kind_name(kind)),
        "read it again",
    )
}

/// Returns the error for stored data of a message that cannot be read.
pub(crate) fn unreadable(place: &str, what: &str, reason: &dyn std::fmt::Display) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Damaged,
        format!("{place}: {what} cannot be read: {reason}"),
        "a newer version of Nexus may have written it",
    )
}

/// Reads a stored message.
pub(crate) fn stored(place: &str, id: &str, json: &[u8]) -> Result<Envelope, BrokerError> {
    serde_json::from_slice(json).map_err(|error| unreadable(place, &format!("the message {id}"), &error))
}

/// Reads a stored document. Invalid JSON is logged, and its text becomes the value.
pub(crate) fn stored_document(
    place: &str,
    kind: DocumentKind,
    key: String,
    revision: u64,
    json: &[u8],
    told: &Told,
) -> StoredDocument {
    let value = serde_json::from_slice(json).unwrap_or_else(|error| {
        told.warn(&unreadable(place, &format!("the document {key} ({})", kind_name(kind)), &error));
        Value::String(String::from_utf8_lossy(json).into_owned())
    });
    StoredDocument { key, revision, value }
}

/// Reads a stored id.
pub(crate) fn stored_id(place: &str, id: &str) -> Result<EnvelopeId, BrokerError> {
    id.parse().map_err(|error: BrokerError| unreadable(place, "the id of a message", &error))
}
