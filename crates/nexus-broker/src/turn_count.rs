//! Counts of the turns that result from one message.
//!
//! A count is a document of the store, by the id of the message. It is created with the second turn: a message
//! that only gets an answer has no count.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    broker::Broker,
    error::{BrokerError, BrokerErrorKind},
    message::{Chain, Envelope},
    store::{DocumentKind, ExpectedRevision, StoredDocument},
};
use nexus_files::rfc3339;

/// Maximum number of attempts to write a count that other brokers write at the same time.
const MAX_CONFLICTS: usize = 64;
/// Time for which a count is stored after its last turn. Source: a store knows an id for as long by default.
const STORED_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Number of turns that resulted from one message.
#[derive(Debug, Serialize, Deserialize)]
struct TurnCount {
    turns: u32,
    /// Time of the last increment.
    #[serde(with = "rfc3339::as_millis")]
    at: SystemTime,
    /// Keys that this version does not know.
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl TurnCount {
    /// Reads the count from a document. An unreadable count starts again at zero: the messages of its turns are already
    /// handled.
    fn read(document: Option<&StoredDocument>, now: SystemTime) -> Self {
        let read = document.and_then(|document| serde_json::from_value(document.value.clone()).ok());
        // The first turn, of the message itself, creates no document.
        read.unwrap_or_else(|| Self { turns: 1, at: now, other: Map::new() })
    }
}

impl Broker {
    /// Returns true if the root message of this one may begin another turn.
    pub(crate) async fn may_begin_turn(&self, envelope: &Envelope) -> Result<bool, BrokerError> {
        let Some(root) = &envelope.root else { return Ok(true) };
        let document = self.store().document(DocumentKind::TurnCount, root.as_str()).await?;
        let count = TurnCount::read(document.as_ref(), self.options().clock.now());
        Ok(count.turns < self.options().max_turns_per_message)
    }

    /// Counts a turn that is about to begin. Returns false if the limit is reached. A turn that begins again counts again.
    pub(crate) async fn count_turn(&self, envelope: &Envelope) -> Result<bool, BrokerError> {
        let Some(root) = &envelope.root else { return Ok(true) };
        let now = self.options().clock.now();
        for _ in 0..MAX_CONFLICTS {
            let document = self.store().document(DocumentKind::TurnCount, root.as_str()).await?;
            let mut count = TurnCount::read(document.as_ref(), now);
            if count.turns >= self.options().max_turns_per_message {
                return Ok(false);
            }
            count.turns += 1;
            count.at = now;
            let expected = document
                .map_or(ExpectedRevision::Absent, |document| ExpectedRevision::Revision(document.revision));
            let value = serde_json::to_value(&count).map_err(|error| {
                BrokerError::new(
                    BrokerErrorKind::Failed,
                    format!("the count of turns cannot be written: {error}"),
                    "",
                )
            })?;
            match self.store().write(DocumentKind::TurnCount, root.as_str(), expected, &value).await {
                Err(error) if error.kind == BrokerErrorKind::Conflict => {}
                written => return written.map(|_| true),
            }
        }
        Err(BrokerError::new(
            BrokerErrorKind::Conflict,
            format!("other processes changed the turn count of {root} {MAX_CONFLICTS} times in a row"),
            "",
        ))
    }

    /// Returns the text of the error for a message that begins no turn.
    pub(crate) fn too_many_turns(&self, chain: &Chain) -> String {
        format!(
            "{} turns were started because of the message {}, which is the limit",
            self.options().max_turns_per_message,
            chain.root
        )
    }

    /// Deletes the counts whose last turn was long ago.
    pub(crate) async fn forget_turn_counts(&self) -> Result<(), BrokerError> {
        let now = self.options().clock.now();
        for document in self.store().documents(DocumentKind::TurnCount).await? {
            let count = TurnCount::read(Some(&document), now);
            if now.duration_since(count.at).is_ok_and(|since| since > STORED_FOR) {
                let expected = ExpectedRevision::Revision(document.revision);
                match self.store().delete(DocumentKind::TurnCount, &document.key, expected).await {
                    // Another broker has changed or deleted this count meanwhile.
                    Err(error) if error.kind == BrokerErrorKind::Conflict => {}
                    deleted => deleted?,
                }
            }
        }
        Ok(())
    }
}
