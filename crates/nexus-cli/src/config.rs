//! Selection of the configuration.

use std::{
    fmt,
    path::{Path, PathBuf, absolute},
    sync::{Arc, LazyLock, Mutex, PoisonError},
    thread,
};

use nexus::{
    BuildContext, ConfigFile, DetectedConfig, Fleet, FleetHoldStore, FleetPools, NothingDetected, Registry,
    Router,
    hold::{FileHoldStore, HoldStore},
    spending::FileSpendingBook,
};
use nexus_broker::BrokerSection;
use nexus_debates::DebateSection;
use nexus_tasks::TasksSection;

use crate::{
    args::ConfigArgs,
    command_error::CommandError,
    config_use::{ConfigUses, FILE, known_agents},
    output::complain,
    serve::ServeSection,
    trust::{TrustState, TrustStore},
};

/// Returns the advice on how to create a configuration of the home, which needs no trust.
pub(crate) fn begin(context: &BuildContext) -> String {
    let home = context.home.display();
    format!(
        "create one with `nexus setup`, or with `mkdir -p {home} && nexus check --example > {home}/{FILE}`"
    )
}

/// Configuration that a command uses.
#[derive(Clone, Debug)]
pub(crate) enum ConfigSource {
    /// The file that the command line or the environment names, or the file of the home.
    File(PathBuf),
    /// The file of a trusted folder. Its bytes are those whose hash was compared.
    Trusted(ConfigFile),
    /// A configuration that was derived from what the machine has, because no file exists.
    Detected(Arc<DetectedConfig>),
}

impl ConfigSource {
    /// Returns the path of the file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Trusted(file) => Some(file.path()),
            Self::Detected(_) => None,
        }
    }

    /// Returns the configuration that was detected.
    pub(crate) fn detected(&self) -> Option<&DetectedConfig> {
        match self {
            Self::Detected(detected) => Some(detected),
            Self::File(_) | Self::Trusted(_) => None,
        }
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path() {
            Some(path) => path.display().fmt(f),
            None => f.write_str("detected"),
        }
    }
}

/// Variable that switches detection off.
const DETECTION: &str = "NEXUS_DETECTION";

/// Returns the configuration that the machine's programs, logins, keys and servers make up. A process looks once.
///
/// # Errors
///
/// [`NothingDetected`]. The next call looks again, since a server may outlive the cause.
fn detect(context: &BuildContext) -> Result<Arc<DetectedConfig>, NothingDetected> {
    static DETECTED: Mutex<Option<Arc<DetectedConfig>>> = Mutex::new(None);
    // The lock stays taken during the search, so that a second caller waits for its result and does not search again.
    let mut known = DETECTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*known {
        return Ok(Arc::clone(known));
    }
    // Callers that load a configuration are synchronous and may be inside a runtime, which must not be entered again.
    let looked = thread::scope(|scope| {
        let look = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            Some(runtime.block_on(detect_again(context)))
        };
        thread::Builder::new().spawn_scoped(scope, look).ok()?.join().ok()?
    });
    // A search that cannot start, or that panics, counts as a machine without anything to use.
    let detected =
        Arc::new(looked.unwrap_or_else(|| Err(NothingDetected { unused: Vec::new(), ways: Vec::new() }))?);
    *known = Some(Arc::clone(&detected));
    Ok(detected)
}

/// Looks at the machine, also if this process looked before.
///
/// # Errors
///
/// [`NothingDetected`].
pub(crate) async fn detect_again(context: &BuildContext) -> Result<DetectedConfig, NothingDetected> {
    match is_detection_off(context) {
        true => Err(NothingDetected { unused: Vec::new(), ways: Vec::new() }),
        false => DetectedConfig::look(&registry(&POOLS), context).await,
    }
}

/// Returns true if the environment switches detection off.
pub(crate) fn is_detection_off(context: &BuildContext) -> bool {
    context.environment.get(DETECTION).is_some_and(|value| value == "off")
}

/// Result of the search for a configuration.
#[derive(Debug)]
pub(crate) enum FoundConfig {
    Usable(ConfigSource),
    /// The current folder has a configuration that the person did not trust. No other configuration replaces it silently.
    Untrusted(UntrustedConfig),
    /// No configuration exists at these paths.
    Missing(String),
}

/// The configuration of a folder that is not trusted.
#[derive(Debug)]
pub(crate) struct UntrustedConfig {
    pub(crate) file: ConfigFile,
    /// True if an earlier content of the file was trusted.
    has_changed: bool,
}

