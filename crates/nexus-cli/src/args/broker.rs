//! The command line of `nexus broker`.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, Subcommand};
use nexus_broker::{Address, EnvelopeId, MessagePriority};
use serde_json::{Map, Value};

use super::{seconds, time_with_unit};

/// What follows the options of `nexus broker`.
pub(super) const BROKER_HELP: &str = "\
Agents are named in the section `broker` of nexus.yaml. Messages, agents and locks are in `broker` of Nexus's home; `nexus broker run`
has the turns of agents run, and any number of these commands, also of several `run`, share them.

`run`: SIGTERM or Ctrl-C drains: no further message is taken, and turns that run go on to their end; the second one ends them.

Exit codes: 0 done, 1 it could not be done (or no answer came in time), 2 bad command line or configuration.";

#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// Have the turns of agents run, until it is ended. Prints a line for each message
    Run {
        /// Turns at once. Default: as the configuration says, else 4
        #[arg(long, value_name = "N")]
        turns: Option<NonZeroUsize>,
        /// Where AGENT_COMMUNICATIONS.log, ACTIVE_AGENTS.md and TASKS.md are kept. Default: `broker` of Nexus's home
        #[arg(long, value_name = "FOLDER")]
        views: Option<PathBuf>,
        /// Take signed requests for triggers at this address, such as 127.0.0.1:8791. It speaks no TLS: beyond this machine it stands behind
        /// a proxy that does
        #[arg(long, value_name = "ADDRESS")]
        webhooks: Option<SocketAddr>,
    },
    /// Send a message, and with --wait print the answer
    Send(Box<SendArgs>),
    /// Print the messages that wait for you. Each is given once
    Inbox {
        /// Whose
        #[arg(long = "as", value_name = "NAME", default_value = "me", value_parser = caller)]
        caller: Address,
    },
    /// Print the agents, how far they are, and what waits
    Status,
    /// Show agents, queues and new messages in the terminal, until Ctrl-C
    Watch {
        /// How often to look, in seconds
        #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
        every: Duration,
    },
    /// Print what was sent, oldest first
    Log,
    /// Stop an agent and its workers: their turns end, and they take no further message until they are started
    Stop {
        /// The agent
        name: Address,
    },
    /// Have an agent that was stopped take messages again
    Start {
        /// The agent
        name: Address,
        /// Have this machine run its turns from now on, where another one of the fleet did. Its sessions stay there
        #[arg(long)]
        here: bool,
    },
    /// Put what a worker made onto the branch that it was started from
    Land {
        /// The worker
        name: Address,
    },
    /// Remove a worker that has ended, with its files. The refs that keep its commits stay
    Clean {
        /// The worker
        name: Address,
        /// Also where what it made is not landed
        #[arg(long)]
        unlanded: bool,
    },
}

/// What follows `nexus broker send`.
#[derive(Debug, ClapArgs)]
pub(crate) struct SendArgs {
    /// An agent, agent:NAME:CONTEXT for one of its sessions, or manager-of:NAME
    pub(crate) to: Address,
    /// What is said. `-` reads standard input
    pub(crate) text: String,
    /// Give it as a task of this id, whose result comes back
    #[arg(long, value_name = "ID")]
    pub(crate) task: Option<String>,
    /// low, normal, high or urgent. A person's input is urgent
    #[arg(long, value_name = "PRIORITY", default_value = "urgent", value_parser = priority)]
    pub(crate) priority: MessagePriority,
    /// Who sends it: answers are in the inbox of this name
    #[arg(long = "as", value_name = "NAME", default_value = "me", value_parser = caller)]
    pub(crate) caller: Address,
    /// How many seconds to wait for the answer. It is left to this command, also where others wait for answers in the same inbox
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Have the message not handled any more when it has waited so long, such as 10m or 2h
    #[arg(long, value_name = "TIME", value_parser = time_with_unit)]
    pub(crate) expires: Option<Duration>,
    /// The message of an agent that this answers, by its id
    #[arg(long, value_name = "ID", conflicts_with = "task")]
    pub(crate) reply_to: Option<EnvelopeId>,
    /// What the task needs to know, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = object, requires = "task")]
    pub(crate) inputs: Option<Map<String, Value>>,
    /// Tells this message from others: sent twice, it is handled once. Default: a new one
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<EnvelopeId>,
}

fn priority(text: &str) -> Result<MessagePriority, String> {
    match text {
        "low" => Ok(MessagePriority::Low),
        "normal" => Ok(MessagePriority::Normal),
        "high" => Ok(MessagePriority::High),
        "urgent" => Ok(MessagePriority::Urgent),
        _ => Err("it is low, normal, high or urgent".to_owned()),
    }
}

fn caller(name: &str) -> Result<Address, String> {
    format!("caller:{name}").parse().map_err(|error: nexus_broker::BrokerError| error.to_string())
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("it is no JSON object: {error}"))
}
