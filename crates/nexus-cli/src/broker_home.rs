//! Shared parts of the commands on agents: the configuration, the store and the files beside it.

use std::{path::PathBuf, sync::Arc, time::Duration};

use nexus::{BuildContext, Fleet, Router, SystemClock};
use nexus_broker::{
    Broker, BrokerError, BrokerErrorKind, BrokerOptions, BrokerSettings, BrokerStore, JetStreamStore,
    MemoryIndex, QueueLimits, SqliteStore,
    trigger::{Triggers, WebhookSecrets},
};
use nexus_files::Journal;
use tokio::sync::watch;

use crate::{args::ConfigArgs, command_error::CommandError, config, conversation, output::complain};

/// The configuration, and its broker section.
pub(crate) struct BrokerHome {
    router: Router,
    fleet: Option<Fleet>,
    pub(crate) settings: BrokerSettings,
}

impl BrokerHome {
    pub(crate) fn load(config: &ConfigArgs) -> Result<Self, CommandError> {
        let (router, fleet) = config::load_for_broker(config)?;
        let settings = BrokerSettings::of(&router).map_err(CommandError::failed)?;
        Ok(Self { router, fleet, settings })
    }

    /// Returns the location of the messages, for people.
    pub(crate) fn place(&self) -> String {
        match &self.fleet {
            Some(_) => "the streams of the fleet".to_owned(),
            None => folder().display().to_string(),
        }
    }

    /// Opens a broker over the store of this home, or over the fleet's store if the configuration names a fleet. This broker runs no turns.
    pub(crate) async fn open(&self) -> Result<Broker, CommandError> {
        self.open_with(1, None).await
    }

    /// Opens a broker that runs up to `turns` turns at once and indexes all messages.
    pub(crate) async fn open_to_run(
        &self,
        turns: usize,
        memory: MemoryIndex,
    ) -> Result<Broker, CommandError> {
        self.open_with(turns, Some(memory)).await
    }

    async fn open_with(&self, turns: usize, memory: Option<MemoryIndex>) -> Result<Broker, CommandError> {
        let (folder, clock, limits) = (folder(), Arc::new(SystemClock), QueueLimits::default());
        let store: Arc<dyn BrokerStore> = match &self.fleet {
            Some(fleet) => {
                Arc::new(JetStreamStore::open(fleet, limits, clock).await.map_err(CommandError::failed)?)
            }
            None => {
                let opened = SqliteStore::open(folder.join("messages.db"), limits, clock).await;
                let journal = Journal::in_home(&BuildContext::from_process().home);
                Arc::new(opened.map_err(CommandError::failed)?.with_journal(journal))
            }
        };
        let mut options = BrokerOptions::new(store, self.router.clone(), conversation::store(), folder);
        options.memory = memory;
        options.machine = self.machine();
        options.max_turns_at_once = turns;
        options.max_hops = self.settings.max_hops;
        options.max_turns_per_message = self.settings.max_turns_per_message;
        options.turn_deadline = Duration::from_secs(self.settings.turn_seconds);
        Ok(Broker::new(options))
    }

    /// Like [`open`](Self::open), with the agents of the configuration registered.
    pub(crate) async fn open_with_agents(&self) -> Result<Broker, CommandError> {
        let broker = self.open().await?;
        self.configure(&broker).await?;
        Ok(broker)
    }

    /// Registers the agents of the configuration with the broker. Returns the agents that another machine runs, each with the name of that machine.
    pub(crate) async fn configure(&self, broker: &Broker) -> Result<Vec<(String, String)>, CommandError> {
        let mut elsewhere = Vec::new();
        for record in self.settings.records() {
            match broker.configure(&record).await {
                // Continue with the other agents. A newer version may have written this record.
                Err(error) if error.kind == BrokerErrorKind::Damaged => complain(error),
                configured => {
                    let machine = configured.map_err(CommandError::failed)?;
                    elsewhere.extend(machine.map(|machine| (record.name, machine)));
                }
            }
        }
        // Other homes of a fleet may configure other agents, so only a store without a fleet stops unknown ones.
        if self.fleet.is_none() {
            for there in broker.agents().await.map_err(CommandError::failed)? {
                if there.manager.is_none() && !self.settings.agents.contains_key(&there.name) {
                    broker.stop(&there.name).await.map_err(CommandError::failed)?;
                }
            }
        }
        Ok(elsewhere)
    }

    /// Opens the triggers of a broker's store. Their messages use the broker's routes and scopes.
    pub(crate) fn triggers(&self, broker: &Broker) -> Triggers {
        let triggers =
            Triggers::new(Arc::clone(broker.store()), Arc::new(SystemClock), Arc::new(broker.clone()));
        match self.machine() {
            Some(machine) => triggers.on_machine(&machine),
            None => triggers,
        }
    }

    /// Returns the name of this machine if other machines share the store: each machine has its own files.
    fn machine(&self) -> Option<String> {
        let name = rustix::system::uname();
        self.fleet.as_ref().and_then(|_| name.nodename().to_str().ok().map(ToOwned::to_owned))
    }
}

/// Waits for changes of messages, agents and triggers.
pub(crate) struct StoreChanges(Option<watch::Receiver<()>>);

impl StoreChanges {
    /// Watches the changes of a broker's store, from now on.
    pub(crate) fn of(broker: &Broker) -> Self {
        let mut changes = broker.store().changes();
        if let Some(changes) = &mut changes {
            // The first `next` has to return: the store may have changed before this watch began.
            changes.mark_changed();
        }
        Self(changes)
    }

    /// Waits for `pause`, then for a change since the last return, but at most `longest` more. The first call does not wait for a change. If
    /// the store does not notice its changes, as a fleet's store, it waits for `pause` only.
    pub(crate) async fn next(&mut self, pause: Duration, longest: Duration) {
        tokio::time::sleep(pause).await;
        if let Some(changes) = &mut self.0 {
            // A store that has ended fails at the next use.
            let _ = tokio::time::timeout(longest, changes.changed()).await;
        }
    }
}

/// The folder of the broker, in Nexus's home.
pub(crate) fn folder() -> PathBuf {
    BuildContext::from_process().home.join("broker")
}

/// Opens the index of all messages. Blocks.
pub(crate) fn memory() -> Result<MemoryIndex, BrokerError> {
    MemoryIndex::open(folder().join("memory.db"))
}

/// The secrets of webhooks.
pub(crate) fn secrets() -> WebhookSecrets {
    WebhookSecrets::in_folder(folder().join("webhooks"))
}
