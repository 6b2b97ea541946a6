//! Stores documents that are too large for a message in the object store.

use std::{
    future::ready,
    io,
    path::{Path, PathBuf},
};

use nexus_nats::{CHUNK_BYTES, ObjectBucket, StoredObject};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncWriteExt as _, BufWriter};

use crate::{
    error::FleetError,
    link::Link,
    protocol::{INLINE_BYTES, OBJECTS_BUCKET, Payload},
};

/// Maximum size of a document, in bytes. Source: our own bound; vendors reject requests of that size.
pub(crate) const MAX_BYTES: u64 = 32 << 20;
/// Returns a value as the payload of a message. A large value is stored as an object, and the payload names the object.
///
/// # Errors
///
/// [`FleetError`]: the object store could not store it.
pub(crate) async fn pack(link: &Link, owner: &str, value: &impl Serialize) -> Result<Payload, FleetError> {
    let text = serde_json::to_string(value).map_err(|error| FleetError::Unreadable {
        what: "a message".to_owned(),
        reason: error.to_string(),
    })?;
    pack_text(link, owner, text).await
}

/// Like [`pack`], for a text that is already a JSON document.
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
    let name = bucket(link).put(owner, &mut text.as_bytes()).await?;
    Ok(Payload::Object(StoredObject {
        name,
        bytes,
        sha256: nexus_files::hex(Sha256::digest(text.as_bytes())),
    }))
}

/// A file, with the properties that its storage needs in advance.
#[derive(Clone, Debug)]
pub(crate) struct FileToStore {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// Stores a file. Other programs must not change it meanwhile.
///
/// # Errors
///
/// [`FleetError`]: the file cannot be read, or the object store could not store it.
pub(crate) async fn store_file(
    link: &Link,
    owner: &str,
    file: &FileToStore,
) -> Result<StoredObject, FleetError> {
    let unread = |source| FleetError::Settings { what: file.path.display().to_string(), source };
    let mut from = tokio::fs::File::open(&file.path).await.map_err(unread)?;
    let name = bucket(link).put(owner, &mut from).await?;
    Ok(StoredObject { name, bytes: file.bytes, sha256: file.sha256.clone() })
}

/// Writes an object of [`store_file`] with the same owner to a file at this path.
///
/// # Errors
///
/// [`FleetError::Unreadable`]: as [`unpack`]; [`FleetError::TooLarge`]: it has more than `most` bytes.
pub(crate) async fn fetch_file(
    link: &Link,
    owner: &str,
    object: &StoredObject,
    to: &Path,
    most: u64,
) -> Result<(), FleetError> {
    check_name(owner, object)?;
    if object.bytes > most {
        return Err(FleetError::TooLarge { what: "a bundle".to_owned(), bytes: object.bytes, most });
    }
    let unwritten = |error: io::Error| format!("{} cannot be written: {error}", to.display());
    let open = || async {
        let file = tokio::fs::File::create(to).await.map_err(unwritten)?;
        Ok(BufWriter::with_capacity(CHUNK_BYTES, file))
    };
    let mut file = bucket(link).fetch(object, open).await?;
    file.shutdown()
        .await
        .map_err(|error| FleetError::Unreadable { what: object.name.clone(), reason: unwritten(error) })
}

fn check_name(owner: &str, object: &StoredObject) -> Result<(), FleetError> {
    if object.name.rsplit_once('.').is_some_and(|(of, _)| of == owner) {
        return Ok(());
    }
    let reason = "it does not belong to this turn".to_owned();
    Err(FleetError::Unreadable { what: object.name.clone(), reason })
}

/// Returns the prefix of the names of a turn's objects.
pub(crate) fn owner(caller: &str, turn: &str) -> String {
    format!("{caller}.{turn}")
}

/// Reads a document that [`pack`] stored for the same owner. Does not read an object of another turn, even if a
/// message names it.
///
/// # Errors
///
/// [`FleetError::Unreadable`]: the document is not a `T`, or the object stays missing or differs from the named one.
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
        Payload::Object(object) => {
            let name = &object.name;
            if object.bytes > MAX_BYTES {
                return Err(unreadable(name, format!("{} bytes are more than the limit", object.bytes)));
            }
            check_name(owner, object)?;
            let content = bucket(link).fetch(object, || ready(Ok(Vec::new()))).await?;
            serde_json::from_slice(&content).map_err(|error| unreadable(name, error.to_string()))
        }
    }
}

/// Deletes the object of a payload, if it has one. An object that remains expires by its age.
pub(crate) async fn discard(link: &Link, payload: &Payload) {
    if let Payload::Object(StoredObject { name, .. }) = payload
        && let Err(error) = bucket(link).delete(name).await
    {
        tracing::debug!(%error, name, "an object of the fleet remains until it expires");
    }
}

fn bucket(link: &Link) -> ObjectBucket {
    link.nats.object_bucket(OBJECTS_BUCKET)
}
