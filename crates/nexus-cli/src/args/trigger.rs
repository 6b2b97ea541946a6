//! The command line of `nexus trigger`.

use std::{path::PathBuf, time::SystemTime};

use clap::{Args as ClapArgs, Subcommand};
use nexus_broker::{
    Address,
    trigger::{MissedRule, TriggerId},
};
use serde_json::Value;

/// Text below the options of `nexus trigger`.
pub(super) const TRIGGER_HELP: &str = "\
Each firing is a message to the agent. `nexus broker run` fires triggers at their times, for files and for reports, and with --webhooks also for \
requests that are signed by the Standard Webhooks specification (webhook-id, webhook-timestamp, webhook-signature). Each firing happens once, also \
with several brokers.";

#[derive(Debug, Subcommand)]
pub(crate) enum TriggerCommand {
    /// Fire at times, such as '30 9 * * 1-5'
    Cron {
        #[command(flatten)]
        whose: TriggerArgs,
        /// Minute, hour, day of month, month, day of week; or a shorthand such as @daily
        expression: String,
        /// Instruction for the agent
        action: String,
        /// Time zone
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        zone: String,
        /// Rule for missed times: fire once, all (the newest 100) or none
        #[arg(long, value_name = "RULE", default_value = "once", value_parser = missed)]
        missed: MissedRule,
        /// Maximum delay of each firing, in seconds. Every broker computes the same delay
        #[arg(long, value_name = "SECONDS", default_value_t = 0)]
        jitter: u32,
    },
    /// Fire once, at a time such as 2026-01-31T12:00:00Z
    At {
        #[command(flatten)]
        whose: TriggerArgs,
        /// Time in UTC
        #[arg(value_parser = time)]
        time: SystemTime,
        /// Instruction for the agent
        action: String,
    },
    /// Fire on an event, which `nexus trigger fire` sends
    Event {
        #[command(flatten)]
        whose: TriggerArgs,
        /// Name of the event
        name: String,
        /// Instruction for the agent
        action: String,
    },
    /// Fire when a file, or a file in a folder, changes and then stays unchanged for half a second
    File {
        #[command(flatten)]
        whose: TriggerArgs,
        /// File or folder to watch
        path: PathBuf,
        /// Instruction for the agent
        action: String,
        /// Glob of the files to watch in the folder, such as *.csv
        #[arg(long, value_name = "GLOB")]
        pattern: Option<String>,
    },
    /// Fire on a signed request. The secret is printed once
    Webhook {
        #[command(flatten)]
        whose: TriggerArgs,
        /// Instruction for the agent
        action: String,
        /// Environment variable of the broker that contains the secret. Default: a new secret, stored in a file
        #[arg(long, value_name = "NAME")]
        secret_environment: Option<String>,
    },
    /// Fire when an agent reports that a task has ended
    Completion {
        #[command(flatten)]
        whose: TriggerArgs,
        /// Instruction for the agent
        action: String,
        /// Only tasks of this agent. Default: any agent
        #[arg(long, value_name = "NAME")]
        of_agent: Option<String>,
        /// Only this task. Default: any task
        #[arg(long, value_name = "ID")]
        of_task: Option<String>,
    },
    /// List the triggers
    List,
    /// Send an event to the triggers that wait for it
    Fire {
        /// Name of the event
        name: String,
        /// Id of the event: an event sent twice with one id fires once. Default: a new id
        #[arg(long, value_name = "ID")]
        id: Option<String>,
        /// Data of the event, as JSON. The agent gets it as data, never as an instruction
        #[arg(long, value_name = "JSON", value_parser = json)]
        data: Option<Value>,
    },
    /// Enable a trigger from now on
    Enable {
        /// The trigger
        id: TriggerId,
    },
    /// Disable a trigger
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
    /// Agent that handles the message
    pub(crate) agent: String,
    /// Session of the agent. Default: main
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) session: Option<String>,
    /// Id of the trigger. Default: a random id
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<TriggerId>,
}

impl TriggerArgs {
    /// Returns the address that receives the message of a firing.
    pub(crate) fn target(&self) -> Result<Address, nexus_broker::BrokerError> {
        match &self.session {
            Some(context) => format!("agent:{}:{context}", self.agent).parse(),
            None => Address::agent(&self.agent),
        }
    }
}

impl TriggerCommand {
    /// Returns the common arguments of a command that creates a trigger.
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
    serde_json::from_value(Value::String(text.to_owned()))
        .map_err(|_| "write one of once, all or none".to_owned())
}

fn time(text: &str) -> Result<SystemTime, String> {
    nexus_files::rfc3339::parse(text).ok_or_else(|| "write a time such as 2026-01-31T12:00:00Z".to_owned())
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("it is not valid JSON: {error}"))
}
