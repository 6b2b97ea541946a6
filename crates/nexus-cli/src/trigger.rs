//! `nexus trigger`: sends messages at times and on events.

use std::{path::absolute, process::ExitCode, time::SystemTime};

use nexus_broker::trigger::{
    AtSchedule, CompletionSchedule, CronSchedule, EventSchedule, FileSchedule, NewTrigger, Trigger,
    TriggerId, TriggerSchedule, Triggers, WebhookSchedule,
};
use nexus_files::counted;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::{ConfigArgs, TriggerArgs, TriggerCommand},
    broker_home::{BrokerHome, secrets},
    command_error::CommandError,
    conversation::exit_code_of,
    output::{AnswerWriter, printable, say},
    spoken_time::spoken_instant,
};

/// Trigger that a request fires.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreatedWebhook {
    /// The trigger.
    trigger: Trigger,
    /// Secret that signs requests, shown only now. `None` if an environment variable of the broker contains it.
    secret: Option<String>,
    /// Path for the requests at `nexus broker run --webhooks ADDRESS`.
    path: String,
}

/// Event that was sent to triggers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FiredEvent {
    /// Id of the event.
    id: String,
    /// Number of triggers that fired.
    fired: usize,
}

/// Trigger that was deleted.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeletedTrigger {
    /// The trigger.
    deleted: TriggerId,
}

