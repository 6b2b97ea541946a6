//! Turns that end in other ways than by themselves, and what of them is left.

use std::time::Duration;

use nexus_broker::SendOptions;
use nexus_core::CancelToken;

use crate::{
    kit::{Kit, Scripts, agent, caller},
    message, named,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_ended_at_once_does_not_go_on_looking() {
    let kit = Kit::new(Scripts::default().with("echo", |_| async move { Ok("done".to_owned()) }));
    let broker = kit.broker().await;
    broker.configure(&agent("echo")).await.unwrap();
    broker.send(&caller(), &named("echo"), message("Go."), SendOptions::default()).await.unwrap();
    let end = CancelToken::new();
    end.cancel();
    let ran = tokio::time::timeout(Duration::from_secs(30), broker.run(CancelToken::new(), end)).await;
    assert!(ran.is_ok(), "it runs on");
}
