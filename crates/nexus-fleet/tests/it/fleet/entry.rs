//! A worker's entry in its pool, which it has to renew.

use std::{sync::Arc, time::Duration};

use nexus_core::{BuildContext, ErrorKind, ExecutionBackend as _, Limits, NullSink, TurnHost, TurnRequest};
use nexus_fleet::{Fleet, FleetBackend, FleetSettings, WorkerSettings};
use nexus_testkit::{
    nats::NatsServer,
    sim::{Reply, Scenario},
};
use tokio::time::Instant;

use super::python_client::reference;
use crate::support::remote::WorkerThread;

const POOL: &str = "builders";

fn settings(server: &NatsServer) -> FleetSettings {
    FleetSettings {
        servers: vec![server.url()],
        worker: WorkerSettings { name: Some("w".to_owned()), ..WorkerSettings::default() },
        ..FleetSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a real nats-server"]
async fn a_worker_that_could_not_renew_its_entry_takes_no_turn_until_it_has() {
    let server = NatsServer::start().await;
    let (backend, home) = reference(Scenario::new([Reply::text("Done."), Reply::text("Done.")]));
    let (worker_settings, local) = (settings(&server), Arc::clone(&backend));
    let context = BuildContext::in_home(home.path());
    let start = move || WorkerThread::start_with(worker_settings, POOL, backend, context);
    let worker = tokio::task::spawn_blocking(start).await.expect("a worker");
    let fleet = Fleet::new(settings(&server)).expect("a thread");
    let caller = FleetBackend::new(local, POOL, fleet.clone());
    let within = |seconds| {
        TurnRequest::new("Go.").with_limits(Limits::new().with_deadline(Duration::from_secs(seconds)))
    };
    let result = caller.run_turn(within(60), TurnHost::new(), &mut NullSink).await.expect("a result");
    assert_eq!(result.text, "Done.");

    // Nothing takes its entry any more; queues, started keys and results are as before.
    let jetstream = async_nats::jetstream::new(server.client().await);
    jetstream.delete_stream("KV_NEXUS_WORKERS").await.expect("it is deleted");
    // By its own clock it has its entry for 20 s after the last renewal.
    tokio::time::sleep(Duration::from_secs(21)).await;
    let error = caller.run_turn(within(8), TurnHost::new(), &mut NullSink).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitReached(_)), "{error:?}");
    assert!(error.partial().effects.allow_another_try(), "{error:?}");

    fleet.set_up(&[POOL]).await.expect("the bucket is there again");
    let began = Instant::now();
    let result = loop {
        match caller.run_turn(within(8), TurnHost::new(), &mut NullSink).await {
            Ok(result) => break result,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{error:?}"),
        }
    };
    assert_eq!(result.text, "Done.");
    tokio::task::spawn_blocking(move || drop(worker)).await.unwrap();
}
