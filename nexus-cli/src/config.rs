//! Which configuration is used.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus::{BuildContext, Registry, Router, hold::FileHoldStore};
use nexus_spawn::TasksSection;

use crate::{args::ConfigArgs, command_error::CommandError};

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

/// How to get a configuration.
pub(crate) const BEGIN: &str = "begin with `nexus check --example > nexus.yaml`";

/// Every kind of backend, and the sections of the programs that this command has.
fn registry() -> Registry {
    nexus::registry().with_section(Arc::new(TasksSection))
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
    let places = [PathBuf::from("nexus.yaml"), context.home.join("nexus.yaml")];
    places.iter().find(|place| place.exists()).cloned().ok_or_else(|| {
        let looked = places.each_ref().map(|place| place.display().to_string()).join(" or ");
        format!("there is no {looked}")
    })
}
