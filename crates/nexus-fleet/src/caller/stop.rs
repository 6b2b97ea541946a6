//! Ends a turn even if its future is dropped.

use std::{sync::mpsc, time::Duration};

use nexus_core::{Effects, TurnSession};

use crate::{
    fleet::{Fleet, Inbox},
    link::Link,
    objects::{self, owner},
    protocol::{CallerMessage, Control, Frame, Item, Payload, WorkerCommand, control_subject, queue_stream},
    started_key::{self, KeyClaim},
};

/// Longest time for which a drop waits until the worker confirms that the turn no longer runs. Source: our own choice.
/// A worker on the same network answers within milliseconds. A worker without its caller stops by itself after three
/// heartbeats.
const DROP_TIME: Duration = Duration::from_secs(10);
/// Longest time for removing stored data that is no longer needed.
const REMOVE_TIME: Duration = Duration::from_millis(500);
/// Pause between two requests to drop a turn, until the worker confirms it.
const TELL_AGAIN: Duration = Duration::from_millis(250);

/// A turn that is in a queue or runs. When this is dropped, the turn is taken back or stopped.
pub(super) struct StopGuard {
    fleet: Fleet,
    pub(super) link: Link,
    pool: String,
    turn: String,
    key: String,
    inbox: Option<Inbox>,
    session: Option<TurnSession>,
    /// Name of the worker that started the turn, and of its attempt.
    pub(super) worker: Option<(String, String)>,
    /// True if the turn may be in the queue, or run.
    pub(super) is_queued: bool,
    /// Sequence number of the turn in the stream of the queue.
    pub(super) queue_number: Option<u64>,
    /// Stored data that can be deleted at the end of the turn.
    payloads: Vec<Payload>,
}

/// Address of a turn for lookups.
#[derive(Clone)]
pub(super) struct TurnAddress {
    pub(super) link: Link,
    pub(super) turn: String,
    pub(super) attempt: Option<String>,
    pub(super) pool: String,
    pub(super) queue_number: Option<u64>,
}

impl TurnAddress {
    /// Returns the prefix of the names of the turn's objects.
    pub(super) fn owner(&self) -> String {
        owner(self.link.settings.name(), &self.turn)
    }
}

impl StopGuard {
    pub(super) fn new(fleet: Fleet, link: Link, pool: String, turn: String, key: String) -> Self {
        let inbox = Some(fleet.0.inbox(&turn));
        Self {
            fleet,
            link,
            pool,
            turn,
            key,
            inbox,
            session: None,
            worker: None,
            is_queued: false,
            queue_number: None,
            payloads: Vec::new(),
        }
    }

    /// Remembers an object that can be deleted at the end of the turn.
    pub(super) fn keep(&mut self, payload: &Payload) {
        if matches!(payload, Payload::Object(_)) {
            self.payloads.push(payload.clone());
        }
    }

    /// Keeps the session of the turn open as long as the turn.
    pub(super) fn with_session(mut self, session: TurnSession) -> Self {
        self.session = Some(session);
        self
    }

    /// Returns the effects that calls of the caller's tools may have had.
    pub(super) fn session_effects(&self) -> Effects {
        self.session.as_ref().map(|session| session.effects()).unwrap_or_default()
    }

    /// Returns the prefix of the names of the turn's objects.
    pub(super) fn owner(&self) -> String {
        owner(self.link.settings.name(), &self.turn)
    }

    pub(super) fn address(&self) -> TurnAddress {
        TurnAddress {
            link: self.link.clone(),
            turn: self.turn.clone(),
            attempt: self.worker.as_ref().map(|(_, attempt)| attempt.clone()),
            pool: self.pool.clone(),
            queue_number: self.queue_number,
        }
    }

    pub(super) async fn next_frame(&mut self) -> Frame {
        if let Some(inbox) = &mut self.inbox
            && let Some(frame) = inbox.next().await
        {
            return frame;
        }
        std::future::pending().await
    }

    /// Returns true if a frame belongs to this turn and to the worker that started it. The first frame
    /// identifies that worker.
    pub(super) fn is_of_turn(&mut self, frame: &Frame) -> bool {
        is_of(frame, &self.key, &mut self.worker)
    }

    /// Sends a command to the worker, if it is known.
    pub(super) fn tell(&self, command: WorkerCommand) {
        if let Some((worker, _)) = &self.worker {
            tell(&self.link, &self.pool, worker, &self.turn, &self.key, command);
        }
    }
}

