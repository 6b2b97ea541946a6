//! Which configuration is used.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus::{BuildContext, Registry, Router, hold::FileHoldStore};
use nexus_debate::DebateSection;
use nexus_spawn::TasksSection;

use crate::{args::ConfigArgs, command_error::CommandError, output::complain};

/// Loads the configuration that the command line, or else the usual places, name.
pub(crate) fn load(args: &ConfigArgs) -> Result<Router, CommandError> {
    let context = BuildContext::from_process();
    load_file(&find_or_explain(args, &context)?, context)
}

/// The configuration that would be used; else an error that says how to get one.
pub(crate) fn find_or_explain(args: &ConfigArgs, context: &BuildContext) -> Result<PathBuf, CommandError> {
    find(args, context).map_err(|places| {
        CommandError::no_configuration(format!("{places}; name one with --config, or {BEGIN}"))
    })
}

/// What a configuration is called.
const FILE: &str = "nexus.yaml";

/// How to get a configuration.
pub(crate) const BEGIN: &str = "begin with `nexus check --example > nexus.yaml`";

/// Loads the configuration of tasks and debates: the one that the command line names, else that of the home. Never one of the folder that the
/// command is started in: it may be a stranger's repository, and a configuration names programs to run.
pub(crate) fn load_for_tasks(args: &ConfigArgs) -> Result<Router, CommandError> {
    let context = BuildContext::from_process();
    let beside = Path::new(FILE);
    let unused = args.config.is_none() && beside.exists();
    let place = args.config.clone().unwrap_or_else(|| context.home.join(FILE));
    let unused = match unused && !is_same(beside, &place) {
        true => format!(
            "; ./{FILE} is not used, as whoever made this folder could name programs in it: if it is yours, name it with --config {FILE}"
        ),
        false => String::new(),
    };
    if args.config.is_none() && !place.exists() {
        let message = format!("there is no {}{unused}; ", place.display());
        let home = context.home.display();
        return Err(CommandError::no_configuration(format!(
            "{message}tasks and debates take that of the home, or one that --config names; begin with \
             `mkdir -p {home} && nexus check --example > {home}/{FILE}`"
        )));
    }
    if !unused.is_empty() {
        complain(format_args!("the configuration is {}{unused}", place.display()));
    }
    load_file(&place, context)
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// Every kind of backend, and the sections of the programs that this command has.
fn registry() -> Registry {
    nexus::registry().with_section(Arc::new(TasksSection)).with_section(Arc::new(DebateSection))
}

/// Loads a configuration that was found. A vendor's refusal counts for every `nexus` of this home.
pub(crate) fn load_file(path: &Path, context: BuildContext) -> Result<Router, CommandError> {
    let holds = FileHoldStore::in_folder(context.home.join("holds"));
    let builder = Router::builder(registry(), context).hold_store(Arc::new(holds));
    builder.from_file(path).map_err(CommandError::from)
}

/// The configuration that would be used; else where none was found.
pub(crate) fn find(args: &ConfigArgs, context: &BuildContext) -> Result<PathBuf, String> {
    if let Some(path) = &args.config {
        return Ok(path.clone());
    }
    let places = [PathBuf::from(FILE), context.home.join(FILE)];
    places.iter().find(|place| place.exists()).cloned().ok_or_else(|| {
        let looked = places.each_ref().map(|place| place.display().to_string()).join(" or ");
        format!("there is no {looked}")
    })
}
