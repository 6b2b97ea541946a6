//! `nexus broker`: agents that send each other messages.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use nexus::CancelToken;
use nexus_broker::{
    Address, AwaitedAnswer, Broker, Delivery, Envelope, EnvelopeId, LoggedEnvelope, MemoryIndex, Payload,
    PutOutcome, SendOptions, Views, line,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    EXIT_FAILED,
    args::{BrokerCommand, ConfigArgs, SendArgs},
    broker_home::{self, BrokerHome, StoreChanges},
    broker_run::BrokerRun,
    broker_state::{BrokerEvent, BrokerState, LOOK_AGAIN, PAGE},
    command_error::CommandError,
    input,
    interrupt::{self, Interrupts},
    output::{self, AnswerWriter, complain, printable, printable_lines, say, say_json},
    terminal,
    works::{self, WatchProgress, blocking},
};

/// Minimum pause between two checks of an inbox while a command waits for an answer.
const LOOK_EVERY: Duration = Duration::from_millis(200);
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

/// Runs the turns of agents until the second signal, or until the running turns have ended after the first.
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
    let folder = views.unwrap_or_else(broker_home::folder);
    let views = Views::begin(&folder).map_err(CommandError::failed)?;
    if !views.is_writer() {
        complain(format_args!(
            "another broker writes the views in {}: this broker takes over when the other has ended",
            printable(&folder.display().to_string())
        ));
    }
    let signals = |error| CommandError::deaf(&error);
    let mut interrupts = Interrupts::listen().map_err(signals)?;
    let (drain, end) = (CancelToken::new(), CancelToken::new());
    let run = BrokerRun { broker, memory, views, webhooks, drain: drain.clone(), end: end.clone() };
    let mut is_broken = false;
    let mut running =
        std::pin::pin!(run.until_drained(home, |event, text| out.event(|| event, || say(text))));
    loop {
        tokio::select! {
            ended = &mut running => {
                ended?;
                return Ok(ExitCode::SUCCESS);
            }
            () = output::broken(), if !is_broken => {
                is_broken = true;
                // A full disk loses the output alone, and turns continue. A reader that went away wants no more of it.
                if output::is_reader_gone() {
                    drain.cancel();
                }
            }
            came = interrupts.next() => {
                came.map_err(signals)?;
                if drain.is_cancelled() {
                    complain("the running turns are stopped");
                    end.cancel();
                    running.await?;
                    return Ok(interrupt::exit_code());
                }
                complain("no further message is taken, and running turns finish; press again to stop them");
                drain.cancel();
            }
        }
    }
}

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

impl LoggedMessage {
    fn of(logged: &LoggedEnvelope) -> Self {
        Self { number: logged.number, envelope: logged.envelope.clone(), text: printable(&line(logged)) }
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
