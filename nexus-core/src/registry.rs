//! Kinds of backends, and their construction from settings.

use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use crate::{
    backend::ExecutionBackend,
    credential_source::CredentialSource,
    detection::{Detection, Detector, Machine},
    id::{BackendId, VendorId},
    providers::{CompletedEntry, ProviderSummary},
};

/// A kind of backend, as `nexus.yaml` names it.
///
/// The name of a kind is also the id of a backend of that kind with no settings of its own.
pub trait BackendKind: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the kind.
    fn name(&self) -> &str;

    /// Returns the vendor of a backend with these settings. Reads at most the files that the settings name.
    fn vendor(&self, settings: &Map<String, Value>, context: &BuildContext) -> VendorId;

    /// JSON Schema of the settings: an object that allows no further properties. It completes the schema of
    /// `nexus.yaml` for editors.
    fn settings_schema(&self) -> Value;

    /// Builds a backend. Starts no process, uses no network, and reads only files that the settings name.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which names the setting.
    fn build(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError>;
}

/// A section of `nexus.yaml` for a program above the router, such as `tasks`.
pub trait ConfigSection: fmt::Debug + Send + Sync + 'static {
    /// Returns the key of the section in the file.
    fn name(&self) -> &'static str;

    /// Returns the JSON Schema of the section: an object with a description that allows no further properties. It completes the
    /// schema of `nexus.yaml` for editors.
    fn schema(&self) -> Value;

    /// Checks if this value can be used.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], with the position in the value.
    fn check(&self, value: &Value) -> Result<(), SettingsError>;
}

/// Builds backends whose turns run in a pool of workers on other machines.
///
/// For a backend of `nexus.yaml` with a `pool`, the backend's kind builds it first, and then this trait replaces it. The section of
/// this type configures the pools. Its [`check`](ConfigSection::check) accepts the section's value before [`build`](Self::build) is
/// called.
pub trait Pools: ConfigSection {
    /// Builds the replacement of `local`. Starts no process and uses no network; both wait for a turn.
    ///
    /// `local` is the backend as its kind or the program built it. The returned backend has the id and the capabilities of `local`.
    /// It may be `local` itself, as in a worker of that pool. `pool` is 1 to 64 ASCII letters, digits, `-` and `_`. `section` is the
    /// value of the section, or `None` if the file has none.
    ///
    /// # Errors
    ///
    /// [`SettingsError`]. Its path leads into the section. The path is empty if the backend cannot run in this pool or the section is
    /// missing.
    fn build(
        &self,
        local: Arc<dyn ExecutionBackend>,
        pool: &str,
        section: Option<&Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError>;

    /// Returns the sources of logins that another machine owns, by name. Every backend of the file is built into a context with them
    /// as its [`shared_logins`](BuildContext::shared_logins). Starts no process and uses no network; both wait for a turn.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], whose path leads into the section.
    fn shared_logins(&self, section: &Value, context: &BuildContext) -> Result<SharedLogins, SettingsError>;
}

/// Completes backends of `nexus.yaml` that name a `provider`. The section of this type has the rows that the file adds.
///
/// Its [`check`](ConfigSection::check) accepts the section's value before the other methods are called.
pub trait Providers: ConfigSection {
    /// Returns all providers, sorted by name. `section` is the value of the section, or `None` if the file has none.
    fn list(&self, section: Option<&Value>) -> Vec<ProviderSummary>;

    /// Completes the settings of an entry with this provider. The entry's own settings win.
    ///
    /// # Errors
    ///
    /// [`SettingsError`], which names a missing or invalid setting of the entry.
    fn complete(
        &self,
        provider: &str,
        entry: &Map<String, Value>,
        section: Option<&Value>,
    ) -> Result<CompletedEntry, SettingsError>;
}

/// Sources of shared logins, by the login's name.
pub type SharedLogins = BTreeMap<String, Arc<dyn CredentialSource>>;

/// Context in which a backend is built.
#[non_exhaustive]
#[derive(Clone)]
pub struct BuildContext {
    /// Folder for everything that outlives a turn, such as stored conversations and the run registry.
    pub home: PathBuf,
    /// Base of relative paths in settings: the folder of the configuration file.
    pub base_directory: PathBuf,
    /// Environment of the host. A child process inherits a variable only by an explicit rule.
    pub environment: BTreeMap<String, String>,
    /// Credential sources of the host, by the name that settings use.
    pub credential_sources: BTreeMap<String, Arc<dyn CredentialSource>>,
    /// Logins that another machine owns, by name. A backend that would use this home's login of that name uses the shared one
    /// instead.
    pub shared_logins: SharedLogins,
}

impl BuildContext {
    /// Creates a context with its state in `home`, for tests and for callers with another home. Relative paths in settings are
    /// relative to the current folder. The environment is empty.
    pub fn in_home(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            base_directory: PathBuf::from("."),
            environment: BTreeMap::new(),
            credential_sources: BTreeMap::new(),
            shared_logins: SharedLogins::new(),
        }
    }

