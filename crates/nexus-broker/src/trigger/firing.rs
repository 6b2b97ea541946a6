//! One firing: the message is put, then the trigger is advanced.
//!
//! The id of the message consists of the ids of the trigger and the occurrence. So two brokers, or a broker that was killed
//! between the two steps, put one message. Advancing the trigger only saves work: a repeated decision puts the same message,
//! which changes nothing.

use std::sync::Arc;

use nexus_core::Clock;
use ring::digest;
use serde_json::{Map, Value};

use super::{
    document::{Trigger, TriggerId},
    targets::TriggerTargets,
};
use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::{Address, Chain, Envelope, EnvelopeId, Payload},
    store::{BrokerStore, DocumentKind, ExpectedRevision, PutOutcome, StoredDocument},
};

/// Maximum number of attempts to write a document that other brokers write meanwhile. After that, the next look decides the
/// same again.
const MAX_CONFLICTS: usize = 16;
/// Maximum length of an occurrence name that is used unchanged, in bytes.
const MAX_PLAIN_BYTES: usize = 64;

/// Puts the messages of firings, and advances triggers.
#[derive(Clone, Debug)]
pub(super) struct TriggerFirer {
    pub(super) store: Arc<dyn BrokerStore>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) targets: Arc<dyn TriggerTargets>,
}

/// Result of an occurrence.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerFiring {
    /// The trigger.
    pub trigger: TriggerId,
    /// The message.
    pub message: EnvelopeId,
    /// Distinguishes a new message from a repeated one. It is repeated if another broker was first or the same event came
    /// again.
    pub outcome: PutOutcome,
}

impl TriggerFirer {
    /// Puts the message of an occurrence. `chain` is the position of the message that fired the trigger, if one did.
    pub(super) async fn put(
        &self,
        trigger: &Trigger,
        occurrence: &str,
        data: Option<Value>,
        chain: Option<Chain>,
    ) -> Result<TriggerFiring, BrokerError> {
        let payload = Payload::Trigger {
            trigger_id: trigger.id.to_string(),
            occurrence: occurrence.to_owned(),
            action: trigger.action.clone(),
            data,
            other: Map::new(),
        };
        let source = Address::agent(&trigger.agent)?;
        let mut envelope = Envelope::new(source, trigger.routed_to(), payload, &*self.clock);
        envelope.message_id = EnvelopeId::of_occurrence(&format!("trigger:{}", trigger.id), occurrence);
        envelope.priority = trigger.priority;
        let (hops, root) = chain.map_or((0, None), |chain| (chain.hops, Some(chain.root)));
        envelope.hops = hops.max(trigger.hops);
        envelope.root = root.or_else(|| trigger.root.clone());
        let outcome = self.targets.deliver(&envelope).await?;
        tracing::debug!(trigger = %trigger.id, occurrence, ?outcome, "a trigger fired");
        Ok(TriggerFiring { trigger: trigger.id.clone(), message: envelope.message_id, outcome })
    }

    /// Changes a trigger by compare-and-set. `change` runs on the stored document, and again after each conflicting write,
    /// so it must never move the trigger back. Returns None if the trigger is gone.
    pub(super) async fn change(
        &self,
        id: &TriggerId,
        change: impl Fn(&mut Trigger),
    ) -> Result<Option<Trigger>, BrokerError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(StoredDocument { key, revision, value, .. }) =
                self.store.document(DocumentKind::Trigger, id.as_str()).await?
            else {
                return Ok(None);
            };
            let mut trigger = Trigger::read(&key, &value)?;
            let before = trigger.clone();
            change(&mut trigger);
            if trigger == before {
                return Ok(Some(trigger));
            }
            let expected = ExpectedRevision::Revision(revision);
            match self.store.write(DocumentKind::Trigger, &key, expected, &trigger.to_value()).await {
                Ok(_) => return Ok(Some(trigger)),
                Err(error) if error.kind == BrokerErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Err(BrokerError::new(
            BrokerErrorKind::Conflict,
            format!("other processes changed the trigger {id} {MAX_CONFLICTS} times in a row"),
            "",
        ))
    }
}

/// Returns true if the same firing would fail again at every attempt: see [`TriggerTargets::deliver`].
pub(super) fn is_final(error: &BrokerError) -> bool {
    matches!(error.kind, BrokerErrorKind::NotAllowed | BrokerErrorKind::Unknown | BrokerErrorKind::Invalid)
}

/// Returns the name of an occurrence that an outside sender named: the name itself if it is short and of plain
/// letters, else its SHA-256.
pub(super) fn named(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !name.is_empty() && name.len() <= MAX_PLAIN_BYTES && name.bytes().all(plain) {
        return name.to_owned();
    }
    // A name that is used unchanged has no colon, so it cannot equal a hash.
    format!("sha256:{}", hashed(name.as_bytes()))
}

/// Returns the SHA-256 in hexadecimal digits.
pub(super) fn hashed(bytes: &[u8]) -> String {
    nexus_files::hex(digest::digest(&digest::SHA256, bytes).as_ref())
}
