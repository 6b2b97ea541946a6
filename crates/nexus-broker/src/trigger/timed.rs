//! Triggers of type `cron` and `at`: fires the due ones.

use std::time::SystemTime;

use nexus_files::rfc3339;

use super::{
    cron::CronTimes,
    document::Trigger,
    due::{DueNow, Occurrences, is_missed},
    firing::{TriggerFiring, is_final},
    schedule::{MissedRule, TriggerSchedule},
    triggers::{Triggers, next_run},
};
use crate::error::BrokerError;

/// Fires the due occurrences of a trigger that was just read, and advances the trigger. After a failure, `firings` has the
/// messages that were put, and the trigger is advanced past them.
pub(super) async fn fire_due(
    triggers: &Triggers,
    trigger: &Trigger,
    firings: &mut Vec<TriggerFiring>,
) -> Result<(), BrokerError> {
    let now = triggers.now();
    let Some(decided) = trigger.decided().filter(|_| trigger.enabled) else { return Ok(()) };
    let (due, is_cron) = match &trigger.schedule {
        TriggerSchedule::Cron(schedule) => {
            let times = CronTimes::parse(&schedule.expression, &schedule.time_zone)?;
            (Occurrences { times: &times, trigger: &trigger.id, schedule }.due(decided, now), true)
        }
        TriggerSchedule::At(at) => {
            let due = at.time > decided && at.time <= now;
            let fires = due && !(at.missed == MissedRule::None && is_missed(at.time, now));
            let fires = fires.then_some(at.time).into_iter().collect();
            (DueNow { fires, decided_until: due.then_some(at.time) }, false)
        }
        _ => return Ok(()),
    };
    let mut decided_until = due.decided_until;
    let mut last_run = None;
    let mut failure = None;
    let mut before = None;
    for time in due.fires {
        let occurrence = if is_cron { rfc3339::seconds(time) } else { rfc3339::millis(time) };
        match triggers.firer().put(trigger, &occurrence, None, None).await {
            Ok(firing) => {
                firings.push(firing);
                last_run = Some(rfc3339::cut_to_millis(now));
                before = Some(time);
            }
            // Every further attempt would fail too, so skip this occurrence.
            Err(error) if is_final(&error) => {
                failure = failure.or(Some(error));
                before = Some(time);
            }
            Err(error) => {
                // An occurrence that was not put is due again at the next look.
                decided_until = before;
                failure = Some(error);
                break;
            }
        }
    }
    if decided_until.is_some() || trigger.next_run.is_none() {
        move_on(triggers, trigger, decided_until, last_run).await?;
    }
    failure.map_or(Ok(()), Err)
}

async fn move_on(
    triggers: &Triggers,
    trigger: &Trigger,
    decided_until: Option<SystemTime>,
    last_run: Option<SystemTime>,
) -> Result<(), BrokerError> {
    let moved = triggers.firer().change(&trigger.id, |trigger| {
        trigger.decided_until = trigger.decided_until.max(decided_until);
        trigger.last_run = trigger.last_run.max(last_run);
        trigger.next_run = if trigger.enabled { next_run(trigger) } else { None };
        // Disable a trigger that has no further time.
        trigger.enabled &= trigger.next_run.is_some();
    });
    moved.await.map(drop)
}
