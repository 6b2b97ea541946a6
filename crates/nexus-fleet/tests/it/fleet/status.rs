//! What goes on in a fleet, before a real server.

use nexus_fleet::{Fleet, FleetError, FleetSettings, NatsError, Priority};
use nexus_testkit::nats::NatsServer;
use serde_json::json;

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn the_depth_of_each_queue_is_told_and_what_is_not_set_up_is_named() {
    let server = NatsServer::start().await;
    let fleet = Fleet::new(FleetSettings { servers: vec![server.url()], ..FleetSettings::default() });
    let fleet = fleet.expect("a thread");
    let error = fleet.status().await.unwrap_err();
    assert!(
        matches!(&error, FleetError::Nats(NatsError::NotSetUp { what, .. }) if what == "NEXUS_WORKERS"),
        "{error}"
    );
    fleet.set_up(&["builders", "b"]).await.expect("it is set up");
    let client = server.client().await;
    let jetstream = async_nats::jetstream::new(client);
    for (lane, caller, count) in
        [("high", "me", 2), ("high", "you", 1), ("low", "me", 3), ("at-one", "me", 1)]
    {
        for _ in 0..count {
            let subject = format!("nexus.queue.builders.{lane}.{caller}");
            jetstream.publish(subject, "x".into()).await.expect("it is sent").await.expect("it is stored");
        }
    }
    let status = fleet.status().await.expect("the status");
    assert_eq!(status.pools.keys().collect::<Vec<_>>(), ["b", "builders"]);
    let builders = &status.pools["builders"];
    assert_eq!(Priority::ALL.map(|priority| builders.waiting[&priority]), [3, 0, 3]);
    assert_eq!(builders.waiting_for["one"], 1);
    assert!(status.server.starts_with("2.") && status.holds.is_empty() && builders.workers.is_empty());
    let shown = serde_json::to_value(&status.pools["b"]).unwrap();
    assert_eq!(
        shown,
        json!({ "workers": {}, "waiting": { "high": 0, "normal": 0, "low": 0 }, "waiting_for": {} })
    );
}
