//! Reads the key `pool` of backends, and the section `fleet`.

use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use nexus_core::{
    BuildContext, ConfigSection, ExecutionBackend, SettingsError, SharedLogins, registry::Pools,
    settings_schema,
};
use serde_json::Value;

use crate::{caller::FleetBackend, fleet::Fleet, settings::FleetSettings};

/// Builds the backends of `nexus.yaml` that have a `pool`: for [`Registry::with_pools`](nexus_core::Registry::with_pools).
///
/// All backends with the same section share one connection. The first turn opens it.
#[derive(Clone, Default)]
pub struct FleetPools {
    /// True if backends with a `pool` run on this machine, as in a worker.
    is_local: bool,
    /// Names of the existing logins, if the program lists them.
    logins: Option<Arc<[String]>>,
    shares: Arc<Mutex<HashMap<(PathBuf, String), Fleet>>>,
}

impl FleetPools {
    /// Creates a builder for callers: backends with a `pool` run in the pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a builder for the router of a worker: backends with a `pool` run on this machine. Its configuration may be
    /// the same file as its callers'.
    pub fn of_worker() -> Self {
        Self { is_local: true, ..Self::default() }
    }

    /// Lists the existing logins: a section that shares another login is rejected.
    #[must_use]
    pub fn with_logins<Word: Into<String>>(mut self, words: impl IntoIterator<Item = Word>) -> Self {
        self.logins = Some(words.into_iter().map(Into::into).collect());
        self
    }

    /// Returns the access to the fleet that this section describes.
    ///
    /// # Errors
    ///
    /// [`SettingsError`]: the section cannot be used.
    pub fn fleet(&self, section: &Value, context: &BuildContext) -> Result<Fleet, SettingsError> {
        let settings = FleetSettings::read(section)?.placed_in(context);
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (context.base_directory.clone(), format!("{} {section}", context.home.display()));
        if let Some(fleet) = shares.get(&key) {
            return Ok(fleet.clone());
        }
        let fleet = Fleet::new(settings).map_err(|error| SettingsError {
            path: Vec::new(),
            reason: format!("the connection of the fleet could not be started: {error}"),
        })?;
        // After a reload with another section, only running turns need the earlier connection, and they have their own
        // reference.
        shares.clear();
        shares.insert(key, fleet.clone());
        Ok(fleet)
    }
}

impl ConfigSection for FleetPools {
    fn name(&self) -> &'static str {
        "fleet"
    }

    fn schema(&self) -> Value {
        let mut schema = settings_schema::of::<FleetSettings>();
        schema["description"] =
            "The fleet: its NATS servers, and the limits of a worker on this machine.".into();
        schema
    }

    fn check(&self, value: &Value) -> Result<(), SettingsError> {
        let settings = FleetSettings::read(value)?;
        let Some(known) = &self.logins else { return Ok(()) };
        match settings.login_owner.keys().find(|login| !known.contains(login)) {
            None => Ok(()),
            Some(login) => {
                let path = vec!["login_owner".to_owned(), login.clone()];
                let reason = match &**known {
                    [] => "this build of Nexus has no own logins".to_owned(),
                    known => format!("Nexus has no login `{login}`: write `{}`", known.join("` or `")),
                };
                Err(SettingsError { path, reason })
            }
        }
    }
}

impl Pools for FleetPools {
    fn build(
        &self,
        local: Arc<dyn ExecutionBackend>,
        pool: &str,
        section: Option<&Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        if self.is_local {
            return Ok(local);
        }
        let Some(section) = section else {
            let reason = "name the servers of the pool: `fleet: { servers: [\"nats://…\"] }`".to_owned();
            return Err(SettingsError { path: Vec::new(), reason });
        };
        let fleet = self.fleet(section, context)?;
        let backend: Arc<dyn ExecutionBackend> = Arc::new(FleetBackend::new(local, pool, fleet.clone()));
        fleet.0.add_pooled(&backend);
        Ok(backend)
    }

    fn shared_logins(&self, section: &Value, context: &BuildContext) -> Result<SharedLogins, SettingsError> {
        // Without a login owner, start no thread for a connection that stays unused.
        if FleetSettings::read(section)?.login_owner.is_empty() {
            return Ok(SharedLogins::new());
        }
        Ok(self.fleet(section, context)?.shared_logins())
    }
}

impl fmt::Debug for FleetPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetPools").field("is_local", &self.is_local).finish_non_exhaustive()
    }
}
