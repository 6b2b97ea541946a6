//! A manager, two workers and a user, who send each other messages while they work. It needs no login: the model is simulated.
//!
//! `cargo run -p nexus-turn-broker --example broker` prints a line for each message, as `nexus broker run` does.

mod model;

use std::{sync::Arc, time::Duration};

use nexus::{BuildContext, CancelToken, Conversations, Router, SystemClock, registry};
use nexus_broker::{
    Address, Broker, BrokerOptions, BrokerSection, BrokerSettings, Envelope, LoggedEnvelope, MemoryIndex,
    MessagePriority, Payload, QueueLimits, SendOptions, SqliteStore, line,
};
use nexus_testkit::sim::{Dialect, Scenario, Sim};
use serde_json::Map;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Name of the user, who is a caller and not an agent.
const PERSON: &str = "person";
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// One agent. It starts the others.
const ROUTES: &str = "\
groups: { north: [north-model] }
backends:
  north-model: { kind: responses, vendor: north, base_url: URL, model: simulated }
types:
  talker: { group: north }
broker:
  agents:
    manager: { type: talker, instructions: You run the ferry., max_workers: 2 }
";

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    println!("No login needed: the model is simulated.\n");
    let home = tempfile::tempdir()?;
    let model = Sim::builder(Dialect::Responses, Scenario::text("")).answered_by(model::reply).start()?;
    let routes = ROUTES.replace("URL", &format!("{:?}", model.base_url()));
    let broker = open(&routes, home.path()).await?;

    let (drain, end) = (CancelToken::new(), CancelToken::new());
    let (runs, until) = (broker.clone(), drain.clone());
    let running = tokio::spawn(async move { runs.run(until, end).await });
    let result = tokio::time::timeout(PATIENCE, talk(&broker)).await;
    drain.cancel();
    running.await?;
    println!("\nwhat came back to the person:\n{}", result??.payload.text());
    for agent in broker.agents().await? {
        println!("{:8} {}", agent.name, agent.status.as_str());
    }
    Ok(())
}

/// Opens a broker with the agents of the configuration. It stores its messages below `home`.
async fn open(routes: &str, home: &std::path::Path) -> Result<Broker, AnyError> {
    let registry = registry().with_section(Arc::new(BrokerSection));
    let router = Router::from_str(routes, registry, BuildContext::in_home(home))?;
    let settings = BrokerSettings::of(&router)?;
    let folder = home.join("broker");
    let clock = Arc::new(SystemClock);
    let store = SqliteStore::open(folder.join("messages.db"), QueueLimits::default(), clock).await?;
    let mut options =
        BrokerOptions::new(Arc::new(store), router, Conversations::in_home(home), folder.clone());
    options.memory = Some(MemoryIndex::open(folder.join("memory.db"))?);
    let broker = Broker::new(options);
    for record in settings.records() {
        broker.configure(&record).await?;
    }
    Ok(broker)
}

/// Gives the manager a task as the user, prints each message, and stops the measuring. Returns the result of the manager.
async fn talk(broker: &Broker) -> Result<Envelope, AnyError> {
    let person = Address::Caller(PERSON.to_owned());
    let task = Payload::TaskAssignment {
        task_id: "sign".to_owned(),
        definition: "What does the sign of the ferry say, and how high is the water?".to_owned(),
        inputs: Map::new(),
        working_directory: None,
        required_tools: Vec::new(),
        other: Map::new(),
    };
    broker.send(&person, &Address::agent("manager")?, task, SendOptions::default()).await?;
    let (mut seen, mut is_said) = (0, false);
    loop {
        // Read the inbox before the log. Then the log contains every message that led to an answer in the inbox.
        let came = broker.inbox(PERSON, 10).await?;
        for logged in broker.store().log(seen, 100).await? {
            seen = logged.number;
            println!("{}", line(&logged));
            if !is_said && has_measured(&logged) {
                is_said = true;
                say_enough(broker, &person).await?;
            }
        }
        let is_last = |envelope: &Envelope| envelope.source_agent_id.agent_name() == Some("manager");
        if let Some(last) = came.into_iter().find(is_last) {
            return Ok(last);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns true if the worker `tides` reports its third measurement or a later one.
fn has_measured(logged: &LoggedEnvelope) -> bool {
    matches!(&logged.envelope.payload, Payload::StatusUpdate { percent: Some(percent), .. } if *percent >= 3)
}

/// Sends an urgent message to a worker while its turn runs.
async fn say_enough(broker: &Broker, person: &Address) -> Result<(), AnyError> {
    let text =
        Payload::Message { content: "That is enough.".to_owned(), in_reply_to: None, other: Map::new() };
    let urgent = SendOptions::default().with_priority(MessagePriority::Urgent);
    let sent = broker.send(person, &Address::agent("tides")?, text, urgent).await?;
    println!("  the person writes to tides, and is told: {}", sent.reach.as_str());
    Ok(())
}
