//! Sessions over each store: made by turns, forked at a message, and both go on. Messages between agents rest in the store, sessions in files: what
//! is read of a session is the same over both.

use std::sync::Arc;

use nexus_broker::{
    AgentStatus, BrokerErrorKind, BrokerStore, DocumentKind, ExpectedRevision, JetStreamStore, Payload,
    QueueLimits, SendOptions, SessionKey, Sessions,
};
use nexus_conversations::{ConversationMessage, Conversations};
use nexus_core::{Clock, PromptBlock};
use nexus_fleet::{Fleet, FleetSettings};
use nexus_testkit::nats::NatsServer;
use serde_json::{Map, json};

use super::kit::message;
use crate::agents::kit::{Kit, Running, Scripts, agent, caller, inbox, until_status};

/// An agent that says how many messages it is shown of its session, and the last of them.
fn echo() -> Scripts {
    Scripts::default().with("echo", |puppet| async move {
        let shown = puppet.prompt.matches("[message from caller:me").count();
        Ok(format!("{shown}: {}", puppet.prompt.lines().last().unwrap_or_default()))
    })
}

/// The store on a server, by the clock of a kit.
async fn on(server: &NatsServer, kit: &Kit) -> Arc<dyn BrokerStore> {
    let settings = FleetSettings { servers: vec![server.url()], ..FleetSettings::default() };
    let (fleet, clock): (_, Arc<dyn Clock>) = (Fleet::new(settings).unwrap(), kit.clock.clone());
    Arc::new(JetStreamStore::open(&fleet, QueueLimits::default(), clock).await.unwrap())
}

/// What a session says, without what each run draws anew: the ids of messages.
fn read(conversations: &Conversations, key: &SessionKey) -> Vec<String> {
    let conversation = conversations.load(&key.conversation()).unwrap();
    let last_line = |text: &str| text.lines().last().unwrap_or_default().to_owned();
    let texts = conversation.messages().map(|message| match message {
        ConversationMessage::User { content } => {
            let text = content.iter().filter_map(|block| match block {
                PromptBlock::Text { text } => Some(text.as_str()),
                _ => None,
            });
            format!("user: {}", last_line(&text.collect::<String>()))
        }
        ConversationMessage::Assistant { text, .. } => format!("agent: {text}"),
        other => panic!("{other:?}"),
    });
    texts.collect()
}

/// Says something in a session, and waits until the agent has answered and is done.
async fn say(running: &Running, to: &SessionKey, content: &str) -> String {
    let options = SendOptions::default();
    let payload = Payload::Message { content: content.to_owned(), in_reply_to: None, other: Map::new() };
    running.broker.send(&caller(), &to.address(), payload, options).await.unwrap();
    let answers = inbox(&running.broker, 1).await;
    until_status(&running.broker, "echo", AgentStatus::Started).await;
    let Payload::Message { content, .. } = &answers[0].payload else { panic!("{answers:?}") };
    content.clone()
}

/// What the two sessions say, and what was answered, in turns over a store.
async fn forked(kit: &Kit, store: Option<Arc<dyn BrokerStore>>) -> [Vec<String>; 3] {
    let mut options = kit.broker().await.options().clone();
    if let Some(store) = store {
        options.store = store;
    }
    let running = kit.run_with(options).await;
    running.broker.configure(&agent("echo")).await.unwrap();
    let [parent, child] = ["main", "second"].map(|context| format!("agent:echo:{context}").parse().unwrap());
    let mut answered = Vec::new();
    for content in ["one", "two", "three"] {
        answered.push(say(&running, &parent, content).await);
    }
    let (conversations, folder) = (Conversations::in_home(kit.folder.path()), kit.folder.path().to_owned());
    let (from, to) = (parent.clone(), child.clone());
    let fork = tokio::task::spawn_blocking(move || {
        Sessions::new(Conversations::in_home(&folder)).fork(&from, &to, Some(4)).unwrap()
    });
    assert_eq!(fork.await.unwrap().messages, 4);
    for (session, content) in [(&child, "left"), (&parent, "four"), (&child, "left again")] {
        answered.push(say(&running, session, content).await);
    }
    running.drain().await;
    [read(&conversations, &parent), read(&conversations, &child), answered]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_session_that_is_forked_reads_the_same_over_both_stores() {
    let in_file = forked(&Kit::new(echo()), None).await;
    let kit = Kit::new(echo());
    let server = NatsServer::start().await;
    let store = on(&server, &kit).await;
    let on_server = forked(&kit, Some(store)).await;
    assert_eq!(in_file, on_server);
    let [parent, child, answered] = in_file;
    assert_eq!(answered, ["1: one", "2: two", "3: three", "3: left", "4: four", "4: left again"]);
    let both = ["user: one", "agent: 1: one", "user: two", "agent: 2: two"];
    let of_parent = ["user: three", "agent: 3: three", "user: four", "agent: 4: four"];
    let of_child = ["user: left", "agent: 3: left", "user: left again", "agent: 4: left again"];
    assert_eq!(parent, [both, of_parent].concat());
    assert_eq!(child, [both, of_child].concat());
}

/// An agent answers while the record of another cannot be read.
async fn goes_on_without_an_unreadable_agent(kit: &Kit, store: Option<Arc<dyn BrokerStore>>) {
    let mut options = kit.broker().await.options().clone();
    if let Some(store) = store {
        options.store = store;
    }
    let store = Arc::clone(&options.store);
    let mut newer = serde_json::to_value(agent("newer")).unwrap();
    newer["status"] = json!("pondering");
    store.write(DocumentKind::Agent, "newer", ExpectedRevision::Absent, &newer).await.unwrap();
    // A message waits for it.
    store.put("agent.newer", &message("for-newer", &*kit.clock)).await.unwrap();
    let running = kit.run_with(options).await;
    running.broker.configure(&agent("echo")).await.unwrap();
    assert_eq!(say(&running, &"agent:echo:main".parse().unwrap(), "one").await, "1: one");
    let names: Vec<_> = running.broker.agents().await.unwrap().into_iter().map(|agent| agent.name).collect();
    assert_eq!(names, ["echo"]);
    let unreadable = nexus_broker::unreadable_records(&*store).await.unwrap();
    assert_eq!(unreadable.len(), 1, "{unreadable:?}");
    assert_eq!(unreadable[0].kind, BrokerErrorKind::Damaged);
    assert!(unreadable[0].message.contains("newer") && unreadable[0].message.contains("pondering"));
    // Its name stays taken, and its message is kept.
    let mut known = agent("newer");
    known.kind = "echo".to_owned();
    assert_eq!(running.broker.configure(&known).await.unwrap_err().kind, BrokerErrorKind::Damaged);
    running.drain().await;
    let queues = store.queues().await.unwrap();
    let queue = queues.iter().find(|queue| queue.queue == "agent.newer").expect("it is kept");
    assert_eq!(queue.waiting.iter().sum::<u64>() + queue.taken, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_answers_while_the_record_of_another_cannot_be_read() {
    goes_on_without_an_unreadable_agent(&Kit::new(echo()), None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn an_agent_answers_while_the_record_of_another_cannot_be_read_on_a_server() {
    let (kit, server) = (Kit::new(echo()), NatsServer::start().await);
    let store = on(&server, &kit).await;
    goes_on_without_an_unreadable_agent(&kit, Some(store)).await;
}
