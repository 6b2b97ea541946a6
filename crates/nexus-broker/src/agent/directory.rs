//! Records of agents, in the store that all brokers share.

use std::sync::Arc;

use nexus_core::Clock;

use crate::{
    agent::{AgentDocument, AgentStatus},
    error::{BrokerError, BrokerErrorKind},
    store::{BrokerStore, DocumentKind, ExpectedRevision, StoredDocument, Told},
};

/// Maximum number of attempts to change a record while other brokers also change it.
const MOST_TRIES: usize = 50;

/// Reads and writes the agent records of a store.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    store: Arc<dyn BrokerStore>,
    clock: Arc<dyn Clock>,
    told: Arc<Told>,
}

impl Directory {
    pub(crate) fn new(store: Arc<dyn BrokerStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, told: Arc::default() }
    }

    /// Returns every agent, by its name. An unreadable record is logged once and skipped.
    pub(crate) async fn all(&self) -> Result<Vec<AgentDocument>, BrokerError> {
        let documents = self.store.documents(DocumentKind::Agent).await?;
        let readable = documents
            .iter()
            .filter_map(|document| read(document).map_err(|error| self.told.warn(&error)).ok());
        Ok(readable.collect())
    }

    /// Returns an error for each of these documents that is not a readable agent record.
    pub(crate) fn unreadable(documents: &[StoredDocument]) -> Vec<BrokerError> {
        documents.iter().filter_map(|document| read(document).err()).collect()
    }

    /// Returns the agent of this name, if it exists.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<AgentDocument>, BrokerError> {
        self.store.document(DocumentKind::Agent, name).await?.as_ref().map(read).transpose()
    }

    /// Returns the agent of this name. Fails with [`Unknown`](BrokerErrorKind::Unknown) and lists the known names if it does
    /// not exist.
    pub(crate) async fn get(&self, name: &str) -> Result<AgentDocument, BrokerError> {
        match self.find(name).await? {
            Some(record) => Ok(record),
            None => Err(self.unknown(name).await),
        }
    }

    async fn unknown(&self, name: &str) -> BrokerError {
        let names = self.all().await.unwrap_or_default();
        let names: Vec<_> = names.into_iter().take(20).map(|record| record.name).collect();
        let instead = match names.is_empty() {
            true => "no agent exists: name agents in the section `broker` of nexus.yaml".to_owned(),
            false => format!("write to one of {}", names.join(", ")),
        };
        BrokerError::unknown(format!("there is no agent {name:?}"), instead)
    }

    /// Adds an agent. Fails with [`Conflict`](BrokerErrorKind::Conflict) if its name is taken.
    pub(crate) async fn add(&self, record: &AgentDocument) -> Result<(), BrokerError> {
        let written = self
            .store
            .write(DocumentKind::Agent, &record.name, ExpectedRevision::Absent, &value(record)?)
            .await;
        written.map(drop).map_err(|error| match error.kind {
            BrokerErrorKind::Conflict => BrokerError::new(
                BrokerErrorKind::Conflict,
                format!("there is an agent {:?} already", record.name),
                "take another name",
            ),
            _ => error,
        })
    }

    /// Changes a record by compare-and-set, and returns the changed record. If `change` fails, the record stays as it is.
    pub(crate) async fn update(
        &self,
        name: &str,
        mut change: impl FnMut(&mut AgentDocument) -> Result<(), BrokerError> + Send,
    ) -> Result<AgentDocument, BrokerError> {
        let mut conflict = None;
        for _ in 0..MOST_TRIES {
            let Some(document) = self.store.document(DocumentKind::Agent, name).await? else {
                return Err(self.unknown(name).await);
            };
            let before = read(&document)?;
            let mut record = before.clone();
            change(&mut record)?;
            if record == before {
                return Ok(record);
            }
            record.changed_at = self.clock.now();
            let expected = ExpectedRevision::Revision(document.revision);
            match self.store.write(DocumentKind::Agent, name, expected, &value(&record)?).await {
                Ok(_) => return Ok(record),
                Err(error) if error.kind == BrokerErrorKind::Conflict => conflict = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(conflict.expect("only a conflict is tried again"))
    }

    /// Sets the status of an agent.
    pub(crate) async fn set_status(
        &self,
        name: &str,
        status: AgentStatus,
    ) -> Result<AgentDocument, BrokerError> {
        self.update(name, |record| {
            record.status = status;
            Ok(())
        })
        .await
    }

    /// Returns true if a turn of the agent runs, judged by its heartbeat. The record may still contain the turn of a killed
    /// broker; without a recent heartbeat, that turn does not count.
    pub(crate) fn is_at_work(&self, record: &AgentDocument) -> bool {
        record.turn.as_ref().is_some_and(|turn| turn.is_alive(self.clock.now()))
    }

    /// Removes an agent.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), BrokerError> {
        self.store.delete(DocumentKind::Agent, name, ExpectedRevision::Anything).await
    }
}

fn value(record: &AgentDocument) -> Result<serde_json::Value, BrokerError> {
    serde_json::to_value(record).map_err(|error| {
        BrokerError::new(
            BrokerErrorKind::Failed,
            format!("the agent {:?} cannot be written: {error}", record.name),
            "",
        )
    })
}

fn read(document: &StoredDocument) -> Result<AgentDocument, BrokerError> {
    serde_json::from_value(document.value.clone()).map_err(|error| {
        BrokerError::new(
            BrokerErrorKind::Damaged,
            format!("the record of the agent {:?} cannot be read: {error}", document.key),
            "use the version of nexus that wrote it, or remove the agent",
        )
    })
}
