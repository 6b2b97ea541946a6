//! Which configuration is used.

use std::path::PathBuf;

use nexus::{BuildContext, Router};

use crate::args::ConfigArgs;

/// Loads the configuration that the command line, or else the usual places, name.
pub(crate) fn load(args: &ConfigArgs) -> Result<Router, String> {
    let context = BuildContext::from_process();
    let path = match &args.config {
        Some(path) => path.clone(),
        None => find(&context)?,
    };
    Router::from_file(path, nexus::registry(), context).map_err(|error| error.to_string())
}

fn find(context: &BuildContext) -> Result<PathBuf, String> {
    let places = [PathBuf::from("nexus.yaml"), context.home.join("nexus.yaml")];
    places.iter().find(|place| place.exists()).cloned().ok_or_else(|| {
        let looked = places.each_ref().map(|place| place.display().to_string()).join(" or ");
        format!("there is no {looked}; name one with --config, or begin with a copy of nexus.yaml.example")
    })
}
