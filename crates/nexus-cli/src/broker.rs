//! `nexus broker`: agents that send each other messages.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

use nexus::{CancelToken, harness::run_blocking};
use nexus_broker::{
    Address, AgentDocument, AwaitedAnswer, Broker, Delivery, Envelope, EnvelopeId, HEARTBEAT_LASTS,
    LoggedEnvelope, MemoryIndex, Payload, PutOutcome, QueueStatus, SendOptions, Views, line,
    trigger::{Scheduler, SchedulerSettings, WebhookServer, WebhookSettings},
    unreadable_records,
};
use nexus_files::{counted, rfc3339};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    EXIT_FAILED,
    args::{BrokerCommand, ConfigArgs, SendArgs},
    broker_home::{self, BrokerHome, StoreChanges},
    callback::Callbacks,
    command_error::CommandError,
    conversation, input,
    interrupt::{self, Interrupts},
    output::{self, AnswerWriter, complain, printable, printable_lines, say, say_json},
    spoken_time::spoken_instant,
    terminal,
    works::{self, WatchProgress, blocking},
};

/// Minimum pause between two checks of an inbox while a command waits for an answer.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longest wait for a change of the store. A lease can lapse, and the writer of the views can end, without such a change.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Longest time between two updates of the views by their writer.
const SHOW_ANYWAY: Duration = Duration::from_secs(60);
/// Minimum pause between two updates of the output of `nexus broker run`.
const SHOW_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of messages in one read of the log.
const PAGE: usize = 500;
/// Number of messages in the watched view.
const LAST_MESSAGES: usize = 12;

/// Message that was sent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MessageReceipt {
    /// Id of the message.
    message_id: EnvelopeId,
    /// True if this command sent it; false if an earlier one did.
    is_new: bool,
    /// Time at which its target receives it, in words.
    reach: String,
}

/// State of a broker.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct BrokerState {
    /// Its agents.
    agents: Vec<AgentDocument>,
    /// Its queues.
    queues: Vec<QueueState>,
    /// Records that cannot be read, and why.
    unreadable: Vec<String>,
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

/// Message of the log of a broker.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LoggedMessage {
    /// Its number in the log.
    number: u64,
    #[serde(flatten)]
    envelope: Envelope,
    /// The message as one line of text.
    #[serde(skip)]
    text: String,
}

/// Agent that was changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedAgent {
    /// The agent.
    agent: String,
    /// The change, in words.
    outcome: String,
}

