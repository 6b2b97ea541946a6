//! The command line of `nexus broker`.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Subcommand};
use nexus_broker::{Address, EnvelopeId, MessagePriority};
use serde_json::{Map, Value};

use super::{seconds, time_with_unit};

/// Text below the options of `nexus broker`.
pub(super) const BROKER_HELP: &str = "\
The section `broker` of nexus.yaml names the agents. Messages, agents and locks are stored in the folder `broker` of Nexus's home. `nexus \
broker run` runs the turns of the agents. Several of these commands, also several `run`, can share the folder.

`run`: SIGTERM or Ctrl-C drains: no further message is taken, and running turns finish; the second signal ends them.

Exit codes: 0 done, 1 failed (or no answer arrived in time), 2 bad command line or configuration.";

#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// Run the turns of agents until interrupted. Prints a line for each message
    Run {
        /// Maximum number of concurrent turns. Default: the configured number, else 4
        #[arg(long, value_name = "N")]
        turns: Option<NonZeroUsize>,
        /// Folder for AGENT_COMMUNICATIONS.log, ACTIVE_AGENTS.md and TASKS.md. Default: `broker` in Nexus's home
        #[arg(long, value_name = "FOLDER")]
        views: Option<PathBuf>,
        /// Accept signed trigger requests at this address, such as 127.0.0.1:8791. It speaks plain HTTP: put a TLS proxy in
        /// front of it if other machines send requests
        #[arg(long, value_name = "ADDRESS")]
        webhooks: Option<SocketAddr>,
    },
    /// Send a message. With --wait, print the answer
    Send(Box<SendArgs>),
    /// Print the messages in your inbox. Each message is printed once
    Inbox {
        /// Name of the inbox
        #[arg(long = "as", value_name = "NAME", default_value = "me", value_parser = caller)]
        caller: Address,
    },
    /// Print the agents, their progress and their waiting messages
    Status,
    /// Show agents, queues and new messages in the terminal, until Ctrl-C
    Watch {
        /// Seconds between two refreshes
        #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
        every: Duration,
    },
    /// Print the messages that were sent, oldest first
    Log,
    /// Stop an agent and its workers: their turns end, and they take no messages until they are started
    Stop {
        /// Name of the agent
        name: Address,
    },
    /// Start an agent that was stopped
    Start {
        /// Name of the agent
        name: Address,
        /// Run its turns on this machine from now on, in place of another machine of the fleet. Its sessions stay there
        #[arg(long)]
        here: bool,
    },
    /// Land a worker's commits on the branch that it was started from
    Land {
        /// The worker
        name: Address,
    },
    /// Remove a worker that has ended, with its files. The refs that retain its commits stay
    Clean {
        /// The worker
        name: Address,
        /// Remove it even if its commits are not landed
        #[arg(long)]
        unlanded: bool,
    },
}

/// Arguments of `nexus broker send`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SendArgs {
    /// An agent, agent:NAME:CONTEXT for one of its sessions, or manager-of:NAME
    pub(crate) to: Address,
    /// Text of the message. `-` reads standard input
    pub(crate) text: String,
    /// Send the message as a task with this id, and receive its result
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// low, normal, high or urgent. A person's input is urgent
    #[arg(long, value_name = "PRIORITY", default_value = "urgent", value_parser = priority)]
    pub(crate) priority: MessagePriority,
    /// Name of the sender, whose inbox receives the answers
    #[arg(long = "as", value_name = "NAME", default_value = "me", value_parser = caller)]
    pub(crate) caller: Address,
    /// Seconds to wait for the answer. Only this command receives it, even if other readers use the same inbox
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Discard the message if it has waited this long, such as 10m or 2h
    #[arg(long, value_name = "TIME", value_parser = time_with_unit)]
    pub(crate) expires: Option<Duration>,
    /// Id of the agent's message that this one answers
    #[arg(long, value_name = "ID", conflicts_with = "task")]
    pub(crate) reply_to: Option<EnvelopeId>,
    /// Input of the task, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = object, requires = "task")]
    pub(crate) inputs: Option<Map<String, Value>>,
    /// Id of this message: a message sent twice with one id is handled once. Default: a new id
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<EnvelopeId>,
}

fn priority(text: &str) -> Result<MessagePriority, String> {
    match text {
        "low" => Ok(MessagePriority::Low),
        "normal" => Ok(MessagePriority::Normal),
        "high" => Ok(MessagePriority::High),
        "urgent" => Ok(MessagePriority::Urgent),
        _ => Err("write low, normal, high or urgent".to_owned()),
    }
}

fn caller(name: &str) -> Result<Address, String> {
    format!("caller:{name}").parse().map_err(|error: nexus_broker::BrokerError| error.to_string())
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("it is not a JSON object: {error}"))
}
