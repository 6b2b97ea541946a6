//! NATS JetStream, as Nexus uses it: a connection that reports refused subjects, and stored data that changes by compare-and-set.
//!
//! The crate works around gaps in `async-nats`. Each of the following was observed with a real server.
//!
//! | to | use | because the client |
//! | --- | --- | --- |
//! | send, store and request | [`NatsConnection`] | returns `Ok`, or waits until a timeout, where the account lacks a permission |
//! | read and write one stream | [`NatsStream`] | has a different error type for each request |
//! | change a key from the revision that was read | [`BucketKey`] | loses the time limit of a key in `update`, and reads from a replica that lags |
//! | own a key until it is no longer renewed | [`KeyLease`], [`Tenure`] | has no lease |
//! | follow the keys of a bucket | [`BucketWatch`] | retries for ever, without an error, where it may not delete its consumer |
//! | store data that is too large for a message | [`ObjectBucket`] | returns `NotFound` or a wrong digest for an object that a replica does not have yet |
//!
//! Names of streams, subjects and buckets belong to the crates above: `nexus-fleet` and `nexus-broker`.

mod bucket_key;
mod bucket_watch;
mod connection;
mod error;
mod lease;
mod objects;
mod refused_subjects;
mod settings;
mod setup;
mod stream;

pub use bucket_key::{BucketKey, KeyState, key_of_subject, key_subject};
pub use bucket_watch::{BucketChange, BucketWatch};
pub use connection::{ANSWER_TIME, API, NatsConnection};
pub use error::{NatsError, NatsStoreError};
pub use lease::{KeyLease, LEASE_TIME, RENEW_EVERY, TENURE_TIME, Tenure};
pub use objects::{CHUNK_BYTES, ObjectBucket, StoredObject};
pub use settings::{NatsCredentials, NatsSettings};
pub use stream::NatsStream;
