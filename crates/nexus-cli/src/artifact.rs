//! `nexus artifact`: milestones, slices and tasks as files.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf, absolute},
    process::ExitCode,
};

use nexus::BuildContext;
use nexus_artifacts::{
    Artifacts, HandoffFilter, Kind, LintOptions, MilestoneId, MilestoneReport, NewHandoff, NewMilestone,
    NewTask, ResearchVerdict, Rule, SliceId, SliceTaskId, WorkStatus, lint,
};
use nexus_files::{counted, read_text};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    EXIT_FAILED,
    args::{ArtifactArgs, ArtifactCommand, ConfigArgs, HandoffCommand, NewArtifact},
    command_error::CommandError,
    config::{self, FoundConfig},
    input,
    output::{AnswerWriter, complain, printable, printable_lines, say, say_json},
    schema::foreign::ObjectSchema,
};

/// Maximum size of an entry that is read, in bytes. The review itself rejects longer ones.
const MOST_BYTES: u64 = 1 << 20;

/// Rule of the lint.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LintRule {
    /// The rule.
    rule: Rule,
    /// Description of the rule.
    about: String,
}

/// Kind of artifacts, or the JSON Schema of the frontmatter of a named kind.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ArtifactSchema {
    /// A kind, as an item of the list.
    Kind {
        /// The kind.
        kind: Kind,
        /// Name pattern of its files.
        file: String,
        /// The sections of its files.
        sections: Vec<String>,
    },
    /// A JSON Schema.
    Schema(#[schemars(with = "ObjectSchema")] Value),
}

/// Artifact that was created.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MadeArtifact {
    /// Its id.
    id: String,
}

/// Task that was moved to another status.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MarkedTask {
    /// The task.
    task: SliceTaskId,
    /// Its status before.
    before: WorkStatus,
    /// Its status now.
    status: WorkStatus,
}

/// File that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WrittenArtifact {
    /// The milestone, if the file belongs to a milestone.
    #[serde(skip_serializing_if = "Option::is_none")]
    milestone: Option<MilestoneId>,
    /// The slice, if the file belongs to a slice.
    #[serde(skip_serializing_if = "Option::is_none")]
    slice: Option<SliceId>,
    /// The file.
    path: PathBuf,
}

