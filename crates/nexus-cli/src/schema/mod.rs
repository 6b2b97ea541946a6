//! `nexus schema`: JSON Schemas of the output of every command with `--json`.

pub(crate) mod foreign;

use std::process::ExitCode;

use nexus_artifacts::{Appended, FoundHandoff, Gate, LintReport, MilestoneReport, Scaffolded};
use nexus_broker::{Envelope, trigger::Trigger};
use nexus_debates::{DebateRemoved, DebateResult, DebateRow, DebateView};
use nexus_project::{
    InitReport, WorkingFolderReport,
    harness::InstallReport,
    hub::FoundSkill,
    role::Role,
    tools::{
        ContextView, CycleView, PlanDecided, PlanStarted, PlanUpdated, TaskAdded, TaskUpdated, TasksClosed,
    },
};
use nexus_tasks::{
    AgentView, LogEntryView, QueueRow, TaskCreated, TaskLanding, TaskRemoved, TaskReport, TaskRow,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::Serialize;
use serde_json::Value;

#[cfg(feature = "judge")]
use crate::agent::JudgedAgent;
#[cfg(feature = "keyring")]
use crate::api_key::{ChangedKey, StoredKey};
use crate::{
    agent::{AddedAgent, ListedAgent},
    args::SchemaCommand,
    artifact::{ArtifactSchema, LintRule, MadeArtifact, MarkedTask, WrittenArtifact},
    broker::{ChangedAgent, LoggedMessage, MessageReceipt},
    broker_state::{BrokerEvent, BrokerState},
    check::CheckedConfiguration,
    clean::CleanedItem,
    command_error::{CommandError, ErrorLine},
    conversation::{DeletedConversation, ListedConversation, ShownConversation},
    debate::{DebateAdvanceEvent, DebateWatchEvent},
    doctor::Diagnosis,
    explain::{ExplainEvent, ExplainedKind},
    fleet::{FleetEvent, FleetSetup, MachineKey},
    forget::ForgottenTurn,
    hold::{ListedHold, ReleasedHold},
    manual::{ManualPage, ShellCompletions},
    models::{ListedBackendModel, ListedProvider},
    output::{AnswerWriter, say, say_json},
    project::{ConformanceOutcome, FileSchema, ListedProjectTask, TaskPrompt},
    run::RunEvent,
    serve::ServeEvent,
    service::ServiceUnit,
    session::{ExportedMessage, ListedSession},
    setup::SetupReport,
    show::ShownRecords,
    skills::{ChangedSkill, HubLine, SkillText},
    status::Status,
    task::{DequeuedTask, TaskArtifactText, TaskRunEvent, TaskWatchEvent},
    testbed::{ListedTrap, ProvenTrap, TestbedEvent},
    trigger::{CreatedWebhook, DeletedTrigger, FiredEvent},
    trust::{RemovedTrust, TrustedConfiguration},
    undo::{ListedSnapshot, TurnDiff, UndoneTurn},
    uninstall::Uninstalled,
    usage::SpentRow,
    works::WorkReport,
};
#[cfg(feature = "login")]
use crate::{login::LoginEvent, logout::EndedLogin};
use foreign::ObjectSchema;

/// Minimum Jaro-Winkler similarity at which a command is suggested. Source: our own choice: it allows one wrong or missing letter.
const LEAST_LIKENESS: f64 = 0.9;

/// Form of a command's JSON output.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputForm {
    /// One line for each item.
    List,
    /// One line.
    Document,
    /// One line for each event, with its `type`.
    Events,
}

/// Command that has JSON output.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CommandOutput {
    /// The command.
    command: &'static str,
    /// Form of its JSON output.
    form: OutputForm,
    /// Schemas of its lines.
    #[serde(skip)]
    lines: fn(&mut SchemaGenerator) -> Vec<Schema>,
}

