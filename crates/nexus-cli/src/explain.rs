//! `nexus explain`: shows the backends that would run a work-kind, with the reasons.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use nexus::{BackendId, BuildContext, DetectedConfig, Explanation, Router};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::ConfigArgs,
    command_error::{CommandError, ErrorReport},
    config::{self, ConfigSource},
    interrupt,
    output::{AnswerWriter, complain, printable, printable_lines, say, say_json},
    schema::foreign::ExplanationSchema,
    trust::TrustStore,
    turn_servers,
    versions::{self, ProgramNote},
    works::{self, WatchProgress},
};

/// Pause between two checks of the file with `--watch`.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Explanation of the backends that would run a work-kind.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainedKind {
    #[serde(flatten)]
    #[schemars(with = "ExplanationSchema")]
    explanation: Explanation,
    /// Files of the project in the working directory that Nexus adds to the instructions of a turn with file access.
    project_instructions: Vec<ProjectInstructions>,
}

/// Files of the project for one backend.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) struct ProjectInstructions {
    /// Name of the backend.
    backend: String,
    /// Paths of the files, in their order.
    files: Vec<PathBuf>,
}

/// Event of `nexus explain --watch`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ExplainEvent {
    /// A configuration was loaded.
    Configuration {
        /// Its work-kinds.
        kinds: Vec<ExplainedKind>,
    },
    /// A configuration was rejected. The previous one stays in use.
    Refused {
        /// The error.
        error: Box<ErrorReport>,
    },
}

