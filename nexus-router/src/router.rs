//! Resolves a work-kind to a binding, and runs turns on it.

#[cfg(feature = "yaml")]
use std::path::{Path, PathBuf};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock, atomic::AtomicBool},
};

use nexus_core::{
    BackendId, BuildContext, Clock, ErrorKind, EventEnvelope, EventSink, ExecutionBackend, ForgetError,
    Forgotten, Registry, ResumeHandle, Support, SystemClock, TurnError, TurnHost, TurnRequest, TurnResult,
    VendorId,
};

use serde_json::Value;

use crate::{
    binding::Binding,
    config::{
        ConfigError, Configuration, ConfiguredBackend, EntryState, FallbackRule, Problem, Sources, Target,
        load_value,
    },
    hold::{Hold, HoldStore, Holds, MemoryHoldStore},
    payer_notices::PayerNotices,
    queue::Queues,
    run::{Run, TurnRoute},
    spending::{Spending, SpendingBook, WorkLabel},
    telemetry,
    work_kind::{KindError, WorkKind},
};
#[cfg(feature = "yaml")]
use crate::{
    config::{ConfigFile, load_file, load_text},
    detected::{DetectError, DetectedConfig},
};

/// Runs each turn on the backends that `nexus.yaml` binds to its work-kind.
///
/// Clones share one state. Any number of turns may run at once; a [reload](Router::reload) affects turns that begin
/// after it, except those of a [snapshot](Router::snapshot).
/// ```
/// use nexus_core::{BuildContext, Registry};
/// use nexus_router::Router;
///
/// let text = "groups: { main: [alpha] }\ntypes: { writer: { group: mian } }\n";
/// let registry = Registry::new().with_absent("alpha", "not part of this build");
/// let error = Router::from_str(text, registry, BuildContext::in_home("home")).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "configuration:2:27: unknown group \"mian\"; did you mean \"main\"?\n \
///      2 | types: { writer: { group: mian } }\n   \
///        |                           ^"
/// );
/// ```
#[derive(Clone)]
pub struct Router {
    shared: Arc<RouterCore>,
    /// The fixed configuration of a snapshot. `None` for a router that follows reloads.
    pinned: Option<Arc<Configuration>>,
    /// Labels of its turns.
    labels: Arc<BTreeMap<&'static str, String>>,
}

/// Data that clones of a router share.
struct RouterCore {
    current: RwLock<Arc<Configuration>>,
    source: ConfigurationSource,
    sources: Sources,
    holds: Arc<Holds>,
    queues: Queues,
    payer_notices: PayerNotices,
    spending: Option<Spending>,
}

/// Source of the configuration.
#[derive(Debug)]
enum ConfigurationSource {
    #[cfg(feature = "yaml")]
    File(PathBuf),
    #[cfg(feature = "yaml")]
    ReadFile(ConfigFile),
    #[cfg(feature = "yaml")]
    Text(String),
    Value(Value),
}

impl Router {
    /// Loads a file. Resolves relative paths in it against its folder and never against the context's folder.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with all faults of the file.
    #[cfg(feature = "yaml")]
    pub fn from_file(
        path: impl AsRef<Path>,
        registry: Registry,
        context: BuildContext,
    ) -> Result<Self, ConfigError> {
        RouterBuilder::new(registry, context).from_file(path)
    }

    /// Loads a configuration from text.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with all faults of the text.
    #[cfg(feature = "yaml")]
    pub fn from_str(text: &str, registry: Registry, context: BuildContext) -> Result<Self, ConfigError> {
        RouterBuilder::new(registry, context).from_str(text)
    }

