//! One turn of an agent: takes a message, runs the turn with it, and stores the answer.

mod end;
mod ongoing;
mod prompt;
mod run;
mod tools;

use std::{sync::Arc, time::Duration};

use nexus_core::CancelToken;

pub(crate) use self::ongoing::LEASE;
use self::{
    end::{after, finish, lost},
    ongoing::{OngoingTurn, TakenMessage},
};
use crate::{
    agent::{AgentDocument, AgentStatus, BegunTurn},
    broker::Broker,
    error::{BrokerError, BrokerErrorKind},
    message::{Address, MessagePriority, Payload, ReportedStatus},
    route::queue_of,
    store::Delivery,
};

/// Interval at which a turn checks whether its agent was stopped.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Checks per heartbeat, which also renews the leases of the turn.
const LOOKS_PER_HEARTBEAT: u32 = 15;
/// Time until an agent is checked again while a broker elsewhere runs it.
const WHILE_ELSEWHERE: Duration = Duration::from_secs(2);

/// Handles the messages of an agent until none is left, or until `drain` or `end` is cancelled. Cancelling `end` also
/// cancels the running turn.
pub(crate) async fn handle(
    broker: &Broker,
    name: &str,
    drain: &CancelToken,
    end: &CancelToken,
) -> Result<(), BrokerError> {
    let queue = queue_of(&Address::Agent(name.to_owned()));
    while !drain.is_cancelled() && !end.is_cancelled() {
        let record = broker.directory().find(name).await?;
        if record.is_some_and(|record| is_elsewhere(broker, &record) || !broker.has_machine_of(&record)) {
            broker.suspend(name, WHILE_ELSEWHERE);
            break;
        }
        let Some(delivery) = broker.store().take(&queue, MessagePriority::Low, LEASE).await? else { break };
        if !handle_message(broker, name, &queue, delivery, end).await? {
            break;
        }
    }
    Ok(())
}

/// Returns true if another broker runs a turn of the agent, by a recent heartbeat.
fn is_elsewhere(broker: &Broker, record: &AgentDocument) -> bool {
    let now = broker.options().clock.now();
    // After a sleep or a step of the clock, brokers renew their leases first. So trust no stale heartbeat before that.
    let may_be_alive = |turn: &BegunTurn| turn.is_alive(now) || broker.has_clock_stepped();
    record.turn.as_ref().is_some_and(|turn| turn.broker != broker.id() && may_be_alive(turn))
}

/// Handles one message. Returns false if the agent is suspended for now.
async fn handle_message(
    broker: &Broker,
    name: &str,
    queue: &str,
    delivery: Delivery,
    end: &CancelToken,
) -> Result<bool, BrokerError> {
    let Delivery { envelope, lease, deliveries, .. } = &delivery;
    let Some(record) = broker.directory().find(name).await? else {
        let message = format!("there is no agent {name:?}");
        return finish(
            broker,
            name,
            lease,
            envelope,
            Some(prompt::problem(&envelope.message_id, "no_agent", &message)),
        )
        .await;
    };
    // Check this even if the agent was stopped since: its turn had effects, and its record still shows the turn as running.
    if *deliveries > 1 && record.has_begun(&envelope.message_id) {
        return lost(broker, &record, lease, envelope).await;
    }
    if record.status == AgentStatus::Stopped {
        let message = format!("the agent {name:?} was stopped");
        return finish(
            broker,
            name,
            lease,
            envelope,
            Some(prompt::problem(&envelope.message_id, "agent_stopped", &message)),
        )
        .await;
    }
    if let Payload::StatusUpdate { status: ReportedStatus::Received | ReportedStatus::InProgress, .. } =
        &envelope.payload
    {
        // `list_agents` shows the report from the record of its author, so no turn is spent on it.
        return finish(broker, name, lease, envelope, None).await;
    }
    if !broker.count_turn(envelope).await? {
        let problem = prompt::problem(
            &envelope.message_id,
            "too_many_turns",
            &broker.too_many_turns(&envelope.chain()),
        );
        tracing::warn!(agent = name, root = %envelope.chain().root, "a message starts no turn: its chain has reached the limit of turns");
        return finish(broker, name, lease, envelope, Some(problem)).await;
    }
    let turn = match OngoingTurn::begin(broker, name, queue, delivery.clone()).await {
        Ok(turn) => Arc::new(turn),
        // Another broker began a turn first, or the agent was stopped meanwhile.
        Err(error) if error.kind == BrokerErrorKind::Conflict => {
            broker.store().put_back(lease).await?;
            broker.suspend(name, WHILE_ELSEWHERE);
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let ended = run::run(&turn, end).await;
    // Renew the leases meanwhile: storing the end may take long, because git reads every file.
    tokio::select! {
        done = after(&turn, ended) => done,
        () = keep_leases(&turn) => unreachable!("it goes on until it is dropped"),
    }
}

/// Renews the leases of a turn that has ended, while its end is stored.
async fn keep_leases(turn: &OngoingTurn) {
    loop {
        tokio::time::sleep(LOOK_EVERY * LOOKS_PER_HEARTBEAT).await;
        // Ignore the failure: finishing the message reports a lost lease.
        let _ = turn.renew().await;
        turn.beat().await;
    }
}
