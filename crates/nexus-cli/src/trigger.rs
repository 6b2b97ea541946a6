//! `nexus trigger`: what sends messages by itself.

use std::{path::absolute, process::ExitCode, time::SystemTime};

use nexus_broker::trigger::{
    AtSchedule, CompletionSchedule, CronSchedule, EventSchedule, FileSchedule, NewTrigger, Trigger,
    TriggerSchedule, Triggers, WebhookSchedule,
};

use crate::{
    EXIT_FAILED,
    args::{ConfigArgs, TriggerArgs, TriggerCommand},
    broker_home::{BrokerHome, secrets},
    command_error::CommandError,
    output::{complain, printable, printable_lines, say, say_json},
    spoken_time::spoken_instant,
};

pub(crate) async fn trigger(config: &ConfigArgs, command: TriggerCommand) -> Result<ExitCode, CommandError> {
    let home = BrokerHome::load(config)?;
    let broker = home.open_with_agents().await?;
    if let Some(whose) = command.whose() {
        let agents = broker.agents().await.map_err(CommandError::failed)?;
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
    let failed = |error: nexus_broker::BrokerError| CommandError::failed(error);
    match command {
        TriggerCommand::Cron { whose, expression, action, zone, missed, jitter } => {
            let schedule =
                CronSchedule::new(expression).in_zone(zone).with_missed(missed).with_jitter_seconds(jitter);
            create(&triggers, whose, TriggerSchedule::Cron(schedule), action).await?;
        }
        TriggerCommand::At { whose, time, action } => {
            create(&triggers, whose, TriggerSchedule::At(AtSchedule::new(time)), action).await?;
        }
        TriggerCommand::Event { whose, name, action } => {
            create(&triggers, whose, TriggerSchedule::Event(EventSchedule::new(name)), action).await?;
        }
        TriggerCommand::File { whose, path, action, pattern } => {
            let path = absolute(&path)
                .map_err(|error| CommandError::usage(format_args!("{}: {error}", path.display())))?;
            let mut schedule = match pattern.is_some() || path.is_dir() {
                true => FileSchedule::folder(path),
                false => FileSchedule::file(path),
            };
            schedule.pattern = pattern;
            create(&triggers, whose, TriggerSchedule::File(schedule), action).await?;
        }
        TriggerCommand::Completion { whose, action, of_agent, of_task } => {
            let mut schedule = match (&of_agent, &of_task) {
                (Some(agent), _) => CompletionSchedule::of_agent(agent),
                (None, Some(task)) => CompletionSchedule::of_task(task),
                (None, None) => return Err(CommandError::usage("say whose tasks: --of-agent or --of-task")),
            };
            schedule.task = of_task;
            create(&triggers, whose, TriggerSchedule::Completion(schedule), action).await?;
        }
        TriggerCommand::Webhook { whose, action, secret_environment } => {
            return webhook(&triggers, whose, action, secret_environment).await;
        }
        TriggerCommand::List { json } => return list(&triggers, json).await,
        TriggerCommand::Fire { name, id, data } => {
            let id = id.unwrap_or_else(|| nexus_broker::EnvelopeId::random().to_string());
            let fired = triggers.fire_event(&name, &id, data).await.map_err(failed)?;
            say(format_args!("{} triggers fired for {}", fired.len(), printable(&id)));
        }
        TriggerCommand::Enable { id } => {
            say(printable(&described(&triggers.set_enabled(&id, true).await.map_err(failed)?)));
        }
        TriggerCommand::Disable { id } => {
            say(printable(&described(&triggers.set_enabled(&id, false).await.map_err(failed)?)));
        }
        TriggerCommand::Delete { id } => {
            triggers.delete(&id).await.map_err(failed)?;
            secrets().delete(&id).map_err(failed)?;
            say(format_args!("{id} is deleted"));
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
    triggers: &Triggers,
    whose: TriggerArgs,
    schedule: TriggerSchedule,
    action: String,
) -> Result<(), CommandError> {
    let trigger = triggers.create(made(&whose, schedule, action)?).await.map_err(CommandError::failed)?;
    say(printable(&described(&trigger)));
    Ok(())
}

async fn webhook(
    triggers: &Triggers,
    whose: TriggerArgs,
    action: String,
    environment: Option<String>,
) -> Result<ExitCode, CommandError> {
    let is_own = environment.is_none();
    let schedule = environment.map_or_else(WebhookSchedule::in_folder, WebhookSchedule::in_environment);
    let new = made(&whose, TriggerSchedule::Webhook(schedule), action)?;
    let id = new.id.clone();
    let trigger = triggers.create(new).await.map_err(CommandError::failed)?;
    say(printable(&described(&trigger)));
    if is_own {
        match secrets().create(&id) {
            // The one place where it is shown: whoever configures the sender needs it.
            Ok(secret) => say(format_args!("secret: {}", secret.expose())),
            Err(error) => {
                triggers.delete(&id).await.map_err(CommandError::failed)?;
                return Err(CommandError::failed(error));
            }
        }
    }
    say(format_args!("POST to /hooks/{id} of `nexus broker run --webhooks ADDRESS`"));
    Ok(ExitCode::SUCCESS)
}

async fn list(triggers: &Triggers, json: bool) -> Result<ExitCode, CommandError> {
    let list = triggers.list().await.map_err(CommandError::failed)?;
    for trigger in &list.triggers {
        match json {
            true => say_json(trigger),
            false => say(printable(&described(trigger))),
        }
    }
    for (key, error) in &list.damaged {
        complain(printable_lines(&format!("{key}: {error}")));
    }
    Ok(if list.damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}

/// A trigger on a line.
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
