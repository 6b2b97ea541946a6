//! What goes on in a fleet, before a real server.

use std::time::{Duration, Instant};

use nexus_fleet::{Fleet, FleetError, FleetSettings, NatsError, Priority};
use nexus_nats::{BucketKey, NatsConnection, NatsSettings};
use nexus_testkit::nats::{CLUSTER_SIZE, NatsCluster, NatsServer};
use serde_json::json;

/// A server notices within this time that it is alone. Source: an election takes 5 to 6 s.
const PATIENCE: Duration = Duration::from_secs(120);

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

#[tokio::test]
#[ignore = "needs a real nats-server"]
async fn servers_without_a_majority_are_not_told_as_missing_streams() {
    let cluster = NatsCluster::start().await;
    let settings =
        FleetSettings { servers: cluster.urls(), replicas: Some(CLUSTER_SIZE), ..FleetSettings::default() };
    Fleet::new(settings).unwrap().set_up(&["p"]).await.expect("it is set up");
    cluster.kill(1);
    cluster.kill(2);
    // As a program that starts now sees the one that is left.
    let settings = || FleetSettings {
        servers: vec![cluster.server(0).url()],
        replicas: Some(CLUSTER_SIZE),
        ..FleetSettings::default()
    };
    let is_told = |error: &FleetError| {
        let text = error.to_string();
        assert!(!text.contains("does not exist"), "{text}");
        matches!(error, FleetError::Nats(NatsError::NoMajority { .. }))
    };
    for is_status in [true, false] {
        let began = Instant::now();
        loop {
            let fleet = Fleet::new(settings()).unwrap();
            let answer = if is_status { fleet.status().await.map(drop) } else { fleet.set_up(&["p"]).await };
            if answer.as_ref().is_err_and(is_told) {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    // The entry of a worker, which is renewed meanwhile.
    let nats =
        NatsSettings { servers: settings().servers, name: "w1".to_owned(), credentials: None, ca_file: None };
    let connection = NatsConnection::connect(&nats).await.unwrap();
    let key = BucketKey::new("NEXUS_WORKERS", "p.w1");
    let error = key.write(&connection, 0, "x".into(), None).await.unwrap_err();
    assert!(error.is_unclear(), "{error}");
}
