//! Conditions for firing, by the type of the trigger.

mod file;

pub use file::FileSchedule;

use std::time::{Duration, SystemTime};

use nexus_core::variable_name_fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::cron::CronTimes;
use crate::{error::BrokerError, message::Address};
use nexus_files::rfc3339;

/// Longest name of an event, a task, a pattern or an environment variable, in bytes.
const MAX_TEXT_BYTES: usize = 256;
/// Maximum number of missed runs that fire one after the other.
const MAX_MISSED: u32 = 1000;
/// Longest jitter, in seconds: a day.
const MAX_JITTER_SECONDS: u32 = 24 * 60 * 60;

/// Condition for firing. `type` and `schedule` of its document.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "schedule", rename_all = "snake_case")]
pub enum TriggerSchedule {
    /// Fires at the times of a cron expression.
    Cron(CronSchedule),
    /// Fires at one time, once.
    At(AtSchedule),
    /// Fires when a program sends an event of this name.
    Event(EventSchedule),
    /// Fires when a signed request arrives over HTTP.
    Webhook(WebhookSchedule),
    /// Fires when files were written.
    File(FileSchedule),
    /// Fires when an agent reports that a task is completed or failed.
    Completion(CompletionSchedule),
}

impl TriggerSchedule {
    /// Checks that this version would create a trigger with this schedule. Reads no clock and no file.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        match self {
            Self::Cron(cron) => cron.check(),
            Self::At(_) => Ok(()),
            Self::Event(event) => {
                if is_text(&event.name) {
                    return Ok(());
                }
                Err(BrokerError::invalid(
                    "the name of the event must be one line of 1 to 256 bytes",
                    "shorten it",
                ))
            }
            Self::Webhook(webhook) => webhook.check(),
            Self::File(file) => file.check(),
            Self::Completion(completion) => completion.check(),
        }
    }
}

fn is_text(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= MAX_TEXT_BYTES && !text.chars().any(char::is_control)
}

/// Rule for times that passed while no broker ran, or the machine slept.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedRule {
    /// The newest of all due times fires, however late it is.
    #[default]
    Once,
    /// Each missed time fires, oldest first. If more than [`CronSchedule::most_missed`] were missed, only the newest fire.
    All,
    /// A time that is more than a minute late ([`MISSED_AFTER`]) does not fire.
    None,
}

/// Maximum delay of a firing under [`MissedRule::None`].
pub const MISSED_AFTER: Duration = Duration::from_secs(60);

/// Times by a cron expression.
///
/// Summer time follows Vixie cron. Times that are written out (no `*` in seconds, minutes and hours) fire once a day each.
/// If the clock skips such a time, it fires right after the skip; if the clock repeats it, it fires the first time. All
/// other times follow the clock: a skipped time does not fire, a repeated time fires twice.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CronSchedule {
    /// Minute, hour, day of month, month, day of week; a field of seconds may come first, one of years last. `@hourly`, `@daily`,
    /// `@weekly`, `@monthly` and `@yearly` too. Where both day fields are restricted, either is enough.
    pub expression: String,
    /// The name of a time zone, such as `Europe/Berlin`. UTC by default.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// Rule for missed times.
    #[serde(default)]
    pub missed: MissedRule,
    /// Maximum number of missed times that fire under `all`: 1 to 1,000.
    #[serde(default = "most_missed")]
    pub most_missed: u32,
    /// Maximum delay of a firing, in seconds. The delay of an occurrence is the same on every broker, and never reaches the
    /// next occurrence.
    #[serde(default)]
    pub jitter_seconds: u32,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn most_missed() -> u32 {
    100
}

impl CronSchedule {
    /// Creates a schedule in UTC without jitter. Missed times fire once.
    pub fn new(expression: impl Into<String>) -> Self {
        Self {
            expression: expression.into(),
            time_zone: utc(),
            missed: MissedRule::Once,
            most_missed: most_missed(),
            jitter_seconds: 0,
            other: Map::new(),
        }
    }

    /// Sets the time zone.
    #[must_use]
    pub fn in_zone(mut self, time_zone: impl Into<String>) -> Self {
        self.time_zone = time_zone.into();
        self
    }

    /// Sets the rule for missed times.
    #[must_use]
    pub fn with_missed(mut self, missed: MissedRule) -> Self {
        self.missed = missed;
        self
    }

    /// Sets the maximum delay, in seconds.
    #[must_use]
    pub fn with_jitter_seconds(mut self, jitter_seconds: u32) -> Self {
        self.jitter_seconds = jitter_seconds;
        self
    }

    fn check(&self) -> Result<(), BrokerError> {
        if !(1..=MAX_MISSED).contains(&self.most_missed) {
            return Err(BrokerError::invalid(
                format!("`most_missed` is {}", self.most_missed),
                format!("take 1 to {MAX_MISSED}"),
            ));
        }
        if self.jitter_seconds > MAX_JITTER_SECONDS {
            return Err(BrokerError::invalid(
                format!("`jitter_seconds` is {}", self.jitter_seconds),
                format!("take at most {MAX_JITTER_SECONDS}: a day"),
            ));
        }
        CronTimes::parse(&self.expression, &self.time_zone).map(drop)
    }
}

