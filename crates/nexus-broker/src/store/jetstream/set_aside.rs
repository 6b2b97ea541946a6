//! Messages that this version cannot read.

use super::{
    Hash, JetStreamStore,
    index::IndexedMessage,
    queues::{StoredBody, id_of, next_state, stored},
    records::Stage,
};
use crate::{error::BrokerError, store::SetAsideMessage};

impl JetStreamStore {
    /// Excludes an unreadable message: it stays in the stream, but does not wait any more.
    pub(super) async fn put_aside(
        &self,
        hash: Hash,
        entry: &IndexedMessage,
        error: &BrokerError,
    ) -> Result<(), BrokerError> {
        let now = self.now();
        // If the write finds a newer record, another broker has excluded the message, or a newer version has taken it.
        self.change(hash, entry, &next_state(entry, Stage::SetAside, now, now), None).await?;
        self.0.followed.told.warn(error);
        Ok(())
    }

    /// Returns excluded messages to their queues if this version can read them.
    pub(super) async fn take_up_what_can_be_read(&self) -> Result<(), BrokerError> {
        for (hash, entry) in self.all_aside() {
            if entry.state.as_ref().is_none_or(|state| state.stage != Stage::SetAside) {
                continue;
            }
            match self.body(hash, entry.number).await? {
                StoredBody::Read(_) => {
                    let now = self.now();
                    self.change(hash, &entry, &next_state(&entry, Stage::Waiting, now, now), None).await?;
                }
                StoredBody::Unreadable(error) => self.0.followed.told.warn(&error),
                StoredBody::Gone => {}
            }
        }
        Ok(())
    }

    fn all_aside(&self) -> Vec<(Hash, IndexedMessage)> {
        let index = self.0.followed.index();
        index.set_aside().map(|(hash, entry)| (hash, entry.clone())).collect()
    }

    pub(super) async fn all_set_aside(&self, at_most: usize) -> Result<Vec<SetAsideMessage>, BrokerError> {
        self.catch_up().await?;
        self.put_all_outcomes().await?;
        let mut aside: Vec<(u64, Option<IndexedMessage>)> =
            self.all_aside().into_iter().map(|(_, entry)| (entry.number, Some(entry))).collect();
        aside.extend(self.0.followed.index().unreadable().map(|number| (number, None)));
        aside.sort_by_key(|(number, _)| *number);
        let mut found = Vec::new();
        for (number, entry) in aside {
            if found.len() >= at_most {
                break;
            }
            let Some(read) = self.0.requests.message(number).await? else { continue };
            let message = id_of(number, &read.payload);
            let stage = entry.as_ref().and_then(|entry| entry.state.as_ref()).map(|state| state.stage);
            let readable = stored(&read);
            let mut stored = read.payload;
            let problem = match (stage, &entry) {
                (Some(Stage::SetAside), _) => match readable {
                    Err(error) => error.message,
                    Ok(_) => "it is readable again, and will wait in its queue after the broker restarts"
                        .to_owned(),
                },
                (Some(Stage::Finishing), Some(entry)) => {
                    if let Some(outcome) = self.0.requests.message(entry.revision).await? {
                        stored = outcome.payload;
                    }
                    "it was handled, but its result cannot be read".to_owned()
                }
                (Some(_), _) => "its state cannot be read from the stream".to_owned(),
                (None, _) => "its headers cannot be read".to_owned(),
            };
            let queue = entry.map_or_else(String::new, |entry| entry.queue.as_ref().to_owned());
            let stored = String::from_utf8_lossy(&stored).into_owned();
            found.push(SetAsideMessage { queue, message, problem, stored });
        }
        Ok(found)
    }
}