    /// Loads a configuration that the program built as a value, in the shape of `nexus.yaml`. Needs no file and no YAML.
    ///
    /// ```
    /// use nexus_core::{BuildContext, Registry};
    /// use nexus_router::Router;
    ///
    /// let registry = Registry::new().with_absent("alpha", "not part of this build");
    /// let configuration = serde_json::json!({
    ///     "groups": { "main": ["alpha"] },
    ///     "types": { "writer": { "group": "main" } },
    /// });
    /// let router = Router::from_value(configuration, registry, BuildContext::in_home("home"))?;
    /// assert_eq!(router.kinds(), ["writer"]);
    /// # Ok::<(), nexus_router::ConfigError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError`]. Its positions and lines refer to the value written as indented JSON.
    pub fn from_value(value: Value, registry: Registry, context: BuildContext) -> Result<Self, ConfigError> {
        RouterBuilder::new(registry, context).from_value(value)
    }

    /// Builds a router from what the machine has, without a configuration: see [`DetectedConfig`]. Takes up to a few seconds.
    ///
    /// # Errors
    ///
    /// [`DetectError`].
    #[cfg(feature = "yaml")]
    pub async fn detect(registry: Registry, context: BuildContext) -> Result<Self, DetectError> {
        let detected = DetectedConfig::look(&registry, &context).await.map_err(DetectError::Nothing)?;
        RouterBuilder::new(registry, context).from_detected(&detected).map_err(DetectError::Config)
    }

    /// Returns a builder for a router with backends of the program's own.
    pub fn builder(registry: Registry, context: BuildContext) -> RouterBuilder {
        RouterBuilder::new(registry, context)
    }

    /// Reads the file again. Running turns retain the configuration that they began with; holds and queues stay. A backend with
    /// unchanged settings is not built again.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]. The previous configuration then stays in use.
    pub fn reload(&self) -> Result<(), ConfigError> {
        // The new configuration takes over the backends of the present one whose settings are unchanged.
        let before = self.current();
        let loaded = match &self.shared.source {
            #[cfg(feature = "yaml")]
            ConfigurationSource::File(path) => load_file(path, &self.shared.sources, Some(&before))?,
            #[cfg(feature = "yaml")]
            ConfigurationSource::ReadFile(file) => file.load(&self.shared.sources, Some(&before))?,
            #[cfg(feature = "yaml")]
            ConfigurationSource::Text(text) => load_text(text, &self.shared.sources, Some(&before))?,
            ConfigurationSource::Value(value) => load_value(value, &self.shared.sources, Some(&before))?,
        };
        self.swap(loaded);
        Ok(())
    }

    /// Replaces the configuration by one from text, as [`Router::reload`] does with the file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]. The previous configuration then stays in use.
    #[cfg(feature = "yaml")]
    pub fn replace(&self, text: &str) -> Result<(), ConfigError> {
        let loaded = load_text(text, &self.shared.sources, Some(&self.current()))?;
        self.swap(loaded);
        Ok(())
    }

    /// Replaces the configuration by the one of a file that was read, as [`Router::reload`] does with the file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]. The previous configuration then stays in use.
    #[cfg(feature = "yaml")]
    pub fn replace_by_read_file(&self, file: &ConfigFile) -> Result<(), ConfigError> {
        let loaded = file.load(&self.shared.sources, Some(&self.current()))?;
        self.swap(loaded);
        Ok(())
    }

    /// Runs one turn without tools and without events. Use it instead of [`Router::run_turn`] if only the answer matters.
    ///
    /// # Errors
    ///
    /// As [`Router::run_turn`].
    pub async fn run_text(
        &self,
        kind: impl Into<WorkKind>,
        request: impl Into<TurnRequest>,
    ) -> Result<TurnResult, TurnError> {
        let mut unwatched = |_: EventEnvelope| {};
        self.run_turn(kind, request.into(), TurnHost::new(), &mut unwatched).await
    }