/// Finds the configuration of a command: the file that the command line or the environment names, else `./nexus.yaml` if its folder is
/// trusted, else the file of the home. Every command decides by this function, or by [`find_at_home`].
///
/// # Errors
///
/// The error of a file that cannot be read.
pub(crate) fn find(args: &ConfigArgs, context: &BuildContext) -> Result<FoundConfig, CommandError> {
    find_unless(args, context, |_| false)
}

/// Like [`find`], without the files that `is_skipped`.
pub(crate) fn find_unless(
    args: &ConfigArgs,
    context: &BuildContext,
    is_skipped: impl Fn(&Path) -> bool,
) -> Result<FoundConfig, CommandError> {
    // A file that the person names on the command line needs no further trust.
    if let Some(path) = &args.config {
        return Ok(FoundConfig::Usable(ConfigSource::File(path.clone())));
    }
    let (beside, at_home) = (Path::new(FILE), context.home.join(FILE));
    // A link to nowhere is not skipped, because that would choose another configuration silently.
    if beside.symlink_metadata().is_ok() && !is_same(beside, &at_home) && !is_skipped(beside) {
        let file = ConfigFile::read(beside)?;
        return Ok(match TrustStore::in_home(&context.home).state(&file)? {
            TrustState::Trusted => FoundConfig::Usable(ConfigSource::Trusted(file)),
            state => {
                FoundConfig::Untrusted(UntrustedConfig { file, has_changed: state == TrustState::Changed })
            }
        });
    }
    Ok(match at_home.exists() && !is_skipped(&at_home) {
        true => FoundConfig::Usable(ConfigSource::File(at_home)),
        false => FoundConfig::Missing(format!("./{FILE} or {} does not exist", at_home.display())),
    })
}

/// Finds the configuration of a command. If no file exists, it is the detected one. A file that is not trusted is an error with advice.
pub(crate) fn find_or_detect(
    args: &ConfigArgs,
    context: &BuildContext,
) -> Result<ConfigSource, CommandError> {
    find(args, context)?.or_detect(context)
}

impl FoundConfig {
    /// Returns the configuration. If no file exists, it is the detected one.
    ///
    /// # Errors
    ///
    /// The file is not trusted, or nothing was detected, with advice.
    pub(crate) fn or_detect(self, context: &BuildContext) -> Result<ConfigSource, CommandError> {
        match self {
            Self::Missing(places) => {
                let advice = format!("name a file with --config, or {}", begin(context));
                detect_or_explain(&places, &advice, context)
            }
            found => found.or_explain(context),
        }
    }

    /// Returns the configuration of a command that needs a file. If none exists or the file is not trusted, the error has advice.
    pub(crate) fn or_explain(self, context: &BuildContext) -> Result<ConfigSource, CommandError> {
        match self {
            Self::Usable(source) => Ok(source),
            Self::Untrusted(untrusted) => Err(untrusted.into_error()),
            Self::Missing(places) => Err(CommandError::no_configuration(places)
                .with_advice(format_args!("name one with --config, or {}", begin(context)))),
        }
    }
}

impl UntrustedConfig {
    /// Returns a note for a command that checks the file without using it.
    pub(crate) fn note(&self) -> String {
        format!(
            "{} {}: other commands reject it until `nexus trust`",
            self.file.path().display(),
            self.reason()
        )
    }

    fn reason(&self) -> &'static str {
        match self.has_changed {
            true => "changed since it was trusted",
            false => "is not trusted",
        }
    }

    /// Returns the error that shows what the file would use, and how to trust it.
    pub(crate) fn into_error(self) -> CommandError {
        let path = absolute(self.file.path()).unwrap_or_else(|_| self.file.path().to_owned());
        // The uses of a file that is not YAML are unknown.
        if let Err(error) = self.file.value() {
            return error.into();
        }
        let (reason, uses) = (self.reason(), ConfigUses::of(&self.file, &known_agents()));
        CommandError::no_configuration(format!(
            "{} {reason}, and is not used. It would use:{}",
            path.display(),
            uses.first()
        ))
        .with_subject(path.display())
        .with_advice_below(ADVICE)
    }
}

/// Returns the detected configuration. The error says which files do not exist, and what was found.
fn detect_or_explain(
    places: &str,
    advice: &str,
    context: &BuildContext,
) -> Result<ConfigSource, CommandError> {
    if is_detection_off(context) {
        return Err(CommandError::no_configuration(places.to_owned()).with_advice(advice));
    }
    detect(context).map(ConfigSource::Detected).map_err(|nothing| {
        CommandError::no_configuration(format!("{places}, and {nothing}"))
            .with_advice_below(format_args!("or {advice}"))
    })
}

