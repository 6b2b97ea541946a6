//! Makes the streams and buckets.

use std::{future::IntoFuture as _, time::Duration};

use async_nats::jetstream::{
    consumer::{self, AckPolicy, pull},
    kv, object_store,
    stream::{Config, DiscardPolicy, RetentionPolicy, StorageType},
};

use tokio::time::Instant;

use crate::{
    error::FleetError,
    link::{API, Link},
    protocol::{
        HOLDS_BUCKET, Lane, OBJECTS_BUCKET, Priority, RESULTS_STREAM, RESULTS_SUBJECTS, SLOTS_BUCKET,
        STARTED_STREAM, STARTED_SUBJECTS, WORKERS_BUCKET, consumer, lane_subjects, queue_stream,
        queue_subjects,
    },
};

/// How long results, effects, started keys and objects are kept.
pub(crate) const KEPT: Duration = Duration::from_secs(24 * 3_600);
/// How long a message that was given to a worker stays its own without a word. Source: a killed worker's was seen to be given to
/// another exactly then.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(30);
/// How long the id of a message keeps another of the same id out.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);
/// Turns that may wait in a pool in all. Beyond it, callers are told that it is overloaded.
const MAX_QUEUED: i64 = 100_000;
/// Consumers of a queue: each worker has one. Unless a stream says it, nats-server 2.15 takes 1,000: seen with 1,000 workers.
const MAX_WORKERS: i32 = 100_000;
/// How long servers of a cluster may take to know of each other.
const PEERS_WITHIN: Duration = Duration::from_secs(20);
/// What a server says that knows of too few others. Source: seen with 2.15 right after three had started.
const NO_PEERS: &str = "error code 10005";
/// How long the consumer of a worker that is gone stays.
const WORKER_GONE: Duration = Duration::from_secs(24 * 3_600);
/// How long the mark of a key that ended stays.
const MARKERS: Duration = Duration::from_secs(60);

/// Makes what all pools share, where it is not there.
///
/// # Errors
///
/// [`FleetError::NotSetUp`]: it is not there, and this account may not make it. [`FleetError::Forbidden`]: the account may not look.
pub(crate) async fn ensure_shared(link: &Link) -> Result<(), FleetError> {
    patiently(|| try_shared(link)).await
}

async fn try_shared(link: &Link) -> Result<(), FleetError> {
    let replicas = link.settings.replicas();
    ensure_stream(
        link,
        Config {
            name: RESULTS_STREAM.to_owned(),
            description: Some("Results and effects of turns".to_owned()),
            subjects: vec![RESULTS_SUBJECTS.to_owned()],
            max_age: KEPT,
            max_messages_per_subject: 1,
            duplicate_window: DUPLICATE_WINDOW,
            allow_direct: true,
            storage: StorageType::File,
            num_replicas: replicas,
            ..Config::default()
        },
    )
    .await?;
    ensure_stream(
        link,
        Config {
            name: STARTED_STREAM.to_owned(),
            description: Some("Which worker started which turn".to_owned()),
            subjects: vec![STARTED_SUBJECTS.to_owned()],
            max_age: KEPT,
            // What is there stays, whoever writes: the server itself refuses a second message, a deletion and a purge.
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            deny_delete: true,
            deny_purge: true,
            allow_direct: true,
            storage: StorageType::File,
            num_replicas: replicas,
            ..Config::default()
        },
    )
    .await?;
    for (bucket, max_age, what) in [
        (WORKERS_BUCKET, Duration::ZERO, "Workers that are there"),
        (HOLDS_BUCKET, Duration::ZERO, "Backends that are set aside"),
        (SLOTS_BUCKET, Duration::ZERO, "What one turn at a time has"),
    ] {
        let config = kv::Config {
            bucket: bucket.to_owned(),
            description: what.to_owned(),
            max_age,
            history: 1,
            num_replicas: replicas,
            limit_markers: Some(MARKERS),
            ..kv::Config::default()
        };
        let stream = format!("KV_{bucket}");
        if !is_there(link, &stream, link.jetstream.get_key_value(bucket)).await? {
            make(link, bucket, &stream, link.jetstream.create_key_value(config)).await?;
        }
    }
    let stream = format!("OBJ_{OBJECTS_BUCKET}");
    if !is_there(link, &stream, link.jetstream.get_object_store(OBJECTS_BUCKET)).await? {
        let config = object_store::Config {
            bucket: OBJECTS_BUCKET.to_owned(),
            description: Some("What is too large for a message".to_owned()),
            max_age: KEPT,
            num_replicas: replicas,
            ..object_store::Config::default()
        };
        make(link, OBJECTS_BUCKET, &stream, link.jetstream.create_object_store(config)).await?;
    }
    Ok(())
}