    /// Runs one turn on the backends of its work-kind. The request's own model and effort override the binding.
    ///
    /// The deadline of the request covers the wait for a permit and all backends that are tried. The limits on tool calls, output
    /// tokens and cost are reduced by the usage of earlier backends. Under the rule [`Restore`](crate::FallbackRule::Restore) tool
    /// calls count from zero with each backend.
    ///
    /// Input of the host's [steering](TurnHost::with_steering) waits for the next backend if it arrives while no backend runs, or if a
    /// failed backend had not taken it. Input that a failed backend received is at the end of the next backend's prompt.
    ///
    /// A host's [budget](TurnHost::with_budget) limits the turn to the rest of the budget. The router books the usage of every
    /// backend.
    ///
    /// # Errors
    ///
    /// The error of the last backend that ran, with the skipped and failed backends in [`TurnError::skipped`]. Otherwise:
    ///
    /// - [`Exhausted`](nexus_core::ErrorKind::Exhausted) if a chain of several backends has no backend left, with the time at which
    ///   the first one becomes available. A chain of one backend returns that backend's own error. While the backend is held, the
    ///   error is the refusal that caused the hold. If the backend is parked or missing, the error is `Exhausted`.
    /// - [`InvalidRequest`](nexus_core::ErrorKind::InvalidRequest) for an unknown work-kind. Also for a work-kind with the fallback
    ///   rule `restore`, if the host [cannot revert changes](TurnHost::with_before_retry).
    /// - [`LimitReached`](nexus_core::ErrorKind::LimitReached) with [`Limit::Budget`](nexus_core::Limit::Budget) if nothing is left of
    ///   the host's budget, or the turn used up the rest.
    pub async fn run_turn(
        &self,
        kind: impl Into<WorkKind>,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        // Begin first, so that input waits instead of being refused while no backend runs.
        let _steered = host.steered(Support::Yes);
        let configuration = self.configuration();
        let work_type = configuration.work_type(&kind.into()).map_err(KindError::from)?.clone();
        let binding = match work_type.target {
            Target::Binding(binding) => binding,
            Target::Panel(panel) => {
                return Err(KindError::IsPanel { kind: work_type.name.into(), panel }.into());
            }
        };
        let route = TurnRoute {
            configuration: &configuration,
            name: &work_type.name,
            binding: &binding,
            rule: work_type.fallback,
            asks_again: false,
        };
        self.run_route(route, request, host, events).await
    }

