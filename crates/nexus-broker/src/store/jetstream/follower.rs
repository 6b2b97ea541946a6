//! Keeps the index up to date with the stream.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use async_nats::jetstream::stream::Info;
use futures::{
    StreamExt as _,
    future::{Either, select},
};
use nexus_nats::ANSWER_TIME;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout, timeout_at},
};

use super::{
    fault,
    index::Index,
    records::{STREAM, StreamRecord},
    stream::Requests,
};
use crate::{
    error::BrokerError,
    store::{Told, check},
};

/// Interval of heartbeats from a server without messages. After twice this silence, the stream is read again.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Pause before a stream is read again after a failure.
const PAUSE: Duration = Duration::from_millis(250);
/// Interval of the check that the stream is still followed.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The index, and its position in the stream.
#[derive(Debug)]
pub(super) struct Followed {
    index: Mutex<Index>,
    position: watch::Sender<IndexPosition>,
    /// Notified after each change of the index.
    pub(super) changed: Notify,
    /// Asks the follower to read the stream again, because the index does not match it.
    again: Notify,
    /// Error of the last attempt to read the stream. `None` while the stream is read.
    failure: Mutex<Option<BrokerError>>,
    /// Unreadable records that were logged.
    pub(super) told: Told,
}

/// Position of the index in the stream.
#[derive(Debug, Default)]
struct IndexPosition {
    /// Creation time of the stream, which identifies it.
    made: String,
    /// Sequence number of the last message that the index contains.
    applied: u64,
}

impl Followed {
    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_failure(&self) -> MutexGuard<'_, Option<BrokerError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a task that follows the stream. The task ends when the last other user of the index is dropped.
    pub(super) fn start(requests: &Requests) -> Arc<Self> {
        let followed = Arc::new(Self {
            index: Mutex::default(),
            position: watch::Sender::default(),
            changed: Notify::new(),
            again: Notify::new(),
            failure: Mutex::default(),
            told: Told::default(),
        });
        requests.connection.start(follow(Arc::downgrade(&followed), requests.clone()));
        followed
    }

    /// Waits until the index contains everything up to a sequence number.
    pub(super) async fn reach(&self, number: u64) -> Result<(), BrokerError> {
        self.reach_where(|position| position.applied >= number).await
    }

    /// Waits until the index contains everything that is in the stream now.
    pub(super) async fn catch_up(&self, requests: &Requests) -> Result<(), BrokerError> {
        let info = requests.info().await?;
        let made = made(&info);
        let is_another = {
            let position = self.position.borrow();
            !position.made.is_empty() && position.made != made
        };
        if is_another {
            self.again.notify_one();
        }
        let last = info.state.last_sequence;
        self.reach_where(|position| position.made == made && position.applied >= last).await
    }

    /// Waits until `is_there` holds. The wait has no time limit while the index advances, because the stream may be long.
    async fn reach_where(&self, is_there: impl Fn(&IndexPosition) -> bool) -> Result<(), BrokerError> {
        let mut position = self.position.subscribe();
        loop {
            let before = position.borrow().applied;
            if let Ok(Ok(_)) = timeout(ANSWER_TIME, position.wait_for(&is_there)).await {
                return Ok(());
            }
            if position.borrow().applied == before {
                self.again.notify_one();
                let failure = self.lock_failure().clone();
                let unclear = || fault::unclear("the stream of messages", &"no further messages can be read");
                return Err(failure.unwrap_or_else(unclear));
            }
        }
    }

    fn apply(&self, number: u64, record: StreamRecord) {
        let unreadable = match &record {
            StreamRecord::UnreadablePut(_) => Some("a message"),
            StreamRecord::UnreadableState(..) => Some("the stored state of a message"),
            _ => None,
        };
        if let Some(what) = unreadable {
            let what = format!("{what} (number {number})");
            self.told.warn(&check::unreadable(STREAM, &what, &"its headers are not those of this version"));
        }
        self.index().apply(number, record);
        self.position.send_modify(|position| position.applied = number);
        self.changed.notify_waiters();
    }

    /// Records that the index contains everything up to a sequence number.
    fn applied_to(&self, number: u64) {
        self.position.send_modify(|position| position.applied = number.max(position.applied));
        self.changed.notify_waiters();
    }

    /// Returns the sequence number of the first message of a stream that the index does not contain.
    fn first(&self, info: &Info) -> u64 {
        let made = made(info);
        let is_same = {
            let position = self.position.borrow();
            position.made == made && position.applied <= info.state.last_sequence
        };
        // The stream was deleted and created again.
        if !is_same {
            *self.index() = Index::default();
            self.position.send_replace(IndexPosition { made, applied: 0 });
        }
        self.position.borrow().applied + 1
    }
}

fn made(info: &Info) -> String {
    format!("{:?}", info.created)
}

async fn follow(followed: Weak<Followed>, requests: Requests) {
    while followed.strong_count() > 0 {
        if let Err(error) = read(&followed, &requests).await {
            if let Some(followed) = followed.upgrade() {
                *followed.lock_failure() = Some(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Reads the stream from the position of the index until a read fails.
async fn read(followed: &Weak<Followed>, requests: &Requests) -> Result<(), BrokerError> {
    let what = "the stream of messages";
    let info = requests.info().await?;
    let first = {
        let Some(followed) = followed.upgrade() else { return Ok(()) };
        followed.first(&info)
    };
    let consumer = requests.follow(first).await?;
    if let Some(followed) = followed.upgrade() {
        *followed.lock_failure() = None;
        if consumer.cached_info().num_pending == 0 {
            followed.applied_to(info.state.last_sequence);
        }
    }
    let messages = consumer.stream().heartbeat(HEARTBEAT).max_messages_per_batch(1_000).messages().await;
    let mut messages = messages.map_err(|error| requests.unread(&error))?;
    let mut next = 1;
    loop {
        let look = Instant::now() + LOOK_INTERVAL;
        let message = loop {
            let Some(followed) = followed.upgrade() else { return Ok(()) };
            // Wait in short slices, so that the task ends soon after the last user.
            let slice = (Instant::now() + HEARTBEAT / 4).min(look);
            let (message, again) = (messages.next(), std::pin::pin!(followed.again.notified()));
            match timeout_at(slice, select(message, again)).await {
                Ok(Either::Left((Some(Ok(message)), _))) => break Some(message),
                Ok(Either::Left((Some(Err(error)), _))) => return Err(requests.unread(&error)),
                Ok(Either::Left((None, _))) => return Err(fault::unclear(what, &"it ended")),
                Ok(Either::Right(_)) => return Err(fault::unclear(what, &"it is read again from the start")),
                Err(_elapsed) => {}
            }
            if Instant::now() >= look {
                break None;
            }
        };
        let Some(message) = message else {
            // The consumer is gone after a restart of the server, and a stream that was created again has a new one.
            let known = timeout(ANSWER_TIME, consumer.get_info()).await;
            match known {
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => return Err(requests.unread(&error)),
                Err(elapsed) => return Err(fault::unclear(what, &elapsed)),
            }
        };
        let info = message.info().map_err(|error| fault::unclear(what, &error))?;
        // A gap in the consumer's numbers: a message was lost between server and client.
        if info.consumer_sequence != next {
            return Err(fault::unclear(what, &"a message was lost on its way"));
        }
        next += 1;
        let Some(followed) = followed.upgrade() else { return Ok(()) };
        followed.apply(info.stream_sequence, StreamRecord::read(&message.subject, message.headers.as_ref()));
    }
}
