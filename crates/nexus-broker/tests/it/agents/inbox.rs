//! Programs that share an inbox, each with an answer of its own.

use nexus_broker::{Broker, EnvelopeId, Payload, SendOptions};

use super::{
    agent,
    kit::{Kit, Scripts, caller},
    message, named,
};

async fn send(broker: &Broker, text: &str, id: &EnvelopeId) {
    let mut options = SendOptions::default();
    options.message_id = Some(id.clone());
    broker.send(&caller(), &named("echo"), message(text), options).await.unwrap();
}

/// Waits until so many messages are in the inbox.
async fn until_there(broker: &Broker, count: usize) {
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while broker.store().waiting("caller.me", 10).await.unwrap().len() < count {
        assert!(tokio::time::Instant::now() < until, "the answers did not come");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn said(payload: &Payload) -> String {
    payload.text().lines().last().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_has_the_answer_that_it_waits_for_and_the_inbox_has_the_rest() {
    let scripts = Scripts::default().with("echo", |puppet| async move {
        Ok(puppet.prompt.lines().last().unwrap_or_default().to_owned())
    });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    let broker = running.broker.clone();
    broker.configure(&agent("echo")).await.unwrap();
    let [one, two, three] = ["one", "two", "three"].map(|id| id.parse::<EnvelopeId>().unwrap());
    let (first, second) = (broker.expect_answer(&one).unwrap(), broker.expect_answer(&two).unwrap());
    assert!(broker.take_answer("me", &first).await.unwrap().is_none());
    for (id, text) in [(&one, "1"), (&two, "2"), (&three, "3")] {
        send(&broker, text, id).await;
    }
    until_there(&broker, 3).await;
    // The inbox leaves what is waited for.
    let rest = broker.take_from_inbox("me").await.unwrap().unwrap();
    assert_eq!(said(&rest.envelope.payload), "3");
    broker.store().finish(&rest.lease, &[]).await.unwrap();
    assert!(broker.take_from_inbox("me").await.unwrap().is_none());
    // The later one first: the other stays.
    for (awaited, text) in [(&second, "2"), (&first, "1")] {
        let answer = broker.take_answer("me", awaited).await.unwrap().unwrap();
        assert_eq!(said(&answer.envelope.payload), text);
        broker.store().finish(&answer.lease, &[]).await.unwrap();
    }
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_one_that_waits_no_more_is_in_the_inbox() {
    let scripts = Scripts::default().with("echo", |_| async move { Ok("Yes.".to_owned()) });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    let broker = running.broker.clone();
    broker.configure(&agent("echo")).await.unwrap();
    let id = EnvelopeId::random();
    let awaited = broker.expect_answer(&id).unwrap();
    send(&broker, "Well?", &id).await;
    until_there(&broker, 1).await;
    assert!(broker.take_from_inbox("me").await.unwrap().is_none());
    drop(awaited);
    // Of one that was killed the mark stays, which no program has locked.
    let waiting = kit.folder.path().join("broker/waiting");
    std::fs::write(waiting.join("dead.lock"), id.as_str()).unwrap();
    let answer = broker.take_from_inbox("me").await.unwrap().unwrap();
    assert_eq!(said(&answer.envelope.payload), "Yes.");
    assert_eq!(std::fs::read_dir(waiting).unwrap().count(), 0);
    // It was not shown to anybody: it is there again.
    broker.store().put_back(&answer.lease).await.unwrap();
    assert!(broker.take_from_inbox("me").await.unwrap().is_some());
    running.drain().await;
}
