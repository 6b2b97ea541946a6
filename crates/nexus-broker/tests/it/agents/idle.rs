//! A broker that has nothing to do.

use std::{sync::atomic::Ordering, time::Duration};

use nexus_broker::SendOptions;
use tokio::time::{sleep, timeout};

use super::{
    kit::{Kit, Scripts, agent, caller, inbox},
    message, named,
    watched_store::WatchedStore,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_messages_waits_for_a_change_of_the_file() {
    let kit = Kit::new(Scripts::default().with("echo", |_| async { Ok("the answer".to_owned()) }));
    let mut options = kit.broker().await.options().clone();
    let store = WatchedStore::over(options.store, Duration::ZERO);
    options.store = std::sync::Arc::clone(&store) as _;
    let running = kit.run_with(options).await;
    // Another connection, as that of another process.
    let other = kit.broker().await;
    other.configure(&agent("echo")).await.unwrap();
    for _ in 0..2 {
        sleep(Duration::from_secs(1)).await;
        let before = store.looked.load(Ordering::SeqCst);
        sleep(Duration::from_secs(3)).await;
        let looks = store.looked.load(Ordering::SeqCst) - before;
        assert!(looks <= 2, "it looked {looks} times in 3 s");
        other.send(&caller(), &named("echo"), message("Go."), SendOptions::default()).await.unwrap();
        // Without the report of the change, the message waits for a minute.
        let answers =
            timeout(Duration::from_secs(30), inbox(&other, 1)).await.expect("the change is reported");
        assert!(answers[0].payload.text().contains("the answer"), "{answers:?}");
    }
    running.drain().await;
}