pub(crate) fn artifact(
    out: AnswerWriter,
    config: &ConfigArgs,
    args: ArtifactArgs,
) -> Result<ExitCode, CommandError> {
    let ArtifactArgs { project, command } = args;
    let artifacts = find(project.as_deref())?;
    match command {
        ArtifactCommand::Lint { path, schema, enforce } => {
            let folder = artifacts.folder();
            // A project without artifacts has no findings.
            let all = if folder.exists() { vec![folder] } else { Vec::new() };
            let paths = if path.is_empty() { all } else { path };
            let options = LintOptions { kind: schema, models: models(config)? };
            let report = lint(&paths, &options)?;
            out.show(&report, |report| {
                report.findings.iter().for_each(|finding| say(printable(&finding.to_string())));
                // The counts go to the error stream, so that a program reads only findings.
                complain(format_args!(
                    "{} in {}",
                    counted(report.findings.len(), "finding"),
                    counted(report.files, "artifact")
                ));
            });
            return Ok(code(!enforce || report.findings.is_empty()));
        }
        ArtifactCommand::Rules => {
            for &rule in Rule::ALL {
                let text = format!("{:22}{}", rule.id(), rule.about());
                out.line(&LintRule { rule, about: rule.about().to_owned() }, text);
            }
        }
        ArtifactCommand::Schema { kind } => schema(out, kind)?,
        ArtifactCommand::New(new) => make(out, &artifacts, config, new)?,
        ArtifactCommand::Scaffold { of } => {
            let models = models(config)?;
            for slice in slices(&artifacts, &of)? {
                let done = artifacts.scaffold(slice, &models)?;
                for task in &done.not_planned {
                    complain(format_args!("warning: {task} has a folder, but is not in the plan of {slice}"));
                }
                let (tasks, made, kept) = (done.tasks.len(), done.made.len(), done.kept.len());
                out.line(
                    &done,
                    format_args!(
                        "{slice}: {}, {} created, {kept} unchanged",
                        counted(tasks, "task"),
                        counted(made, "file")
                    ),
                );
            }
        }
        ArtifactCommand::Mark { task, status } => {
            let before = artifacts.mark_task(task, status)?;
            out.line(
                &MarkedTask { task, before, status },
                format_args!("{task} was {before} and is now {status}"),
            );
        }
        ArtifactCommand::Todo { of } => {
            for slice in slices(&artifacts, &of)? {
                let path = artifacts.write_todo(slice)?;
                written(out, &WrittenArtifact { milestone: None, slice: Some(slice), path });
            }
        }
        ArtifactCommand::Status { milestone } => out.show(&artifacts.report(milestone)?, status),
        ArtifactCommand::Append { milestone, file, expect, seal } => {
            let entry = if seal { String::new() } else { entry(file.as_deref())? };
            // An empty entry would append only a seal, perhaps by mistake.
            if entry.trim().is_empty() && !seal {
                return Err("the entry is empty; use --seal to append only a seal".to_owned().into());
            }
            let appended = artifacts.append_review(milestone, &entry, expect.as_deref())?;
            if appended.sealed_before > 0 {
                complain(format_args!(
                    "{} had no seal, and now has one",
                    counted(appended.sealed_before, "byte")
                ));
            }
            out.show(&appended, |appended| say(&appended.state.sha256));
        }
        ArtifactCommand::Reconcile { milestone } => {
            let path = artifacts.write_research(milestone)?;
            written(out, &WrittenArtifact { milestone: Some(milestone), slice: None, path });
        }
        ArtifactCommand::Gate { milestone } => {
            let gate = artifacts.gate(milestone)?;
            out.show(&gate, |gate| {
                say(gate.verdict);
                complain(format_args!(
                    "{}, agreement_score {}, contested_count {}, {} unresolved",
                    counted(gate.k, "output"),
                    gate.agreement_score,
                    gate.contested_count,
                    gate.unresolved
                ));
                gate.contested
                    .iter()
                    .for_each(|text| complain(format_args!("contested: {}", printable(text))));
            });
            return Ok(code(gate.verdict != ResearchVerdict::NeedsReSpawn));
        }
        ArtifactCommand::Handoff(command) => handoff(out, &artifacts, command)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn written(out: AnswerWriter, file: &WrittenArtifact) {
    out.show(file, |file| say(printable(&file.path.display().to_string())));
}

fn code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) }
}

/// Opens the artifacts of the named project, or of the project that contains the current folder.
fn find(named: Option<&Path>) -> Result<Artifacts, CommandError> {
    let folder = match named {
        Some(folder) if folder.is_dir() => absolute(folder),
        Some(folder) => return Err(format!("the folder {} does not exist", folder.display()).into()),
        None => std::env::current_dir(),
    };
    let folder = folder.map_err(|error| {
        CommandError::failed(format_args!("the current folder cannot be determined: {error}"))
    })?;
    Ok(if named.is_some() { Artifacts::at(folder) } else { Artifacts::find(&folder) })
}

/// The portable models of the configuration; none without a configuration.
fn models(config: &ConfigArgs) -> Result<Vec<String>, CommandError> {
    let context = BuildContext::from_process();
    match config::find(config, &context)? {
        FoundConfig::Missing(_) => Ok(Vec::new()),
        found => Ok(config::load_source(found.or_explain(&context)?, context)?.models()),
    }
}

/// Returns the named slice, or every slice of the named milestone.
fn slices(artifacts: &Artifacts, of: &str) -> Result<Vec<SliceId>, CommandError> {
    if let Ok(milestone) = of.parse::<MilestoneId>() {
        let slices = artifacts.slices(milestone)?;
        if slices.is_empty() {
            return Err(format!(
                "{milestone} has no slices; create one with `nexus artifact new slice {milestone} NAME`"
            )
            .into());
        }
        return Ok(slices);
    }
    let slice = of.parse::<SliceId>();
    slice.map(|slice| vec![slice]).map_err(|_| {
        format!("{of:?} is neither a slice nor a milestone; write an id such as M001-S001 or M001").into()
    })
}

