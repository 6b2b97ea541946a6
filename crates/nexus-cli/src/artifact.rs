//! `nexus artifact`: milestones, slices and tasks as files.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, absolute},
    process::ExitCode,
};

use nexus::BuildContext;
use nexus_artifacts::{
    Artifacts, HandoffFilter, Kind, LintOptions, MilestoneId, NewHandoff, NewMilestone, NewTask,
    ResearchVerdict, Rule, SliceId, lint,
};
use nexus_project::{ProjectError, ProjectErrorKind};
use serde_json::json;

use crate::{
    EXIT_FAILED,
    args::{ArtifactArgs, ArtifactCommand, ConfigArgs, HandoffCommand, NewArtifact},
    command_error::CommandError,
    config,
    output::{complain, printable, printable_lines, say, say_json},
};

/// Longest entry that is read, in bytes. More is refused by the review itself.
const MOST_BYTES: u64 = 1 << 20;

pub(crate) fn artifact(config: &ConfigArgs, args: ArtifactArgs) -> Result<ExitCode, CommandError> {
    let ArtifactArgs { project, json, command } = args;
    let artifacts = find(project.as_deref())?;
    match command {
        ArtifactCommand::Lint { path, schema, enforce } => {
            let folder = artifacts.folder();
            // A project without artifacts has nothing wrong with them.
            let all = if folder.exists() { vec![folder] } else { Vec::new() };
            let paths = if path.is_empty() { all } else { path };
            let options = LintOptions { kind: schema, models: models(config)? };
            let report = lint(&paths, &options).map_err(failed)?;
            if json {
                say_json(&report);
            } else {
                report.findings.iter().for_each(|finding| say(printable(&finding.to_string())));
                complain(format_args!("{} findings in {} artifacts", report.findings.len(), report.files));
            }
            return Ok(code(!enforce || report.findings.is_empty()));
        }
        ArtifactCommand::Rules => rules(json),
        ArtifactCommand::Schema { kind } => schema(kind, json)?,
        ArtifactCommand::New(new) => make(&artifacts, config, new, json)?,
        ArtifactCommand::Scaffold { of } => {
            let models = models(config)?;
            for slice in slices(&artifacts, &of)? {
                let done = artifacts.scaffold(slice, &models).map_err(failed)?;
                for task in &done.not_planned {
                    complain(format_args!("warning: {task} has a folder and is not in the plan of {slice}"));
                }
                match json {
                    true => say_json(&done),
                    false => say(format_args!(
                        "{slice}: {} tasks, {} files made, {} kept",
                        done.tasks.len(),
                        done.made.len(),
                        done.kept.len()
                    )),
                }
            }
        }
        ArtifactCommand::Mark { task, status } => {
            let before = artifacts.mark_task(task, status).map_err(failed)?;
            match json {
                true => say_json(&json!({ "task": task, "before": before, "status": status })),
                false => say(format_args!("{task} was {before} and is {status}")),
            }
        }
        ArtifactCommand::Todo { of } => {
            for slice in slices(&artifacts, &of)? {
                let path = artifacts.write_todo(slice).map_err(failed)?;
                match json {
                    true => say_json(&json!({ "slice": slice, "path": path })),
                    false => say(printable(&path.display().to_string())),
                }
            }
        }
        ArtifactCommand::Status { milestone } => status(&artifacts, milestone, json)?,
        ArtifactCommand::Append { milestone, file, expect, seal } => {
            let entry = if seal { String::new() } else { entry(file.as_deref())? };
            if entry.trim().is_empty() && !seal {
                return Err("the entry is empty; --seal appends a seal alone".to_owned().into());
            }
            let appended = artifacts.append_review(milestone, &entry, expect.as_deref()).map_err(failed)?;
            if appended.sealed_before > 0 {
                complain(format_args!(
                    "{} bytes were there without a seal, and are sealed now",
                    appended.sealed_before
                ));
            }
            match json {
                true => say_json(&appended),
                false => say(&appended.state.sha256),
            }
        }
        ArtifactCommand::Reconcile { milestone } => {
            let path = artifacts.write_research(milestone).map_err(failed)?;
            match json {
                true => say_json(&json!({ "milestone": milestone, "path": path })),
                false => say(printable(&path.display().to_string())),
            }
        }
        ArtifactCommand::Gate { milestone } => {
            let gate = artifacts.gate(milestone).map_err(failed)?;
            match json {
                true => say_json(&gate),
                false => {
                    say(gate.verdict);
                    complain(format_args!(
                        "{} outputs, agreement_score {}, contested_count {}, {} unresolved",
                        gate.k, gate.agreement_score, gate.contested_count, gate.unresolved
                    ));
                    gate.contested
                        .iter()
                        .for_each(|text| complain(format_args!("contested: {}", printable(text))));
                }
            }
            return Ok(code(gate.verdict != ResearchVerdict::NeedsReSpawn));
        }
        ArtifactCommand::Handoff(command) => handoff(&artifacts, command, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) }
}

/// The artifacts of the project that is named, or that the current folder belongs to.
fn find(named: Option<&Path>) -> Result<Artifacts, CommandError> {
    let folder = match named {
        Some(folder) if folder.is_dir() => absolute(folder),
        Some(folder) => return Err(format!("there is no folder {}", folder.display()).into()),
        None => std::env::current_dir(),
    };
    let folder = folder
        .map_err(|error| CommandError::failed(format_args!("the current folder cannot be told: {error}")))?;
    Ok(if named.is_some() { Artifacts::at(folder) } else { Artifacts::find(&folder) })
}

