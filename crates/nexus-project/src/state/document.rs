//! Common part of all state files. Their types define their schemas, which are checked at every read and write.

use std::path::Path;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    error::{ProjectError, ProjectErrorKind},
    file,
};

/// Format version of all state files. A file of a later version is not read.
pub(crate) const VERSION: u32 = 1;

/// Advice for a file of a later version.
pub(crate) const UPDATE: &str = "update Nexus; the file was not changed";

/// A file of the state.
pub trait Document: Serialize + DeserializeOwned + JsonSchema {
    /// File name.
    const NAME: &'static str;

    /// Returns the format version of the document.
    fn version(&self) -> u32;

    /// Checks rules that the schema cannot express.
    ///
    /// # Errors
    ///
    /// Description of the fault, with its position in the document.
    fn check(&self) -> Result<(), String>;

    /// Reads a document. `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// [`ProjectErrorKind::Damaged`] with the line and column, or the path in the document; errors of the file
    /// system.
    fn read(path: &Path) -> Result<Option<Self>, ProjectError> {
        let Some(bytes) = file::read(path)? else { return Ok(None) };
        let mut reader = serde_json::Deserializer::from_slice(&bytes);
        let read: Result<Self, _> = serde_path_to_error::deserialize(&mut reader);
        let document = match read {
            Ok(document) => document,
            Err(error) => {
                // A later version may have fields that this one rejects. Report the version, not the field.
                if let Some(version) = later_version(&bytes) {
                    return Err(newer(path, version));
                }
                let place = match error.path().to_string() {
                    place if place == "." || place == "?" => String::new(),
                    place => format!(", at {place}"),
                };
                return Err(ProjectError::damaged(path, format_args!("{}{place}", error.inner())));
            }
        };
        // `deserialize` stops at the end of the value, so check that nothing follows.
        reader.end().map_err(|error| ProjectError::damaged(path, error))?;
        match document.version() {
            VERSION => {}
            0 => return Err(ProjectError::damaged(path, "`version` is 0, but the first version is 1")),
            later => return Err(newer(path, later.into())),
        }
        document.check().map_err(|problem| ProjectError::damaged(path, problem))?;
        Ok(Some(document))
    }

    /// Returns the text of the document's file.
    ///
    /// # Errors
    ///
    /// [`ProjectErrorKind::Damaged`] for an invalid document; [`ProjectErrorKind::WrongState`] for a document
    /// that is too large to be read again.
    fn text(&self, path: &Path) -> Result<String, ProjectError> {
        self.check().map_err(|problem| ProjectError::damaged(path, problem))?;
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| ProjectError::damaged(path, format_args!("it cannot be written: {error}")))?;
        text.push('\n');
        // A larger document could be written, but never read again.
        file::check_size(path, text.len())?;
        Ok(text)
    }

    /// Replaces a document in one step.
    ///
    /// # Errors
    ///
    /// Errors of [`Self::text`] and of the file system. The old document is in place then.
    fn write(&self, path: &Path) -> Result<(), ProjectError> {
        file::replace(path, self.text(path)?.as_bytes())
    }
}

/// Returns the JSON Schema of a state file.
pub fn schema_of<D: Document>() -> Value {
    titled_schema::<D>(D::NAME)
}

/// Returns the JSON Schema of the content of a file with this name.
pub(crate) fn titled_schema<T: JsonSchema>(name: &str) -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    schema["title"] = name.into();
    schema
}

fn later_version(bytes: &[u8]) -> Option<u64> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    value.get("version")?.as_u64().filter(|version| *version > VERSION.into())
}

fn newer(path: &Path, version: u64) -> ProjectError {
    let message = format!("{path:?} has version {version}, but this version of Nexus supports {VERSION}");
    ProjectError::new(ProjectErrorKind::Damaged, message, UPDATE)
}
