//! Stored form of a trigger.

use std::{fmt, time::SystemTime};

use nexus_core::name_type;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::schedule::TriggerSchedule;
use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::{Address, Chain, EnvelopeId, MessagePriority, is_zero},
};
use nexus_files::rfc3339;

/// Longest action, in bytes. Source: our own bound: a message takes 256 KiB, of which data may take most.
pub const MAX_ACTION_BYTES: usize = 16 << 10;
/// Longest id, in bytes.
const MAX_ID_BYTES: usize = 64;

name_type! {
    /// Id of a trigger: 1 to 64 bytes of `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`. It begins with a letter or a digit.
    pub struct TriggerId: check_id => BrokerError;
}

impl TriggerId {
    /// Creates a random id.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string().into())
    }
}

fn check_id(text: &str) -> Result<(), BrokerError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && text.len() <= MAX_ID_BYTES && text.bytes().all(fits) {
        return Ok(());
    }
    let shown: String = text.chars().take(80).collect();
    Err(BrokerError::invalid(
        format!("{shown:?} is not a valid trigger id"),
        "write 1 to 64 letters, digits, `.`, `_` and `-`, beginning with a letter or a digit",
    ))
}

impl JsonSchema for TriggerId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TriggerId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" })
    }
}

/// A trigger: a document of kind [`Trigger`](crate::DocumentKind::Trigger), by its id.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trigger {
    /// Id of the trigger.
    pub id: TriggerId,
    /// Agent that owns the trigger. Firings are sent in this agent's name.
    pub agent: String,
    /// Condition for firing: `type`, and the `schedule` of that type. An unknown type is rejected.
    #[serde(flatten)]
    pub schedule: TriggerSchedule,
    /// Work to do, as the author of the trigger wrote it.
    pub action: String,
    /// Recipient of a firing. Default: [`session`](Self::session), and without a session the manager of
    /// [`agent`](Self::agent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Address>,
    /// Session that created the trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Address>,
    /// Priority of its firings.
    #[serde(default)]
    pub priority: MessagePriority,
    /// True if the trigger may fire.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Next time of a `cron` or `at` trigger: RFC 3339, UTC. None if it has no further time.
    #[serde(default, with = "rfc3339::as_millis::option")]
    #[schemars(with = "Option<String>")]
    pub next_run: Option<SystemTime>,
    /// Time of the last firing, by the clock of the broker that moved it: RFC 3339, UTC.
    #[serde(default, with = "rfc3339::as_millis::option")]
    #[schemars(with = "Option<String>")]
    pub last_run: Option<SystemTime>,
    /// Creation time: RFC 3339, UTC.
    #[serde(with = "rfc3339::as_millis")]
    #[schemars(with = "String")]
    pub created_at: SystemTime,
    /// For `cron` and `at`: time of the last decided occurrence, which fired or was skipped. RFC 3339, UTC. The next
    /// occurrence is the first after it. If missing: [`created_at`](Self::created_at).
    #[serde(default, with = "rfc3339::as_millis::option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub decided_until: Option<SystemTime>,
    /// For `completion`: number of the last log entry that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_in_log: Option<u64>,
    /// For `file`: last decided state of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_state: Option<String>,
    /// [`hops`](crate::Envelope::hops) of the firings. Not 0 only for `at`, if a turn created the trigger for the next
    /// minute.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hops: u32,
    /// [`root`](crate::Envelope::root) of the firings, if they have `hops`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<EnvelopeId>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn yes() -> bool {
    true
}

impl Trigger {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// [`Damaged`](BrokerErrorKind::Damaged) if the document is not a trigger, or if this version would refuse
    /// to create it.
    pub fn read(key: &str, value: &Value) -> Result<Self, BrokerError> {
        let damaged = |problem: &dyn fmt::Display| {
            BrokerError::new(
                BrokerErrorKind::Damaged,
                format!("the trigger {key:?} cannot be read: {problem}"),
                "delete it, and create it again with create_trigger",
            )
        };
        let trigger = Self::deserialize(value).map_err(|error| damaged(&error))?;
        if trigger.id.as_str() != key {
            return Err(damaged(&format_args!("the document contains the id {:?}", trigger.id.as_str())));
        }
        trigger.check().map_err(|error| damaged(&error))?;
        Ok(trigger)
    }

    /// Returns the trigger as a document.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // Every part serialises to JSON: keys are texts, and all numbers exist in JSON.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Checks that this version would create it.
    ///
    /// # Errors
    ///
    /// [`Invalid`](BrokerErrorKind::Invalid) names the problem and the fix.
    pub fn check(&self) -> Result<(), BrokerError> {
        Address::agent(&self.agent)?;
        if self.action.trim().is_empty() || self.action.len() > MAX_ACTION_BYTES {
            return Err(BrokerError::invalid(
                format!("the action has {} bytes", self.action.len()),
                format!("describe the work in 1 to {MAX_ACTION_BYTES} bytes"),
            ));
        }
        self.schedule.check()
    }

    /// Returns the time up to which occurrences were decided. None if the trigger does not fire by the clock.
    pub(super) fn decided(&self) -> Option<SystemTime> {
        let timed = matches!(self.schedule, TriggerSchedule::Cron(_) | TriggerSchedule::At(_));
        timed.then(|| self.decided_until.unwrap_or(self.created_at))
    }

    /// Returns the recipient of a firing: the target, else the session that created the trigger, else the
    /// manager of the agent.
    #[must_use]
    pub fn routed_to(&self) -> Address {
        let stated = self.target.clone().or_else(|| self.session.clone());
        stated.unwrap_or_else(|| Address::ManagerOf(self.agent.clone()))
    }
}

/// Description of a trigger to create.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct NewTrigger {
    /// Id of the trigger. A random one by default.
    pub id: TriggerId,
    /// Agent that owns the trigger.
    pub agent: String,
    /// Condition for firing.
    pub schedule: TriggerSchedule,
    /// Work to do.
    pub action: String,
    /// Recipient of a firing.
    pub target: Option<Address>,
    /// Session that creates the trigger.
    pub session: Option<Address>,
    /// Priority of its firings.
    pub priority: MessagePriority,
    /// Chain that its firings continue, where the turn that creates the trigger counts for them.
    pub(super) chain: Option<Chain>,
}

impl NewTrigger {
    /// Describes a trigger with a random id and normal priority. Its firings are sent to the manager of the agent.
    pub fn new(agent: impl Into<String>, schedule: TriggerSchedule, action: impl Into<String>) -> Self {
        Self {
            id: TriggerId::random(),
            agent: agent.into(),
            schedule,
            action: action.into(),
            target: None,
            session: None,
            priority: MessagePriority::Normal,
            chain: None,
        }
    }

    /// Creates the stored trigger at this time, unchecked and without a next run.
    pub(super) fn made_at(self, now: SystemTime) -> Trigger {
        let now = rfc3339::cut_to_millis(now);
        let (hops, root) = self.chain.map_or((0, None), |chain| (chain.hops, Some(chain.root)));
        let timed = matches!(self.schedule, TriggerSchedule::Cron(_) | TriggerSchedule::At(_));
        Trigger {
            id: self.id,
            agent: self.agent,
            schedule: self.schedule,
            action: self.action,
            target: self.target,
            session: self.session,
            priority: self.priority,
            enabled: true,
            next_run: None,
            last_run: None,
            created_at: now,
            decided_until: timed.then_some(now),
            decided_in_log: None,
            decided_state: None,
            hops,
            root,
            other: Map::new(),
        }
    }
}