pub(crate) async fn explain(
    out: AnswerWriter,
    args: &ConfigArgs,
    kind: Option<&str>,
    watch: bool,
) -> Result<ExitCode, CommandError> {
    if !watch {
        let context = BuildContext::from_process();
        let source = config::find_or_detect(args, &context)?;
        let router = config::load_source(source.clone(), context)?;
        let explained = explained(&router, kind).await?;
        if let Some(detected) = source.detected() {
            show_detected(out, detected);
        }
        match out.is_json() {
            true => explained.iter().for_each(say_json),
            false => print(&router, &explained).await,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let context = BuildContext::from_process();
    let source = config::find_or_detect(args, &context)?;
    let Some(path) = source.path().map(Path::to_owned) else {
        let message = "the configuration is detected, so --watch has no file to watch";
        return Err(CommandError::usage(message).with_advice(config::begin(&context)));
    };
    // `nexus trust` can make an edited file usable again, so watch the trust as well.
    let trusted = TrustStore::in_home(&context.home).path();
    let router = config::load_source(source.clone(), context.clone())?;
    let mut last = None;
    works::watch(works::every(LOOK_EVERY), interrupt::exit_code, async || {
        let now = (stamp(&path), stamp(&trusted));
        let before = last.replace(now);
        if before == Some(now) {
            return Ok(WatchProgress::GoesOn);
        }
        // The first look shows the configuration that was loaded above.
        if before.is_none() {
            show(out, &router, kind).await?;
            return Ok(WatchProgress::GoesOn);
        }
        // If the new configuration is invalid, the last valid one stays in use, as in a program that embeds the router.
        let outcome = match reload(&router, &source, args, &context) {
            Ok(()) => {
                if !out.is_json() {
                    say("");
                }
                show(out, &router, kind).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            match out.is_json() {
                true => say_json(&ExplainEvent::Refused { error: Box::new(error.into_report()) }),
                false => {
                    error.report(out);
                }
            }
            complain("the earlier configuration remains in use");
        }
        Ok(WatchProgress::GoesOn)
    })
    .await
}

/// Says that no file exists, and what was found. With `--json`, standard output has only the explanation.
fn show_detected(out: AnswerWriter, detected: &DetectedConfig) {
    if out.is_json() {
        return complain(
            "no nexus.yaml exists: the configuration is detected; `nexus check --print` prints it",
        );
    }
    say("detected, because no nexus.yaml exists (`nexus check --print` prints the configuration):");
    detected.found().iter().for_each(|found| say(format_args!("  {}", printable(found))));
    if !detected.unused().is_empty() {
        say("found and not used:");
        detected.unused().iter().for_each(|unused| say(format_args!("  {}", printable(&unused.to_string()))));
    }
    say("");
}

/// Loads the configuration again. The changed file of a folder must be trusted again.
fn reload(
    router: &Router,
    source: &ConfigSource,
    args: &ConfigArgs,
    context: &BuildContext,
) -> Result<(), CommandError> {
    match source {
        ConfigSource::File(_) | ConfigSource::Detected(_) => router.reload()?,
        // The file has changed since it was trusted, so check the trust again before it is loaded.
        ConfigSource::Trusted(_) => match config::find(args, context)?.or_explain(context)? {
            ConfigSource::Trusted(file) => router.replace_by_read_file(&file)?,
            _ => {
                return Err(CommandError::failed("the file of this folder is gone: start the command again"));
            }
        },
    }
    Ok(())
}

/// Length and modification time of the file. The time alone is not enough, as some file systems store whole seconds.
fn stamp(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.len(), metadata.modified().ok()?))
}

/// Shows the explanation of every work-kind.
async fn show(out: AnswerWriter, router: &Router, kind: Option<&str>) -> Result<(), CommandError> {
    let kinds = explained(router, kind).await?;
    match out.is_json() {
        true => say_json(&ExplainEvent::Configuration { kinds }),
        false => print(router, &kinds).await,
    }
    Ok(())
}

async fn explained(router: &Router, kind: Option<&str>) -> Result<Vec<ExplainedKind>, CommandError> {
    let kinds = kind.map_or_else(|| router.kinds(), |kind| vec![kind.to_owned()]);
    // Another process may have set a hold.
    router.refresh_holds().await;
    let explained = |kind: &String| {
        let explanation = router.explain(kind.as_str())?;
        let project_instructions = project_instructions(router, &explanation);
        Ok(ExplainedKind { explanation, project_instructions })
    };
    kinds.iter().map(explained).collect()
}

/// Returns the files of the project in the working directory for each backend of a work-kind that uses any.
fn project_instructions(router: &Router, explanation: &Explanation) -> Vec<ProjectInstructions> {
    let Ok(folder) = env::current_dir() else { return Vec::new() };
    let backends = router.backends();
    let entries = explanation.target.chains().flat_map(|chain| &chain.entries);
    let ids: BTreeSet<_> = entries.map(|entry| &entry.backend).collect();
    let of = |id: &BackendId| {
        let files = backends.get(id)?.project_instructions(&folder);
        (!files.is_empty()).then(|| ProjectInstructions { backend: id.to_string(), files })
    };
    ids.into_iter().filter_map(of).collect()
}

async fn print(router: &Router, explained: &[ExplainedKind]) {
    // The reason of a hold is the vendor's text.
    say(printable_lines(
        &explained.iter().map(|kind| kind.explanation.to_string()).collect::<Vec<_>>().join("\n"),
    ));
    // Types share backends, and the set names each backend once.
    let instructions: BTreeSet<_> = explained.iter().flat_map(|kind| &kind.project_instructions).collect();
    for ProjectInstructions { backend, files } in instructions {
        let files = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        say(format_args!("instructions of the project: {backend} reads {}", printable(&files)));
    }
    for server in turn_servers::of(router).map(|servers| servers.summaries()).unwrap_or_default() {
        let approval = if server.is_approved { ", without approvals" } else { "" };
        let required = if server.is_required { ", required" } else { "" };
        let reach = printable(&server.reach);
        say(format_args!("server {}: {reach}{approval}{required}", server.name));
    }
    for ProgramNote { backend, note } in versions::notes(router).await {
        say(format_args!("note: {backend}: {}", printable(&note)));
    }
}
