//! Messages in the file. Each function is part of a transaction.

use rusqlite::{CachedStatement, OptionalExtension as _, Params, Row, ToSql, Transaction, params};

use super::fault::Fault;
use crate::{
    error::BrokerError,
    message::{Envelope, EnvelopeId, MessagePriority},
    store::{
        Delivery, HandlingLease, LoggedEnvelope, LoggedEvent, PutOutcome, QueueLimits, QueueStatus,
        SetAsideMessage, Told,
        check::{self, StorableMessage, millis},
    },
};

const WAITING: i64 = 0;
const TAKEN: i64 = 1;
const HANDLED: i64 = 2;
const EXPIRED: i64 = 3;
/// State of an unreadable message. It is below the others, because states from 2 on are ended and are forgotten some day.
const SET_ASIDE: i64 = -1;

/// Maximum number of messages that expire in one transaction. The next one expires the others.
const EXPIRE_AT_ONCE: i64 = 1_000;
/// Number of old messages that each `put` forgets. More than one, so that a backlog shrinks.
const FORGET_AT_ONCE: i64 = 4;

/// Transaction on the queues.
pub(super) struct QueueTransaction<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) limits: &'a QueueLimits,
    /// Path of the file, for errors.
    pub(super) place: &'a str,
    /// Unreadable records that were logged.
    pub(super) told: &'a Told,
    /// Current time, in milliseconds.
    pub(super) now: i64,
}