pub(crate) async fn trigger(
    out: AnswerWriter,
    config: &ConfigArgs,
    command: TriggerCommand,
) -> Result<ExitCode, CommandError> {
    let home = BrokerHome::load(config)?;
    let broker = home.open_with_agents().await?;
    if let Some(whose) = command.whose() {
        let agents = broker.agents().await?;
        if !agents.iter().any(|agent| agent.name == whose.agent) {
            let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
            let instead = match names.is_empty() {
                true => "name agents in the section `broker` of nexus.yaml".to_owned(),
                false => format!("there are {}", names.join(", ")),
            };
            let message = format!("there is no agent {:?}: {instead}", whose.agent);
            return Err(CommandError::usage(printable(&message)));
        }
    }
    let triggers = home.triggers(&broker);
    match command {
        TriggerCommand::Cron { whose, expression, action, zone, missed, jitter } => {
            let schedule =
                CronSchedule::new(expression).in_zone(zone).with_missed(missed).with_jitter_seconds(jitter);
            create(out, &triggers, whose, TriggerSchedule::Cron(schedule), action).await?;
        }
        TriggerCommand::At { whose, time, action } => {
            create(out, &triggers, whose, TriggerSchedule::At(AtSchedule::new(time)), action).await?;
        }
        TriggerCommand::Event { whose, name, action } => {
            create(out, &triggers, whose, TriggerSchedule::Event(EventSchedule::new(name)), action).await?;
        }
        TriggerCommand::File { whose, path, action, pattern } => {
            let path = absolute(&path)
                .map_err(|error| CommandError::usage(format_args!("{}: {error}", path.display())))?;
            // With a pattern the path names a folder, even if it does not exist yet.
            let mut schedule = match pattern.is_some() || path.is_dir() {
                true => FileSchedule::folder(path),
                false => FileSchedule::file(path),
            };
            schedule.pattern = pattern;
            create(out, &triggers, whose, TriggerSchedule::File(schedule), action).await?;
        }
        TriggerCommand::Completion { whose, action, of_agent, of_task } => {
            let mut schedule = match (&of_agent, &of_task) {
                (Some(agent), _) => CompletionSchedule::of_agent(agent),
                (None, Some(task)) => CompletionSchedule::of_task(task),
                (None, None) => return Err(CommandError::usage("give either --of-agent or --of-task")),
            };
            schedule.task = of_task;
            create(out, &triggers, whose, TriggerSchedule::Completion(schedule), action).await?;
        }
        TriggerCommand::Webhook { whose, action, secret_environment } => {
            return webhook(out, &triggers, whose, action, secret_environment).await;
        }
        TriggerCommand::List => {
            let list = triggers.list().await?;
            if list.triggers.is_empty() && list.damaged.is_empty() {
                out.nothing("no triggers yet; `nexus trigger cron AGENT EXPRESSION ACTION` creates one");
            }
            list.triggers.iter().for_each(|trigger| show(out, trigger));
            let damaged: Vec<_> = list.damaged.iter().map(|(key, error)| format!("{key}: {error}")).collect();
            return Ok(exit_code_of(&damaged));
        }
        TriggerCommand::Fire { name, id, data } => {
            let id = id.unwrap_or_else(|| nexus_broker::EnvelopeId::random().to_string());
            let fired = triggers.fire_event(&name, &id, data).await?.len();
            let text = format!("{} fired for {}", counted(fired, "trigger"), printable(&id));
            out.line(&FiredEvent { id, fired }, text);
        }
        TriggerCommand::Enable { id } => show(out, &triggers.set_enabled(&id, true).await?),
        TriggerCommand::Disable { id } => show(out, &triggers.set_enabled(&id, false).await?),
        TriggerCommand::Delete { id } => {
            // Delete the trigger first, so that no webhook remains without its secret.
            triggers.delete(&id).await?;
            secrets().delete(&id)?;
            let text = format!("{id} is deleted");
            out.line(&DeletedTrigger { deleted: id }, text);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn made(whose: &TriggerArgs, schedule: TriggerSchedule, action: String) -> Result<NewTrigger, CommandError> {
    let mut new = NewTrigger::new(whose.agent.clone(), schedule, action);
    new.target = Some(whose.target().map_err(CommandError::usage)?);
    if let Some(id) = &whose.id {
        new.id = id.clone();
    }
    Ok(new)
}

async fn create(
    out: AnswerWriter,
    triggers: &Triggers,
    whose: TriggerArgs,
    schedule: TriggerSchedule,
    action: String,
) -> Result<(), CommandError> {
    show(out, &triggers.create(made(&whose, schedule, action)?).await?);
    Ok(())
}

fn show(out: AnswerWriter, trigger: &Trigger) {
    out.show(trigger, |trigger| say(printable(&described(trigger))));
}

async fn webhook(
    out: AnswerWriter,
    triggers: &Triggers,
    whose: TriggerArgs,
    action: String,
    environment: Option<String>,
) -> Result<ExitCode, CommandError> {
    let is_own = environment.is_none();
    let schedule = environment.map_or_else(WebhookSchedule::in_folder, WebhookSchedule::in_environment);
    let new = made(&whose, TriggerSchedule::Webhook(schedule), action)?;
    let id = new.id.clone();
    let trigger = triggers.create(new).await?;
    let secret = match is_own.then(|| secrets().create(&id)).transpose() {
        // The only output of the secret: the person who configures the sender needs it.
        Ok(secret) => secret.map(|secret| secret.expose().to_owned()),
        Err(error) => {
            // A webhook without a secret cannot verify any request, so remove its trigger again.
            triggers.delete(&id).await?;
            return Err(error.into());
        }
    };
    out.show(&CreatedWebhook { trigger, secret, path: format!("/hooks/{id}") }, |created| {
        say(printable(&described(&created.trigger)));
        if let Some(secret) = &created.secret {
            say(format_args!("secret: {secret}"));
        }
        say(format_args!("POST to {} of `nexus broker run --webhooks ADDRESS`", created.path));
    });
    Ok(ExitCode::SUCCESS)
}

/// Describes a trigger in one line.
pub(crate) fn described(trigger: &Trigger) -> String {
    let now = SystemTime::now();
    let when = match &trigger.schedule {
        TriggerSchedule::Cron(cron) => format!("cron {} ({})", cron.expression, cron.time_zone),
        TriggerSchedule::At(_) => "at".to_owned(),
        TriggerSchedule::Event(event) => format!("event {}", event.name),
        TriggerSchedule::File(file) => format!("file {}", file.path.display()),
        TriggerSchedule::Webhook(_) => "webhook".to_owned(),
        TriggerSchedule::Completion(_) => "completion".to_owned(),
        _ => "of a kind that this version does not know".to_owned(),
    };
    let next =
        trigger.next_run.map_or_else(String::new, |time| format!(", next {}", spoken_instant(time, now)));
    let off = if trigger.enabled { "" } else { ", switched off" };
    format!("{}  {} -> {}{next}{off}: {}", trigger.id, when, trigger.routed_to(), trigger.action)
}
