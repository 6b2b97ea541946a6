//! Creates missing streams, buckets and consumers. Does not change existing ones.

use std::{
    fmt::Display,
    future::IntoFuture as _,
    time::{Duration, Instant},
};

use async_nats::jetstream::{
    consumer::{Consumer, pull},
    kv, object_store, stream,
};

use crate::{
    connection::{API, NatsConnection},
    error::NatsError,
};

/// Longest wait until the servers of a newly started cluster know each other.
const PEERS_WITHIN: Duration = Duration::from_secs(20);
/// Error text of a server that knows too few other servers. Source: observed with 2.15 right after three servers had
/// started.
const NO_PEERS: &str = "error code 10005";
/// Error text of a server with a stream of this name and other settings. Source: error 10058 of nats-server.
const NAME_IN_USE: &str = "error code 10058";

impl NatsConnection {
    /// Creates a stream if it is missing.
    ///
    /// # Errors
    ///
    /// [`NatsError::NotSetUp`]: the stream is missing, and could not be created. [`NatsError::Forbidden`]: the account may
    /// not query it.
    pub async fn ensure_stream(&self, config: stream::Config) -> Result<(), NatsError> {
        let name = config.name.clone();
        let create = || self.jetstream().create_stream(config.clone()).into_future();
        self.ensure(&name, &name, self.jetstream().get_stream(&name), create).await
    }

    /// Creates a key-value bucket if it is missing.
    pub async fn ensure_bucket(&self, config: kv::Config) -> Result<(), NatsError> {
        let (name, jetstream) = (config.bucket.clone(), self.jetstream());
        let create = || jetstream.create_key_value(config.clone());
        self.ensure(&name, &format!("KV_{name}"), jetstream.get_key_value(&name), create).await
    }

    /// Creates an object store if it is missing.
    pub async fn ensure_object_bucket(&self, config: object_store::Config) -> Result<(), NatsError> {
        let (name, jetstream) = (config.bucket.clone(), self.jetstream());
        let create = || jetstream.create_object_store(config.clone());
        self.ensure(&name, &format!("OBJ_{name}"), jetstream.get_object_store(&name), create).await
    }

    /// Returns the durable consumer of a stream, and creates it if it is missing.
    ///
    /// # Errors
    ///
    /// [`NatsError::NotSetUp`]: the consumer could not be created. [`NatsError::Forbidden`]: the account may not query it.
    pub async fn ensure_consumer(
        &self,
        stream: &str,
        config: pull::Config,
    ) -> Result<Consumer<pull::Config>, NatsError> {
        let name = config.durable_name.clone().unwrap_or_default();
        // Query first: an account needs no permission to create a consumer that exists.
        let existing = self.jetstream().get_consumer_from_stream::<pull::Config, _, _>(&name, stream);
        if let Ok(existing) = self.permitted(&format!("{API}CONSUMER.INFO.{stream}.{name}"), existing).await?
        {
            return Ok(existing);
        }
        let what = format!("the consumer {name} of {stream}");
        let subject = format!("{API}CONSUMER.CREATE.{stream}.{name}.");
        let create = || self.jetstream().create_consumer_on_stream(config.clone(), stream);
        self.create(&what, &subject, create).await
    }

    async fn ensure<T, E: Display, U, C: Display, F: Future<Output = Result<U, C>>>(
        &self,
        what: &str,
        stream: &str,
        existing: impl Future<Output = Result<T, E>>,
        create: impl Fn() -> F,
    ) -> Result<(), NatsError> {
        if let Err(error) = self.permitted(&format!("{API}STREAM.INFO.{stream}"), existing).await? {
            let absence = NatsError::of_absence(what, &error);
            // The stream, bucket or consumer may exist although the servers could not confirm it, so do not create it.
            if absence.is_unclear() {
                return Err(absence);
            }
        } else {
            return Ok(());
        }
        match self.create(what, &format!("{API}STREAM.CREATE.{stream}"), create).await {
            // The account may not create what is missing, so report that it is not set up.
            Err(error @ NatsError::Forbidden { .. }) => {
                Err(NatsError::NotSetUp { what: what.to_owned(), reason: error.to_string() })
            }
            // Another program has created it meanwhile, perhaps with other settings.
            Err(NatsError::NotSetUp { reason, .. }) if reason.contains(NAME_IN_USE) => Ok(()),
            created => created.map(drop),
        }
    }

    /// Creates an item, and retries while the servers of a newly started cluster do not know each other.
    async fn create<T, E: Display, F: Future<Output = Result<T, E>>>(
        &self,
        what: &str,
        subject: &str,
        create: impl Fn() -> F,
    ) -> Result<T, NatsError> {
        let until = Instant::now() + PEERS_WITHIN;
        loop {
            let reason = match self.permitted(subject, create()).await? {
                Ok(created) => return Ok(created),
                Err(error) => error.to_string(),
            };
            if !reason.contains(NO_PEERS) || Instant::now() >= until {
                return Err(NatsError::of_absence(what, &reason));
            }
            tokio::time::sleep(PEERS_WITHIN / 40).await;
        }
    }
}