/// Advice for a configuration that is not trusted.
const ADVICE: &str = "Read the file; then `nexus trust` uses it in this folder until it changes, or `--config nexus.yaml` uses it once.";

/// Loads the configuration of a command.
pub(crate) fn load(args: &ConfigArgs) -> Result<Router, CommandError> {
    let context = BuildContext::from_process();
    load_source(find_or_detect(args, &context)?, context)
}

/// Loads the configuration of tasks, debates and the broker: the file that the command line names, else that of the home. A file in the
/// current folder is never used: the folder may be a stranger's repository, and a configuration names programs to run.
pub(crate) fn load_for_tasks(args: &ConfigArgs) -> Result<Router, CommandError> {
    let context = BuildContext::from_process();
    load_source(find_at_home(args, &context)?, context)
}

/// Like [`load_for_tasks`]. Also connects to the fleet, if the configuration names one.
pub(crate) fn load_for_broker(args: &ConfigArgs) -> Result<(Router, Option<Fleet>), CommandError> {
    let context = BuildContext::from_process();
    let source = find_at_home(args, &context)?;
    let router = load_source(source.clone(), context.clone())?;
    let fleet = fleet_in(&router, &source, context)?;
    Ok((router, fleet))
}

/// Finds the configuration of a command that never uses the file of the current folder.
fn find_at_home(args: &ConfigArgs, context: &BuildContext) -> Result<ConfigSource, CommandError> {
    let beside = Path::new(FILE);
    let unused = args.config.is_none() && beside.exists();
    let file = args.config.clone().unwrap_or_else(|| context.home.join(FILE));
    let unused = match unused && !is_same(beside, &file) {
        true => format!(
            "; ./{FILE} is not used, because the author of this folder could name programs in it: if you \
            trust it, name it with --config {FILE}"
        ),
        false => String::new(),
    };
    if args.config.is_none() && !file.exists() {
        let advice = format!(
            "name a file with --config, or {} (tasks, debates and the broker use the file of the home)",
            begin(context)
        );
        let places = format!("{} does not exist{unused}", file.display());
        let detected = detect_or_explain(&places, &advice, context)?;
        if !unused.is_empty() {
            complain(format_args!("the configuration is detected{unused}"));
        }
        return Ok(detected);
    }
    if !unused.is_empty() {
        complain(format_args!("the configuration is {}{unused}", file.display()));
    }
    Ok(ConfigSource::File(file))
}