fn schema(out: AnswerWriter, kind: Option<Kind>) -> Result<(), CommandError> {
    if let Some(kind) = kind {
        let schema = kind.schema();
        let schema =
            schema.ok_or_else(|| format!("{} has no frontmatter, so it has no schema", kind.name()))?;
        say_json(&ArtifactSchema::Schema(schema));
        return Ok(());
    }
    for kind in Kind::all() {
        let (name, file, sections) = (kind.name(), kind.file_pattern(), kind.sections());
        let text = format!("{name:20}{file:24}{}", sections.join(", "));
        let sections = sections.iter().map(ToString::to_string).collect();
        out.line(&ArtifactSchema::Kind { kind, file: file.to_owned(), sections }, text.trim_end());
    }
    Ok(())
}

fn make(
    out: AnswerWriter,
    artifacts: &Artifacts,
    config: &ConfigArgs,
    new: NewArtifact,
) -> Result<(), CommandError> {
    let id = match new {
        NewArtifact::Milestone { name, goal, requirement, criterion } => {
            let new = NewMilestone { name, goal, requirements: requirement, success_criteria: criterion };
            artifacts.new_milestone(&new)?.to_string()
        }
        NewArtifact::Slice { milestone, name } => artifacts.new_slice(milestone, &name)?.to_string(),
        NewArtifact::Task { slice, name, tier, after, file, action } => {
            let new = NewTask { name, tier, depends_on: after, files: file, action };
            artifacts.new_task(slice, &new, &models(config)?)?.to_string()
        }
    };
    out.show(&MadeArtifact { id }, |made| say(&made.id));
    Ok(())
}

fn status(report: &MilestoneReport) {
    let milestone = report.milestone;
    let status = report.status.map_or("not verified yet", |status| status.as_str());
    say(format_args!("{milestone}  {status}"));
    for criterion in &report.criteria {
        say(format_args!(
            "  {:8}{}  {}",
            criterion.status.as_str(),
            printable(&criterion.id),
            printable(&criterion.text)
        ));
    }
    for slice in &report.slices {
        let counts =
            slice.tasks.iter().map(|(status, count)| format!("{count} {status}")).collect::<Vec<_>>();
        let counts = if counts.is_empty() { "no tasks".to_owned() } else { counts.join(", ") };
        say(format_args!("  {}  {counts}", slice.slice));
    }
}

fn handoff(out: AnswerWriter, artifacts: &Artifacts, command: HandoffCommand) -> Result<(), CommandError> {
    match command {
        HandoffCommand::New { topic, from, to, body, milestone } => {
            let new = NewHandoff { from, to, topic, body, milestone, ..NewHandoff::default() };
            let found = artifacts.write_handoff(&new)?;
            out.line(&found, &found.handoff.id);
        }
        HandoffCommand::List { agent, status, milestone, global } => {
            let list = artifacts.handoffs(&HandoffFilter { agent, status, milestone, global })?;
            list.unreadable
                .iter()
                .for_each(|reason| complain(format_args!("warning: {}", printable_lines(reason))));
            if list.handoffs.is_empty() {
                out.nothing("no such handoff; `nexus artifact handoff new` creates one");
            }
            for found in &list.handoffs {
                let handoff = &found.handoff;
                let text = format!(
                    "{}  {}  {:8}  {} to {}: {}",
                    handoff.id,
                    handoff.created_at,
                    handoff.status,
                    handoff.from_agent,
                    handoff.to_agent,
                    handoff.topic
                );
                out.line(found, printable(&text));
            }
        }
        HandoffCommand::Mark { id, status } => {
            let found = artifacts.mark_handoff(&id, status)?;
            out.line(&found, format_args!("{} is {status}", found.handoff.id));
        }
    }
    Ok(())
}

fn entry(file: Option<&Path>) -> Result<String, CommandError> {
    let read = match file {
        Some(path) => File::open(path).and_then(|file| read_text(file, MOST_BYTES)),
        None => {
            input::ask_for_input("the entry");
            read_text(io::stdin(), MOST_BYTES)
        }
    };
    Ok(read.map_err(|error| format!("the entry cannot be read: {error}"))?)
}
