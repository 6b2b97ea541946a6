//! Order in which a worker takes turns.

use std::time::Duration;

use async_nats::jetstream::{
    self, AckKind,
    consumer::{Consumer, pull},
};
use futures::StreamExt as _;
use nexus_nats::{API, NatsError};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    error::FleetError,
    link::Link,
    protocol::{Lane, Priority, queue_stream},
    setup,
};

/// Duration of one wait for a message.
const WAIT: Duration = Duration::from_secs(10);
/// Time that the server has to report an empty queue.
const FETCH_TIME: Duration = Duration::from_secs(3);
/// Pause after the servers did not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// [`PAUSE`] for a request that is not permitted.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(60);
/// Pause between two checks of seemingly empty queues, in addition to the server's messages.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// One of this many starts fetches low priority first.
const SHARE_OF_LOW: u64 = 4;

/// Queues from which a worker takes turns.
pub(super) struct TurnQueues {
    /// Consumers of high, normal and low priority, and the consumer of this worker's own lane.
    consumers: Vec<Consumer<pull::Config>>,
    /// True while the worker wants a turn.
    wanted: watch::Sender<bool>,
    /// Messages that arrived during a wait.
    arrived: mpsc::Receiver<jetstream::Message>,
    starts: u64,
    _waiting: JoinSet<()>,
}

impl TurnQueues {
    /// Opens the queues of a worker, and creates them if they do not exist.
    pub(super) async fn open(link: &Link, pool: &str, worker: &str) -> Result<Self, FleetError> {
        setup::ensure_shared(link).await?;
        setup::ensure_pool(link, pool).await?;
        let lanes = Priority::ALL.into_iter().map(Lane::Any).chain([Lane::At(worker.to_owned())]);
        let (wanted, is_wanted) = watch::channel(false);
        let (hand_over, arrived) = mpsc::channel(1);
        let mut waiting = JoinSet::new();
        let mut consumers = Vec::new();
        for lane in lanes {
            let consumer = setup::ensure_consumer(link, pool, &lane).await?;
            consumers.push(consumer.clone());
            let waiter = Waiter { link: link.clone(), pool: pool.to_owned(), lane, consumer };
            waiting.spawn(waiter.run(is_wanted.clone(), hand_over.clone()));
        }
        Ok(Self { consumers, wanted, arrived, starts: 0, _waiting: waiting })
    }

    /// Returns the next turn: of high priority first, except for a share of low priority.
    pub(super) async fn next(&mut self) -> jetstream::Message {
        loop {
            if let Some(message) = self.at_once().await {
                self.starts += 1;
                return message;
            }
            let _ = self.wanted.send(true);
            // The server may announce a message late, so check the queues even if they seem empty.
            let arrived = tokio::time::timeout(LOOK_AGAIN, self.arrived.recv()).await;
            let _ = self.wanted.send(false);
            // Return further messages that arrived at the same moment or later, for other workers.
            while let Ok(other) = self.arrived.try_recv() {
                give_back(&other).await;
            }
            if let Ok(Some(message)) = arrived {
                self.starts += 1;
                return message;
            }
        }
    }

    /// Returns messages that arrived and were not begun.
    pub(super) async fn close(mut self) {
        let _ = self.wanted.send(false);
        self.arrived.close();
        while let Some(message) = self.arrived.recv().await {
            give_back(&message).await;
        }
    }

    /// Returns the first message that is available now.
    async fn at_once(&self) -> Option<jetstream::Message> {
        let mut order: Vec<_> = self.consumers.iter().collect();
        // Fetch from the worker's own lane first: a turn that resumes a conversation can only run here.
        order.rotate_right(1);
        if self.starts % SHARE_OF_LOW == SHARE_OF_LOW - 1 {
            order[1..].rotate_right(1);
        }
        for consumer in order {
            let Ok(mut batch) = consumer.fetch().max_messages(1).messages().await else { continue };
            // The client would wait for ever for an answer that was lost with a connection, so limit the time.
            if let Ok(Some(Ok(message))) = tokio::time::timeout(FETCH_TIME, batch.next()).await {
                return Some(message);
            }
        }
        None
    }
}

/// Waits for messages of one lane whenever the worker wants a turn.
struct Waiter {
    link: Link,
    pool: String,
    lane: Lane,
    consumer: Consumer<pull::Config>,
}

impl Waiter {
    async fn run(mut self, mut wanted: watch::Receiver<bool>, hand_over: mpsc::Sender<jetstream::Message>) {
        loop {
            if wanted.wait_for(|wanted| *wanted).await.is_err() {
                return;
            }
            match self.wait_once().await {
                Ok(Some(message)) => {
                    let is_wanted = *wanted.borrow();
                    match hand_over.try_reserve() {
                        Ok(place) if is_wanted => place.send(message),
                        _ => give_back(&message).await,
                    }
                }
                Ok(None) => {}
                Err(error @ NatsError::Forbidden { .. }) => {
                    tracing::warn!(%error, lane = %self.lane, "no turn can be taken");
                    tokio::time::sleep(FORBIDDEN_PAUSE).await;
                }
                Err(error) => {
                    tracing::debug!(%error, lane = %self.lane, "the queue cannot be read at present");
                    tokio::time::sleep(PAUSE).await;
                    // The consumer may be gone, for example if a server lost its disk: create it again.
                    if setup::ensure_pool(&self.link, &self.pool).await.is_ok()
                        && let Ok(consumer) = setup::ensure_consumer(&self.link, &self.pool, &self.lane).await
                    {
                        self.consumer = consumer;
                    }
                }
            }
        }
    }

    async fn wait_once(&self) -> Result<Option<jetstream::Message>, NatsError> {
        let waiting = async {
            let batch = self.consumer.batch().max_messages(1).expires(WAIT);
            let mut batch = batch.messages().await.map_err(NatsError::unclear)?;
            // The answer of a server that went away never arrives, so limit the time.
            match tokio::time::timeout(WAIT + PAUSE, batch.next()).await {
                Ok(Some(Ok(message))) => Ok(Some(message)),
                Ok(Some(Err(error))) => Err(NatsError::unclear(error)),
                Ok(None) | Err(_) => Ok(None),
            }
        };
        let subject = format!("{API}CONSUMER.MSG.NEXT.{}.{}", queue_stream(&self.pool), self.lane);
        self.link.nats.permitted(&subject, waiting).await?
    }
}

/// Returns an unstarted turn to the queue.
pub(super) async fn give_back(message: &jetstream::Message) {
    if let Err(error) = message.ack_with(AckKind::Nak(None)).await {
        tracing::debug!(%error, "a turn returns to its queue when its lease ends");
    }
}