    /// Runs one turn on one backend of the configuration, independent of its types: with its hold, its queue and the
    /// host's budget like any other turn, but without a fallback. The model and the effort are those of the request.
    /// ```
    /// use nexus_core::{BuildContext, ErrorKind, EventEnvelope, Registry, TurnHost, TurnRequest};
    /// use nexus_router::Router;
    /// # use nexus_core::{
    /// #     Availability, BackendId, Capabilities, EventSink, ExecutionBackend, FinishReason, ForgetError, Forgotten, LoopMode,
    /// #     ResumeHandle, TurnError, TurnResult, harness::{Failure, RunningTurn}, turn::MessageEnded,
    /// # };
    /// # #[derive(Debug)]
    /// # struct Scripted(BackendId);
    /// # #[async_trait::async_trait]
    /// # impl ExecutionBackend for Scripted {
    /// #     fn id(&self) -> &BackendId {
    /// #         &self.0
    /// #     }
    /// #     fn capabilities(&self) -> Capabilities {
    /// #         let mut capabilities = Capabilities::new(LoopMode::Native);
    /// #         let kept = nexus_core::AccessSupport::Kept(nexus_core::AccessEnforcer::None);
    /// #         capabilities.access.scoped_only = kept;
    /// #         capabilities
    /// #     }
    /// #     async fn probe(&self) -> Availability {
    /// #         Availability::ready(None)
    /// #     }
    /// #     async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
    /// #         Err(ForgetError::Unsupported { backend: self.0.clone() })
    /// #     }
    /// #     async fn run_turn(
    /// #         &self, request: TurnRequest, host: TurnHost, events: &mut dyn EventSink,
    /// #     ) -> Result<TurnResult, TurnError> {
    /// #         let mut turn = RunningTurn::begin(&self.0, &self.capabilities(), request, host, events)?;
    /// #         turn.event(MessageEnded::new("m".into(), "It is fixed."));
    /// #         turn.end(Ok::<_, Failure>((FinishReason::Stop, None))).await
    /// #     }
    /// # }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let alpha = Scripted("alpha".into());
    /// let router = Router::builder(Registry::new(), BuildContext::in_home("home"))
    ///     .backend(std::sync::Arc::new(alpha))
    ///     .from_value(serde_json::json!({ "backends": { "alpha": { "max_turns_at_once": 2 } } }))?;
    /// let mut unwatched = |_: EventEnvelope| {};
    ///
    /// let request = TurnRequest::new("Fix the failing test.");
    /// let result = router.run_on(&"alpha".into(), request.clone(), TurnHost::new(), &mut unwatched).await?;
    /// assert_eq!(result.text, "It is fixed.");
    ///
    /// let unknown = router.run_on(&"beta".into(), request, TurnHost::new(), &mut unwatched).await;
    /// assert_eq!(unknown.unwrap_err().kind(), ErrorKind::InvalidRequest);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of [`Router::run_turn`] for a chain of this one backend. An unknown backend is
    /// [`InvalidRequest`](nexus_core::ErrorKind::InvalidRequest), with the names of the configured ones.
    pub async fn run_on(
        &self,
        backend: &BackendId,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let _steered = host.steered(Support::Yes);
        let configuration = self.configuration();
        if !configuration.backends.contains_key(backend) {
            let known: Vec<&str> = configuration.backends.keys().map(BackendId::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!("the configuration does not contain this backend; it contains {known}");
            return Err(TurnError::new(ErrorKind::InvalidRequest, backend.clone()).with_message(message));
        }
        let binding = Binding::new(backend.as_str(), [backend.clone()]);
        let route = TurnRoute {
            configuration: &configuration,
            name: backend.as_str(),
            binding: &binding,
            rule: FallbackRule::Never,
            asks_again: false,
        };
        self.run_route(route, request, host, events).await
    }

    /// Deletes a conversation of this router, by the resume handle in a turn's result. The backend that created the handle deletes it,
    /// even while it is parked or held. See [`ExecutionBackend::forget`].
    ///
    /// # Errors
    ///
    /// [`ForgetError::NoBackend`] if the configuration or this build does not have that backend; else the error of the backend.
    pub async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        let configuration = self.configuration();
        let reason = match configuration.backends.get(handle.backend()).map(|entry| &entry.state) {
            Some(EntryState::Built(backend)) => return backend.forget(handle).await,
            Some(EntryState::Absent(reason)) => reason.clone(),
            None => "the configuration does not contain it".to_owned(),
        };
        Err(ForgetError::NoBackend { backend: handle.backend().clone(), reason })
    }

    /// Returns true if a backend of this work-kind can continue the conversation of a handle. False if the work-kind does not
    /// exist, or is a panel.
    pub fn can_resume(&self, kind: impl Into<WorkKind>, handle: &ResumeHandle) -> bool {
        let configuration = self.configuration();
        let Ok(binding) = self.binding(kind) else { return false };
        configuration.resumer(&binding, handle).is_some()
    }

    /// Runs one turn on the backends of a route.
    pub(crate) async fn run_route(
        &self,
        route: TurnRoute<'_>,
        mut request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        for (label, value) in &*self.labels {
            // Labels of the request take precedence.
            request.labels.entry((*label).to_owned()).or_insert_with(|| value.clone());
        }
        let span = telemetry::turn_span(route.name, route.binding);
        let (holds, queues) = (&self.shared.holds, &self.shared.queues);
        let payer_notices = &self.shared.payer_notices;
        let has_begun = AtomicBool::new(false);
        let spending = self.shared.spending.as_ref();
        let run = Run { route, holds, queues, payer_notices, spending, request, host, has_begun };
        telemetry::observed(run.run(events), span).await
    }

