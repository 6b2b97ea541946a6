//! Messages of the stream: their subjects and their headers.
//!
//! | subject | message |
//! | --- | --- |
//! | `nexus.broker.put.ID` | a message, written once; its sequence number is its place in its queue |
//! | `nexus.broker.state.ID` | progress of the message: only the last record counts; each replaces the one before by compare-and-set |
//! | `nexus.broker.document.KIND.KEY` | a document |
//!
//! `ID` is a hash, and `KEY` is encoded, so text from outside never becomes a subject.

use std::str::FromStr;

use async_nats::{HeaderMap, jetstream::message::PublishMessage};
use sha2::{Digest as _, Sha256};

use crate::{
    message::EnvelopeId,
    store::{DocumentKind, check},
};

/// Name of the stream.
pub(super) const STREAM: &str = "NEXUS_BROKER";
/// Subjects of the stream.
pub(super) const SUBJECTS: &str = "nexus.broker.>";
pub(super) const PUT_SUBJECTS: &str = "nexus.broker.put.*";
pub(super) const STATE_SUBJECTS: &str = "nexus.broker.state.*";
/// Key of the format version in the metadata of the stream.
pub(super) const VERSION_KEY: &str = "nexus-broker";
pub(super) const VERSION: u32 = 1;

const PUT: &str = "nexus.broker.put.";
const STATE: &str = "nexus.broker.state.";
const DOCUMENT: &str = "nexus.broker.document.";

const QUEUE: &str = "Nexus-Queue";
const PRIORITY: &str = "Nexus-Priority";
const MADE_AT: &str = "Nexus-Made-At";
const EXPIRES_AT: &str = "Nexus-Expires-At";
/// Header with the time of the write, by the clock of its author.
const AT: &str = "Nexus-At";
const STATE_NAME: &str = "Nexus-State";
/// Header of a progress record with the sequence number of its message.
const OF: &str = "Nexus-Of";
const RECEIPT: &str = "Nexus-Receipt";
const DELIVERIES: &str = "Nexus-Deliveries";
const UNTIL: &str = "Nexus-Until";
const DELETED: &str = "Nexus-Deleted";

/// Hash of an id, which represents the id in subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Hash([u8; 20]);

impl Hash {
    /// Lowest hash.
    pub(super) const FIRST: Self = Self([0; 20]);

    pub(super) fn of(id: &EnvelopeId) -> Self {
        let whole: [u8; 32] = Sha256::digest(id.as_str()).into();
        let mut hash = [0; 20];
        hash.copy_from_slice(&whole[..20]);
        Self(hash)
    }

    fn text(&self) -> String {
        nexus_files::hex(self.0)
    }

    fn read(text: &str) -> Option<Self> {
        let mut hash = [0; 20];
        if text.len() != 40 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(hash))
    }

    pub(super) fn put_subject(&self) -> String {
        format!("{PUT}{}", self.text())
    }

    pub(super) fn state_subject(&self) -> String {
        format!("{STATE}{}", self.text())
    }
}

/// Headers of a message that was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Put {
    pub(super) queue: String,
    pub(super) priority: u8,
    pub(super) made_at: i64,
    pub(super) expires_at: Option<i64>,
    pub(super) at: i64,
}

/// Progress of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessageProgress {
    pub(super) stage: Stage,
    /// Sequence number of the message.
    pub(super) of: u64,
    /// Receipt of the last lease.
    pub(super) receipt: String,
    pub(super) deliveries: u64,
    /// Time at which the last lease began or was extended.
    pub(super) at: i64,
    /// Time at which the last lease lapses.
    pub(super) until: i64,
}

/// Stage of a message. The names are part of the stored format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Taken,
    /// The message is handled. Its outcome is in this record, and is not completely put.
    Finishing,
    Handled,
    Expired,
    /// This version, or an older one, could not read the message. It waits for a version that can.
    SetAside,
    /// The progress record cannot be read. This stage is never written.
    Unknown,
}

const STAGES: [(Stage, &str); 6] = [
    (Stage::Waiting, "waiting"),
    (Stage::Taken, "taken"),
    (Stage::Finishing, "finishing"),
    (Stage::Handled, "handled"),
    (Stage::Expired, "expired"),
    (Stage::SetAside, "set-aside"),
];

/// Message of the stream, parsed from its subject and its headers.
#[derive(Debug)]
pub(super) enum StreamRecord {
    Put(Hash, Put),
    State(Hash, MessageProgress),
    /// A message whose headers cannot be read.
    UnreadablePut(Hash),
    /// Unreadable progress of a message, and the sequence number of the message, if that is readable.
    UnreadableState(Hash, Option<u64>),
    /// A deleted document, with the deletion time.
    Deleted(i64),
    /// A record that changes nothing in the index.
    Other,
}

impl StreamRecord {
    /// Reads a record. A message on a foreign subject is [`Other`](Self::Other).
    pub(super) fn read(subject: &str, headers: Option<&HeaderMap>) -> Self {
        let none = HeaderMap::new();
        let headers = headers.unwrap_or(&none);
        let read = || {
            if let Some(hash) = subject.strip_prefix(PUT) {
                let hash = Hash::read(hash)?;
                Some(Put::read(headers).map_or(Self::UnreadablePut(hash), |put| Self::Put(hash, put)))
            } else if let Some(hash) = subject.strip_prefix(STATE) {
                let hash = Hash::read(hash)?;
                let unreadable = || Self::UnreadableState(hash, number(headers, OF));
                Some(MessageProgress::read(headers).map_or_else(unreadable, |state| Self::State(hash, state)))
            } else if is_deleted(headers) {
                Some(Self::Deleted(number(headers, AT)?))
            } else {
                None
            }
        };
        read().unwrap_or(Self::Other)
    }
}

