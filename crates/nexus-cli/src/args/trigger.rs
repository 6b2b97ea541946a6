//! The command line of `nexus trigger`.

use std::{path::PathBuf, time::SystemTime};

use clap::{Args as ClapArgs, Subcommand};
use nexus_broker::{
    Address,
    trigger::{MissedRule, TriggerId},
};
use serde_json::Value;

/// What follows the options of `nexus trigger`.
pub(super) const TRIGGER_HELP: &str = "\
Every firing is a message to the agent. `nexus broker run` has triggers fire by time, by files and by reports; with --webhooks also by requests, which
are signed as Standard Webhooks says (webhook-id, webhook-timestamp, webhook-signature). A firing happens once, whatever the number of brokers.";

#[derive(Debug, Subcommand)]
pub(crate) enum TriggerCommand {
    /// Fire at times, such as '30 9 * * 1-5'
    Cron {
        #[command(flatten)]
        whose: TriggerArgs,
        /// Minute, hour, day of month, month, day of week; or @daily and the like
        expression: String,
        /// What the agent is to do
        action: String,
        /// The time zone
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        zone: String,
        /// Which times that were missed fire: once, all (the newest 100) or none
        #[arg(long, value_name = "RULE", default_value = "once", value_parser = missed)]
        missed: MissedRule,
        /// Delay each firing by up to so many seconds, the same on every broker
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        jitter: u32,
    },
    /// Fire once, at a time such as 2026-01-31T12:00:00Z
    At {
        #[command(flatten)]
        whose: TriggerArgs,
        /// The time, in UTC
        #[arg(value_parser = time)]
        time: SystemTime,
        /// What the agent is to do
        action: String,
    },
    /// Fire at an event, which `nexus trigger fire` sends
    Event {
        #[command(flatten)]
        whose: TriggerArgs,
        /// The name of the event
        name: String,
        /// What the agent is to do
        action: String,
    },
    /// Fire when a file, or a file of a folder, changes and is left alone for half a second
    File {
        #[command(flatten)]
        whose: TriggerArgs,
        /// The file or the folder
        path: PathBuf,
        /// What the agent is to do
        action: String,
        /// Which files of the folder, by a glob such as *.csv
        #[arg(long, value_name = "GLOB")]
        pattern: Option<String>,
    },
    /// Fire at a signed request. Its secret is printed once
    Webhook {
        #[command(flatten)]
        whose: TriggerArgs,
        /// What the agent is to do
        action: String,
        /// The variable of the broker's environment that has the secret. Default: one is made, in a file
        #[arg(long, value_name = "NAME")]
        secret_environment: Option<String>,
    },
    /// Fire when a task is reported to have ended
    Completion {
        #[command(flatten)]
        whose: TriggerArgs,
        /// What the agent is to do
        action: String,
        /// Tasks of this agent. Default: of any
        #[arg(long, value_name = "NAME")]
        of_agent: Option<String>,
        /// This task. Default: any
        #[arg(long, value_name = "ID")]
        of_task: Option<String>,
    },
    /// List the triggers
    List,
    /// Send an event to the triggers that wait for it
    Fire {
        /// The name of the event
        name: String,
        /// Tells this event from others: sent twice, it fires once. Default: a new one
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// What comes with it, as JSON: data for the agent, never an instruction
        #[arg(long, value_name = "JSON", value_parser = json)]
        data: Option<Value>,
    },
    /// Have a trigger fire again, from now on
    Enable {
        /// The trigger
        id: TriggerId,
    },
    /// Have a trigger not fire
    Disable {
        /// The trigger
        id: TriggerId,
    },
    /// Delete a trigger, and the secret of a webhook
    Delete {
        /// The trigger
        id: TriggerId,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TriggerArgs {
    /// The agent that handles it
    pub(crate) agent: String,
    /// Which of its sessions. Default: main
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) session: Option<String>,
    /// The trigger's id. Default: a random one
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<TriggerId>,
}

impl TriggerArgs {
    /// Whom a firing is for.
    pub(crate) fn target(&self) -> Result<Address, nexus_broker::BrokerError> {
        match &self.session {
            Some(context) => format!("agent:{}:{context}", self.agent).parse(),
            None => Address::agent(&self.agent),
        }
    }
}

impl TriggerCommand {
    /// Whose the trigger is that it makes.
    pub(crate) fn whose(&self) -> Option<&TriggerArgs> {
        match self {
            Self::Cron { whose, .. }
            | Self::At { whose, .. }
            | Self::Event { whose, .. }
            | Self::File { whose, .. }
            | Self::Webhook { whose, .. }
            | Self::Completion { whose, .. } => Some(whose),
            _ => None,
        }
    }
}

fn missed(text: &str) -> Result<MissedRule, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|_| "it is once, all or none".to_owned())
}

fn time(text: &str) -> Result<SystemTime, String> {
    nexus_files::rfc3339::parse(text).ok_or_else(|| "it is a time such as 2026-01-31T12:00:00Z".to_owned())
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))
}