    /// Returns the context of this process: `$NEXUS_HOME` or `~/.nexus`, the current folder, the whole environment. Leaves out
    /// variables that are not Unicode. Without `HOME`, uses the home folder of the system's user database. Without that entry the
    /// context has no home, because a guessed folder could have been prepared by another user.
    pub fn from_process() -> Self {
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
        let home = match set("NEXUS_HOME") {
            Some(home) => PathBuf::from(home),
            None => set("HOME")
                .map(PathBuf::from)
                .or_else(std::env::home_dir)
                .filter(|home| home.is_absolute())
                .unwrap_or_else(|| PathBuf::from("/nonexistent"))
                .join(".nexus"),
        };
        Self { environment, ..Self::in_home(home) }
    }

    /// Replaces the environment.
    #[must_use]
    pub fn with_environment(mut self, environment: BTreeMap<String, String>) -> Self {
        self.environment = environment;
        self
    }

    /// Adds a credential source. Any backend uses it with `credential: { source: NAME }` in its settings.
    #[must_use]
    pub fn with_credential_source(
        mut self,
        name: impl Into<String>,
        source: Arc<dyn CredentialSource>,
    ) -> Self {
        self.credential_sources.insert(name.into(), source);
        self
    }

    /// Adds logins that another machine owns.
    #[must_use]
    pub fn with_shared_logins(mut self, logins: SharedLogins) -> Self {
        self.shared_logins.extend(logins);
        self
    }

    /// Sets the folder that relative paths in settings are relative to.
    #[must_use]
    pub fn with_base_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.base_directory = directory.into();
        self
    }
}

impl fmt::Debug for BuildContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildContext")
            .field("home", &self.home)
            .field("base_directory", &self.base_directory)
            .field("environment", &format_args!("{} variables", self.environment.len()))
            .field("credential_sources", &self.credential_sources)
            .field("shared_logins", &self.shared_logins)
            .finish()
    }
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// The keys that lead to the setting; empty for the settings as a whole.
    pub path: Vec<String>,
    /// The fault, and a correct value.
    pub reason: String,
}

impl SettingsError {
    /// Creates an error about the setting `key`.
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: vec![key.into()], reason: reason.into() }
    }

    /// Reads settings as a `T`.
    ///
    /// # Errors
    ///
    /// The first key that does not fit a `T`, with the keys and indices above it.
    pub fn reading<T: DeserializeOwned>(value: &Value) -> Result<T, Self> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().iter().filter_map(|segment| match segment {
                Segment::Map { key } => Some(key.clone()),
                Segment::Seq { index } => Some(index.to_string()),
                Segment::Enum { .. } | Segment::Unknown => None,
            });
            Self { path: path.collect(), reason: error.inner().to_string() }
        })
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "{}: {}", self.path.join("."), self.reason)
        }
    }
}

impl std::error::Error for SettingsError {}

/// The kinds and sections that a configuration may name, and the builder of pooled backends.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    kinds: Vec<Arc<dyn BackendKind>>,
    sections: Vec<Arc<dyn ConfigSection>>,
    pools: Option<Arc<dyn Pools>>,
    providers: Option<Arc<dyn Providers>>,
    absent: BTreeMap<String, String>,
    start: Vec<fn(&BuildContext)>,
    detectors: Vec<Detector>,
    machine: Option<MachineSource>,
}

/// Returns the machine of a context.
type MachineSource = fn(&BuildContext) -> Arc<dyn Machine>;

