//! `nexus explain`: who would run a work-kind, and why.

use std::process::ExitCode;

use crate::{args::ConfigArgs, command_error::CommandError, config, output::say};

pub(crate) fn explain(args: &ConfigArgs, kind: Option<&str>, json: bool) -> Result<ExitCode, CommandError> {
    let router = config::load(args)?;
    let kinds = match kind {
        Some(kind) => vec![kind.to_owned()],
        None => router.kinds(),
    };
    let explanations =
        kinds.iter().map(|kind| router.explain(kind.as_str()).map_err(|error| error.to_string()));
    let explanations = explanations.collect::<Result<Vec<_>, _>>()?;
    if json {
        say(serde_json::to_string_pretty(&explanations).map_err(CommandError::failed)?);
    } else {
        let texts = explanations.iter().map(ToString::to_string);
        say(texts.collect::<Vec<_>>().join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}