/// Finds the configuration of a server that starts with the folder of its client: the named file, else that of the home, else the detected
/// one. `advice` is part of the error.
pub(crate) fn find_for_server(
    file: Option<&Path>,
    context: &BuildContext,
    advice: &str,
) -> Result<ConfigSource, CommandError> {
    let path: PathBuf = file.map_or_else(|| context.home.join(FILE), Path::to_owned);
    if path.exists() {
        return Ok(ConfigSource::File(path));
    }
    let places = format!("the configuration {} does not exist", path.display());
    match file {
        // A named file must exist, because detection would silently use another configuration.
        Some(_) => Err(CommandError::no_configuration(places).with_advice(advice)),
        None => detect_or_explain(&places, advice, context),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Name of the fleet's section.
const FLEET: &str = "fleet";
/// Connects configurations to their pools.
static POOLS: LazyLock<FleetPools> = LazyLock::new(|| FleetPools::new().with_logins(login_words()));
/// Hold stores that this process shares with other machines.
static SHARED_HOLDS: Mutex<Vec<FleetHoldStore>> = Mutex::new(Vec::new());

/// The logins that a fleet can share.
#[cfg(feature = "login")]
fn login_words() -> impl Iterator<Item = &'static str> {
    nexus::logins().map(nexus::OwnLogin::as_str)
}

#[cfg(not(feature = "login"))]
fn login_words() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// Registers every kind of backend, and the sections of this command's programs.
fn registry(pools: &FleetPools) -> Registry {
    nexus::registry()
        .with_section(Arc::new(TasksSection))
        .with_section(Arc::new(DebateSection))
        .with_section(Arc::new(BrokerSection))
        .with_section(Arc::new(ServeSection))
        .with_pools(Arc::new(pools.clone()))
}

/// Loads a configuration. A hold on a backend applies to every `nexus` of this home or, if the file names a fleet, to all of its
/// machines.
pub(crate) fn load_source(source: ConfigSource, context: BuildContext) -> Result<Router, CommandError> {
    load_with(&POOLS, source, context, RunsTurns::OfThisHome)
}

/// Loads a configuration to check it. Starts no program, and connects to no server.
pub(crate) fn load_unused(file: ConfigFile, context: BuildContext) -> Result<Router, CommandError> {
    Router::builder(registry(&POOLS), context).from_read_file(file).map_err(CommandError::from)
}

/// Owner of the turns that a router runs.
#[derive(Clone, Copy)]
enum RunsTurns {
    OfThisHome,
    OfOthers,
}

/// Returns the record of spending of a home.
pub(crate) fn spending_book(context: &BuildContext) -> FileSpendingBook {
    FileSpendingBook::in_folder(context.home.join("spending"))
}

fn load_with(
    pools: &FleetPools,
    source: ConfigSource,
    context: BuildContext,
    runs: RunsTurns,
) -> Result<Router, CommandError> {
    let local: Arc<dyn HoldStore> = Arc::new(FileHoldStore::in_folder(context.home.join("holds")));
    let builder = Router::builder(registry(pools), context.clone()).hold_store(Arc::clone(&local));
    // The caller of a worker records the turn in its own home.
    let builder = match runs {
        RunsTurns::OfThisHome => builder.spending_book(Arc::new(spending_book(&context))),
        RunsTurns::OfOthers => builder,
    };
    let (pools, context) = (pools.clone(), beside(&source, context));
    let builder = builder.hold_store_of_section(FLEET, move |section| match pools.fleet(section, &context) {
        Ok(fleet) => {
            let holds = FleetHoldStore::new(&fleet).with_local(local);
            SHARED_HOLDS.lock().unwrap_or_else(PoisonError::into_inner).push(holds.clone());
            Arc::new(holds)
        }
        Err(error) => {
            complain(format_args!("only the holds of this machine apply: {error}"));
            local
        }
    });
    match source {
        ConfigSource::File(path) => builder.from_file(path),
        ConfigSource::Trusted(file) => builder.from_read_file(file),
        ConfigSource::Detected(detected) => builder.from_detected(&detected),
    }
    .map_err(CommandError::from)
}

/// Loads the configuration of a worker, whose backends run on this machine, and connects to the fleet.
pub(crate) fn load_for_worker(args: &ConfigArgs) -> Result<(Router, Fleet), CommandError> {
    let context = BuildContext::from_process();
    let (pools, source) =
        (FleetPools::of_worker().with_logins(login_words()), find(args, &context)?.or_explain(&context)?);
    let router = load_with(&pools, source.clone(), context.clone(), RunsTurns::OfOthers)?;
    let fleet = fleet_of(&pools, &router, &source, context)?;
    Ok((router, fleet.ok_or_else(|| no_fleet(&source))?))
}

/// Connects to the fleet that the configuration names.
pub(crate) fn load_fleet(args: &ConfigArgs) -> Result<Fleet, CommandError> {
    let context = BuildContext::from_process();
    // A detected configuration has no fleet.
    let source = find(args, &context)?.or_explain(&context)?;
    let router = load_source(source.clone(), context.clone())?;
    fleet_in(&router, &source, context)?.ok_or_else(|| no_fleet(&source))
}

/// Connects to the fleet of a router that was loaded from this file. `None` if the file names no fleet.
pub(crate) fn fleet_in(
    router: &Router,
    source: &ConfigSource,
    context: BuildContext,
) -> Result<Option<Fleet>, CommandError> {
    fleet_of(&POOLS, router, source, context)
}

fn fleet_of(
    pools: &FleetPools,
    router: &Router,
    source: &ConfigSource,
    context: BuildContext,
) -> Result<Option<Fleet>, CommandError> {
    let Some(section) = router.section(FLEET) else { return Ok(None) };
    let fleet = pools.fleet(&section, &beside(source, context));
    fleet.map(Some).map_err(|error| CommandError::failed(format_args!("{FLEET}: {error}")))
}

/// Returns the build context for a file, as the router derives it.
fn beside(source: &ConfigSource, mut context: BuildContext) -> BuildContext {
    let Some(path) = source.path() else { return context };
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    // Relative paths in a configuration begin at the folder of its file.
    context.base_directory = path.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
    context
}

fn no_fleet(source: &ConfigSource) -> CommandError {
    CommandError::no_configuration(format!(
        "{source} names no fleet: name its servers, such as `fleet: {{ servers: [\"nats://127.0.0.1:4222\"] }}`"
    ))
}

/// Waits until this process has released its slots in the fleet. A slot that is not released stays taken for half a minute.
pub(crate) async fn settle_holds() {
    // Take the stores out, because the lock must not stay taken across an await.
    let holds = std::mem::take(&mut *SHARED_HOLDS.lock().unwrap_or_else(PoisonError::into_inner));
    for store in holds {
        store.settle().await;
    }
}
