//! Selection of the configuration file.

use std::{
    path::{Path, PathBuf, absolute},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use nexus::{
    BuildContext, Fleet, FleetHoldStore, FleetPools, Registry, Router,
    hold::{FileHoldStore, HoldStore},
};
use nexus_broker::BrokerSection;
use nexus_debates::DebateSection;
use nexus_tasks::TasksSection;

use crate::{args::ConfigArgs, command_error::CommandError, output::complain};

/// Loads the configuration that the command line names, else the one at the default paths.
pub(crate) fn load(args: &ConfigArgs) -> Result<Router, CommandError> {
    let context = BuildContext::from_process();
    load_file(&find_or_explain(args, &context)?, context)
}

/// Returns the path of the configuration. The error explains how to create one.
pub(crate) fn find_or_explain(args: &ConfigArgs, context: &BuildContext) -> Result<PathBuf, CommandError> {
    find(args, context).map_err(|places| {
        CommandError::no_configuration(format!("{places}; name one with --config, or {BEGIN}"))
    })
}

/// File name of a configuration.
const FILE: &str = "nexus.yaml";

/// Advice on how to create a configuration.
pub(crate) const BEGIN: &str = "create one with `nexus check --example > nexus.yaml`";

/// Loads the configuration of tasks, debates and the broker: the file that the command line names, else that of the home. A file in the
/// current folder is never used: the folder may be a stranger's repository, and a configuration names programs to run.
pub(crate) fn load_for_tasks(args: &ConfigArgs) -> Result<Router, CommandError> {
    load_file(&find_for_tasks(args)?, BuildContext::from_process())
}

/// Like [`load_for_tasks`]. Also connects to the fleet, if the configuration names one.
pub(crate) fn load_for_broker(args: &ConfigArgs) -> Result<(Router, Option<Fleet>), CommandError> {
    let (path, context) = (find_for_tasks(args)?, BuildContext::from_process());
    let router = load_file(&path, context.clone())?;
    let fleet = fleet_in(&router, &path, context)?;
    Ok((router, fleet))
}

fn find_for_tasks(args: &ConfigArgs) -> Result<PathBuf, CommandError> {
    let context = BuildContext::from_process();
    let beside = Path::new(FILE);
    let unused = args.config.is_none() && beside.exists();
    let place = args.config.clone().unwrap_or_else(|| context.home.join(FILE));
    let unused = match unused && !is_same(beside, &place) {
        true => format!(
            "; ./{FILE} is not used, because the author of this folder could name programs in it: if you \
            trust it, name it with --config {FILE}"
        ),
        false => String::new(),
    };
    if args.config.is_none() && !place.exists() {
        let message = format!("{} does not exist{unused}; ", place.display());
        let home = context.home.display();
        return Err(CommandError::no_configuration(format!(
            "{message}tasks, debates and the broker use the configuration of the home or of --config; create \
             one with `mkdir -p {home} && nexus check --example > {home}/{FILE}`"
        )));
    }
    if !unused.is_empty() {
        complain(format_args!("the configuration is {}{unused}", place.display()));
    }
    Ok(place)
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
        .with_pools(Arc::new(pools.clone()))
}

/// Loads a configuration file. A hold on a backend applies to every `nexus` of this home or, if the file names a fleet, to all of its
/// machines.
pub(crate) fn load_file(path: &Path, context: BuildContext) -> Result<Router, CommandError> {
    load_with(&POOLS, path, context)
}

fn load_with(pools: &FleetPools, path: &Path, context: BuildContext) -> Result<Router, CommandError> {
    let local: Arc<dyn HoldStore> = Arc::new(FileHoldStore::in_folder(context.home.join("holds")));
    let builder = Router::builder(registry(pools), context.clone()).hold_store(Arc::clone(&local));
    let (pools, context) = (pools.clone(), beside(path, context));
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
    builder.from_file(path).map_err(CommandError::from)
}

/// Loads the configuration of a worker, whose backends run on this machine, and connects to the fleet.
pub(crate) fn load_for_worker(args: &ConfigArgs) -> Result<(Router, Fleet), CommandError> {
    let context = BuildContext::from_process();
    let (pools, path) =
        (FleetPools::of_worker().with_logins(login_words()), find_or_explain(args, &context)?);
    let router = load_with(&pools, &path, context.clone())?;
    let fleet = fleet_of(&pools, &router, &path, context)?;
    Ok((router, fleet.ok_or_else(|| no_fleet(&path))?))
}

/// Connects to the fleet that the configuration names.
pub(crate) fn load_fleet(args: &ConfigArgs) -> Result<Fleet, CommandError> {
    let context = BuildContext::from_process();
    let path = find_or_explain(args, &context)?;
    let router = load_file(&path, context.clone())?;
    fleet_in(&router, &path, context)?.ok_or_else(|| no_fleet(&path))
}

/// Connects to the fleet of a router that was loaded from this file. `None` if the file names no fleet.
pub(crate) fn fleet_in(
    router: &Router,
    path: &Path,
    context: BuildContext,
) -> Result<Option<Fleet>, CommandError> {
    fleet_of(&POOLS, router, path, context)
}

fn fleet_of(
    pools: &FleetPools,
    router: &Router,
    path: &Path,
    context: BuildContext,
) -> Result<Option<Fleet>, CommandError> {
    let Some(section) = router.section(FLEET) else { return Ok(None) };
    let fleet = pools.fleet(&section, &beside(path, context));
    fleet.map(Some).map_err(|error| CommandError::failed(format_args!("{FLEET}: {error}")))
}

/// Returns the build context for a file, as the router derives it.
fn beside(path: &Path, mut context: BuildContext) -> BuildContext {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    context.base_directory = path.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
    context
}

fn no_fleet(path: &Path) -> CommandError {
    let path = path.display();
    CommandError::no_configuration(format!(
        "{path} names no fleet: name its servers, such as `fleet: {{ servers: [\"nats://127.0.0.1:4222\"] }}`"
    ))
}

/// Waits until this process has released its slots in the fleet. A slot that is not released stays taken for half a minute.
pub(crate) async fn settle_holds() {
    let holds = std::mem::take(&mut *SHARED_HOLDS.lock().unwrap_or_else(PoisonError::into_inner));
    for store in holds {
        store.settle().await;
    }
}

/// Returns the path of the configuration. The error lists the paths that were searched.
pub(crate) fn find(args: &ConfigArgs, context: &BuildContext) -> Result<PathBuf, String> {
    if let Some(path) = &args.config {
        return Ok(path.clone());
    }
    let places = [PathBuf::from(FILE), context.home.join(FILE)];
    places.iter().find(|place| place.exists()).cloned().ok_or_else(|| {
        let looked = places.each_ref().map(|place| place.display().to_string()).join(" or ");
        format!("{looked} does not exist")
    })
}
