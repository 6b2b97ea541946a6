//! The inbox of a caller, and who waits for which answer in it.
//!
//! Programs of one caller share an inbox. One that waits for an answer marks the message by a file that it has locked, below `waiting` of the
//! broker's folder: what answers that message is left to it, for as long as it lives. The operating system takes the lock back from a program that
//! ends in whatever way, and its answer is one like all others then.

use std::{fs, io, path::PathBuf, time::Duration};

use nexus_files::FileLock;

use crate::{
    broker::Broker,
    error::BrokerError,
    message::{Address, Envelope, EnvelopeId, MessagePriority, Payload},
    route::queue_of,
    store::{Delivery, HandlingLease},
};

/// For how long a message is taken while it is shown.
const LEASE: Duration = Duration::from_secs(30);
/// How many messages of an inbox are looked through for an answer: as many as it may have by default.
const MOST_WAITING: usize = 10_000;
/// The largest file that marks a message, in bytes: an id has 256.
const MAX_MARK_BYTES: u64 = 1 << 10;
/// How often a mark is made anew that another program took for one of a program that ended.
const MOST_TRIES: usize = 16;

/// Says that a program of this machine waits for the answer to a message, until it is dropped.
#[derive(Debug)]
pub struct AwaitedAnswer {
    id: EnvelopeId,
    /// Always there, but while it is dropped.
    hold: Option<FileLock>,
}

impl AwaitedAnswer {
    /// Whether a message is the answer.
    #[must_use]
    pub fn is(&self, envelope: &Envelope) -> bool {
        answers(envelope, &self.id)
    }
}

impl Drop for AwaitedAnswer {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            // One that stays is removed by whoever looks next.
            let _ = hold.remove();
        }
    }
}

impl Broker {
    /// Has the answer to a message left to this program: to be called before the message is sent. Writes a file.
    ///
    /// # Errors
    ///
    /// [`Failed`](crate::BrokerErrorKind::Failed), which names the place.
    pub fn expect_answer(&self, id: &EnvelopeId) -> Result<AwaitedAnswer, BrokerError> {
        let folder = self.waiting_folder();
        nexus_files::make_private_folder(&folder).map_err(BrokerError::at(&folder))?;
        for _ in 0..MOST_TRIES {
            let path = folder.join(format!("{}.lock", EnvelopeId::random()));
            let taken = FileLock::try_lock(&path).map_err(BrokerError::at(&path))?;
            if let Some(hold) = taken {
                fs::write(&path, id.as_str()).map_err(BrokerError::at(&path))?;
                return Ok(AwaitedAnswer { id: id.clone(), hold: Some(hold) });
            }
        }
        Err(BrokerError::unusable(&folder, &io::Error::other("files are removed as soon as they are made")))
    }

    /// Takes an answer, if it is there. Whoever has shown it [`finish`](crate::BrokerStore::finish)es it; else it is given out again. Other
    /// messages stay.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn take_answer(
        &self,
        caller: &str,
        awaited: &AwaitedAnswer,
    ) -> Result<Option<Delivery>, BrokerError> {
        let queue = queue_of(&Address::Caller(caller.to_owned()));
        let waiting = self.store().waiting(&queue, MOST_WAITING).await?;
        match waiting.iter().any(|envelope| awaited.is(envelope)) {
            true => self.take_first(&queue, |envelope| awaited.is(envelope)).await,
            false => Ok(None),
        }
    }

    /// Takes the first message of a caller's inbox, but for answers that another program of this machine waits for. Whoever has shown it
    /// [`finish`](crate::BrokerStore::finish)es it; else it is given out again.
    ///
    /// # Errors
    ///
    /// Those of the store, and of reading the marks.
    pub async fn take_from_inbox(&self, caller: &str) -> Result<Option<Delivery>, BrokerError> {
        let queue = queue_of(&Address::Caller(caller.to_owned()));
        let awaited = self.awaited()?;
        self.take_first(&queue, |envelope| !awaited.iter().any(|id| answers(envelope, id))).await
    }

    /// The first message that is wanted. Those before it keep their places.
    async fn take_first(
        &self,
        queue: &str,
        is_wanted: impl Fn(&Envelope) -> bool,
    ) -> Result<Option<Delivery>, BrokerError> {
        let mut passed: Vec<HandlingLease> = Vec::new();
        let found = loop {
            match self.store().take(queue, MessagePriority::Low, LEASE).await {
                Ok(Some(delivery)) if is_wanted(&delivery.envelope) => break Ok(Some(delivery)),
                Ok(Some(delivery)) => passed.push(delivery.lease),
                Ok(None) => break Ok(None),
                Err(error) => break Err(error),
            }
        };
        for lease in passed {
            // One that is not put back now is when its time has passed.
            if let Err(error) = self.store().put_back(&lease).await {
                tracing::debug!(queue, %error, "a message is given out again later");
            }
        }
        found
    }

    /// The messages whose answers programs of this machine wait for.
    fn awaited(&self) -> Result<Vec<EnvelopeId>, BrokerError> {
        let folder = self.waiting_folder();
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(BrokerError::at(&folder))?,
        };
        let mut awaited = Vec::new();
        for entry in entries {
            let path = entry.map_err(BrokerError::at(&folder))?.path();
            if path.extension().is_none_or(|extension| extension != "lock") {
                continue;
            }
            // Removed by its program meanwhile, which is none that waits.
            match FileLock::try_lock(&path) {
                Ok(Some(of_one_that_ended)) => drop(of_one_that_ended.remove()),
                Ok(None) => {
                    let mark = nexus_files::read_bounded(&path, MAX_MARK_BYTES).ok().flatten();
                    let id = mark.and_then(|mark| String::from_utf8(mark).ok()?.parse().ok());
                    awaited.extend(id);
                }
                Err(error) => tracing::debug!(path = %path.display(), %error, "no mark of one that waits"),
            }
        }
        Ok(awaited)
    }

    fn waiting_folder(&self) -> PathBuf {
        self.options().folder.join("waiting")
    }
}

/// Whether a message answers another: what came of it, or what an agent wrote in reply to it.
fn answers(envelope: &Envelope, id: &EnvelopeId) -> bool {
    envelope.message_id == EnvelopeId::of_occurrence(id.as_str(), "answer")
        || matches!(&envelope.payload, Payload::Message { in_reply_to: Some(to), .. } if to == id)
}
