//! Answers that are delivered to a program outside.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use nexus_broker::{BrokerError, BrokerErrorKind, CallerCallback, Envelope, SendOptions};
use nexus_core::CancelToken;

use crate::{
    kit::{Kit, Scripts, agent, caller},
    message, named,
};

/// What was said, without what it replies to.
fn said(envelope: &Envelope) -> String {
    envelope.payload.text().lines().last().unwrap_or_default().to_owned()
}

/// Fails on the first deliveries, and keeps what it is given.
#[derive(Debug, Default)]
struct Failing {
    failures: Mutex<u32>,
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
        self.delivered.lock().unwrap().push(said(envelope));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_delivered_in_order_and_again_after_a_failure() {
    let scripts = Scripts::default().with("echo", |puppet| async move {
        Ok(puppet.prompt.lines().last().unwrap_or_default().to_owned())
    });
    let kit = Kit::new(scripts);
    let running = kit.run().await;
    running.broker.configure(&agent("echo")).await.unwrap();
    let callback = Arc::new(Failing::default());
    *callback.failures.lock().unwrap() = 2;
    let drain = CancelToken::new();
    let serving = tokio::spawn({
        let (broker, callback, drain) = (running.broker.clone(), Arc::clone(&callback), drain.clone());
        async move { broker.call_back("me", &*callback, &drain).await }
    });
    for text in ["one", "two", "three"] {
        running.broker.send(&caller(), &named("echo"), message(text), SendOptions::default()).await.unwrap();
    }
    let until = tokio::time::Instant::now() + Duration::from_secs(60);
    while callback.delivered.lock().unwrap().len() < 3 {
        assert!(tokio::time::Instant::now() < until, "{callback:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drain.cancel();
    serving.await.unwrap();
    assert_eq!(*callback.delivered.lock().unwrap(), ["one", "two", "three"]);
    assert_eq!(running.broker.inbox("me", 10).await.unwrap(), [], "what was delivered is not there twice");
    // After that they wait in the inbox.
    running.broker.send(&caller(), &named("echo"), message("four"), SendOptions::default()).await.unwrap();
    assert_eq!(said(&crate::kit::inbox(&running.broker, 1).await[0]), "four");
    running.drain().await;
}
