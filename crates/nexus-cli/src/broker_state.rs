//! State and events of a broker, as the command shows them.

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime},
};

use nexus_broker::{
    AgentDocument, Broker, Envelope, HEARTBEAT_LASTS, LoggedEnvelope, QueueStatus, unreadable_records,
};
use nexus_files::rfc3339;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{command_error::CommandError, output::printable, spoken_time::spoken_instant};

/// Longest wait for a change of the store. A lease can lapse, and the writer of the views can end, without such a change.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Maximum number of messages in one read of the log.
pub(crate) const PAGE: usize = 500;
/// Age of the last heartbeat from which on `status` reports it. A broker sends one every 15 s.
const SILENCE: Duration = Duration::from_secs(25);

/// State of a broker.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct BrokerState {
    /// Its agents.
    agents: Vec<AgentDocument>,
    /// Its queues.
    queues: Vec<QueueState>,
    /// Records that cannot be read, and why.
    pub(crate) unreadable: Vec<String>,
}

/// State of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct QueueState {
    /// Its name.
    queue: String,
    /// Number of waiting messages by priority: low, normal, high, urgent.
    waiting: [u64; 4],
    /// Number of messages that are leased to a reader.
    taken: u64,
}

/// Event of `nexus broker run` and of `nexus broker watch`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum BrokerEvent {
    /// The broker has started.
    Started {
        /// Number of agents in the configuration.
        agents: usize,
        /// Location of the messages, in words.
        messages: String,
    },
    /// The broker accepts signed requests.
    Webhooks {
        /// URL of the listener.
        url: String,
    },
    /// An entry was added to the log of messages.
    Message {
        /// Its number in the log.
        number: u64,
        /// The message.
        envelope: Box<Envelope>,
    },
    /// The state of agents or queues has changed.
    State {
        /// The new state.
        state: BrokerState,
    },
}

impl BrokerEvent {
    pub(crate) fn message(logged: &LoggedEnvelope) -> Self {
        Self::Message { number: logged.number, envelope: Box::new(logged.envelope.clone()) }
    }
}

impl QueueState {
    fn of(queue: QueueStatus) -> Self {
        Self { queue: queue.queue, waiting: queue.waiting, taken: queue.taken }
    }
}

impl BrokerState {
    /// Reads the agents and queues and, if `with_unreadable`, the records that cannot be read.
    pub(crate) async fn of(broker: &Broker, with_unreadable: bool) -> Result<Self, CommandError> {
        let agents = broker.agents().await?;
        let queues = broker.store().queues().await?.into_iter().map(QueueState::of).collect();
        let unreadable = match with_unreadable {
            true => unreadable_records(&**broker.store()).await?,
            false => Vec::new(),
        };
        let unreadable = unreadable.into_iter().map(|error| error.message).collect();
        Ok(Self { agents, queues, unreadable })
    }

    /// Describes the agents with their waiting messages, and the inboxes.
    pub(crate) fn lines(&self) -> Vec<String> {
        lines(&self.agents, &self.queues)
    }
}

fn lines(agents: &[AgentDocument], queues: &[QueueState]) -> Vec<String> {
    let waiting = |name: &str| {
        queues.iter().find(|queue| queue.queue == name).map_or(0, |queue| queue.waiting.iter().sum::<u64>())
    };
    let now = SystemTime::now();
    let width = agents.iter().map(|agent| agent.name.len() + 2 * agent.depth as usize).max().unwrap_or(0);
    let mut lines: Vec<_> = agents
        .iter()
        .map(|agent| {
            let name = format!("{}{}", "  ".repeat(agent.depth as usize), agent.name);
            let mut line = format!(
                "{name:width$}  {:8}  {} waiting",
                agent.status.as_str(),
                waiting(&format!("agent.{}", agent.name))
            );
            if let Some(turn) = &agent.turn {
                let _ = write!(line, ", at work since {}", spoken_instant(turn.began_at, now));
                let _ = write!(line, "{}", unheard(turn.heartbeat_at, now));
            }
            if let Some(report) = &agent.report {
                let percent = report.percent.map_or_else(String::new, |percent| format!(" {percent} %"));
                let _ = write!(line, ", says {}{percent}", report.status.as_str());
            }
            if let Some(kept) = agent.tree.as_ref().and_then(|tree| tree.refs.last()) {
                let _ = write!(line, ", stored as {kept}");
            }
            printable(&line)
        })
        .collect();
    if agents.is_empty() {
        lines.push("no agents exist: name some in the section `broker` of nexus.yaml".to_owned());
    }
    for queue in queues {
        if let Some(name) = queue.queue.strip_prefix("caller.") {
            lines.push(format!("inbox of {name}: {} waiting", queue.waiting.iter().sum::<u64>()));
        }
    }
    lines
}

/// Returns the reason why an agent waits if its broker has not sent a heartbeat lately, else an empty text.
fn unheard(heartbeat_at: SystemTime, now: SystemTime) -> String {
    let silence = now.duration_since(heartbeat_at).unwrap_or_default();
    if silence < SILENCE {
        return String::new();
    }
    let (heard, given_up) = (rfc3339::seconds(heartbeat_at), heartbeat_at + HEARTBEAT_LASTS);
    // Fixed times: `watch` prints a state again only if it changes.
    match given_up > now {
        true => format!(
            "; its broker was last heard of at {heard}: if it was killed, another one reports the turn as lost after {}",
            rfc3339::seconds(given_up)
        ),
        false => format!(
            "; its broker was last heard of at {heard}: the next `nexus broker run` reports the turn as lost and continues"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_whose_broker_is_silent_says_what_it_waits_for() {
        let now = SystemTime::now();
        let after = |seconds| unheard(now - Duration::from_secs(seconds), now);
        assert_eq!(after(0), "");
        assert_eq!(after(10), "");
        assert!(
            after(30).contains("if it was killed, another one reports the turn as lost after "),
            "{}",
            after(30)
        );
        assert!(after(600).contains("the next `nexus broker run`"), "{}", after(600));
        // A clock that was set back says nothing.
        assert_eq!(unheard(now + Duration::from_secs(90), now), "");
    }
}
