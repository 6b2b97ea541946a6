//! The inbox of a caller, and the programs that wait for answers in it.
//!
//! Programs of one caller share an inbox. A program that waits for an answer to a message marks the message: it creates and
//! locks a file below `waiting` of the broker's folder. Other programs leave the answers to that message in the inbox while
//! the file is locked. When the program ends in any way, the operating system releases the lock, and the answer becomes an
//! ordinary message.

use std::{fs, io, path::PathBuf, time::Duration};

use nexus_files::FileLock;

use crate::{
    broker::Broker,
    error::BrokerError,
    message::{Address, Envelope, EnvelopeId, MessagePriority, Payload},
    route::queue_of,
    store::{Delivery, HandlingLease},
};

/// Length of the lease on a message while a program shows it. If the program does not [`finish`](crate::BrokerStore::finish)
/// the message by then, the store delivers it again.
const LEASE: Duration = Duration::from_secs(30);
/// Number of messages of an inbox that are searched for an answer. Source: the default limit of an inbox.
const MOST_WAITING: usize = 10_000;
/// Maximum size of a file that marks a message, in bytes. Source: an id has at most 256.
const MAX_MARK_BYTES: u64 = 1 << 10;
/// Maximum number of attempts to write a mark. Another program may remove a new mark because it is not locked yet.
const MOST_TRIES: usize = 16;

/// Marks a message as one whose answer a program of this machine waits for, until it is dropped.
#[derive(Debug)]
pub struct AwaitedAnswer {
    id: EnvelopeId,
    /// `None` only during `drop`.
    hold: Option<FileLock>,
}

impl AwaitedAnswer {
    /// Returns true if `envelope` is the awaited answer.
    #[must_use]
    pub fn is(&self, envelope: &Envelope) -> bool {
        answers(envelope, &self.id)
    }
}

impl Drop for AwaitedAnswer {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            // If the removal fails, the next program that reads the marks removes the file.
            let _ = hold.remove();
        }
    }
}

impl Broker {
    /// Reserves the answer to a message for this program. Call it before the message is sent. Writes a file.
    ///
    /// # Errors
    ///
    /// [`Failed`](crate::BrokerErrorKind::Failed), with the path of the file.
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

    /// Takes an answer, if it has arrived. The program shows the answer, then it [`finish`](crate::BrokerStore::finish)es
    /// the message; otherwise the store delivers it again. Other messages stay in the inbox.
    ///
    /// # Errors
    ///
    /// Errors of the store.
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

    /// Takes the first message of a caller's inbox, except answers that another program of this machine waits for. The
    /// program shows the message, then it [`finish`](crate::BrokerStore::finish)es it; otherwise the store delivers it
    /// again.
    ///
    /// # Errors
    ///
    /// Errors of the store, and of reading the marks.
    pub async fn take_from_inbox(&self, caller: &str) -> Result<Option<Delivery>, BrokerError> {
        let queue = queue_of(&Address::Caller(caller.to_owned()));
        let awaited = self.awaited()?;
        self.take_first(&queue, |envelope| !awaited.iter().any(|id| answers(envelope, id))).await
    }

    /// Takes the first message that `is_wanted` accepts. The messages before it stay in their order.
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
            // If the message cannot be returned now, the store delivers it again when the lease lapses.
            if let Err(error) = self.store().put_back(&lease).await {
                tracing::debug!(queue, %error, "a message will be delivered again later");
            }
        }
        found
    }

    /// Returns the messages whose answers programs of this machine wait for.
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
            // An unlocked mark belongs to a program that ended: remove it.
            match FileLock::try_lock(&path) {
                Ok(Some(of_one_that_ended)) => drop(of_one_that_ended.remove()),
                Ok(None) => {
                    let mark = nexus_files::read_bounded(&path, MAX_MARK_BYTES).ok().flatten();
                    let id = mark.and_then(|mark| String::from_utf8(mark).ok()?.parse().ok());
                    awaited.extend(id);
                }
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "the mark of a waiting process cannot be read");
                }
            }
        }
        Ok(awaited)
    }

    fn waiting_folder(&self) -> PathBuf {
        self.options().folder.join("waiting")
    }
}

/// Returns true if a message answers another: it is the result of its turn, or an agent wrote it in reply.
fn answers(envelope: &Envelope, id: &EnvelopeId) -> bool {
    envelope.message_id == EnvelopeId::of_occurrence(id.as_str(), "answer")
        || matches!(&envelope.payload, Payload::Message { in_reply_to: Some(to), .. } if to == id)
}
