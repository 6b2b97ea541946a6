//! Documents in the stream: the last message on a subject, whose number is the revision.

use async_nats::jetstream::message::{PublishMessage, StreamMessage};

use super::{
    records::{self, STREAM},
    stream::Requests,
};
use crate::{
    error::BrokerError,
    store::{DocumentKind, ExpectedRevision, StoredDocument, Told, check},
};

fn document(kind: DocumentKind, key: String, read: &StreamMessage, told: &Told) -> StoredDocument {
    check::stored_document(STREAM, kind, key, read.sequence, &read.payload, told)
}

pub(super) async fn one(
    requests: &Requests,
    kind: DocumentKind,
    key: &str,
    told: &Told,
) -> Result<Option<StoredDocument>, BrokerError> {
    match requests.last(&records::document_subject(kind, key)).await? {
        Some(read) if !records::is_deleted(&read.headers) => {
            Ok(Some(document(kind, key.to_owned(), &read, told)))
        }
        _ => Ok(None),
    }
}

pub(super) async fn all(
    requests: &Requests,
    kind: DocumentKind,
    told: &Told,
) -> Result<Vec<StoredDocument>, BrokerError> {
    let mut found = Vec::new();
    let take = |read: StreamMessage| {
        if records::is_deleted(&read.headers) {
            return true;
        }
        match records::document_key(&read.subject) {
            Some(key) => found.push(document(kind, key, &read, told)),
            None => {
                let what = format!("the document on {}", read.subject);
                told.warn(&check::unreadable(STREAM, &what, &"its subject has no key"));
            }
        }
        true
    };
    requests.read(1, &[records::document_subjects(kind)], take).await?;
    found.sort_by(|one, other| one.key.cmp(&other.key).then(one.revision.cmp(&other.revision)));
    // The stream contains a document twice if it was written during the read. Keep the newer one.
    found.reverse();
    found.dedup_by(|one, newer| one.key == newer.key);
    found.reverse();
    Ok(found)
}

/// Returns the sequence number that the last message on the subject must have. `None`: any.
async fn expected_number(
    requests: &Requests,
    kind: DocumentKind,
    key: &str,
    expected: ExpectedRevision,
) -> Result<Option<u64>, BrokerError> {
    match expected {
        ExpectedRevision::Anything => Ok(None),
        // The server reads 0 as "no message on the subject", and cannot read numbers beyond `i64`.
        ExpectedRevision::Revision(number) if number == 0 || i64::try_from(number).is_err() => {
            Err(check::not_as_expected(kind, key))
        }
        ExpectedRevision::Revision(number) => Ok(Some(number)),
        ExpectedRevision::Absent => match requests.last(&records::document_subject(kind, key)).await? {
            None => Ok(Some(0)),
            Some(read) if records::is_deleted(&read.headers) => Ok(Some(read.sequence)),
            Some(_) => Err(check::not_as_expected(kind, key)),
        },
    }
}

pub(super) async fn write(
    requests: &Requests,
    kind: DocumentKind,
    key: &str,
    expected: ExpectedRevision,
    value: String,
) -> Result<u64, BrokerError> {
    let number = expected_number(requests, kind, key, expected).await?;
    let message = PublishMessage::build().payload(value.into());
    let what = format!("the document {key}");
    let written = requests.store(&what, &records::document_subject(kind, key), message, number).await?;
    written.ok_or_else(|| check::not_as_expected(kind, key))
}

pub(super) async fn delete(
    requests: &Requests,
    kind: DocumentKind,
    key: &str,
    expected: ExpectedRevision,
    now: i64,
) -> Result<(), BrokerError> {
    loop {
        let found = requests.last(&records::document_subject(kind, key)).await?;
        let found = found.filter(|read| !records::is_deleted(&read.headers)).map(|read| read.sequence);
        let number = match (found, expected) {
            (None, ExpectedRevision::Absent | ExpectedRevision::Anything) => return Ok(()),
            (Some(found), ExpectedRevision::Revision(number)) if found == number => number,
            (Some(found), ExpectedRevision::Anything) => found,
            _ => return Err(check::not_as_expected(kind, key)),
        };
        let (what, subject) = (format!("the document {key}"), records::document_subject(kind, key));
        let deleted = requests.store(&what, &subject, records::deletion(now), Some(number)).await?;
        match (deleted, expected) {
            (Some(_), _) => return Ok(()),
            // Another broker wrote the document meanwhile: try again.
            (None, ExpectedRevision::Anything) => {}
            (None, _) => return Err(check::not_as_expected(kind, key)),
        }
    }
}
