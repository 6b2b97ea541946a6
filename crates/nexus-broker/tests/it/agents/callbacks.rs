//! Answers that are delivered to a program outside.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use nexus_broker::{BrokerError, BrokerErrorKind, CallerCallback, Envelope, SendOptions};
use nexus_core::CancelToken;

use super::{
    kit::{Kit, Running, Scripts, agent, caller},
    message, named,
};

/// What was said, without what it replies to.
fn said(envelope: &Envelope) -> String {
    envelope.payload.text().lines().last().unwrap_or_default().to_owned()
}

/// Fails on the first deliveries, refuses the first of what it is to refuse, and keeps what it is given.
#[derive(Debug, Default)]
struct Failing {
    failures: Mutex<u32>,
    /// A text, and how often it is refused.
    refused: Mutex<(&'static str, u32)>,
    delivered: Mutex<Vec<String>>,
}

#[async_trait]
impl CallerCallback for Failing {
    async fn deliver(&self, envelope: &Envelope) -> Result<(), BrokerError> {
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Err(BrokerError::new(BrokerErrorKind::Unavailable, "503", ""));
        }
        let mut refused = self.refused.lock().unwrap();
        if refused.1 > 0 && said(envelope) == refused.0 {
            refused.1 -= 1;
            return Err(BrokerError::new(BrokerErrorKind::Invalid, "422", ""));
        }
        self.delivered.lock().unwrap().push(said(envelope));
        Ok(())
    }
}

/// An agent that repeats what it is told.
fn echo() -> Scripts {
    Scripts::default()
        .with("echo", |puppet| async move { Ok(puppet.prompt.lines().last().unwrap_or_default().to_owned()) })
}

/// Delivers the answers to `texts`, which are all there before, while time passes.
async fn deliver(kit: &Kit, running: &Running, callback: &Arc<Failing>, texts: &[&str]) {
    for text in texts {
        running.broker.send(&caller(), &named("echo"), message(text), SendOptions::default()).await.unwrap();
    }
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while running.broker.store().waiting("caller.me", 10).await.unwrap().len() < texts.len() {
        assert!(tokio::time::Instant::now() < until, "the agent does not answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let drain = CancelToken::new();
    let serving = tokio::spawn({
        let (broker, callback, drain) = (running.broker.clone(), Arc::clone(callback), drain.clone());
        async move { broker.call_back("me", &*callback, &drain).await }
    });
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while callback.delivered.lock().unwrap().len() < texts.len() {
        assert!(tokio::time::Instant::now() < until, "{callback:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        kit.clock.by(Duration::from_millis(20));
    }
    drain.cancel();
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_delivered_in_order_and_again_after_a_failure() {
    let kit = Kit::new(echo());
    let running = kit.run().await;
    running.broker.configure(&agent("echo")).await.unwrap();
    let callback = Arc::new(Failing::default());
    *callback.failures.lock().unwrap() = 2;
    deliver(&kit, &running, &callback, &["one", "two", "three"]).await;
    assert_eq!(*callback.delivered.lock().unwrap(), ["one", "two", "three"]);
    assert_eq!(running.broker.inbox("me", 10).await.unwrap(), [], "what was delivered is not there twice");
    // After that they wait in the inbox.
    running.broker.send(&caller(), &named("echo"), message("four"), SendOptions::default()).await.unwrap();
    assert_eq!(said(&super::kit::inbox(&running.broker, 1).await[0]), "four");
    running.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_answer_keeps_no_other_waiting() {
    let kit = Kit::new(echo());
    let running = kit.run().await;
    running.broker.configure(&agent("echo")).await.unwrap();
    let callback = Arc::new(Failing::default());
    *callback.refused.lock().unwrap() = ("one", 3);
    deliver(&kit, &running, &callback, &["one", "two", "three"]).await;
    assert_eq!(*callback.delivered.lock().unwrap(), ["two", "three", "one"]);
    assert_eq!(running.broker.inbox("me", 10).await.unwrap(), []);
    running.drain().await;
}
