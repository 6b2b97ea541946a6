//! Envelope of a message: sender, recipient, times and payload.

use std::time::SystemTime;

use nexus_core::Clock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::{Address, EnvelopeId, Payload};
use nexus_files::rfc3339;

/// Priority of a waiting message. Messages of one priority are delivered in order.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MessagePriority {
    /// After the others.
    Low,
    /// Between.
    #[default]
    Normal,
    /// Before the others.
    High,
    /// Before all, and between the tool calls of a turn that is under way where its backend can be steered.
    Urgent,
}

/// A message.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// Id of the message.
    pub message_id: EnvelopeId,
    /// Creation time: RFC 3339, UTC, to the millisecond.
    #[serde(with = "rfc3339::as_millis")]
    #[schemars(with = "String")]
    pub timestamp: SystemTime,
    /// Sender. The broker sets it from the sender's session, never the sender.
    pub source_agent_id: Address,
    /// Recipient.
    pub target_agent_id: Address,
    /// Priority among the waiting messages.
    #[serde(default)]
    pub priority: MessagePriority,
    /// Time after which the message should not be handled any more.
    #[serde(default, with = "rfc3339::as_millis::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub expires_at: Option<SystemTime>,
    /// Number of turns in the chain that led to this message. It is one more than the number of the message whose turn sent
    /// this message. A message of a caller has 0. A trigger's message has the number of the report that fired it. If a turn created
    /// the trigger for the next minute, it has the number of a message of that turn. Otherwise it has 0. The broker sets it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hops: u32,
    /// First message of the chain of turns that led to this one. None for a first message, such as that of a caller. The
    /// broker sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<EnvelopeId>,
    /// Content.
    #[serde(flatten)]
    pub payload: Payload,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Returns true if a count of hops is left out of the JSON.
pub(crate) fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Envelope {
    /// Creates a message of normal priority that does not expire. Its time is now, to the millisecond.
    #[must_use]
    pub fn new(source: Address, target: Address, payload: Payload, clock: &dyn Clock) -> Self {
        Self {
            message_id: EnvelopeId::random(),
            timestamp: rfc3339::cut_to_millis(clock.now()),
            source_agent_id: source,
            target_agent_id: target,
            priority: MessagePriority::Normal,
            expires_at: None,
            hops: 0,
            root: None,
            payload,
            other: Map::new(),
        }
    }

    /// Returns the position of the message in its chain.
    pub(crate) fn chain(&self) -> Chain {
        Chain { hops: self.hops, root: self.root.clone().unwrap_or_else(|| self.message_id.clone()) }
    }

    /// Sets the chain position of a message that a turn sends, or of the answer to the turn's message.
    pub(crate) fn follow(&mut self, turn: &Chain) {
        self.hops = turn.hops.saturating_add(1);
        self.root = Some(turn.root.clone());
    }
}

/// Position of a message among all messages that result from one first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Number of turns before this message, each of which began the next.
    pub(crate) hops: u32,
    /// First message of the chain.
    pub(crate) root: EnvelopeId,
}

/// Returns the JSON Schema of an [`Envelope`], in its sent and stored form.
#[must_use]
pub fn envelope_schema() -> Value {
    schemars::schema_for!(Envelope).to_value()
}
