//! Keeps the index as the stream is.

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
    error::{BrokerError, BrokerErrorKind},
    store::{Told, check},
};

/// Interval of heartbeats from a server without messages. After twice this silence, the stream is read again.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Pause before a stream is read again after a failure.
const PAUSE: Duration = Duration::from_millis(250);
/// Interval of the check that the stream is still followed.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The index, and how far it is.
#[derive(Debug)]
pub(super) struct Followed {
    index: Mutex<Index>,
    position: watch::Sender<IndexPosition>,
    /// Something changed.
    pub(super) changed: Notify,
    /// Asks the follower to read the stream again, because the index does not match it.
    again: Notify,
    /// Why the stream could not be read the last time.
    failure: Mutex<Option<BrokerError>>,
    /// Unreadable records that were logged.
    pub(super) told: Told,
}

/// Position of the index in the stream.
#[derive(Debug, Default)]
struct IndexPosition {
    /// Creation time of the stream, which identifies it.
    made: String,
    /// The number of the message of the stream that was taken in last.
    applied: u64,
}

impl Followed {
    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to follow a stream. It ends with the last other user of the index.
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

    /// Waits until everything up to a number has been taken in.
    pub(super) async fn reach(&self, number: u64) -> Result<(), BrokerError> {
        self.reach_where(|position| position.applied >= number).await
    }

    /// Waits until everything has been taken in that is in the stream now.
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

    /// Waits for as long as the stream is read on: there may be much of it.
    async fn reach_where(&self, is_there: impl Fn(&IndexPosition) -> bool) -> Result<(), BrokerError> {
        let mut position = self.position.subscribe();
        loop {
            let before = position.borrow().applied;
            if let Ok(Ok(_)) = timeout(ANSWER_TIME, position.wait_for(&is_there)).await {
                return Ok(());
            }
            if position.borrow().applied == before {
                self.again.notify_one();
                // A missing permission does not pass with time: report it as it is.
                let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let lasting = failure.filter(|failure| failure.kind != BrokerErrorKind::Unavailable);
                let unclear = || fault::unclear("the stream of messages", &"no further messages can be read");
                return Err(lasting.unwrap_or_else(unclear));
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

    /// There is nothing in the stream up to here that has not been taken in.
    fn applied_to(&self, number: u64) {
        self.position.send_modify(|position| position.applied = number.max(position.applied));
        self.changed.notify_waiters();
    }

    /// Returns the number of the first message of a stream that the index does not have.
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
                *followed.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Reads the stream from where the index is, until that fails.
async fn read(followed: &Weak<Followed>, requests: &Requests) -> Result<(), BrokerError> {
    let what = "the stream of messages";
    let info = requests.info().await?;
    let first = {
        let Some(followed) = followed.upgrade() else { return Ok(()) };
        followed.first(&info)
    };
    let consumer = requests.follow(first).await?;
    if consumer.cached_info().num_pending == 0
        && let Some(followed) = followed.upgrade()
    {
        followed.applied_to(info.state.last_sequence);
    }
    let messages = consumer.stream().heartbeat(HEARTBEAT).max_messages_per_batch(1_000).messages().await;
    let mut messages = messages.map_err(|error| requests.unread(&error))?;
    let mut next = 1;
    loop {
        let look = Instant::now() + LOOK_INTERVAL;
        let message = loop {
            let Some(followed) = followed.upgrade() else { return Ok(()) };
            // In slices, so that it ends soon after the last user.
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
            // The consumer of a restarted server is gone, and a stream that was created again has another.
            let known = timeout(ANSWER_TIME, consumer.get_info()).await;
            match known {
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => return Err(requests.unread(&error)),
                Err(elapsed) => return Err(fault::unclear(what, &elapsed)),
            }
        };
        let info = message.info().map_err(|error| fault::unclear(what, &error))?;
        // One is missing: it was lost on its way.
        if info.consumer_sequence != next {
            return Err(fault::unclear(what, &"a message was lost on its way"));
        }
        next += 1;
        let Some(followed) = followed.upgrade() else { return Ok(()) };
        followed.apply(info.stream_sequence, StreamRecord::read(&message.subject, message.headers.as_ref()));
    }
}