/// A command of the list, or the JSON Schema of a named command.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum PrintedSchema {
    /// A command of the list.
    Command(&'static CommandOutput),
    /// A JSON Schema.
    Schema(#[schemars(with = "ObjectSchema")] Value),
}

/// Declares the output of commands.
macro_rules! outputs {
    ($($(#[$feature:meta])* $command:literal: $form:ident [$($line:ty),+];)*) => {
        /// Every command that has JSON output, by name.
        const OUTPUTS: &[CommandOutput] = &[$($(#[$feature])* CommandOutput {
            command: $command,
            form: OutputForm::$form,
            lines: |generator| vec![$(generator.subschema_for::<$line>()),+],
        },)*];
    };
}

outputs! {
    "artifact append": Document [Appended];
    "artifact gate": Document [Gate];
    "artifact handoff list": List [FoundHandoff];
    "artifact handoff mark": Document [FoundHandoff];
    "artifact handoff new": Document [FoundHandoff];
    "artifact lint": Document [LintReport];
    "artifact mark": Document [MarkedTask];
    "artifact new milestone": Document [MadeArtifact];
    "artifact new slice": Document [MadeArtifact];
    "artifact new task": Document [MadeArtifact];
    "artifact reconcile": Document [WrittenArtifact];
    "artifact rules": List [LintRule];
    "artifact scaffold": List [Scaffolded];
    "artifact schema": List [ArtifactSchema];
    "artifact status": Document [MilestoneReport];
    "artifact todo": List [WrittenArtifact];
    "broker clean": Document [ChangedAgent];
    "broker inbox": List [Envelope];
    "broker land": Document [ChangedAgent];
    "broker log": List [LoggedMessage];
    "broker run": Events [BrokerEvent];
    "broker send": Document [MessageReceipt, Envelope];
    "broker start": Document [ChangedAgent];
    "broker status": Document [BrokerState];
    "broker stop": Document [ChangedAgent];
    "broker watch": Events [BrokerEvent];
    "check": Document [CheckedConfiguration];
    "clean": List [CleanedItem];
    "completions": Document [ShellCompletions];
    "conversation delete": Document [DeletedConversation];
    "conversation fork": Document [ListedConversation];
    "conversation list": List [ListedConversation];
    "conversation show": Document [ShownConversation];
    "debate advance": Events [DebateAdvanceEvent];
    "debate cancel": Document [DebateView];
    "debate list": List [DebateRow];
    "debate new": Document [DebateView];
    "debate remove": Document [DebateRemoved];
    "debate report": Document [WorkReport];
    "debate show": Document [DebateResult];
    "debate watch": Events [DebateWatchEvent];
    "diff": Document [TurnDiff];
    "doctor": Document [Diagnosis];
    "explain": List [ExplainedKind, ExplainEvent];
    "fleet key": Document [MachineKey];
    "fleet setup": Document [FleetSetup];
    "fleet status": Document [nexus::FleetStatus, FleetEvent];
    "forget": List [ForgottenTurn];
    "hold list": List [ListedHold];
    "hold release": List [ReleasedHold];
    "init": Document [WorkingFolderReport];
    #[cfg(feature = "keyring")]
    "key list": List [StoredKey];
    #[cfg(feature = "keyring")]
    "key remove": Document [ChangedKey];
    #[cfg(feature = "keyring")]
    "key set": Document [ChangedKey];
    #[cfg(feature = "login")]
    "login": Events [LoginEvent];
    #[cfg(feature = "login")]
    "logout": List [EndedLogin];
    "manual": Document [ManualPage];
    "agent add": Document [AddedAgent];
    #[cfg(feature = "judge")]
    "agent judge": Document [JudgedAgent];
    "agent list": List [ListedAgent];
    "agent show": Document [ListedAgent];
    "models": List [ListedBackendModel, ListedProvider];
    "project add": Document [TaskAdded];
    "project back": Document [TaskUpdated];
    "project begin": Document [TaskUpdated];
    "project close": Document [TasksClosed];
    "project conformance": Document [ConformanceOutcome];
    "project decide": Document [PlanDecided];
    "project done": Document [TaskUpdated];
    "project history": List [CycleView];
    "project init": Document [InitReport];
    "project install": Document [InstallReport];
    "project plan": Document [PlanStarted];
    "project prompt": Document [TaskPrompt];
    "project reopen": Document [PlanUpdated];
    "project roles": List [Role, AgentView];
    "project schema": Document [FileSchema];
    "project status": Document [ContextView];
    "project tasks": List [ListedProjectTask];
    "project uninstall": Document [InstallReport];
    "run": Events [RunEvent];
    "schema output": List [PrintedSchema];
    "serve": Events [ServeEvent];
    "service install": Document [ServiceUnit];
    "service status": List [ServiceUnit];
    "service uninstall": Document [ServiceUnit];
    "session export": List [ExportedMessage];
    "session fork": Document [ListedSession];
    "session list": List [ListedSession];
    "session search": List [nexus_broker::MemoryHit];
    "session show": Document [ShownConversation];
    "setup": Document [SetupReport];
    "show": Document [ShownRecords];
    "skills info": Document [FoundSkill];
    "skills install": List [ChangedSkill];
    "skills list": List [FoundSkill, HubLine];
    "skills remove": List [ChangedSkill];
    "skills update": List [ChangedSkill];
    "skills use": Document [SkillText];
    "status": Document [Status];
    "task attach": Events [TaskRunEvent];
    "task cancel": Document [TaskReport];
    "task land": Document [TaskLanding];
    "task list": List [TaskRow];
    "task log": List [LogEntryView];
    "task new": Document [TaskCreated];
    "task queue": List [QueueRow, DequeuedTask];
    "task remove": Document [TaskRemoved];
    "task reopen": Document [TaskReport];
    "task report": Document [WorkReport];
    "task run": Events [TaskRunEvent];
    "task show": Document [TaskArtifactText];
    "task status": Document [TaskReport];
    "task watch": Events [TaskWatchEvent];
    "testbed list": List [ListedTrap];
    "testbed prove": List [ProvenTrap];
    "testbed report": Document [WorkReport];
    "testbed run": Events [TestbedEvent];
    "trigger at": Document [Trigger];
    "trigger completion": Document [Trigger];
    "trigger cron": Document [Trigger];
    "trigger delete": Document [DeletedTrigger];
    "trigger disable": Document [Trigger];
    "trigger enable": Document [Trigger];
    "trigger event": Document [Trigger];
    "trigger file": Document [Trigger];
    "trigger fire": Document [FiredEvent];
    "trigger list": List [Trigger];
    "trigger webhook": Document [CreatedWebhook];
    "trust": List [TrustedConfiguration, RemovedTrust];
    "undo": List [UndoneTurn, ListedSnapshot];
    "uninstall": Document [Uninstalled];
    "usage": List [SpentRow];
}

/// Commands without JSON output, each with the reason.
const WITHOUT: &[(&str, &str)] = &[
    ("acp", "it uses the Agent Client Protocol with an editor"),
    ("chat", "it is a conversation with a person; `nexus run --conversation NAME` has JSON output"),
    #[cfg(feature = "demo")]
    ("demo server", "it serves until it is stopped"),
    #[cfg(feature = "demo")]
    ("demo task", "it shows commands to a person"),
    #[cfg(feature = "demo")]
    ("demo turn", "it shows commands to a person"),
    ("hook", "it answers the program that starts it, in JSON of that program"),
    ("mcp debate", "it uses the Model Context Protocol with a client"),
    ("mcp project", "it uses the Model Context Protocol with a client"),
    ("mcp spawn", "it uses the Model Context Protocol with a client"),
    ("onboard", "it asks a person"),
    ("worker", "it serves other machines until it is stopped"),
];

/// Returns the reason why a command has no JSON output. `None` if it has JSON output.
pub(crate) fn reason_for_none(command: &str) -> Option<&'static str> {
    // Without a subcommand, the demo shows a task.
    let command = if command == "demo" { "demo task" } else { command };
    WITHOUT.iter().find(|(name, _)| *name == command).map(|(_, reason)| *reason)
}

pub(crate) fn schema(out: AnswerWriter, command: &SchemaCommand) -> Result<ExitCode, CommandError> {
    let SchemaCommand::Output { command } = command;
    if command.is_empty() {
        for output in OUTPUTS {
            out.show(&PrintedSchema::Command(output), |_| say(output.command));
        }
        return Ok(ExitCode::SUCCESS);
    }
    // A name copied from a manual begins with `nexus`.
    let command = command.join(" ");
    let name = command.strip_prefix("nexus ").unwrap_or(&command);
    match OUTPUTS.iter().find(|output| output.command == name) {
        Some(output) => say_json(&PrintedSchema::Schema(output.schema().to_value())),
        None => return Err(unknown(name)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Error for a command without a schema. It suggests similar commands.
fn unknown(name: &str) -> CommandError {
    if let Some(reason) = reason_for_none(name) {
        let message = format!("`nexus {name}` has no JSON output: {reason}");
        return CommandError::usage(message)
            .with_advice("`nexus schema output` lists the commands that have one");
    }
    let below = |output: &&CommandOutput| output.command.starts_with(&format!("{name} "));
    let is_like = |output: &&CommandOutput| strsim::jaro_winkler(output.command, name) >= LEAST_LIKENESS;
    // The commands of a group are better advice than similar names.
    let mut meant: Vec<_> = OUTPUTS.iter().filter(below).map(|output| output.command).collect();
    if meant.is_empty() {
        meant = OUTPUTS.iter().filter(is_like).map(|output| output.command).collect();
    }
    let error = CommandError::usage(format_args!("no command {name:?} prints JSON"));
    match meant.is_empty() {
        true => error.with_advice("`nexus schema output` lists the commands"),
        false => error.with_advice(format_args!("write the name of one of: {}", meant.join(", "))),
    }
}

impl CommandOutput {
    /// Builds the schema of every line that the command prints: its answer, or the error that ends it.
    fn schema(&self) -> Schema {
        let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut lines = (self.lines)(&mut generator);
        lines.push(generator.subschema_for::<ErrorLine>());
        let mut schema = json_schema!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": format!("A line of `nexus {} --json`", self.command),
            "anyOf": lines,
        });
        schema.insert("$defs".to_owned(), Value::Object(generator.take_definitions(true)));
        schema
    }
}

#[cfg(all(test, feature = "keyring", feature = "login"))]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Args;

    fn leaves(command: &clap::Command, above: &str, found: &mut Vec<String>) {
        let below: Vec<_> = command.get_subcommands().filter(|below| below.get_name() != "help").collect();
        if below.is_empty() {
            found.push(above.to_owned());
        }
        for command in below {
            leaves(command, format!("{above} {}", command.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn every_command_has_a_schema_or_a_reason_for_none() {
        let mut commands = Vec::new();
        leaves(&Args::command(), "", &mut commands);
        commands.sort();
        let with = OUTPUTS.iter().map(|output| output.command);
        let mut known: Vec<_> = with.chain(WITHOUT.iter().map(|(command, _)| *command)).collect();
        known.sort_unstable();
        assert_eq!(commands, known);
    }

    #[test]
    fn every_schema_is_one() {
        for output in OUTPUTS {
            let schema = output.schema().to_value();
            jsonschema::draft202012::meta::validate(&schema).unwrap();
            jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{}: {error}", output.command));
        }
    }
}
