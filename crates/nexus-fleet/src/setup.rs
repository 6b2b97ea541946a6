//! Creates the streams and buckets.

use std::time::Duration;

use async_nats::jetstream::{
    consumer::{self, AckPolicy, pull},
    kv, object_store,
    stream::{Config, DiscardPolicy, RetentionPolicy, StorageType},
};

use nexus_nats::NatsError;

use crate::{
    link::Link,
    protocol::{
        HOLDS_BUCKET, Lane, OBJECTS_BUCKET, Priority, RESULTS_STREAM, RESULTS_SUBJECTS, SLOTS_BUCKET,
        STARTED_STREAM, STARTED_SUBJECTS, WORKERS_BUCKET, consumer, lane_subjects, queue_stream,
        queue_subjects,
    },
};

/// Time for which results, effects, started keys and objects are stored.
pub(crate) const STORED_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Time after which the server delivers an unacknowledged message again. Source: a killed worker's message was observed to
/// go to another worker exactly then.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(30);
/// Time for which the server drops a second message with the same id.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);
/// Maximum number of turns that wait in a pool. Beyond it, callers get an overload error.
const MAX_QUEUED: i64 = 100_000;
/// Maximum number of consumers of a queue: each worker has one. The default of nats-server 2.15 is 1,000, which was seen
/// with 1,000 workers.
const MAX_WORKERS: i32 = 100_000;
/// Time after which the server removes the consumer of a vanished worker.
const WORKER_GONE: Duration = Duration::from_secs(24 * 3_600);
/// Time for which the marker of a deleted key stays.
const MARKERS: Duration = Duration::from_secs(60);

/// Creates the streams and buckets that all pools share, if they do not exist.
///
/// # Errors
///
/// [`NatsError::NotSetUp`]: one is missing, and this account may not create it. [`NatsError::Forbidden`]: the account may
/// not query it.
pub(crate) async fn ensure_shared(link: &Link) -> Result<(), NatsError> {
    let replicas = link.settings.replicas();
    link.nats
        .ensure_stream(Config {
            name: RESULTS_STREAM.to_owned(),
            description: Some("Results and effects of turns".to_owned()),
            subjects: vec![RESULTS_SUBJECTS.to_owned()],
            max_age: STORED_FOR,
            max_messages_per_subject: 1,
            duplicate_window: DUPLICATE_WINDOW,
            allow_direct: true,
            storage: StorageType::File,
            num_replicas: replicas,
            ..Config::default()
        })
        .await?;
    link.nats
        .ensure_stream(Config {
            name: STARTED_STREAM.to_owned(),
            description: Some("Which worker started which turn".to_owned()),
            subjects: vec![STARTED_SUBJECTS.to_owned()],
            max_age: STORED_FOR,
            // Stored messages are immutable for every account: the server itself refuses a second message, a
            // deletion and a purge.
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            deny_delete: true,
            deny_purge: true,
            allow_direct: true,
            storage: StorageType::File,
            num_replicas: replicas,
            ..Config::default()
        })
        .await?;
    for (bucket, max_age, what) in [
        (WORKERS_BUCKET, Duration::ZERO, "Workers that are there"),
        (HOLDS_BUCKET, Duration::ZERO, "Backends that are set aside"),
        (SLOTS_BUCKET, Duration::ZERO, "Leases that one turn at a time owns"),
    ] {
        let bucket = kv::Config {
            bucket: bucket.to_owned(),
            description: what.to_owned(),
            max_age,
            history: 1,
            num_replicas: replicas,
            limit_markers: Some(MARKERS),
            ..kv::Config::default()
        };
        link.nats.ensure_bucket(bucket).await?;
    }
    let objects = object_store::Config {
        bucket: OBJECTS_BUCKET.to_owned(),
        description: Some("Contents that are too large for a message".to_owned()),
        max_age: STORED_FOR,
        num_replicas: replicas,
        ..object_store::Config::default()
    };
    link.nats.ensure_object_bucket(objects).await
}

/// Creates the queue of a pool and its consumers, if they do not exist.
///
/// # Errors
///
/// As [`ensure_shared`].
pub(crate) async fn ensure_pool(link: &Link, pool: &str) -> Result<(), NatsError> {
    link.nats
        .ensure_stream(Config {
            name: queue_stream(pool),
            description: Some(format!("Turns that wait for a worker of {pool}")),
            subjects: vec![queue_subjects(pool)],
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            max_messages_per_subject: i64::from(link.settings.max_waiting()),
            max_messages: MAX_QUEUED,
            max_consumers: MAX_WORKERS,
            // No turn waits for longer than this.
            max_age: STORED_FOR + MARKERS,
            duplicate_window: DUPLICATE_WINDOW,
            allow_message_ttl: true,
            storage: StorageType::File,
            num_replicas: link.settings.replicas(),
            ..Config::default()
        })
        .await?;
    for priority in Priority::ALL {
        ensure_consumer(link, pool, &Lane::Any(priority)).await?;
    }
    Ok(())
}

/// Creates the consumer of a lane, if it does not exist.
pub(crate) async fn ensure_consumer(
    link: &Link,
    pool: &str,
    lane: &Lane,
) -> Result<consumer::Consumer<pull::Config>, NatsError> {
    let config = pull::Config {
        durable_name: Some(consumer(lane)),
        filter_subject: lane_subjects(pool, lane),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        // Turns that workers give back unstarted are delivered as often as needed, until their time limit.
        max_deliver: -1,
        max_ack_pending: 100_000,
        max_waiting: 10_000,
        inactive_threshold: match lane {
            Lane::At(_) => WORKER_GONE,
            Lane::Any(_) => Duration::ZERO,
        },
        ..pull::Config::default()
    };
    link.nats.ensure_consumer(&queue_stream(pool), config).await
}