pub(crate) async fn broker(
    out: AnswerWriter,
    config: &ConfigArgs,
    command: BrokerCommand,
) -> Result<ExitCode, CommandError> {
    let home = BrokerHome::load(config)?;
    let settings = &home.settings;
    match command {
        BrokerCommand::Run { turns, views, webhooks } => {
            let turns = turns.map_or(settings.max_turns_at_once, std::num::NonZeroUsize::get);
            let memory = blocking(broker_home::memory).await?;
            let broker = home.open_to_run(turns, memory.clone()).await?;
            for (name, machine) in home.configure(&broker).await? {
                complain(format_args!(
                    "{name} is an agent of the machine {}, which runs its turns and stores its sessions; to \
                     run them on this machine, call `nexus broker start {name} --here`",
                    printable(&machine)
                ));
            }
            return run(out, broker, &home, memory, views, webhooks).await;
        }
        BrokerCommand::Send(send) => {
            let SendArgs { to, text, task, priority, caller, wait, expires, reply_to, inputs, id } = *send;
            if let (Address::Caller(name), Some(_)) = (&caller, wait)
                && settings.callers.contains_key(name)
            {
                return Err(CommandError::usage(format_args!(
                    "messages to the caller {name} are sent to its url: leave out --wait, or use another --as"
                )));
            }
            let broker = home.open_with_agents().await?;
            let payload = payload(text, task, inputs, reply_to)?;
            let id = id.unwrap_or_else(EnvelopeId::random);
            // Registers before the message is sent, since the answer may arrive at once.
            let awaited = wait.map(|_| broker.expect_answer(&id)).transpose()?;
            let mut options = SendOptions::default().with_priority(priority);
            options.expires_in = expires;
            options.message_id = Some(id);
            let sent = broker.send(&caller, &to, payload, options).await?;
            let (Some(wait), Some(awaited)) = (wait, awaited) else {
                let (message_id, reach) = (sent.message_id, sent.reach.as_str());
                let id = printable(message_id.as_str());
                let is_new = sent.outcome == PutOutcome::Stored;
                let text = match is_new {
                    true => format!("{id}: {reach}"),
                    false => format!("{id}: already sent, and not sent again"),
                };
                out.line(&MessageReceipt { message_id, is_new, reach: reach.to_owned() }, text);
                return Ok(ExitCode::SUCCESS);
            };
            return wait_for(out, &broker, &caller, &awaited, wait).await;
        }
        BrokerCommand::Inbox { caller } => {
            let broker = home.open().await?;
            let Address::Caller(name) = &caller else { return Ok(ExitCode::SUCCESS) };
            let mut is_empty = true;
            while let Some(delivery) = broker.take_from_inbox(name).await? {
                is_empty = false;
                // Standard output is closed, and the message is back in the inbox.
                if !hand_over(out, &broker, &delivery).await? {
                    break;
                }
            }
            if is_empty {
                out.nothing(format_args!("no message waits in the inbox of {name}"));
            }
        }
        BrokerCommand::Status => {
            let broker = home.open_with_agents().await?;
            let state = BrokerState::of(&broker, true).await?;
            out.show(&state, |state| {
                state.lines().iter().for_each(say);
                for error in &state.unreadable {
                    say(format_args!("cannot be read: {}", printable(error)));
                }
            });
        }
        BrokerCommand::Watch { every } => {
            return watch(out, &home.open_with_agents().await?, every).await;
        }
        BrokerCommand::Log => {
            let broker = home.open().await?;
            let page = async |last| {
                let page = broker.store().log(last, PAGE).await?;
                let next = page.last().map(|last| last.number);
                Ok((page.iter().map(LoggedMessage::of).collect(), Vec::new(), next))
            };
            let nothing = "no message was sent yet; `nexus broker send AGENT TEXT` sends one";
            works::list(out, page, |logged: &LoggedMessage| logged.text.clone(), nothing).await?;
        }
        BrokerCommand::Stop { name } => {
            let broker = home.open().await?;
            broker.stop(agent(&name)?).await?;
            changed(out, &name, "is stopped, with its workers");
        }
        BrokerCommand::Start { name, here } => {
            let broker = home.open().await?;
            if here {
                broker.move_here(agent(&name)?).await?;
            }
            home.configure(&broker).await?;
            broker.start(agent(&name)?).await?;
            changed(out, &name, "takes messages again");
        }
        BrokerCommand::Land { name } => {
            let outcome = home.open().await?.land(agent(&name)?).await?;
            let text = printable_lines(&outcome);
            out.line(&ChangedAgent { agent: name.to_string(), outcome }, text);
        }
        BrokerCommand::Clean { name, unlanded } => {
            let outcome = home.open().await?.clean(agent(&name)?, unlanded).await?;
            out.show(&ChangedAgent { agent: name.to_string(), outcome }, |changed| say(&changed.outcome));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn changed(out: AnswerWriter, name: &Address, outcome: &str) {
    let changed = ChangedAgent { agent: name.to_string(), outcome: outcome.to_owned() };
    out.line(&changed, format_args!("{name} {outcome}"));
}

/// Returns the name of an agent. Rejects every other address.
fn agent(address: &Address) -> Result<&str, CommandError> {
    match address {
        Address::Agent(name) => Ok(name),
        _ => Err(CommandError::usage(format_args!("{address} is not the name of an agent"))),
    }
}

async fn run(
    out: AnswerWriter,
    broker: Broker,
    home: &BrokerHome,
    memory: MemoryIndex,
    views: Option<PathBuf>,
    webhooks: Option<SocketAddr>,
) -> Result<ExitCode, CommandError> {
    if home.settings.agents.is_empty() {
        complain("nexus.yaml names no agents in its section `broker`: messages wait until it names some");
    }
    // Adds messages that are older than the index, and removes deleted ones.
    let captured = run_blocking(move || memory.capture_all(&conversation::store())).await;
    if let Ok(Err(error)) = captured {
        complain(printable_lines(&error.to_string()));
    }
    let folder = views.unwrap_or_else(broker_home::folder);
    let mut views = Views::begin(&folder).map_err(CommandError::failed)?;
    if !views.is_writer() {
        complain(format_args!(
            "another broker writes the views in {}: this broker takes over when the other has ended",
            printable(&folder.display().to_string())
        ));
    }
    let signals = |error| CommandError::deaf(&error);
    let mut interrupts = Interrupts::listen().map_err(signals)?;
    // One token for each of two interrupts: the first stops taking messages, the second ends the running turns.
    let (drain, end) = (CancelToken::new(), CancelToken::new());
    // Messages from before the start are not printed.
    let mut seen = last_number(&broker).await?;
    let (agents, messages) = (home.settings.agents.len(), home.place());
    let started = format!("{}; messages are in {messages}", counted(agents, "agent"));
    out.event(|| BrokerEvent::Started { agents, messages }, || say(started));
    let callbacks = Callbacks::of(&home.settings)?;
    let triggers = home.triggers(&broker);
    let scheduler = Scheduler::new(triggers.clone(), SchedulerSettings::default());
    let mut hooks = None;
    if let Some(address) = webhooks {
        let mut settings = WebhookSettings::default();
        settings.address = address;
        let server = WebhookServer::bind(triggers, broker_home::secrets(), settings).await;
        let server = server.map_err(|error| CommandError::failed(format_args!("{address}: {error}")))?;
        let url = format!("http://{}", server.address());
        let text = format!("webhooks are received at {url}");
        out.event(|| BrokerEvent::Webhooks { url }, || say(text));
        let drained = drain.clone();
        hooks = Some(server.serve(async move { drained.cancelled().await }));
    }
    let serving = async move {
        if let Some(hooks) = hooks {
            hooks.await;
        }
    };
    // Runs as a separate task, so that it continues while a handler below waits.
    let mut running = tokio::spawn({
        let (broker, drain, end) = (broker.clone(), drain.clone(), end.clone());
        async move {
            tokio::join!(
                broker.run(drain.clone(), end),
                scheduler.run(&drain),
                callbacks.run(&broker, &drain),
                serving
            )
        }
    });
    let (mut failing, mut changes) = (BTreeSet::new(), StoreChanges::of(&broker));
    let broke_down = |error| CommandError::failed(format_args!("the broker ended with a panic: {error}"));
    loop {
        tokio::select! {
            ended = &mut running => {
                ended.map_err(broke_down)?;
                break;
            }
            came = interrupts.next() => {
                came.map_err(signals)?;
                if drain.is_cancelled() {
                    complain("the running turns are stopped");
                    end.cancel();
                    running.await.map_err(broke_down)?;
                    return Ok(interrupt::exit_code());
                }
                complain("no further message is taken, and running turns finish; press again to stop them");
                drain.cancel();
            }
            () = changes.next(SHOW_PAUSE, if views.is_writer() { SHOW_ANYWAY } else { LOOK_AGAIN }) => {
                let shown = show_new(out, &broker, &mut seen).await.map_err(|error| error.to_string());
                let refreshed = views.refresh(&broker).await.map_err(|error| error.to_string());
                let failing_now: BTreeSet<String> = [shown.err(), refreshed.err()].into_iter().flatten().collect();
                // A failure that persists is reported once.
                for failure in failing_now.difference(&failing) {
                    complain(printable_lines(failure));
                }
                failing = failing_now;
            }
        }
    }
    // The last turns may have sent messages after the last look of the loop.
    show_new(out, &broker, &mut seen).await?;
    views.refresh(&broker).await?;
    Ok(ExitCode::SUCCESS)
}

async fn last_number(broker: &Broker) -> Result<u64, CommandError> {
    let mut last = 0;
    loop {
        let page = broker.store().log(last, PAGE).await?;
        let Some(found) = page.last() else { return Ok(last) };
        last = found.number;
    }
}

async fn show_new(out: AnswerWriter, broker: &Broker, seen: &mut u64) -> Result<(), CommandError> {
    loop {
        let page = broker.store().log(*seen, PAGE).await?;
        for logged in &page {
            *seen = logged.number;
            out.event(|| BrokerEvent::message(logged), || say(printable(&line(logged))));
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

/// Age of the last heartbeat from which on `status` reports it. A broker sends one every 15 s.
const SILENCE: Duration = Duration::from_secs(25);

/// Longest message that is read from standard input, in bytes. A store refuses much shorter ones.
const MAX_INPUT_BYTES: u64 = 4 << 20;

/// Builds the payload of a message. The text `-` stands for standard input.
fn payload(
    text: String,
    task: Option<String>,
    inputs: Option<Map<String, Value>>,
    in_reply_to: Option<EnvelopeId>,
) -> Result<Payload, CommandError> {
    let text = match text.as_str() {
        "-" => {
            input::ask_for_input("the message");
            nexus_files::read_text(std::io::stdin(), MAX_INPUT_BYTES).map_err(|error| {
                CommandError::failed(format_args!("standard input cannot be read: {error}"))
            })?
        }
        _ => text,
    };
    if text.trim().is_empty() {
        return Err(CommandError::usage("the message is empty"));
    }
    Ok(match task {
        Some(task_id) => Payload::TaskAssignment {
            task_id,
            definition: text,
            inputs: inputs.unwrap_or_default(),
            working_directory: None,
            required_tools: Vec::new(),
            other: Map::new(),
        },
        None => Payload::Message { content: text, in_reply_to, other: Map::new() },
    })
}

/// Waits for the answer to a message. Other messages stay in the inbox.
async fn wait_for(
    out: AnswerWriter,
    broker: &Broker,
    caller: &Address,
    awaited: &AwaitedAnswer,
    wait: Duration,
) -> Result<ExitCode, CommandError> {
    let Address::Caller(name) = caller else { return Ok(ExitCode::SUCCESS) };
    let until = Instant::now().checked_add(wait);
    let mut changes = StoreChanges::of(broker);
    loop {
        let looked = Instant::now();
        if let Some(delivery) = broker.take_answer(name, awaited).await? {
            let failed = matches!(delivery.envelope.payload, Payload::Error { .. });
            hand_over(out, broker, &delivery).await?;
            return Ok(if failed { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS });
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(CommandError::failed(format_args!(
                "no answer arrived within {} s: it will be in `nexus broker inbox`; check that `nexus broker \
                run` is running",
                wait.as_secs()
            )));
        }
        // A long inbox takes long to read, so the pause grows with the reading time.
        let next = changes.next(LOOK_EVERY.max(looked.elapsed() * 4), LOOK_AGAIN);
        let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let _ = tokio::time::timeout(left, next).await;
    }
}

/// Prints a message, then removes it from its inbox. Returns false if standard output is closed: the message then stays in the inbox.
async fn hand_over(out: AnswerWriter, broker: &Broker, delivery: &Delivery) -> Result<bool, CommandError> {
    out.show(&delivery.envelope, show);
    // Only the write above notices a closed pipe. Then the message returns to the inbox, since no reader has it.
    let is_shown = !output::is_broken();
    let store = broker.store();
    match is_shown {
        true => store.finish(&delivery.lease, &[]).await,
        false => store.put_back(&delivery.lease).await,
    }?;
    Ok(is_shown)
}

fn show(envelope: &Envelope) {
    // An answer needs the id of a question only.
    let id = match &envelope.payload {
        Payload::Query { .. } => format!(", id {}", printable(envelope.message_id.as_str())),
        _ => String::new(),
    };
    say(format_args!(
        "[{} from {}{id}]\n{}",
        envelope.payload.type_name(),
        envelope.source_agent_id,
        printable_lines(&envelope.payload.text())
    ));
}

impl BrokerEvent {
    fn message(logged: &LoggedEnvelope) -> Self {
        Self::Message { number: logged.number, envelope: Box::new(logged.envelope.clone()) }
    }
}

impl LoggedMessage {
    fn of(logged: &LoggedEnvelope) -> Self {
        Self { number: logged.number, envelope: logged.envelope.clone(), text: printable(&line(logged)) }
    }
}

impl QueueState {
    fn of(queue: QueueStatus) -> Self {
        Self { queue: queue.queue, waiting: queue.waiting, taken: queue.taken }
    }
}

impl BrokerState {
    /// Reads the agents and queues and, if `with_unreadable`, the records that cannot be read.
    async fn of(broker: &Broker, with_unreadable: bool) -> Result<Self, CommandError> {
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
    fn lines(&self) -> Vec<String> {
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

/// Redraws the view in place on a terminal. Elsewhere it prints each new state below the previous one.
async fn watch(out: AnswerWriter, broker: &Broker, every: Duration) -> Result<ExitCode, CommandError> {
    let is_terminal = terminal::takes_escapes(&std::io::stdout());
    let mut seen = 0;
    let mut last: Vec<String> = Vec::new();
    let (mut before, mut last_state) = (String::new(), None);
    works::watch(
        works::every(every.max(LOOK_EVERY)),
        || ExitCode::SUCCESS,
        async || {
            loop {
                let page = broker.store().log(seen, PAGE).await?;
                let Some(newest) = page.last() else { break };
                seen = newest.number;
                for logged in &page {
                    out.event(|| BrokerEvent::message(logged), || ());
                }
                last.extend(page.iter().map(|logged| printable(&line(logged))));
                last.drain(..last.len().saturating_sub(LAST_MESSAGES));
            }
            let state = BrokerState::of(broker, false).await?;
            if out.is_json() {
                if last_state.as_ref() != Some(&state) {
                    say_json(&BrokerEvent::State { state: state.clone() });
                    last_state = Some(state);
                }
                return Ok(WatchProgress::GoesOn);
            }
            let mut shown = state.lines();
            shown.push(String::new());
            shown.extend(last.iter().cloned());
            let shown = shown.join("\n");
            if shown != before {
                match is_terminal {
                    // Clears the screen and starts at its top.
                    true => say(format_args!("\x1b[H\x1b[2J{shown}")),
                    false => say(&shown),
                }
                before = shown;
            }
            Ok(WatchProgress::GoesOn)
        },
    )
    .await
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
