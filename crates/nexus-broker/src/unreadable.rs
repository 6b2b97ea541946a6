//! Lists the unreadable records of a store, for people.

use crate::{
    agent::Directory,
    error::{BrokerError, BrokerErrorKind},
    store::{BrokerStore, DocumentKind},
    trigger::Trigger,
};

/// Messages that are named at most.
const MAX_MESSAGES: usize = 100;

/// Messages, agents and triggers of a store that this version cannot read, each as the failure of reading it, which names it. Everything
/// else goes on without them. Of messages the first 100: [`BrokerStore::set_aside`] has all, with what is stored of each.
///
/// # Errors
///
/// Those of the store.
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
