//! Lists the unreadable records of a store, for people.

use crate::{
    agent::Directory,
    error::{BrokerError, BrokerErrorKind},
    store::{BrokerStore, DocumentKind},
    trigger::Trigger,
};

/// Maximum number of unreadable messages that are listed.
const MAX_MESSAGES: usize = 100;

/// Returns an error for each message, agent and trigger of a store that this version cannot read. Each error names its
/// record. Readable records are not affected. Only the first 100 messages are listed: [`BrokerStore::set_aside`] returns
/// all, with their stored bytes.
///
/// # Errors
///
/// Errors of the store.
pub async fn unreadable_records(store: &dyn BrokerStore) -> Result<Vec<BrokerError>, BrokerError> {
    let damaged = |message: String| BrokerError::new(BrokerErrorKind::Damaged, message, "");
    let mut found = Vec::new();
    for aside in store.set_aside(MAX_MESSAGES).await? {
        let (message, queue) = (aside.message, aside.queue);
        found.push(damaged(format!(
            "the message {message} for {queue:?} cannot be read and is not delivered: \
            {}",
            aside.problem
        )));
    }
    found.extend(Directory::unreadable(&store.documents(DocumentKind::Agent).await?));
    for document in store.documents(DocumentKind::Trigger).await? {
        found.extend(Trigger::read(&document.key, &document.value).err());
    }
    Ok(found)
}
