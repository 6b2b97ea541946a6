//! Triggers.
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
