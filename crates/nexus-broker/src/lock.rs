//! Named locks on things that agents share. A document in the broker's store says who owns a lock. The file
//! `.nexus_locks/NAME.lock` in the agent's folder shows the lock to other programs. If a file of that name exists that
//! no agent created, agents cannot get the lock.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    agent::AgentDocument,
    broker::Broker,
    error::{BrokerError, BrokerErrorKind},
    message::Address,
    store::{DocumentKind, ExpectedRevision, StoredDocument},
};
use nexus_files::rfc3339;

/// Name of the folder of the lock files, inside the agent's project folder.
const FOLDER: &str = ".nexus_locks";

/// A lock, as it is stored in the document and in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LockRecord {
    /// Agent that owns it.
    agent_id: String,
    /// Time at which the agent took the lock.
    #[serde(with = "rfc3339::as_millis")]
    taken_at: SystemTime,
    /// Time at which the lock becomes free, even if the agent does not release it.
    #[serde(with = "rfc3339::as_millis")]
    expires_at: SystemTime,
    /// File that shows the lock to other programs.
    file: PathBuf,
}

impl Broker {
    /// Takes a lock in the folder of an agent, until the agent's turn ends, and for at most `time`. An agent that takes its
    /// own lock again renews it.
    ///
    /// Fails with [`Conflict`](BrokerErrorKind::Conflict) while another agent owns the lock, or if a file of this name
    /// exists that no agent created.
    pub(crate) async fn take_lock(
        &self,
        agent: &AgentDocument,
        name: &str,
        time: Duration,
    ) -> Result<String, BrokerError> {
        Address::agent(name)?;
        let Some(folder) = project_folder(agent) else {
            return Err(BrokerError::invalid(
                "the agent has no folder, so it cannot take locks",
                "set `folder` in its entry of `broker.agents`",
            ));
        };
        let (key, file) = (key(&folder, name), folder.join(FOLDER).join(format!("{name}.lock")));
        let now = self.options().clock.now();
        let mut reported = String::new();
        let expected = match self.store().document(DocumentKind::Lock, &key).await? {
            None => {
                // No agent has the lock, so a file of this name belongs to another program.
                refuse_foreign(&file)?;
                ExpectedRevision::Absent
            }
            Some(document) => {
                let held = read(&document)?;
                if held.agent_id != agent.name {
                    if held.expires_at > now {
                        return Err(BrokerError::new(
                            BrokerErrorKind::Conflict,
                            format!(
                                "{} has the lock {name:?} until {}",
                                held.agent_id,
                                rfc3339::millis(held.expires_at)
                            ),
                            "take the lock again at a later time",
                        ));
                    }
                    reported = format!(
                        "; {} had it until it expired at {}",
                        held.agent_id,
                        rfc3339::millis(held.expires_at)
                    );
                }
                ExpectedRevision::Revision(document.revision)
            }
        };
        let record = LockRecord { agent_id: agent.name.clone(), taken_at: now, expires_at: now + time, file };
        // Two agents may read the same document. The store accepts only one write for its revision.
        let value = serde_json::to_value(&record)
            .map_err(|error| BrokerError::new(BrokerErrorKind::Failed, error.to_string(), ""))?;
        self.store().write(DocumentKind::Lock, &key, expected, &value).await.map_err(
            |error| match error.kind {
                BrokerErrorKind::Conflict => BrokerError::new(
                    BrokerErrorKind::Conflict,
                    format!("another agent has just taken the lock {name:?}"),
                    "take the lock again at a later time",
                ),
                _ => error,
            },
        )?;
        // The document is the lock. The file only shows it to other programs, so a failure here is logged.
        if let Err(error) = show(&record, &value) {
            tracing::warn!(file = %record.file.display(), %error, "a lock cannot be shown as a file");
        }
        Ok(format!("you have {name} until {}{reported}", rfc3339::millis(record.expires_at)))
    }

    /// Releases a lock of an agent. Fails with [`Unknown`](BrokerErrorKind::Unknown) if the agent has no lock of this name.
    pub(crate) async fn release_lock(&self, agent: &str, name: &str) -> Result<(), BrokerError> {
        let record = self.directory().get(agent).await?;
        let unknown = || BrokerError::unknown(format!("you have no lock {name:?}"), "");
        let Some(folder) = project_folder(&record) else { return Err(unknown()) };
        let document = self.store().document(DocumentKind::Lock, &key(&folder, name)).await?;
        let document = document.ok_or_else(unknown)?;
        let held = read(&document)?;
        if held.agent_id != agent {
            return Err(unknown());
        }
        self.release(&document, &held).await
    }

    /// Releases all locks of an agent whose turn has ended.
    pub(crate) async fn release_locks(&self, agent: &str) {
        let documents = match self.store().documents(DocumentKind::Lock).await {
            Ok(documents) => documents,
            Err(error) => return tracing::warn!(agent, %error, "its locks remain until they expire"),
        };
        for document in documents {
            let Ok(held) = read(&document) else { continue };
            if held.agent_id == agent
                && let Err(error) = self.release(&document, &held).await
            {
                tracing::warn!(agent, key = %document.key, %error, "the lock remains until it expires");
            }
        }
    }

