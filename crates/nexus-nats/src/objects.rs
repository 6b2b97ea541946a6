//! Object stores, for data that is too large for a message.

use std::time::Duration;

use async_nats::jetstream::object_store::{ObjectMetadata, ObjectStore};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

use crate::{
    connection::{API, NatsConnection},
    error::NatsError,
};

/// Size of a chunk. Source: observed to be as fast as the default of 128 KiB, with fewer messages.
pub const CHUNK_BYTES: usize = 512 << 10;
/// Maximum number of attempts to read an object that is missing or differs from the stored one. Source: with three servers 16
/// of 100 objects were missing at first, and all arrived later.
const READS: u32 = 8;
/// Longest wait for one read of a chunk.
const READ_TIME: Duration = Duration::from_secs(10);

/// An object in an object store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredObject {
    /// Name of the object. It is never used again.
    pub name: String,
    /// Size of the object, in bytes.
    pub bytes: u64,
    /// SHA-256 hash of the object, in lower-case hexadecimal digits.
    pub sha256: String,
}

/// An object store, and the connection to it.
#[derive(Clone, Debug)]
pub struct ObjectBucket {
    connection: NatsConnection,
    bucket: &'static str,
}

impl NatsConnection {
    /// Returns an object store without a request to the server.
    pub fn object_bucket(&self, bucket: &'static str) -> ObjectBucket {
        ObjectBucket { connection: self.clone(), bucket }
    }
}

impl ObjectBucket {
    /// Stores the output of a reader under a new name (`owner` and a random part), and returns the name.
    ///
    /// # Errors
    ///
    /// [`NatsError`]: it is unknown whether the object was stored.
    pub async fn put(&self, owner: &str, from: &mut (impl AsyncRead + Unpin)) -> Result<String, NatsError> {
        let name = format!("{owner}.{}", uuid::Uuid::new_v4().simple());
        let metadata =
            ObjectMetadata { name: name.clone(), chunk_size: Some(CHUNK_BYTES), ..ObjectMetadata::default() };
        let store = self.store().await?;
        let put =
            self.connection.permitted(&format!("$O.{}.", self.bucket), store.put(metadata, from)).await?;
        put.map_err(|error| NatsError::unclear(format!("the object {name}: {error}")))?;
        Ok(name)
    }

    /// Copies an object to a writer. `open` creates a new writer for each attempt. Returns the writer that has
    /// received the whole object.
    ///
    /// # Errors
    ///
    /// [`NatsError::ObjectUnreadable`]: the object is missing or differs after several attempts, or `open` failed.
    pub async fn fetch<W: AsyncWrite + Unpin, F: Future<Output = Result<W, String>>>(
        &self,
        object: &StoredObject,
        mut open: impl FnMut() -> F,
    ) -> Result<W, NatsError> {
        let unreadable = |reason| NatsError::ObjectUnreadable { name: object.name.clone(), reason };
        let mut reason = String::new();
        for attempt in 0..READS {
            // The pauses double. They add up to 6.3 s before the last attempt but one, and to 12.7 s before the last.
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
            }
            let mut to = open().await.map_err(unreadable)?;
            match self
                .connection
                .permitted_if(|subject| self.is_read(subject), self.read(object, &mut to))
                .await?
            {
                Ok(()) => return Ok(to),
                Err(error) => reason = error,
            }
        }
        Err(unreadable(reason))
    }

    /// Deletes an object.
    ///
    /// # Errors
    ///
    /// [`NatsError`]: the object may remain until its maximum age ends it.
    pub async fn delete(&self, name: &str) -> Result<(), NatsError> {
        self.store().await?.delete(name).await.map_err(NatsError::unclear)
    }

    async fn store(&self) -> Result<ObjectStore, NatsError> {
        let subject = format!("{API}STREAM.INFO.OBJ_{}", self.bucket);
        let store = self.connection.jetstream().get_object_store(self.bucket);
        let store = self.connection.permitted(&subject, store).await?;
        store.map_err(|error| NatsError::of_absence(self.bucket, &error))
    }

    /// Reads an object once. After an error, the data written so far is invalid.
    async fn read(&self, object: &StoredObject, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), String> {
        let store = self.store().await.map_err(|error| error.to_string())?;
        let mut from = timeout(READ_TIME, store.get(&object.name))
            .await
            .map_err(|_elapsed| "the servers did not answer".to_owned())?
            .map_err(|error| error.to_string())?;
        let (mut hash, mut left) = (Sha256::new(), object.bytes);
        let mut piece = vec![0; 64 << 10];
        // Do not use `read_to_end`, which continues to read after a wrong digest.
        while left > 0 {
            let read = timeout(READ_TIME, from.read(&mut piece))
                .await
                .map_err(|_elapsed| "it broke off".to_owned())?
                .map_err(|error| error.to_string())?;
            if read == 0 || read as u64 > left {
                break;
            }
            left -= read as u64;
            hash.update(&piece[..read]);
            to.write_all(&piece[..read]).await.map_err(|error| error.to_string())?;
        }
        let is_whole = left == 0 && nexus_files::hex(hash.finalize()) == object.sha256;
        if is_whole { Ok(()) } else { Err("it is not what was stored".to_owned()) }
    }

    /// Returns true for the subjects of requests that read an object.
    fn is_read(&self, subject: &str) -> bool {
        let of_stream = format!("OBJ_{}", self.bucket);
        ["$JS.API.STREAM.INFO.", "$JS.API.DIRECT.GET.", "$JS.API.CONSUMER.CREATE.", "$JS.FC."]
            .iter()
            .any(|begin| subject.strip_prefix(begin).is_some_and(|rest| rest.starts_with(&of_stream)))
    }
}