impl Registry {
    /// Creates a registry without kinds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a kind, or replaces the kind of the same name.
    #[must_use]
    pub fn with(mut self, kind: Arc<dyn BackendKind>) -> Self {
        self.kinds.retain(|known| known.name() != kind.name());
        self.absent.remove(kind.name());
        self.kinds.push(kind);
        self
    }

    /// Adds the name of a kind that is missing from this build, with the reason. A configuration may name it, and turns skip its
    /// backends with that reason.
    #[must_use]
    pub fn with_absent(mut self, name: impl Into<String>, reason: impl Into<String>) -> Self {
        let name = name.into();
        if self.kind(&name).is_none() {
            self.absent.insert(name, reason.into());
        }
        self
    }

    /// Adds a section, or replaces the section of the same name.
    #[must_use]
    pub fn with_section(mut self, section: Arc<dyn ConfigSection>) -> Self {
        self.sections.retain(|known| known.name() != section.name());
        self.sections.push(section);
        self
    }

    /// Returns the sections that the router itself does not read, in the order in which they were added.
    pub fn sections(&self) -> impl Iterator<Item = &Arc<dyn ConfigSection>> {
        self.sections.iter()
    }

    /// Sets the builder of backends with a `pool`, and adds its section.
    #[must_use]
    pub fn with_pools(mut self, pools: Arc<dyn Pools>) -> Self {
        self.pools = Some(Arc::clone(&pools));
        self.with_section(pools)
    }

    /// Returns the builder of pooled backends. Without a builder a configuration must not have any.
    pub fn pools(&self) -> Option<&Arc<dyn Pools>> {
        self.pools.as_ref()
    }

    /// Sets the table of providers that backends name, and adds its section.
    #[must_use]
    pub fn with_providers(mut self, providers: Arc<dyn Providers>) -> Self {
        self.providers = Some(Arc::clone(&providers));
        self.with_section(providers)
    }

    /// Returns the table of providers. Without one a backend cannot name a provider.
    pub fn providers(&self) -> Option<&Arc<dyn Providers>> {
        self.providers.as_ref()
    }

    /// Adds work to do once when a program starts to use these kinds, with any configuration. An example is ending processes that a
    /// killed program left behind. It may block for some milliseconds.
    #[must_use]
    pub fn with_start(mut self, start: fn(&BuildContext)) -> Self {
        self.start.push(start);
        self
    }

    /// Runs the work added by [`with_start`](Self::with_start). A router calls it when it is built.
    pub fn start(&self, context: &BuildContext) {
        self.start.iter().for_each(|start| start(context));
    }

    /// Adds a detector of backends, for a program that runs without a configuration.
    #[must_use]
    pub fn with_detector(mut self, detector: Detector) -> Self {
        self.detectors.push(detector);
        self
    }

    /// Sets the machine at which the detectors look.
    #[must_use]
    pub fn with_machine(mut self, machine: fn(&BuildContext) -> Arc<dyn Machine>) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Returns the machine at which the detectors look. `None` for a registry that detects nothing.
    pub fn machine(&self, context: &BuildContext) -> Option<Arc<dyn Machine>> {
        self.machine.map(|machine| machine(context))
    }

    /// Runs all detectors at once, and returns their findings in the order in which the detectors were added.
    pub async fn detect(&self, machine: &dyn Machine) -> Detection {
        // Detectors start programs and wait for servers, so run them at once.
        let found = futures::future::join_all(self.detectors.iter().map(|detector| detector(machine))).await;
        let mut detection = Detection::default();
        for Detection { backends, unused, ways } in found {
            detection.backends.extend(backends);
            detection.unused.extend(unused);
            detection.ways.extend(ways);
        }
        detection
    }

    /// Returns the kind of this name.
    pub fn kind(&self, name: &str) -> Option<&Arc<dyn BackendKind>> {
        self.kinds.iter().find(|kind| kind.name() == name)
    }

    /// Returns the reason why a known kind is missing from this build.
    pub fn absence(&self, name: &str) -> Option<&str> {
        self.absent.get(name).map(String::as_str)
    }

    /// Returns the kinds of this build, in the order in which they were added.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<dyn BackendKind>> {
        self.kinds.iter()
    }

    /// Returns every name that a configuration may use.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(|kind| kind.name()).chain(self.absent.keys().map(String::as_str))
    }
}
