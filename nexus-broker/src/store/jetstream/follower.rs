//! Keeps the index as the stream is.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::StreamExt as _;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout, timeout_at},
};

use super::{
    fault,
    index::Index,
    records::{Record, SUBJECTS},
    stream::{ANSWER_TIME, Requests},
};
use crate::error::BrokerError;

/// How long a server may be silent that has nothing to say. Twice that, and the stream is read anew.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How soon a stream is read again after it could not be.
const PAUSE: Duration = Duration::from_millis(250);
/// How long it takes until somebody looks whether this goes on at all.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The index, and how far it is.
#[derive(Debug)]
pub(super) struct Followed {
    index: Mutex<Index>,
    /// The number of the message of the stream that was taken in last.
    applied: watch::Sender<u64>,
    /// Something changed.
    pub(super) changed: Notify,
    /// Read the stream anew: it is not as it should be.
    again: Notify,
}

impl Followed {
    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to follow a stream. It ends with the last other user of the index.
    pub(super) fn start(requests: &Requests) -> Arc<Self> {
        let followed = Arc::new(Self {
            index: Mutex::default(),
            applied: watch::Sender::new(0),
            changed: Notify::new(),
            again: Notify::new(),
        });
        requests.connection.start(follow(Arc::downgrade(&followed), requests.clone()));
        followed
    }

    /// Waits until everything up to a number has been taken in.
    pub(super) async fn reach(&self, number: u64) -> Result<(), BrokerError> {
        let mut applied = self.applied.subscribe();
        let reached = timeout(ANSWER_TIME, applied.wait_for(|applied| *applied >= number)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            _ => {
                self.again.notify_one();
                Err(fault::unclear("the stream of messages", &"it is not read on"))
            }
        }
    }

    /// Waits until everything has been taken in that is in the stream now.
    pub(super) async fn catch_up(&self, requests: &Requests) -> Result<(), BrokerError> {
        let last = requests.info().await?.state.last_sequence;
        self.reach(last).await
    }

    fn apply(&self, number: u64, record: Record) {
        self.index().apply(number, record);
        self.applied.send_replace(number);
        self.changed.notify_waiters();
    }

    /// There is nothing in the stream up to here that has not been taken in.
    fn applied_to(&self, number: u64) {
        self.applied.send_if_modified(|applied| {
            let is_more = *applied < number;
            *applied = number.max(*applied);
            is_more
        });
        self.changed.notify_waiters();
    }

    /// Begins anew: it is another stream.
    fn clear(&self) {
        *self.index() = Index::default();
        self.applied.send_replace(0);
    }
}

async fn follow(followed: Weak<Followed>, requests: Requests) {
    let mut made = None;
    while followed.strong_count() > 0 {
        if read(&followed, &requests, &mut made).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Reads the stream from where the index is, until that fails.
async fn read(
    followed: &Weak<Followed>,
    requests: &Requests,
    made: &mut Option<String>,
) -> Result<(), BrokerError> {
    let what = "the stream of messages";
    let info = requests.info().await?;
    let first = {
        let Some(followed) = followed.upgrade() else { return Ok(()) };
        let is = format!("{:?}", info.created);
        let applied = *followed.applied.borrow();
        // Somebody deleted the stream, and it was made again.
        if made.as_ref().is_some_and(|made| *made != is) || info.state.last_sequence < applied {
            followed.clear();
        }
        *made = Some(is);
        *followed.applied.borrow() + 1
    };
    let consumer = requests.reader(first, &[SUBJECTS.to_owned()], true).await?;
    if consumer.cached_info().num_pending == 0
        && let Some(followed) = followed.upgrade()
    {
        followed.applied_to(info.state.last_sequence);
    }
    let messages = consumer.stream().heartbeat(HEARTBEAT).max_messages_per_batch(1_000).messages().await;
    let mut messages = messages.map_err(|error| fault::request(what, &error))?;
    let mut next = 1;
    loop {
        let look = Instant::now() + LOOK_INTERVAL;
        let message = loop {
            let Some(followed) = followed.upgrade() else { return Ok(()) };
            // In slices, so that it ends soon after the last user.
            let slice = (Instant::now() + HEARTBEAT / 4).min(look);
            match timeout_at(slice, messages.next()).await {
                Ok(Some(Ok(message))) => break Some(message),
                Ok(Some(Err(error))) => return Err(fault::request(what, &error)),
                Ok(None) => return Err(fault::unclear(what, &"it ended")),
                Err(_elapsed) => {}
            }
            if timeout(Duration::ZERO, followed.again.notified()).await.is_ok() {
                return Err(fault::unclear(what, &"it is read anew"));
            }
            if Instant::now() >= look {
                break None;
            }
        };
        let Some(message) = message else {
            // The consumer of a server that was restarted is gone, and a stream that was made anew has another.
            let known = timeout(ANSWER_TIME, consumer.get_info()).await;
            match known {
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => return Err(fault::request(what, &error)),
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
        followed.apply(info.stream_sequence, Record::read(&message.subject, message.headers.as_ref()));
    }
}
