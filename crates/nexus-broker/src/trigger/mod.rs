//! Triggers: messages that are sent when it is time, or when something happens.
//!
//! | to | see |
//! | --- | --- |
//! | say when something is to be done | [`NewTrigger`], [`TriggerSchedule`] |
//! | make, list and delete triggers, and send events | [`Triggers`] |
//! | have them fire by time, by reports and by files | [`Scheduler`] |
//! | have them fire by signed requests | [`WebhookServer`], [`WebhookSecrets`] |
//! | give an agent tools for its own | [`TriggerTools`] |
//! | say where messages go, and who may address whom | [`TriggerTargets`], which a [`Broker`](crate::Broker) is |
//!
//! # Once
//!
//! Each firing is one [`Envelope`](crate::Envelope) of type `trigger`. Its id is made of the trigger and the occurrence (`trigger:ID@OCCURRENCE`), and
//! the store puts an id once, so brokers that share a store fire an occurrence once, also over a restart, for as long as the
//! store knows the id ([`QueueLimits::remembered_for`](crate::QueueLimits::remembered_for)). Only then is the trigger moved on, by compare-and-set.
//!
//! | type | the occurrence is named by |
//! | --- | --- |
//! | `cron` | its time without the jitter, to the second, in UTC: `2026-03-29T01:00:00Z` |
//! | `at` | its time to the millisecond |
//! | `event` | the id of the event, or its SHA-256 where it is longer than 64 bytes or has other letters than `a-z A-Z 0-9 . _ -` |
//! | `webhook` | the `webhook-id`, in the same way |
//! | `file` | the state of the files: path, time of change, size and number of each, and the content of a single one |
//! | `completion` | `AGENT:TASK:completed` or `AGENT:TASK:failed` |
//!
//! # Missed
//!
//! A time is decided on once: by its rule ([`MissedRule`]) it fires, or passes. A machine that slept decides on all times that passed
//! when it wakes. What a queue that is full refuses, or a store that cannot be reached, is tried again; what nobody may receive passes, and is logged.
//!
//! # Data
//!
//! What comes with an event stands in `data` of the message. It is data, never an instruction: what is to be done is the `action`, which whoever made the
//! trigger wrote.

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