fn is_of(frame: &Frame, key: &str, worker: &mut Option<(String, String)>) -> bool {
    if frame.key != key {
        return false;
    }
    let (name, attempt) = worker.get_or_insert_with(|| (frame.worker.clone(), frame.attempt.clone()));
    *name == frame.worker && *attempt == frame.attempt
}

fn tell(link: &Link, pool: &str, worker: &str, turn: &str, key: &str, command: WorkerCommand) {
    let message = CallerMessage::Turn(Control { turn: turn.to_owned(), key: key.to_owned(), command });
    match serde_json::to_vec(&message) {
        Ok(text) => link.nats.send(&control_subject(pool, worker), text),
        Err(error) => tracing::warn!(%error, "a message to a worker cannot be written"),
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        let payloads = std::mem::take(&mut self.payloads);
        let link = self.link.clone();
        if !self.is_queued {
            if !payloads.is_empty() {
                self.fleet.0.start_last(async move {
                    for payload in &payloads {
                        objects::discard(&link, payload).await;
                    }
                });
            }
            return;
        }
        let Some(inbox) = self.inbox.take() else { return };
        let (done, wait) = mpsc::channel();
        let is_connected = link.nats.is_connected();
        let ending = AbandonedTurn {
            link,
            pool: self.pool.clone(),
            turn: self.turn.clone(),
            key: self.key.clone(),
            inbox,
            worker: self.worker.take(),
            queue_number: self.queue_number,
        };
        // Without a known worker, only the servers are contacted. They count here as one worker with an empty name.
        let worker = ending.worker.as_ref().map_or("", |(worker, _)| worker.as_str());
        let worker = format!("{}.{worker}", self.pool);
        let fleet = self.fleet.clone();
        self.fleet.0.start_last(async move {
            let link = ending.link.clone();
            let _ = tokio::time::timeout(DROP_TIME, ending.run()).await;
            for payload in &payloads {
                objects::discard(&link, payload).await;
            }
            let _ = done.send(());
        });
        // The thread of the connection continues meanwhile, so blocking here is safe. Wait only once for a worker that does
        // not answer.
        if is_connected && !fleet.0.is_mute(&worker) && wait.recv_timeout(DROP_TIME).is_err() {
            fleet.0.is_mute_now(worker);
        }
    }
}

/// Turn that ends without a waiting caller.
struct AbandonedTurn {
    link: Link,
    pool: String,
    turn: String,
    key: String,
    inbox: Inbox,
    worker: Option<(String, String)>,
    queue_number: Option<u64>,
}

impl AbandonedTurn {
    async fn run(mut self) {
        if self.worker.is_none() {
            let (name, attempt) =
                (self.link.settings.name().to_owned(), uuid::Uuid::new_v4().simple().to_string());
            // Claim the turn in place of a worker: then no worker can start it.
            match started_key::claim(&self.link, &name, &self.turn, None, &attempt).await {
                Ok(KeyClaim::Won) => {
                    remove_from_queue(&self.link, &self.pool, self.queue_number).await;
                    return;
                }
                Ok(KeyClaim::Lost(holder)) => match holder.worker {
                    Some(worker) => self.worker = Some((worker, holder.attempt)),
                    None => return,
                },
                Ok(KeyClaim::Unclear) | Err(_) => return,
            }
        }
        let Some((worker, _)) = self.worker.clone() else { return };
        loop {
            tell(&self.link, &self.pool, &worker, &self.turn, &self.key, WorkerCommand::Abandon);
            let again = tokio::time::sleep(TELL_AGAIN);
            tokio::pin!(again);
            loop {
                tokio::select! {
                    () = &mut again => break,
                    frame = self.inbox.next() => {
                        let Some(frame) = frame else { return };
                        let ends = frame.items.iter().any(|item| matches!(item, Item::End(_) | Item::Abandoned));
                        if is_of(&frame, &self.key, &mut self.worker) && ends {
                            tell(&self.link, &self.pool, &worker, &self.turn, &self.key, WorkerCommand::Done);
                            return;
                        }
                    }
                }
            }
        }
    }
}

/// Removes a turn that can no longer be started from its queue. A message that remains expires by its time limit.
pub(super) async fn remove_from_queue(link: &Link, pool: &str, number: Option<u64>) {
    let Some(number) = number else { return };
    let removing = async { link.nats.stream(queue_stream(pool)).await?.delete(number).await };
    if !matches!(tokio::time::timeout(REMOVE_TIME, removing).await, Ok(Ok(()))) {
        tracing::debug!(
            "a withdrawn turn remains in its queue until a worker removes it, or until it expires"
        );
    }
}