/// The portable models of the configuration; none without a configuration.
fn models(config: &ConfigArgs) -> Result<Vec<String>, CommandError> {
    match config::find_or_explain(config, &BuildContext::from_process()) {
        Err(_) if config.config.is_none() => Ok(Vec::new()),
        _ => Ok(config::load(config)?.models()),
    }
}

/// The slice, or every slice of the milestone, that is named.
fn slices(artifacts: &Artifacts, of: &str) -> Result<Vec<SliceId>, CommandError> {
    if let Ok(milestone) = of.parse::<MilestoneId>() {
        let slices = artifacts.slices(milestone).map_err(failed)?;
        if slices.is_empty() {
            return Err(format!(
                "{milestone} has no slices; make one by `nexus artifact new slice {milestone} NAME`"
            )
            .into());
        }
        return Ok(slices);
    }
    let slice = of.parse::<SliceId>();
    slice.map(|slice| vec![slice]).map_err(|_| {
        format!("{of:?} is no slice and no milestone; write one such as M001-S001 or M001").into()
    })
}

fn rules(json: bool) {
    for rule in Rule::ALL {
        match json {
            true => say_json(&json!({ "rule": rule, "about": rule.about() })),
            false => say(format_args!("{:22}{}", rule.id(), rule.about())),
        }
    }
}

fn schema(kind: Option<Kind>, json: bool) -> Result<(), CommandError> {
    if let Some(kind) = kind {
        let schema = kind.schema();
        say_json(&schema.ok_or_else(|| format!("{} has no frontmatter, so it has no schema", kind.name()))?);
        return Ok(());
    }
    for kind in Kind::all() {
        match json {
            true => {
                say_json(&json!({ "kind": kind, "file": kind.file_pattern(), "sections": kind.sections() }));
            }
            false => say(format_args!(
                "{:20}{:24}{}",
                kind.name(),
                kind.file_pattern(),
                kind.sections().join(", ")
            )
            .to_string()
            .trim_end()),
        }
    }
    Ok(())
}

fn make(
    artifacts: &Artifacts,
    config: &ConfigArgs,
    new: NewArtifact,
    json: bool,
) -> Result<(), CommandError> {
    let id = match new {
        NewArtifact::Milestone { name, goal, requirement, criterion } => {
            let new = NewMilestone { name, goal, requirements: requirement, success_criteria: criterion };
            artifacts.new_milestone(&new).map_err(failed)?.to_string()
        }
        NewArtifact::Slice { milestone, name } => {
            artifacts.new_slice(milestone, &name).map_err(failed)?.to_string()
        }
        NewArtifact::Task { slice, name, tier, after, file, action } => {
            let new = NewTask { name, tier, depends_on: after, files: file, action };
            artifacts.new_task(slice, &new, &models(config)?).map_err(failed)?.to_string()
        }
    };
    match json {
        true => say_json(&json!({ "id": id })),
        false => say(id),
    }
    Ok(())
}

fn status(artifacts: &Artifacts, milestone: MilestoneId, json: bool) -> Result<(), CommandError> {
    let report = artifacts.report(milestone).map_err(failed)?;
    if json {
        say_json(&report);
        return Ok(());
    }
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
    Ok(())
}

fn handoff(artifacts: &Artifacts, command: HandoffCommand, json: bool) -> Result<(), CommandError> {
    match command {
        HandoffCommand::New { topic, from, to, body, milestone } => {
            let new = NewHandoff { from, to, topic, body, milestone, ..NewHandoff::default() };
            let found = artifacts.write_handoff(&new).map_err(failed)?;
            match json {
                true => say_json(&found),
                false => say(&found.handoff.id),
            }
        }
        HandoffCommand::List { agent, status, milestone, global } => {
            let list =
                artifacts.handoffs(&HandoffFilter { agent, status, milestone, global }).map_err(failed)?;
            list.unreadable
                .iter()
                .for_each(|reason| complain(format_args!("warning: {}", printable_lines(reason))));
            for found in &list.handoffs {
                let handoff = &found.handoff;
                match json {
                    true => say_json(found),
                    false => say(printable(&format!(
                        "{}  {}  {:8}  {} to {}: {}",
                        handoff.id,
                        handoff.created_at,
                        handoff.status,
                        handoff.from_agent,
                        handoff.to_agent,
                        handoff.topic
                    ))),
                }
            }
        }
        HandoffCommand::Mark { id, status } => {
            let found = artifacts.mark_handoff(&id, status).map_err(failed)?;
            match json {
                true => say_json(&found),
                false => say(format_args!("{} is {status}", found.handoff.id)),
            }
        }
    }
    Ok(())
}

fn entry(file: Option<&Path>) -> Result<String, CommandError> {
    let mut entry = String::new();
    let read = match file {
        Some(path) => File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut entry)),
        None => io::stdin().take(MOST_BYTES).read_to_string(&mut entry),
    };
    read.map_err(|error| format!("the entry cannot be read: {error}"))?;
    Ok(entry)
}

#[expect(clippy::needless_pass_by_value, reason = "errors are given to it as they come")]
fn failed(error: ProjectError) -> CommandError {
    let words = printable_lines(&error.to_string());
    match error.kind {
        ProjectErrorKind::InvalidArgument | ProjectErrorKind::Unknown => words.into(),
        _ => CommandError::failed(words),
    }
}