/// Makes the queue of a pool, and its consumers, where they are not there.
///
/// # Errors
///
/// As [`ensure_shared`].
pub(crate) async fn ensure_pool(link: &Link, pool: &str) -> Result<(), FleetError> {
    patiently(|| try_pool(link, pool)).await
}

/// Tries again while servers of a cluster that has just begun do not know of each other.
async fn patiently<F: Future<Output = Result<(), FleetError>>>(
    attempt: impl Fn() -> F,
) -> Result<(), FleetError> {
    let until = Instant::now() + PEERS_WITHIN;
    loop {
        match attempt().await {
            Err(FleetError::NotSetUp { reason, .. })
                if reason.contains(NO_PEERS) && Instant::now() < until =>
            {
                tokio::time::sleep(PEERS_WITHIN / 40).await;
            }
            made => return made,
        }
    }
}

async fn try_pool(link: &Link, pool: &str) -> Result<(), FleetError> {
    ensure_stream(
        link,
        Config {
            name: queue_stream(pool),
            description: Some(format!("Turns that wait for a worker of {pool}")),
            subjects: vec![queue_subjects(pool)],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            max_messages_per_subject: i64::from(link.settings.max_waiting()),
            max_messages: MAX_QUEUED,
            max_consumers: MAX_WORKERS,
            // No turn waits for longer.
            max_age: KEPT + MARKERS,
            duplicate_window: DUPLICATE_WINDOW,
            allow_message_ttl: true,
            storage: StorageType::File,
            num_replicas: link.settings.replicas(),
            ..Config::default()
        },
    )
    .await?;
    for priority in Priority::ALL {
        ensure_consumer(link, pool, &Lane::Any(priority)).await?;
    }
    Ok(())
}

/// Makes the consumer of a lane, where it is not there.
pub(crate) async fn ensure_consumer(
    link: &Link,
    pool: &str,
    lane: &Lane,
) -> Result<consumer::Consumer<pull::Config>, FleetError> {
    let (stream, name) = (queue_stream(pool), consumer(lane));
    let existing =
        link.jetstream.get_consumer_from_stream::<pull::Config, _, _>(name.clone(), stream.clone());
    if let Ok(existing) = link.permitted(&format!("{API}CONSUMER.INFO.{stream}.{name}"), existing).await? {
        return Ok(existing);
    }
    let config = pull::Config {
        durable_name: Some(name.clone()),
        filter_subject: lane_subjects(pool, lane),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        // What is given back unstarted is given again as often as needed; its time limit is what ends it.
        max_deliver: -1,
        max_ack_pending: 100_000,
        max_waiting: 10_000,
        inactive_threshold: match lane {
            Lane::At(_) => WORKER_GONE,
            Lane::Any(_) => Duration::ZERO,
        },
        ..pull::Config::default()
    };
    let what = format!("the consumer {name} of {stream}");
    let subject = format!("{API}CONSUMER.CREATE.{stream}.{name}.");
    let made = link.permitted(&subject, link.jetstream.create_consumer_on_stream(config, stream)).await?;
    made.map_err(|error| not_set_up(&what, &error))
}

/// Makes a stream that is not the fleet's, where it is not there.
///
/// # Errors
///
/// As [`ensure_shared`].
pub(crate) async fn ensure_own_stream(link: &Link, config: Config) -> Result<(), FleetError> {
    patiently(|| ensure_stream(link, config.clone())).await
}

async fn ensure_stream(link: &Link, config: Config) -> Result<(), FleetError> {
    let name = config.name.clone();
    if is_there(link, &name, link.jetstream.get_stream(&name)).await? {
        return Ok(());
    }
    make(link, &name, &name, link.jetstream.create_stream(config).into_future()).await
}

/// Whether a stream is there that was asked for.
async fn is_there<T, E>(
    link: &Link,
    stream: &str,
    asked: impl Future<Output = Result<T, E>>,
) -> Result<bool, FleetError> {
    Ok(link.permitted(&format!("{API}STREAM.INFO.{stream}"), asked).await?.is_ok())
}

/// Makes a stream. Who may not is told that it is missing.
async fn make<T, E: std::error::Error>(
    link: &Link,
    what: &str,
    stream: &str,
    making: impl Future<Output = Result<T, E>>,
) -> Result<(), FleetError> {
    match link.permitted(&format!("{API}STREAM.CREATE.{stream}"), making).await {
        Ok(made) => made.map(drop).map_err(|error| not_set_up(what, &error)),
        Err(error) => Err(not_set_up(what, &error)),
    }
}

fn not_set_up(what: &str, error: &dyn std::error::Error) -> FleetError {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    FleetError::NotSetUp { what: what.to_owned(), reason: format!("{error}{source}") }
}