impl QueueTransaction<'_> {
    /// Stores a message. Fails if its queue is full and `minds_full` is true.
    pub(super) fn put(&self, message: &StorableMessage, minds_full: bool) -> Result<PutOutcome, Fault> {
        self.forget()?;
        let (envelope, queue) = (&message.envelope, &message.queue);
        let id = envelope.message_id.as_str();
        // An ended message is still found here, so a late repetition of a sender is not delivered again.
        let known = self.statement("SELECT 1 FROM message WHERE id = ?1")?.query_row([id], |_| Ok(()));
        if known.optional()?.is_some() {
            return Ok(PutOutcome::AlreadyThere);
        }
        // Expired messages still count. End them only if the queue seems full, because that costs more.
        if minds_full && self.is_full(queue)? {
            self.expire()?;
            if self.is_full(queue)? {
                return Err(check::full(queue, self.limits).into());
            }
        }
        self.execute(
            "INSERT INTO message (id, queue, priority, state, deliveries, made_at, expires_at)
             VALUES (?1, ?2, ?3, 0, 0, ?4, ?5)",
            params![
                id,
                queue,
                envelope.priority as i64,
                millis(envelope.timestamp),
                envelope.expires_at.map(millis)
            ],
        )?;
        let number = self.transaction.last_insert_rowid();
        self.execute("INSERT INTO body (number, envelope) VALUES (?1, ?2)", params![number, message.json])?;
        // The counter makes the size of a queue one look-up. Counting its messages would take longer with each message.
        self.opened(queue)?;
        self.tell(LoggedEvent::Put, number)?;
        Ok(PutOutcome::Stored)
    }

    /// Counts one more message that waits in a queue or is under a lease from it.
    fn opened(&self, queue: &str) -> Result<(), Fault> {
        let opened =
            "INSERT INTO queue (name, open) VALUES (?1, 1) ON CONFLICT (name) DO UPDATE SET open = open + 1";
        self.execute(opened, [queue])?;
        Ok(())
    }

    /// Returns a statement, which is compiled once for each connection.
    fn statement(&self, sql: &'static str) -> Result<CachedStatement<'_>, Fault> {
        Ok(self.transaction.prepare_cached(sql)?)
    }

    fn execute(&self, sql: &'static str, values: impl Params) -> Result<usize, Fault> {
        Ok(self.statement(sql)?.execute(values)?)
    }

    fn is_full(&self, queue: &str) -> Result<bool, Fault> {
        let open = "SELECT open FROM queue WHERE name = ?1";
        let open: Option<i64> = self.statement(open)?.query_row([queue], |row| row.get(0)).optional()?;
        Ok(usize::try_from(open.unwrap_or(0)).unwrap_or(usize::MAX) >= self.limits.max_waiting)
    }

    fn tell(&self, event: LoggedEvent, number: i64) -> Result<(), Fault> {
        let event = match event {
            LoggedEvent::Put => 0,
            LoggedEvent::Expired => 1,
        };
        self.execute(
            "INSERT INTO log (event, at, message) VALUES (?1, ?2, ?3)",
            params![event, self.now, number],
        )?;
        Ok(())
    }

    /// Ends a message: its id stays known for a while, and it does not count for its queue any more.
    fn end(&self, number: i64, queue: &str, state: i64) -> Result<(), Fault> {
        self.execute(
            "UPDATE message SET state = ?2, ended_at = ?3 WHERE number = ?1",
            params![number, state, self.now],
        )?;
        self.execute("UPDATE queue SET open = open - 1 WHERE name = ?1", [queue])?;
        self.execute("DELETE FROM queue WHERE name = ?1 AND open <= 0", [queue])?;
        Ok(())
    }

    /// Ends messages that expired while they waited. [`Self::take`] ends an expired message whose lease has lapsed, because
    /// the owner of the lease may still finish it.
    fn expire(&self) -> Result<(), Fault> {
        let mut statement = self.statement(
            "SELECT number, queue FROM message WHERE state = 0 AND expires_at IS NOT NULL AND expires_at <= ?1
             ORDER BY expires_at, number LIMIT ?2",
        )?;
        let rows =
            statement.query_map(params![self.now, EXPIRE_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let expired: Vec<(i64, String)> = rows.collect::<Result<_, _>>()?;
        for (number, queue) in expired {
            self.end(number, &queue, EXPIRED)?;
            self.tell(LoggedEvent::Expired, number)?;
        }
        Ok(())
    }

    /// Forgets some messages that ended long ago.
    fn forget(&self) -> Result<(), Fault> {
        let remembered = i64::try_from(self.limits.remembered_for.as_millis()).unwrap_or(i64::MAX);
        let mut statement = self.statement(
            "SELECT number FROM message WHERE state >= 2 AND ended_at < ?1 ORDER BY ended_at LIMIT ?2",
        )?;
        let rows = statement
            .query_map(params![self.now.saturating_sub(remembered), FORGET_AT_ONCE], |row| row.get(0))?;
        let forgotten: Vec<i64> = rows.collect::<Result<_, _>>()?;
        for number in forgotten {
            for table in [
                "DELETE FROM log WHERE message = ?1",
                "DELETE FROM body WHERE number = ?1",
                "DELETE FROM message WHERE number = ?1",
            ] {
                self.execute(table, [number])?;
            }
        }
        Ok(())
    }

    pub(super) fn take(
        &self,
        queue: &str,
        at_least: MessagePriority,
        lease: i64,
    ) -> Result<Option<Delivery>, Fault> {
        self.expire()?;
        loop {
            let Some(FirstInQueue { number, id, deliveries, has_expired, .. }) =
                self.first(queue, at_least)?
            else {
                return Ok(None);
            };
            if has_expired {
                self.end(number, queue, EXPIRED)?;
                self.tell(LoggedEvent::Expired, number)?;
                continue;
            }
            let (envelope, message) = match (self.body(number, &id)?, check::stored_id(self.place, &id)) {
                (Ok(envelope), Ok(message)) => (envelope, message),
                (Err(error), _) | (_, Err(error)) => {
                    self.put_aside(number, queue, &error)?;
                    continue;
                }
            };
            // A new receipt ends the rights of every earlier lease on the message.
            let receipt = uuid::Uuid::new_v4().simple().to_string();
            self.execute(
            "UPDATE message SET state = 1, deliveries = deliveries + 1, receipt = ?2, taken_at = ?3, lease_until = ?4
             WHERE number = ?1",
            params![number, receipt, self.now, self.now.saturating_add(lease)],
        )?;
            let lease = HandlingLease { queue: queue.to_owned(), message, receipt };
            return Ok(Some(Delivery { envelope, lease, deliveries: deliveries.unsigned_abs() + 1 }));
        }
    }

    /// Returns the message that is delivered next: a waiting one, or one with a lapsed lease.
    fn first(&self, queue: &str, at_least: MessagePriority) -> Result<Option<FirstInQueue>, Fault> {
        let waiting = "SELECT number, id, deliveries, priority, 0 FROM message
             WHERE state = 0 AND queue = ?1 AND priority >= ?2 AND (expires_at IS NULL OR expires_at > ?3)
             ORDER BY priority DESC, number LIMIT 1";
        // The last condition holds if the clock was set back by more than the length of the lease.
        let lapsed = "SELECT number, id, deliveries, priority, expires_at IS NOT NULL AND expires_at <= ?3 FROM message
             WHERE state = 1 AND queue = ?1 AND priority >= ?2
             AND (lease_until <= ?3 OR taken_at - (lease_until - taken_at) > ?3)
             ORDER BY priority DESC, number LIMIT 1";
        let mut first: Option<FirstInQueue> = None;
        for sql in [waiting, lapsed] {
            let values = params![queue, at_least as i64, self.now];
            let found = self.statement(sql)?.query_row(values, |row| {
                Ok(FirstInQueue {
                    number: row.get(0)?,
                    id: row.get(1)?,
                    deliveries: row.get(2)?,
                    priority: row.get(3)?,
                    has_expired: row.get(4)?,
                })
            });
            first = first.into_iter().chain(found.optional()?).min_by_key(FirstInQueue::rank);
        }
        Ok(first)
    }

    /// Excludes an unreadable message: it is stored, but does not wait any more.
    fn put_aside(&self, number: i64, queue: &str, error: &BrokerError) -> Result<(), Fault> {
        self.end(number, queue, SET_ASIDE)?;
        self.told.warn(error);
        Ok(())
    }

    /// Returns excluded messages to their queues if this version can read them.
    pub(super) fn take_up_what_can_be_read(&self) -> Result<(), Fault> {
        // Collect first: SQLite does not define if an open query sees the changes below.
        let readable: Vec<(i64, String)> = {
            let mut statement =
                self.statement("SELECT number, id, queue FROM message WHERE state = -1 ORDER BY number")?;
            let mut rows = statement.query([])?;
            let mut readable = Vec::new();
            while let Some(row) = rows.next()? {
                let (number, id): (i64, String) = (row.get(0)?, row.get(1)?);
                match (self.body(number, &id)?, check::stored_id(self.place, &id)) {
                    (Ok(_), Ok(_)) => readable.push((number, row.get(2)?)),
                    (Err(error), _) | (_, Err(error)) => self.told.warn(&error),
                }
            }
            readable
        };
        for (number, queue) in readable {
            self.execute("UPDATE message SET state = 0, ended_at = NULL WHERE number = ?1", [number])?;
            self.opened(&queue)?;
        }
        Ok(())
    }

    pub(super) fn set_aside(&self, at_most: usize) -> Result<Vec<SetAsideMessage>, Fault> {
        let mut statement = self
            .statement("SELECT number, id, queue FROM message WHERE state = -1 ORDER BY number LIMIT ?1")?;
        let mut rows = statement.query([i64::try_from(at_most).unwrap_or(i64::MAX)])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (number, message): (i64, String) = (row.get(0)?, row.get(1)?);
            let problem = match (self.body(number, &message)?, check::stored_id(self.place, &message)) {
                (Err(error), _) | (_, Err(error)) => error.message,
                (Ok(_), Ok(_)) => {
                    "it is readable again, and will wait in its queue after the broker restarts".to_owned()
                }
            };
            let stored = self.stored(number)?.unwrap_or_default();
            let stored = String::from_utf8_lossy(&stored).into_owned();
            found.push(SetAsideMessage { queue: row.get(2)?, message, problem, stored });
        }
        Ok(found)
    }

    /// Returns a message by its id.
    pub(super) fn message(&self, id: &EnvelopeId) -> Result<Option<Envelope>, Fault> {
        let known = "SELECT number FROM message WHERE id = ?1";
        let known: Option<i64> =
            self.statement(known)?.query_row([id.as_str()], |row| row.get(0)).optional()?;
        let Some(number) = known else { return Ok(None) };
        Ok(Some(self.body(number, id.as_str())??))
    }

    /// Returns the stored bytes of a message: a text column may contain invalid UTF-8.
    fn stored(&self, number: i64) -> Result<Option<Vec<u8>>, Fault> {
        let body = "SELECT CAST(envelope AS BLOB) FROM body WHERE number = ?1";
        Ok(self.statement(body)?.query_row([number], |row| row.get(0)).optional()?)
    }

    /// Reads the content of a message, or returns the reason why it cannot be read.
    fn body(&self, number: i64, id: &str) -> Result<Result<Envelope, BrokerError>, Fault> {
        Ok(match self.stored(number)? {
            Some(body) => check::stored(self.place, id, &body),
            None => Err(check::unreadable(self.place, &format!("the message {id}"), &"it is missing")),
        })
    }

    /// Returns the state of a delivered message, if this lease is its last one.
    fn held(&self, held: &HandlingLease) -> Result<DeliveryState, Fault> {
        let known = "SELECT number, state FROM message WHERE id = ?1 AND queue = ?2 AND receipt = ?3";
        let values = params![held.message.as_str(), held.queue, held.receipt];
        let row = self
            .statement(known)?
            .query_row(values, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
        // A lapsed lease still belongs to its owner until another broker takes the message and writes another receipt.
        Ok(match row.optional()? {
            Some((number, TAKEN)) => DeliveryState::Now(number),
            Some((_, HANDLED)) => DeliveryState::Finished,
            Some((_, WAITING)) => DeliveryState::GivenBack,
            _ => DeliveryState::NotAnyMore,
        })
    }

    pub(super) fn extend(&self, held: &HandlingLease, lease: i64) -> Result<(), Fault> {
        let DeliveryState::Now(number) = self.held(held)? else { return Err(check::lapsed(held).into()) };
        self.execute(
            "UPDATE message SET taken_at = ?2, lease_until = ?3 WHERE number = ?1",
            params![number, self.now, self.now.saturating_add(lease)],
        )?;
        Ok(())
    }

    pub(super) fn finish(&self, held: &HandlingLease, outcome: &[StorableMessage]) -> Result<(), Fault> {
        let number = match self.held(held)? {
            DeliveryState::Now(number) => number,
            // A repeated call after a lost reply must neither fail nor put the outcome twice.
            DeliveryState::Finished => return Ok(()),
            DeliveryState::GivenBack | DeliveryState::NotAnyMore => return Err(check::lapsed(held).into()),
        };
        self.end(number, &held.queue, HANDLED)?;
        for message in outcome {
            // The message is handled by now, so a full queue must not undo that. Exceed the limit instead.
            self.put(message, false)?;
        }
        Ok(())
    }

    pub(super) fn put_back(&self, held: &HandlingLease) -> Result<(), Fault> {
        match self.held(held)? {
            DeliveryState::Now(number) => {
                // The receipt stays, so that a repeated call finds `GivenBack` and succeeds.
                self.execute("UPDATE message SET state = 0 WHERE number = ?1", [number])?;
                Ok(())
            }
            DeliveryState::GivenBack => Ok(()),
            DeliveryState::Finished | DeliveryState::NotAnyMore => Err(check::lapsed(held).into()),
        }
    }

    /// Returns true if `take` may find a message.
    pub(super) fn is_any(&self, queue: &str) -> Result<bool, Fault> {
        let any = "SELECT EXISTS (SELECT 1 FROM message WHERE state = 0 AND queue = ?1
                 AND (expires_at IS NULL OR expires_at > ?2))
             OR EXISTS (SELECT 1 FROM message WHERE state = 1 AND queue = ?1
                 AND (lease_until <= ?2 OR taken_at - (lease_until - taken_at) > ?2))";
        let any = self.statement(any)?.query_row(params![queue, self.now], |row| row.get(0));
        Ok(any?)
    }

    pub(super) fn waiting(&self, queue: &str, at_most: usize) -> Result<Vec<Envelope>, Fault> {
        self.expire()?;
        let mut lapsed = self
            .statement(
                "SELECT priority, number, id FROM message
                 WHERE state = 1 AND queue = ?1 AND (expires_at IS NULL OR expires_at > ?2)
                 AND (lease_until <= ?2 OR taken_at - (lease_until - taken_at) > ?2)
                 ORDER BY priority DESC, number",
            )?
            .query_map(params![queue, self.now], waiting_row)?
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .peekable();
        let mut statement = self.statement(
            "SELECT priority, number, id FROM message
             WHERE state = 0 AND queue = ?1 AND (expires_at IS NULL OR expires_at > ?2)
             ORDER BY priority DESC, number",
        )?;
        let mut rows = statement.query_map(params![queue, self.now], waiting_row)?.peekable();
        let mut found = Vec::new();
        while found.len() < at_most {
            let is_lapsed_first = match (rows.peek(), lapsed.peek()) {
                (Some(Ok((rank, _))), Some((lapsed, _))) => lapsed < rank,
                (None, lapsed) => lapsed.is_some(),
                (Some(_), _) => false,
            };
            let next = if is_lapsed_first { lapsed.next() } else { rows.next().transpose()? };
            let Some(((_, number), id)) = next else { break };
            match self.body(number, &id)? {
                Ok(envelope) => found.push(envelope),
                // The next `take` that reaches this message excludes it.
                Err(error) => self.told.warn(&error),
            }
        }
        Ok(found)
    }

    pub(super) fn queues(&self) -> Result<Vec<QueueStatus>, Fault> {
        let mut statement = self.statement("SELECT name FROM queue ORDER BY name")?;
        let names: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        self.expire()?;
        let mut all = Vec::with_capacity(names.len());
        for queue in names {
            let mut status = QueueStatus { queue: queue.clone(), waiting: [0; 4], taken: 0, oldest: None };
            let waiting =
                "SELECT priority, count(*), min(made_at) FROM message WHERE state = 0 AND queue = ?1
                 GROUP BY priority";
            self.count(waiting, params![queue], &mut status)?;
            // Count messages with a lapsed lease, even expired ones: an expired message ends only when it is taken.
            let lapsed = "SELECT priority, count(*), min(made_at) FROM message WHERE state = 1 AND queue = ?1
                 AND (lease_until <= ?2 OR taken_at - (lease_until - taken_at) > ?2) GROUP BY priority";
            self.count(lapsed, params![queue, self.now], &mut status)?;
            let taken = "SELECT count(*) FROM message WHERE state = 1 AND queue = ?1
                 AND NOT (lease_until <= ?2 OR taken_at - (lease_until - taken_at) > ?2)";
            let values = params![queue, self.now];
            let taken: i64 = self.statement(taken)?.query_row(values, |row| row.get(0))?;
            status.taken = taken.unsigned_abs();
            if status.taken > 0 || status.waiting != [0; 4] {
                all.push(status);
            }
        }
        Ok(all)
    }

    /// Adds messages, counted by priority, to the waiting ones.
    fn count(&self, sql: &'static str, values: &[&dyn ToSql], status: &mut QueueStatus) -> Result<(), Fault> {
        let mut statement = self.statement(sql)?;
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            let (priority, count, oldest): (u16, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if let Some(waiting) = status.waiting.get_mut(usize::from(priority)) {
                *waiting += count.unsigned_abs();
            }
            let oldest = check::time(oldest);
            status.oldest = Some(status.oldest.map_or(oldest, |before| before.min(oldest)));
        }
        Ok(())
    }

    pub(super) fn log(&self, after: u64, at_most: usize) -> Result<Vec<LoggedEnvelope>, Fault> {
        let mut statement = self.statement(
            "SELECT log.number, event, at, queue, id, CAST(envelope AS BLOB)
             FROM log JOIN message ON message.number = log.message LEFT JOIN body ON body.number = log.message
             WHERE log.number > ?1 ORDER BY log.number",
        )?;
        let mut rows = statement.query([i64::try_from(after).unwrap_or(i64::MAX)])?;
        let mut all = Vec::new();
        while all.len() < at_most
            && let Some(row) = rows.next()?
        {
            let (id, json): (String, Option<Vec<u8>>) = (row.get(4)?, row.get(5)?);
            let envelope = match check::stored(self.place, &id, json.as_deref().unwrap_or_default()) {
                Ok(envelope) => envelope,
                Err(error) => {
                    self.told.warn(&error);
                    continue;
                }
            };
            all.push(LoggedEnvelope {
                number: row.get::<_, i64>(0)?.unsigned_abs(),
                event: if row.get::<_, i64>(1)? == 0 { LoggedEvent::Put } else { LoggedEvent::Expired },
                at: check::time(row.get(2)?),
                queue: row.get(3)?,
                envelope,
            });
        }
        Ok(all)
    }
}

/// Returns the rank of a message and its id. The lowest rank is first in the queue.
fn waiting_row(row: &Row<'_>) -> rusqlite::Result<((i64, i64), String)> {
    Ok(((-row.get::<_, i64>(0)?, row.get(1)?), row.get(2)?))
}

/// Message that may be delivered next.
struct FirstInQueue {
    number: i64,
    id: String,
    deliveries: i64,
    priority: i64,
    /// True if the message has expired, so that it ends and is not delivered.
    has_expired: bool,
}

impl FirstInQueue {
    /// Returns the rank of the message. The lowest rank is first in the queue.
    fn rank(&self) -> (i64, i64) {
        (-self.priority, self.number)
    }
}

/// State of a message since its delivery.
enum DeliveryState {
    Now(i64),
    Finished,
    GivenBack,
    NotAnyMore,
}