/// Schedule for one time.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AtSchedule {
    /// Time of the firing: RFC 3339, UTC.
    #[serde(with = "rfc3339::as_millis")]
    #[schemars(with = "String")]
    pub time: SystemTime,
    /// Rule for a missed time: under `none`, it does not fire late.
    #[serde(default)]
    pub missed: MissedRule,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl AtSchedule {
    /// Creates a schedule that fires at this time, or later if the time was missed.
    #[must_use]
    pub fn new(time: SystemTime) -> Self {
        Self { time: nexus_files::rfc3339::cut_to_millis(time), missed: MissedRule::Once, other: Map::new() }
    }
}

/// Events of a name.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventSchedule {
    /// Name of the events, as passed to `Triggers::fire_event`: one line of 1 to 256 bytes.
    pub name: String,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl EventSchedule {
    /// Creates a schedule for events of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), other: Map::new() }
    }
}

/// Signed requests over HTTP.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookSchedule {
    /// Environment variable of the broker that contains the secret. If missing, the secret is in the broker's folder of
    /// secrets. The trigger itself never contains the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_environment: Option<String>,
    /// Maximum number of requests with a valid signature per minute: 1 to 6,000. 60 by default.
    #[serde(default = "max_per_minute")]
    pub max_per_minute: u32,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn max_per_minute() -> u32 {
    60
}

impl WebhookSchedule {
    /// Creates a schedule for 60 requests a minute, with the secret in the broker's folder.
    #[must_use]
    pub fn in_folder() -> Self {
        Self { secret_environment: None, max_per_minute: max_per_minute(), other: Map::new() }
    }

    /// Creates a schedule for 60 requests a minute, with the secret in an environment variable of the broker.
    pub fn in_environment(name: impl Into<String>) -> Self {
        Self { secret_environment: Some(name.into()), ..Self::in_folder() }
    }

    fn check(&self) -> Result<(), BrokerError> {
        if !(1..=6000).contains(&self.max_per_minute) {
            return Err(BrokerError::invalid(
                format!("`max_per_minute` is {}", self.max_per_minute),
                "take 1 to 6000",
            ));
        }
        let Some(name) = &self.secret_environment else { return Ok(()) };
        match variable_name_fault(name) {
            None => Ok(()),
            // The error never repeats the name: it may be the secret.
            Some(reason) => Err(BrokerError::invalid(
                format!("`secret_environment` {reason}"),
                "name a variable, and create the trigger again",
            )),
        }
    }
}

/// Reports of agents in the store's log.
///
/// A report is a `status_update` of `completed` or `failed`, or a `result`, which counts as completed. The name of its
/// occurrence has the agent, the task and the outcome: `AGENT:TASK:completed` or `AGENT:TASK:failed`. A long name, or one with
/// other characters, is replaced by its SHA-256. So a `status_update` and the `result` after it fire once, and a task that fails
/// and is then completed fires twice. A task that is completed again fires again only if the store has forgotten the first
/// time. Reports from before the creation of the trigger do not fire, by the clocks of the brokers that received them.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompletionSchedule {
    /// Agent that reports. If missing, any agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Task of the report. If missing, any task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Outcomes that fire the trigger. Both by default.
    #[serde(default = "either", skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<CompletionOutcome>,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

fn either() -> Vec<CompletionOutcome> {
    vec![CompletionOutcome::Completed, CompletionOutcome::Failed]
}

/// Outcome of a task.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletionOutcome {
    /// The task is done: a `status_update` of `completed`, or a `result`.
    Completed,
    /// The agent has given up the task: a `status_update` of `failed`.
    Failed,
}

impl CompletionSchedule {
    /// Creates a schedule for any task of an agent, with any outcome.
    pub fn of_agent(agent: impl Into<String>) -> Self {
        Self { agent: Some(agent.into()), task: None, outcomes: either(), other: Map::new() }
    }

    /// Creates a schedule for a task, of any agent and with any outcome.
    pub fn of_task(task: impl Into<String>) -> Self {
        Self { agent: None, task: Some(task.into()), outcomes: either(), other: Map::new() }
    }

    fn check(&self) -> Result<(), BrokerError> {
        if self.agent.is_none() && self.task.is_none() {
            return Err(BrokerError::invalid(
                "the trigger names neither an agent nor a task to wait for",
                "name one of them",
            ));
        }
        if let Some(agent) = &self.agent {
            Address::agent(agent)?;
        }
        if self.task.as_deref().is_some_and(|task| !is_text(task)) {
            return Err(BrokerError::invalid(
                "`task` must be one line of 1 to 256 bytes",
                "name the task by its id",
            ));
        }
        Ok(())
    }
}
