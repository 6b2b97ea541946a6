//! What is too large for a message goes through the object store.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use async_nats::jetstream::object_store::{ObjectMetadata, ObjectStore};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufWriter};

use crate::{
    error::FleetError,
    link::{API, Link},
    protocol::{INLINE_BYTES, OBJECTS_BUCKET, Payload, StoredObject},
};

/// Size of a piece. Source: seen to be no slower than the default of 128 KiB, with fewer messages.
const CHUNK_BYTES: usize = 512 << 10;
/// The largest document that is taken, in bytes. Source: our own bound; vendors refuse requests of that size.
pub(crate) const MAX_BYTES: u64 = 32 << 20;
/// How often an object is asked for that is not found, or does not add up. Source: with three servers 16 of 100 were not there at
/// once, and all were later.
const READS: u32 = 8;
/// What the subjects of objects begin with.
const OBJECT_SUBJECTS: &str = "$O.NEXUS_OBJECTS.";
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
    let name = put(link, owner, &mut text.as_bytes()).await?;
    Ok(Payload::Object(StoredObject {
        name,
        bytes,
        sha256: nexus_files::hex(Sha256::digest(text.as_bytes())),
    }))
}

/// Stores what a reader gives, under a new name of this owner.
async fn put(link: &Link, owner: &str, from: &mut (impl AsyncRead + Unpin)) -> Result<String, FleetError> {
    let name = format!("{owner}.{}", uuid::Uuid::new_v4().simple());
    let metadata =
        ObjectMetadata { name: name.clone(), chunk_size: Some(CHUNK_BYTES), ..ObjectMetadata::default() };
    let put = store(link).await?;
    let put = link.permitted(OBJECT_SUBJECTS, put.put(metadata, from)).await?;
    put.map_err(|error| FleetError::Unclear { reason: format!("the object {name}: {error}") })?;
    Ok(name)
}

/// A file, with what has to be known before it is stored.
#[derive(Clone, Debug)]
pub(crate) struct FileToStore {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// Stores a file, which nobody changes meanwhile.
///
/// # Errors
///
/// [`FleetError`]: it cannot be read, or the object store could not take it.
pub(crate) async fn store_file(
    link: &Link,
    owner: &str,
    file: &FileToStore,
) -> Result<StoredObject, FleetError> {
    let unread = |source| FleetError::Settings { what: file.path.display().to_string(), source };
    let mut from = tokio::fs::File::open(&file.path).await.map_err(unread)?;
    let name = put(link, owner, &mut from).await?;
    Ok(StoredObject { name, bytes: file.bytes, sha256: file.sha256.clone() })
}

/// Writes what [`store_file`] stored for the same owner to a file of this path.
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
    let unwritten = |error: std::io::Error| FleetError::Unreadable {
        what: object.name.clone(),
        reason: format!("{} cannot be written: {error}", to.display()),
    };
    check_name(owner, object)?;
    if object.bytes > most {
        return Err(FleetError::TooLarge { what: "a bundle".to_owned(), bytes: object.bytes, most });
    }
    let mut reason = String::new();
    for attempt in 0..READS {
        pause(attempt).await;
        let mut file =
            BufWriter::with_capacity(CHUNK_BYTES, tokio::fs::File::create(to).await.map_err(unwritten)?);
        match link.permitted_if(is_read, read_object(link, object, &mut file)).await? {
            Ok(()) => return file.shutdown().await.map_err(unwritten),
            Err(error) => reason = error,
        }
    }
    Err(FleetError::Unreadable { what: object.name.clone(), reason })
}

/// Waits 1.6 s in all before the last attempt but one, 6.4 s before the last.
async fn pause(attempt: u32) {
    if attempt > 0 {
        tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
    }
}

fn check_name(owner: &str, object: &StoredObject) -> Result<(), FleetError> {
    if object.name.rsplit_once('.').is_some_and(|(of, _)| of == owner) {
        return Ok(());
    }
    let reason = "it is none of this turn's".to_owned();
    Err(FleetError::Unreadable { what: object.name.clone(), reason })
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
        Payload::Object(object) => {
            let name = &object.name;
            if object.bytes > MAX_BYTES {
                return Err(unreadable(name, format!("{} bytes are more than are taken", object.bytes)));
            }
            check_name(owner, object)?;
            let mut reason = String::new();
            for attempt in 0..READS {
                pause(attempt).await;
                let mut content = Vec::new();
                match link.permitted_if(is_read, read_object(link, object, &mut content)).await? {
                    Ok(()) => {
                        return serde_json::from_slice(&content)
                            .map_err(|error| unreadable(name, error.to_string()));
                    }
                    Err(error) => reason = error,
                }
            }
            Err(unreadable(name, reason))
        }
    }
}

/// Deletes the object of a payload, if it is one. What is left goes by its age.
pub(crate) async fn discard(link: &Link, payload: &Payload) {
    if let Payload::Object(StoredObject { name, .. }) = payload
        && let Ok(store) = store(link).await
        && let Err(error) = store.delete(name).await
    {
        tracing::debug!(%error, name, "an object of the fleet stays until its age ends it");
    }
}

async fn store(link: &Link) -> Result<ObjectStore, FleetError> {
    let subject = format!("{API}STREAM.INFO.OBJ_{OBJECTS_BUCKET}");
    link.permitted(&subject, link.jetstream.get_object_store(OBJECTS_BUCKET))
        .await?
        .map_err(|error| FleetError::NotSetUp { what: OBJECTS_BUCKET.to_owned(), reason: error.to_string() })
}

/// Reads an object once. What was written where it does not add up is of no use.
async fn read_object(
    link: &Link,
    object: &StoredObject,
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), String> {
    let store = store(link).await.map_err(|error| error.to_string())?;
    let mut from = tokio::time::timeout(READ_TIME, store.get(&object.name))
        .await
        .map_err(|_elapsed| "the servers did not answer".to_owned())?
        .map_err(|error| error.to_string())?;
    let (mut hash, mut left) = (Sha256::new(), object.bytes);
    let mut piece = vec![0; 64 << 10];
    // Not `read_to_end`: after a wrong digest it reads on.
    while left > 0 {
        let read = tokio::time::timeout(READ_TIME, from.read(&mut piece))
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

/// Whether a request is one of those by which an object is read.
fn is_read(subject: &str) -> bool {
    let of_stream = format!("OBJ_{OBJECTS_BUCKET}");
    ["$JS.API.STREAM.INFO.", "$JS.API.DIRECT.GET.", "$JS.API.CONSUMER.CREATE.", "$JS.FC."]
        .iter()
        .any(|begin| subject.strip_prefix(begin).is_some_and(|rest| rest.starts_with(&of_stream)))
}