    /// Returns the binding of a work-kind.
    ///
    /// # Errors
    ///
    /// [`KindError`] if the work-kind does not exist, or is a panel.
    pub fn binding(&self, kind: impl Into<WorkKind>) -> Result<Binding, KindError> {
        let kind = kind.into();
        let configuration = self.configuration();
        match &configuration.work_type(&kind)?.target {
            Target::Binding(binding) => Ok(binding.clone()),
            Target::Panel(panel) => Err(KindError::IsPanel { kind, panel: panel.clone() }),
        }
    }

    /// Returns the names of the types, in the order of the file.
    pub fn kinds(&self) -> Vec<String> {
        self.configuration().types.iter().map(|known| known.name.clone()).collect()
    }

    /// Returns the portable names of models, in the order of the file.
    pub fn models(&self) -> Vec<String> {
        self.configuration().models.clone()
    }

    /// Returns the section of this name, for a program above the router: see
    /// [`Registry::with_section`](nexus_core::Registry::with_section). `None` if the configuration does not
    /// have it.
    pub fn section(&self, name: &str) -> Option<Value> {
        self.configuration().sections.get(name).cloned()
    }

    /// Returns the context in which the sections are used: that of this router, with the folder of the configuration as the base of
    /// relative paths.
    pub fn context(&self) -> BuildContext {
        let base_directory = self.configuration().base_directory.clone();
        self.shared.sources.context.clone().with_base_directory(base_directory)
    }

    /// Returns the built backends of the configuration, by id. Leaves out backends that are not part of this
    /// build.
    pub fn backends(&self) -> BTreeMap<BackendId, Arc<dyn ExecutionBackend>> {
        let configuration = self.configuration();
        let built = |(id, entry): (&BackendId, &Arc<ConfiguredBackend>)| {
            Some((id.clone(), Arc::clone(entry.backend()?)))
        };
        configuration.backends.iter().filter_map(built).collect()
    }

    /// Returns the vendor of a backend in the configuration, if it is known.
    pub fn vendor(&self, backend: &BackendId) -> Option<VendorId> {
        self.configuration().vendor(backend).cloned()
    }

    /// Returns the suspended backends with the reasons, as this process last saw them. Each turn and [`Router::refresh_holds`] update
    /// them. Holds in a [`MemoryHoldStore`](crate::hold::MemoryHoldStore) are always up to date.
    pub fn holds(&self) -> Vec<Hold> {
        self.shared.holds.known()
    }

    /// Returns the suspended backends with the reasons, as their [store](RouterBuilder::hold_store) has them
    /// now. [`Router::holds`] and [`Router::explain`] use them from then on.
    pub async fn refresh_holds(&self) -> Vec<Hold> {
        self.shared.holds.list().await
    }

    /// Ends the suspension of a backend, for example after the user bought more usage. Returns true if it was suspended.
    pub async fn release(&self, backend: &BackendId) -> bool {
        self.shared.holds.release(backend).await
    }