impl Put {
    pub(super) fn message(&self) -> PublishMessage {
        let message = PublishMessage::build()
            .header(QUEUE, encode(&self.queue))
            .header(PRIORITY, self.priority.to_string())
            .header(MADE_AT, self.made_at.to_string())
            .header(AT, self.at.to_string());
        match self.expires_at {
            Some(expires_at) => message.header(EXPIRES_AT, expires_at.to_string()),
            None => message,
        }
    }

    fn read(headers: &HeaderMap) -> Option<Self> {
        Some(Self {
            queue: decode(headers.get(QUEUE)?.as_str())?,
            // The index has four lists. A higher number, perhaps from a newer version, counts as urgent.
            priority: number::<u8>(headers, PRIORITY)?.min(3),
            made_at: number(headers, MADE_AT)?,
            expires_at: number(headers, EXPIRES_AT),
            at: number(headers, AT)?,
        })
    }
}

impl MessageProgress {
    pub(super) fn message(&self) -> PublishMessage {
        let stage = STAGES.iter().find(|(stage, _)| *stage == self.stage).map_or("", |(_, name)| name);
        PublishMessage::build()
            .header(STATE_NAME, stage)
            .header(OF, self.of.to_string())
            .header(RECEIPT, self.receipt.as_str())
            .header(DELIVERIES, self.deliveries.to_string())
            .header(AT, self.at.to_string())
            .header(UNTIL, self.until.to_string())
    }

    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let name = headers.get(STATE_NAME)?.as_str();
        Some(Self {
            stage: STAGES.iter().find(|(_, known)| *known == name)?.0,
            of: number(headers, OF)?,
            receipt: headers.get(RECEIPT)?.as_str().to_owned(),
            deliveries: number(headers, DELIVERIES)?,
            at: number(headers, AT)?,
            until: number(headers, UNTIL)?,
        })
    }

    /// Returns true if the message is not delivered any more.
    pub(super) fn is_over(&self) -> bool {
        !matches!(self.stage, Stage::Waiting | Stage::Taken)
    }

    /// Returns true if the message has ended and may be forgotten some day.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.stage, Stage::Handled | Stage::Expired)
    }
}

fn number<T: FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    headers.get(name)?.as_str().parse().ok()
}

/// Returns the message that marks a document as deleted.
pub(super) fn deletion(at: i64) -> PublishMessage {
    PublishMessage::build().header(DELETED, "1").header(AT, at.to_string())
}

pub(super) fn is_deleted(headers: &HeaderMap) -> bool {
    headers.get(DELETED).is_some()
}

pub(super) fn document_subject(kind: DocumentKind, key: &str) -> String {
    format!("{DOCUMENT}{}.{}", check::kind_name(kind), encode(key))
}

pub(super) fn document_subjects(kind: DocumentKind) -> String {
    format!("{DOCUMENT}{}.*", check::kind_name(kind))
}

/// Returns the document key in a subject.
pub(super) fn document_key(subject: &str) -> Option<String> {
    decode(subject.strip_prefix(DOCUMENT)?.split_once('.')?.1)
}

/// Encodes a text as a token of a subject: letters, digits, `-` and `_` stay; each other byte becomes `=` and two digits.
fn encode(text: &str) -> String {
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => token.push(char::from(byte)),
            _ => token.push_str(&format!("={byte:02X}")),
        }
    }
    token
}

fn decode(token: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'=' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_token_and_comes_back() {
        for text in ["", "a", "a.b", "*", ">", "=2E", "a b\n", "ä", "agent:a:b", "$JS.API", "x_y-z"] {
            let token = encode(text);
            assert!(
                token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte)),
                "{token}"
            );
            assert_eq!(decode(&token).as_deref(), Some(text));
        }
        for token in ["=", "=2", "=ZZ", "=FF"] {
            assert_eq!(decode(token), None);
        }
    }

    #[test]
    fn what_is_no_record_of_ours_is_of_no_interest() {
        let mut headers = HeaderMap::new();
        headers.insert(STATE_NAME, "gone");
        let hash = Hash::of(&EnvelopeId::random());
        for subject in ["nexus.broker.put.x", "nexus.broker.put.", "nexus.broker.else"] {
            assert!(matches!(StreamRecord::read(subject, Some(&headers)), StreamRecord::Other), "{subject}");
            assert!(matches!(StreamRecord::read(subject, None), StreamRecord::Other));
        }
        assert_eq!(Hash::read(&hash.text()), Some(hash));
    }

    #[test]
    fn what_is_ours_and_cannot_be_read_is_known_as_such() {
        let hash = Hash::of(&EnvelopeId::random());
        let mut headers = HeaderMap::new();
        headers.insert(STATE_NAME, "gone");
        headers.insert(OF, "7");
        let read = |subject: &str| StreamRecord::read(subject, Some(&headers));
        assert!(
            matches!(read(&hash.state_subject()), StreamRecord::UnreadableState(of, Some(7)) if of == hash)
        );
        assert!(matches!(read(&hash.put_subject()), StreamRecord::UnreadablePut(of) if of == hash));
        assert!(matches!(StreamRecord::read(&hash.put_subject(), None), StreamRecord::UnreadablePut(_)));
    }
}
