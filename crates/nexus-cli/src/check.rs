//! `nexus check`: shows the contents of the configuration and, with `--probe`, the availability of its backends.

use std::{io, path::Path, process::ExitCode};

use nexus::{Availability, BackendId, BuildContext, ConfigFile, Position};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::ConfigArgs,
    checks::{HeldBackend, Survey},
    command_error::CommandError,
    config::{self, ConfigSource, FoundConfig},
    output::{AnswerWriter, complain, printable, say, say_bytes},
    schema::foreign::AvailabilitySchema,
    versions::{self, ProgramNote},
};

/// A configuration with every key in it.
const EXAMPLE: &str = include_str!("../nexus.yaml.example");

/// Contents of a configuration, or the example configuration.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum CheckedConfiguration {
    /// Contents of the configuration.
    Configuration {
        /// The work-kinds.
        kinds: Vec<String>,
        /// The backends.
        backends: Vec<CheckedBackend>,
        /// Types of which no turn would start. Empty without `--probe`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        stuck_types: Vec<StuckType>,
        /// Notes on the backends' programs.
        notes: Vec<ProgramNote>,
        /// Addresses at which several vendors of one panel are reached.
        shared_addresses: Vec<SharedPanelAddress>,
        /// Warnings about the file.
        warnings: Vec<ConfigurationWarning>,
    },
    /// Text of the configuration.
    Printed {
        /// The configuration as YAML.
        yaml: String,
    },
    /// The example.
    Example {
        /// A configuration with every key in it.
        example: String,
    },
}

/// Prints the text of the configuration. Nothing of it is used, so it need not be trusted.
pub(crate) fn print(out: AnswerWriter, args: &ConfigArgs) -> Result<ExitCode, CommandError> {
    let context = BuildContext::from_process();
    // The shell has created the file of `nexus check --print > nexus.yaml` already. It is the place for the text, not its source.
    let found = match config::find_unless(args, &context, is_standard_output)? {
        FoundConfig::Untrusted(untrusted) => ConfigSource::Trusted(untrusted.file),
        found => found.or_detect(&context)?,
    };
    let text = match &found {
        ConfigSource::Detected(detected) => detected.text().as_bytes().to_owned(),
        ConfigSource::Trusted(file) => file.bytes().to_owned(),
        ConfigSource::File(path) => ConfigFile::read(path)?.bytes().to_owned(),
    };
    if out.is_json() {
        let yaml = String::from_utf8(text).map_err(|_| format!("{found}: it is not UTF-8"))?;
        out.show(&CheckedConfiguration::Printed { yaml }, |_| {});
    } else {
        say_bytes(&text);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns true if standard output is this file.
fn is_standard_output(path: &Path) -> bool {
    let file = rustix::fs::stat(path);
    file.is_ok_and(|file| {
        rustix::fs::fstat(io::stdout())
            .is_ok_and(|out| (out.st_dev, out.st_ino) == (file.st_dev, file.st_ino))
    })
}

/// Backend of a configuration.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckedBackend {
    #[schemars(with = "String")]
    id: BackendId,
    /// Result of the probe. `None` without `--probe`.
    #[schemars(with = "Option<AvailabilitySchema>")]
    availability: Option<Availability>,
    /// The refusal that suspends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<HeldBackend>,
}

/// Type of which no turn would start.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StuckType {
    kind: String,
    reason: String,
}

/// Finding that several vendors of one panel have the same network address, so that their votes may come from one server.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SharedPanelAddress {
    panel: String,
    message: String,
    refused: bool,
}

/// Warning about a configuration. Lines and columns count from 1.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConfigurationWarning {
    line: usize,
    column: usize,
    message: String,
}

/// Prints the example, as it is.
pub(crate) fn example(out: AnswerWriter) -> ExitCode {
    out.line(&CheckedConfiguration::Example { example: EXAMPLE.to_owned() }, EXAMPLE.trim_end());
    ExitCode::SUCCESS
}

pub(crate) async fn check(
    out: AnswerWriter,
    args: &ConfigArgs,
    probe: bool,
) -> Result<ExitCode, CommandError> {
    let context = BuildContext::from_process();
    let (router, is_trusted) = match config::find(args, &context)? {
        // The file is only checked. A probe would start its programs, and ask them for their versions.
        FoundConfig::Untrusted(untrusted) if !probe => {
            complain(untrusted.note());
            (config::load_unused(untrusted.file, context)?, false)
        }
        found => (config::load_source(found.or_detect(&context)?, context)?, true),
    };
    let kinds = router.kinds();
    let (mut backends, mut stuck_types, mut is_stuck) = (Vec::new(), Vec::new(), false);
    if probe {
        let survey = Survey::of(&router).await?;
        is_stuck = !survey.would_start();
        stuck_types
            .extend(survey.types.iter().filter_map(|kind| Some((kind.kind.clone(), kind.obstacle()?))));
        backends.extend(survey.backends.into_iter().map(|found| (found.id.clone(), Some(found))));
    } else {
        backends.extend(router.backends().into_keys().map(|id| (id, None)));
    }
    // A probe reports the versions itself. An untrusted file must not start a program.
    let notes = if probe || !is_trusted { Vec::new() } else { versions::notes(&router).await };
    let warnings = router.warnings();
    let shared = if probe { router.shared_addresses().await } else { Vec::new() };
    let print = || {
        say(format_args!("work-kinds  {}", kinds.join(", ")));
        for (id, found) in &backends {
            let found = found.as_ref().map(|found| format!("  {}", found.words("            ")));
            say(format_args!("backend     {id}{}", found.unwrap_or_default()));
        }
        for (kind, obstacle) in &stuck_types {
            say(printable(&format!("type        {kind}: {obstacle}")));
        }
        for warning in &warnings {
            let Position { line, column } = warning.position;
            say(format_args!("warning     line {line}, column {column}: {}", printable(&warning.message)));
        }
        for shared in &shared {
            let what = if shared.is_refused { "refused" } else { "warning" };
            let text = format!("{what:<12}panel {}: {shared}: {}", shared.panel, shared.advice());
            say(printable(&text));
        }
        for ProgramNote { backend, note } in &notes {
            say(format_args!("note        {backend}: {}", printable(note)));
        }
    };
    let report = || CheckedConfiguration::Configuration {
        kinds: kinds.clone(),
        backends: backends
            .iter()
            .map(|(id, found)| CheckedBackend {
                id: id.clone(),
                availability: found.as_ref().map(|found| found.availability.clone()),
                hold: found.as_ref().and_then(|found| found.hold.as_ref()).map(HeldBackend::of),
            })
            .collect(),
        stuck_types: stuck_types
            .iter()
            .map(|(kind, reason)| StuckType { kind: kind.clone(), reason: reason.clone() })
            .collect(),
        notes: notes.clone(),
        shared_addresses: shared
            .iter()
            .map(|shared| SharedPanelAddress {
                panel: shared.panel.clone(),
                message: shared.to_string(),
                refused: shared.is_refused,
            })
            .collect(),
        warnings: warnings
            .iter()
            .map(|warning| {
                let Position { line, column } = warning.position;
                ConfigurationWarning { line, column, message: warning.message.clone() }
            })
            .collect(),
    };
    out.event(report, print);
    let is_refused = shared.iter().any(|shared| shared.is_refused);
    Ok(if is_stuck || is_refused { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}
