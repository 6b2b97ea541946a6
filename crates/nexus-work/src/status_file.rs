//! `status.json`: parses it strictly, and checks before a write that the text can be parsed again.

use std::{collections::BTreeSet, fmt, fs, path::Path, str};

use nexus_files::rfc3339;
use serde::{
    Deserialize, Serialize,
    de::{self, DeserializeOwned, Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    WorkspaceId, WorkspaceStatus,
    error::{WorkspaceError, WorkspaceErrorKind},
    file,
    status::VERSION,
};

/// The name of the file.
pub(super) const NAME: &str = "status.json";
/// Maximum size of a status, in bytes. Larger data belongs into a separate file.
const MAX_BYTES: u64 = 16 << 20;

/// Reads the status in `folder`. Fails if it has another kind than the given one.
pub(super) fn read<S: DeserializeOwned>(
    folder: &Path,
    kind: Option<&str>,
) -> Result<WorkspaceStatus<S>, WorkspaceError> {
    let path = folder.join(NAME);
    parse(&path, &file::read(&path, MAX_BYTES)?, kind)
}

/// Reads the status of the workspace `id` in `folder`. Fails if it has another kind than the given one.
pub(super) fn read_of<S: DeserializeOwned>(
    id: &WorkspaceId,
    folder: &Path,
    kind: Option<&str>,
) -> Result<WorkspaceStatus<S>, WorkspaceError> {
    let none = |reason: &str| WorkspaceError::new(WorkspaceErrorKind::NotAWorkspace, folder, reason);
    let found = fs::symlink_metadata(folder)
        .map_err(|error| WorkspaceError::from_io(folder, "cannot be opened", error))?;
    if !found.is_dir() {
        return Err(none("is not a workspace, because it is not a folder"));
    }
    let status = read(folder, kind).map_err(|error| match error.kind() {
        WorkspaceErrorKind::NotFound => none("is not a workspace: it has no status.json"),
        _ => error,
    })?;
    if status.id != *id {
        return Err(none(&format!("is not the workspace {id}: its status.json belongs to {}", status.id)));
    }
    Ok(status)
}

/// Replaces the status in `folder`. The caller must own the lock.
pub(super) fn write<S: Serialize + DeserializeOwned>(
    folder: &Path,
    status: &WorkspaceStatus<S>,
) -> Result<(), WorkspaceError> {
    let path = folder.join(NAME);
    let unwritable = |reason: String| WorkspaceError::new(WorkspaceErrorKind::Unwritable, &path, reason);
    let mut bytes = serde_json::to_vec_pretty(status)
        .map_err(|error| unwritable(format!("cannot be written: {error}")))?;
    bytes.push(b'\n');
    if bytes.len() as u64 > MAX_BYTES {
        let reason =
            format!("would have {} bytes, more than {MAX_BYTES}: store large data in a file", bytes.len());
        return Err(unwritable(reason));
    }
    // Parse the text before writing it: some values, such as deeply nested data, can be serialized but not parsed.
    parse::<S>(&path, &bytes, Some(&status.kind))
        .map_err(|error| unwritable(format!("could not be read back: {error}")))?;
    file::replace(folder, NAME, &bytes)
}

/// Parses the content of the file at `path`.
fn parse<S: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    kind: Option<&str>,
) -> Result<WorkspaceStatus<S>, WorkspaceError> {
    let text = str::from_utf8(bytes)
        .map_err(|error| malformed(path, position(bytes, error.valid_up_to()), "this is not UTF-8"))?;
    let fields: RawFields<'_> = serde_json::from_str(text)
        .map_err(|error| malformed(path, (error.line(), error.column()), &words(&error)))?;
    let mut reading = RemainingFields { path, text, fields: fields.0 };
    match reading.field("version")? {
        VERSION => {}
        found if found > VERSION => {
            let reason = format!(
                "has version {found} of a newer Nexus: update Nexus; this version supports {VERSION}"
            );
            return Err(WorkspaceError::new(WorkspaceErrorKind::NewerVersion { found }, path, reason));
        }
        found => return Err(malformed(path, (1, 1), &format!("there is no version {found}"))),
    }
    let id = reading.field("id")?;
    let found: String = reading.field("kind")?;
    if let Some(kind) = kind.filter(|kind| *kind != found) {
        let reason = format!("belongs to a {found:?}, not to a {kind:?}: open it as its own kind");
        return Err(WorkspaceError::new(WorkspaceErrorKind::OtherKind, path, reason));
    }
    Ok(WorkspaceStatus {
        id,
        kind: found,
        generation: reading.field("generation")?,
        created_at: reading.field::<Time>("created_at")?.0,
        updated_at: reading.field::<Time>("updated_at")?.0,
        parent: reading.field_or_default("parent_workspace_id")?,
        state: reading.field("state")?,
        linked_workspace_ids: reading.field_or_default::<BTreeSet<_>>("linked_workspace_ids")?,
        pending_link_ids: reading.field_or_default::<BTreeSet<_>>("pending_link_ids")?,
        labels: reading.field_or_default("labels")?,
        data: reading.field_or_default("data")?,
        unknown: reading.fields.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect(),
    })
}

/// Fields that are not parsed yet.
struct RemainingFields<'a> {
    path: &'a Path,
    text: &'a str,
    fields: Vec<(String, &'a RawValue)>,
}

impl RemainingFields<'_> {
    fn field<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, WorkspaceError> {
        match self.take(name)? {
            Some(value) => Ok(value),
            None => Err(malformed(self.path, (1, 1), &format!("the field `{name}` is missing"))),
        }
    }

    fn field_or_default<T: DeserializeOwned + Default>(&mut self, name: &str) -> Result<T, WorkspaceError> {
        Ok(self.take(name)?.unwrap_or_default())
    }

    fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, WorkspaceError> {
        let Some(at) = self.fields.iter().position(|(known, _)| known == name) else { return Ok(None) };
        let (_, value) = self.fields.remove(at);
        serde_json::from_str(value.get()).map(Some).map_err(|error| {
            // `value` is a slice of the text, so the pointer difference is its position.
            let start = (value.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
            let (line, column) = position(self.text.as_bytes(), start);
            let at = match error.line() {
                0 | 1 => (line, column + error.column().saturating_sub(1)),
                further => (line + further - 1, error.column()),
            };
            malformed(self.path, at, &format!("`{name}`: {}", words(&error)))
        })
    }
}

/// Fields of an object, with their unparsed values.
struct RawFields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = RawFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(String, &'de RawValue)> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if fields.iter().any(|(known, _)| *known == name) {
                        return Err(de::Error::custom(format_args!("the field `{name}` occurs twice")));
                    }
                    fields.push((name, map.next_value()?));
                }
                Ok(RawFields(fields))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Time(#[serde(with = "rfc3339::as_micros")] std::time::SystemTime);

fn malformed(path: &Path, (line, column): (usize, usize), reason: &str) -> WorkspaceError {
    let (line, column) = (line.max(1), column.max(1));
    let kind = WorkspaceErrorKind::Malformed { line, column };
    let reason =
        format!("is malformed at line {line}, column {column}: {reason}; correct it, or restore a copy");
    WorkspaceError::new(kind, path, reason)
}

/// Returns the message of a JSON error, without the position at its end.
fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text.get(..end).unwrap_or_default().to_owned()
}

/// Returns the line and column of a byte, both counted from 1.
fn position(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = bytes.get(..at).unwrap_or(bytes);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    (line, before.len() - start + 1)
}