    /// Returns this router with its current configuration fixed, so that all turns of a piece of work use one configuration. A
    /// [reload](Router::reload) does not affect a snapshot. Holds and concurrency limits stay shared with all clones. A snapshot of a
    /// snapshot has the same configuration.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self { pinned: Some(self.configuration()), ..self.clone() }
    }

    /// Returns this router with a label for all of its turns, such as the task to which they belong. The record of spending and the
    /// budgets use it. A label of the request itself has precedence.
    #[must_use]
    pub fn labelled(&self, label: WorkLabel, value: impl Into<String>) -> Self {
        let mut labels = BTreeMap::clone(&self.labels);
        labels.insert(label.as_str(), value.into());
        Self { labels: Arc::new(labels), ..self.clone() }
    }

    /// Returns settings that are probably mistakes, in the order of the file. They do not prevent a turn from running.
    pub fn warnings(&self) -> Vec<Problem> {
        self.configuration().warnings.clone()
    }

    pub(crate) fn configuration(&self) -> Arc<Configuration> {
        self.pinned.clone().unwrap_or_else(|| self.current())
    }

    /// Returns the configuration for turns that begin now. For a snapshot it is the fixed configuration.
    fn current(&self) -> Arc<Configuration> {
        Arc::clone(&self.shared.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn holds_state(&self) -> &Arc<Holds> {
        &self.shared.holds
    }

    fn swap(&self, configuration: Configuration) {
        self.shared.queues.arrange(&places_of(&configuration));
        *self.shared.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(configuration);
    }
}

fn places_of(configuration: &Configuration) -> BTreeMap<BackendId, std::num::NonZeroUsize> {
    let places =
        |(id, entry): (&BackendId, &Arc<ConfiguredBackend>)| Some((id.clone(), entry.max_turns_at_once?));
    configuration.backends.iter().filter_map(places).collect()
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("source", &self.shared.source)
            .field("kinds", &self.kinds())
            .finish_non_exhaustive()
    }
}

/// Builds a [`Router`].
#[derive(Debug)]
pub struct RouterBuilder {
    sources: Sources,
    clock: Arc<dyn Clock>,
    hold_store: Arc<dyn HoldStore>,
    hold_store_of: Option<HoldStoreOf>,
    payer_notices: PayerNotices,
    spending: Option<Arc<dyn SpendingBook>>,
}

/// Creates a hold store from the value of a section.
struct HoldStoreOf {
    section: &'static str,
    make: Box<MakeHoldStore>,
}

type MakeHoldStore = dyn FnOnce(&Value) -> Arc<dyn HoldStore> + Send;

impl RouterBuilder {
    fn new(registry: Registry, context: BuildContext) -> Self {
        Self {
            sources: Sources { registry, context, custom: Vec::new() },
            clock: Arc::new(SystemClock),
            hold_store: Arc::new(MemoryHoldStore::new()),
            hold_store_of: None,
            payer_notices: PayerNotices::default(),
            spending: None,
        }
    }

    /// Adds a backend of the program's own, which the configuration names by its id. It counts as a vendor of its own in a panel. It
    /// replaces a kind or another backend of the same name. The configuration may park it, limit its concurrent turns and run them in
    /// a pool. Workers of that pool need a backend of the same id.
    #[must_use]
    pub fn backend(self, backend: Arc<dyn ExecutionBackend>) -> Self {
        let vendor = VendorId::new(backend.id().as_str());
        self.backend_of(vendor, backend)
    }

    /// Adds a backend of the program's own, with its vendor.
    #[must_use]
    pub fn backend_of(mut self, vendor: VendorId, backend: Arc<dyn ExecutionBackend>) -> Self {
        let id = backend.id().clone();
        self.sources.custom.retain(|custom| custom.id != id);
        self.sources.custom.push(Arc::new(ConfiguredBackend {
            id,
            state: EntryState::Built(backend),
            vendor: Some(vendor),
            parked: None,
            max_turns_at_once: None,
            built_from: None,
        }));
        self
    }

    /// Replaces the clock that measures holds.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Replaces the hold store. By default holds are in memory and apply to this router alone. With a
    /// [`FileHoldStore`](crate::hold::FileHoldStore) a refusal counts for all processes that use its folder, and `max_turns_at_once`
    /// limits all of them together. Backends are identified by their ids: backends with one id are the same, in any configuration.
    ///
    /// A turn that waits for another process checks every 100 ms if it may run. Within a process turns run in
    /// the order of their arrival; between processes the order is arbitrary, but no process waits for long. A
    /// turn must not wait for a turn that it started itself in another process, for example by a tool. With a limit
    /// of one it would wait until its deadline.
    #[must_use]
    pub fn hold_store(mut self, store: Arc<dyn HoldStore>) -> Self {
        self.hold_store = store;
        self
    }