    async fn release(&self, document: &StoredDocument, held: &LockRecord) -> Result<(), BrokerError> {
        // Remove the file first: as long as the document exists, no other agent creates the file.
        let removed =
            held.file.parent().map_or(Ok(()), check_folder).and_then(|()| fs::remove_file(&held.file));
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(file = %held.file.display(), %error, "the file of a lock stays");
            }
            _ => {}
        }
        let expected = ExpectedRevision::Revision(document.revision);
        match self.store().delete(DocumentKind::Lock, &document.key, expected).await {
            // A conflict means that the lock had expired and another agent has it now. Its document must stay.
            Err(error) if error.kind != BrokerErrorKind::Conflict => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the folder that agents share: the project, even where each agent has its own tree.
fn project_folder(agent: &AgentDocument) -> Option<PathBuf> {
    agent.tree.as_ref().map(|tree| tree.project.clone()).or_else(|| agent.folder.clone())
}

/// Returns the key of the lock's document. The path is hashed, so the key stays short.
fn key(folder: &Path, name: &str) -> String {
    let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    format!("{name}@{}", nexus_files::hex(hash))
}

/// Fails if the folder of the lock files is a link: the agent can write it, so the link may lead anywhere.
fn check_folder(folder: &Path) -> std::io::Result<()> {
    match fs::symlink_metadata(folder)?.is_dir() {
        true => Ok(()),
        false => Err(std::io::Error::other("it is a link or not a folder")),
    }
}

fn read(document: &StoredDocument) -> Result<LockRecord, BrokerError> {
    serde_json::from_value(document.value.clone()).map_err(|error| {
        BrokerError::new(
            BrokerErrorKind::Damaged,
            format!("the lock {:?} cannot be read: {error}", document.key),
            "",
        )
    })
}

/// Fails if a lock file exists without a document: another program, which does not use the broker, created it.
fn refuse_foreign(file: &Path) -> Result<(), BrokerError> {
    match fs::symlink_metadata(file) {
        Err(_) => Ok(()),
        Ok(_) => Err(BrokerError::new(
            BrokerErrorKind::Conflict,
            format!("{} exists, but no agent created it", file.display()),
            "the program that created it must remove it",
        )),
    }
}

fn show(record: &LockRecord, value: &serde_json::Value) -> std::io::Result<()> {
    let folder = record.file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    check_folder(folder)?;
    // Write a temporary file and rename it, so that no program reads half of the content.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(file, "{value:#}")?;
    file.persist(&record.file).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use nexus_conversations::Conversations;
    use nexus_core::{BuildContext, Clock, Registry};
    use nexus_router::Router;
    use serde_json::json;

    use super::*;
    use crate::{
        broker::BrokerOptions,
        store::{QueueLimits, SqliteStore},
    };

    #[derive(Debug)]
    struct Moved(Mutex<SystemTime>);

    impl Clock for Moved {
        fn now(&self) -> SystemTime {
            *self.0.lock().unwrap()
        }
    }

    #[tokio::test]
    async fn a_lock_that_has_expired_is_another_agents_and_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(Moved(Mutex::new(SystemTime::now())));
        let path = folder.path().join("messages.db");
        let store = SqliteStore::open(path, QueueLimits::default(), Arc::clone(&clock) as _).await.unwrap();
        let router =
            Router::from_value(json!({}), Registry::new(), BuildContext::in_home(folder.path())).unwrap();
        let conversations = Conversations::in_home(folder.path());
        let mut options = BrokerOptions::new(Arc::new(store), router, conversations, folder.path());
        options.clock = Arc::clone(&clock) as _;
        let broker = Broker::new(options);
        let agents = ["one", "two"].map(|name| {
            serde_json::from_value::<AgentDocument>(json!({
                "name": name, "kind": "k", "access": "scoped-only", "status": "started",
                "changed_at": "2026-01-01T00:00:00Z", "folder": folder.path(),
            }))
            .unwrap()
        });
        for agent in &agents {
            broker.directory().add(agent).await.unwrap();
        }
        let minute = Duration::from_secs(60);
        broker.take_lock(&agents[0], "db", minute).await.unwrap();
        broker.take_lock(&agents[0], "db", minute).await.unwrap();
        let refused = broker.take_lock(&agents[1], "db", minute).await.unwrap_err();
        assert_eq!(refused.kind, BrokerErrorKind::Conflict);
        assert!(refused.to_string().contains("one has the lock \"db\" until"), "{refused}");
        *clock.0.lock().unwrap() += minute;
        let taken = broker.take_lock(&agents[1], "db", minute).await.unwrap();
        assert!(taken.contains("one had it until it expired"), "{taken}");
        assert_eq!(broker.release_lock("one", "db").await.unwrap_err().kind, BrokerErrorKind::Unknown);
        let file = folder.path().join(FOLDER).join("db.lock");
        assert!(fs::read_to_string(&file).unwrap().contains("\"agent_id\": \"two\""));
        broker.release_locks("two").await;
        assert!(!file.exists());
    }
}
