//! What is too large for a message goes through the object store.

use std::time::Duration;

use async_nats::jetstream::object_store::{ObjectMetadata, ObjectStore};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use crate::{
    error::FleetError,
    link::Link,
    protocol::{INLINE_BYTES, OBJECTS_BUCKET, Payload},
};

/// Size of a piece. Source: seen to be no slower than the default of 128 KiB, with fewer messages.
const CHUNK_BYTES: usize = 512 << 10;
/// The largest document that is taken, in bytes. Source: our own bound; vendors refuse requests of that size.
pub(crate) const MAX_BYTES: u64 = 32 << 20;
/// How often an object is asked for that is not found, or does not add up. Source: with three servers 16 of 100 were not there at
/// once, and all were later.
const READS: u32 = 8;
/// How long one read of a piece may take.
const READ_TIME: Duration = Duration::from_secs(10);

/// Puts a value into a message: as it is, or by the name of an object that holds it.
///
/// # Errors
///
/// [`FleetError`]: the object store could not take it.
pub(crate) async fn pack(link: &Link, owner: &str, value: &impl Serialize) -> Result<Payload, FleetError> {
    let text = serde_json::to_string(value).map_err(|error| FleetError::Unreadable {
        what: "a message".to_owned(),
        reason: error.to_string(),
    })?;
    pack_text(link, owner, text).await
}

/// As [`pack`], of a text that is a JSON document.
pub(crate) async fn pack_text(link: &Link, owner: &str, text: String) -> Result<Payload, FleetError> {
    if text.len() <= INLINE_BYTES {
        let raw = RawValue::from_string(text).map_err(|error| FleetError::Unreadable {
            what: "a message".to_owned(),
            reason: error.to_string(),
        })?;
        return Ok(Payload::Inline(raw));
    }
    let bytes = text.len() as u64;
    if bytes > MAX_BYTES {
        return Err(FleetError::TooLarge { what: "it".to_owned(), bytes, most: MAX_BYTES });
    }
    let sha256 = hash(text.as_bytes());
    let name = format!("{owner}.{}", uuid::Uuid::new_v4().simple());
    let metadata =
        ObjectMetadata { name: name.clone(), chunk_size: Some(CHUNK_BYTES), ..ObjectMetadata::default() };
    let put = store(link).await?;
    put.put(metadata, &mut text.as_bytes())
        .await
        .map_err(|error| FleetError::Unclear { reason: format!("the object {name}: {error}") })?;
    Ok(Payload::Object { name, bytes, sha256 })
}

/// What the names of the objects of a turn begin with.
pub(crate) fn owner(caller: &str, turn: &str) -> String {
    format!("{caller}.{turn}")
}

/// Reads what [`pack`] made for the same owner. An object of another turn is not read, whoever names it.
///
/// # Errors
///
/// [`FleetError::Unreadable`]: it is no `T`, or the object is not there, or not the one that was named, also not later.
pub(crate) async fn unpack<T: DeserializeOwned>(
    link: &Link,
    owner: &str,
    payload: &Payload,
) -> Result<T, FleetError> {
    let unreadable = |what: &str, reason: String| FleetError::Unreadable { what: what.to_owned(), reason };
    match payload {
        Payload::Inline(raw) => {
            serde_json::from_str(raw.get()).map_err(|error| unreadable("a message", error.to_string()))
        }
        Payload::Object { name, bytes, sha256 } => {
            if *bytes > MAX_BYTES {
                return Err(unreadable(name, format!("{bytes} bytes are more than are taken")));
            }
            if name.rsplit_once('.').is_none_or(|(of, _)| of != owner) {
                return Err(unreadable(name, "it is none of this turn's".to_owned()));
            }
            let mut reason = String::new();
            for attempt in 0..READS {
                // Waits 1.6 s in all before the last attempt but one, 6.4 s before the last.
                if attempt > 0 {
                    tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
                }
                match read_object(link, name, *bytes).await {
                    Ok(content) if hash(&content) == *sha256 => {
                        return serde_json::from_slice(&content)
                            .map_err(|error| unreadable(name, error.to_string()));
                    }
                    Ok(_) => "it is not what was stored".clone_into(&mut reason),
                    Err(error) => reason = error,
                }
            }
            Err(unreadable(name, reason))
        }
    }
}

/// Deletes the object of a payload, if it is one. What is left goes by its age.
pub(crate) async fn discard(link: &Link, payload: &Payload) {
    if let Payload::Object { name, .. } = payload
        && let Ok(store) = store(link).await
        && let Err(error) = store.delete(name).await
    {
        tracing::debug!(%error, name, "an object of the fleet stays until its age ends it");
    }
}

async fn store(link: &Link) -> Result<ObjectStore, FleetError> {
    link.jetstream
        .get_object_store(OBJECTS_BUCKET)
        .await
        .map_err(|error| FleetError::NotSetUp { what: OBJECTS_BUCKET.to_owned(), reason: error.to_string() })
}

async fn read_object(link: &Link, name: &str, bytes: u64) -> Result<Vec<u8>, String> {
    let store = store(link).await.map_err(|error| error.to_string())?;
    let mut object = tokio::time::timeout(READ_TIME, store.get(name))
        .await
        .map_err(|_elapsed| "the servers did not answer".to_owned())?
        .map_err(|error| error.to_string())?;
    let mut content = Vec::new();
    let mut piece = vec![0; 64 << 10];
    // Not `read_to_end`: after a wrong digest it reads on.
    while (content.len() as u64) < bytes {
        let read = tokio::time::timeout(READ_TIME, object.read(&mut piece))
            .await
            .map_err(|_elapsed| "it broke off".to_owned())?
            .map_err(|error| error.to_string())?;
        if read == 0 {
            break;
        }
        content.extend_from_slice(&piece[..read]);
    }
    Ok(content)
}

fn hash(content: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(content).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