    /// Records what each turn spends, and enforces the `budgets` of the configuration. Without a book nothing is recorded, and budgets
    /// have no effect, which a warning reports.
    #[must_use]
    pub fn spending_book(mut self, book: Arc<dyn SpendingBook>) -> Self {
        self.spending = Some(book);
        self
    }

    /// Creates the hold store from this section's value, if the configuration has it. As [`hold_store`](Self::hold_store) otherwise. A
    /// reload retains the store.
    #[must_use]
    pub fn hold_store_of_section(
        mut self,
        section: &'static str,
        make: impl FnOnce(&Value) -> Arc<dyn HoldStore> + Send + 'static,
    ) -> Self {
        self.hold_store_of = Some(HoldStoreOf { section, make: Box::new(make) });
        self
    }

    /// Loads a file. Resolves relative paths in it against its folder and never against the context's folder.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with all faults of the file.
    #[cfg(feature = "yaml")]
    pub fn from_file(self, path: impl AsRef<Path>) -> Result<Router, ConfigError> {
        let path = path.as_ref().to_owned();
        let configuration = load_file(&path, &self.sources, None)?;
        Ok(self.build(configuration, ConfigurationSource::File(path)))
    }

    /// Loads a file that was read already, as [`Router::from_file`] does. A [reload](Router::reload) loads the same content again.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with all faults of the file.
    #[cfg(feature = "yaml")]
    pub fn from_read_file(self, file: ConfigFile) -> Result<Router, ConfigError> {
        let configuration = file.load(&self.sources, None)?;
        Ok(self.build(configuration, ConfigurationSource::ReadFile(file)))
    }

    /// Loads a configuration from text.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with all faults of the text.
    #[cfg(feature = "yaml")]
    pub fn from_str(self, text: &str) -> Result<Router, ConfigError> {
        let configuration = load_text(text, &self.sources, None)?;
        Ok(self.build(configuration, ConfigurationSource::Text(text.to_owned())))
    }

    /// Loads a detected configuration, as [`Router::detect`] does. The first turn on a backend that is paid for each call logs a warning.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], for example because the program replaced a kind.
    #[cfg(feature = "yaml")]
    pub fn from_detected(mut self, detected: &DetectedConfig) -> Result<Router, ConfigError> {
        self.sources.context = detected.context(self.sources.context);
        self.payer_notices = detected.notices();
        self.from_str(detected.text())
    }

    /// Loads a configuration that the program built as a value, as [`Router::from_value`] does.
    ///
    /// # Errors
    ///
    /// [`ConfigError`], with all faults of the value.
    pub fn from_value(self, value: Value) -> Result<Router, ConfigError> {
        let configuration = load_value(&value, &self.sources, None)?;
        Ok(self.build(configuration, ConfigurationSource::Value(value)))
    }

    fn build(self, configuration: Configuration, source: ConfigurationSource) -> Router {
        let queues = Queues::default();
        queues.arrange(&places_of(&configuration));
        self.sources.registry.start(&self.sources.context);
        if self.spending.is_none() && !configuration.budgets.is_empty() {
            tracing::warn!(
                "this program does not record spending, so the budgets of the configuration have no effect"
            );
        }
        // The section of the store is known only after the configuration is loaded.
        let made = self.hold_store_of.and_then(|HoldStoreOf { section, make }| {
            let value = configuration.sections.get(section)?;
            Some(make(value))
        });
        let shared = RouterCore {
            current: RwLock::new(Arc::new(configuration)),
            source,
            sources: self.sources,
            holds: Holds::new(self.clock, made.unwrap_or(self.hold_store)),
            queues,
            payer_notices: self.payer_notices,
            spending: self.spending.map(Spending::new),
        };
        Router { shared: Arc::new(shared), pinned: None, labels: Arc::default() }
    }
}

impl fmt::Debug for HoldStoreOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HoldStoreOf").field("section", &self.section).finish_non_exhaustive()
    }
}
