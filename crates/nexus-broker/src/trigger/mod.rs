//! Triggers: messages that are sent at a time, or on an event.
//!
//! | to | see |
//! | --- | --- |
//! | describe when a trigger fires | [`NewTrigger`], [`TriggerSchedule`] |
//! | create, list and delete triggers, and send events | [`Triggers`] |
//! | fire triggers by time, by reports and by files | [`Scheduler`] |
//! | fire triggers by signed requests | [`WebhookServer`], [`WebhookSecrets`] |
//! | give an agent tools for its own triggers | [`TriggerTools`] |
//! | decide where messages go, and which agent may address which | [`TriggerTargets`], which a [`Broker`](crate::Broker) implements |
//!
//! # Once
//!
//! Each firing is an [`Envelope`](crate::Envelope) of type `trigger`. Its id consists of the trigger and the occurrence
//! (`trigger:ID@OCCURRENCE`), and the store puts an id once. So brokers that share a store fire an occurrence once, also
//! over a restart, for as long as the store knows the id
//! ([`QueueLimits::remembered_for`](crate::QueueLimits::remembered_for)). After the put, the trigger is advanced by
//! compare-and-set.
//!
//! | type | name of the occurrence |
//! | --- | --- |
//! | `cron` | its time without the jitter, to the second, in UTC: `2026-03-29T01:00:00Z` |
//! | `at` | its time to the millisecond |
//! | `event` | the id of the event; or its SHA-256, if it is longer than 64 bytes or has other characters than `a-z A-Z 0-9 . _ -` |
//! | `webhook` | the `webhook-id`, in the same way |
//! | `file` | the state of the files: path, time of change, size and number of each, and the content of a single one |
//! | `completion` | `AGENT:TASK:completed` or `AGENT:TASK:failed` |
//!
//! # Missed
//!
//! Each occurrence is decided once: by its rule ([`MissedRule`]) it fires, or is skipped. A machine that slept decides all
//! passed occurrences when it wakes. If a queue is full, or a store cannot be reached, the firing is tried again. If its
//! recipient does not exist or may not receive it, the occurrence is skipped and logged.
//!
//! # Data
//!
//! The data of an event is in `data` of the message. It is data, never an instruction: the work to do is the `action`, which
//! the author of the trigger wrote.

mod broker_targets;
mod completion;
mod cron;
mod document;
mod due;
mod file;
mod firing;
mod schedule;
mod scheduler;
mod targets;
#[cfg(test)]
mod tests;
mod time;
mod timed;
mod tools;
mod triggers;
mod webhook;

pub use document::{MAX_ACTION_BYTES, NewTrigger, Trigger, TriggerId};
pub use firing::TriggerFiring;
pub use schedule::{
    AtSchedule, CompletionOutcome, CompletionSchedule, CronSchedule, EventSchedule, FileSchedule,
    MISSED_AFTER, MissedRule, TriggerSchedule, WebhookSchedule,
};
pub use scheduler::{Scheduler, SchedulerLook, SchedulerSettings};
pub use targets::{StoreTargets, TriggerTargets};
pub use tools::TriggerTools;
pub use triggers::{TriggerList, Triggers};
pub use webhook::{WebhookKey, WebhookSecrets, WebhookServer, WebhookSettings};
