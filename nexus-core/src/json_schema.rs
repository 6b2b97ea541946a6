//! Checks values against a JSON Schema. The only file that knows the library that does so.
//!
//! Without the feature `schema` no [`SchemaChecker`] can be made, and so nothing exists that would have to be checked by one:
//! neither an [`OutputSchema`](crate::OutputSchema) nor a tool whose schema was written by hand.

use serde_json::Value;

#[cfg(feature = "schema")]
type Library = std::sync::Arc<jsonschema::Validator>;
#[cfg(not(feature = "schema"))]
type Library = std::convert::Infallible;

/// A JSON Schema, ready to check values.
#[derive(Clone, Debug)]
pub(crate) struct SchemaChecker(Library);

/// A violation of a schema: its place as a JSON Pointer, which is empty for the root, and the problem.
pub(crate) type Violation = (String, String);

#[cfg(feature = "schema")]
impl SchemaChecker {
    /// Checks and compiles `schema`. Does not follow references to other documents.
    ///
    /// # Errors
    ///
    /// The position and the reason, if it is not a JSON Schema.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        let library = jsonschema::validator_for(schema).map_err(|error| {
            let place = error.instance_path().to_string();
            format!("at {}: {error}", if place.is_empty() { "its root" } else { &place })
        })?;
        Ok(Self(library.into()))
    }

    /// The violations in `value`, at most `limit` of them.
    pub(crate) fn violations(&self, value: &Value, limit: usize) -> Vec<Violation> {
        let errors = self.0.iter_errors(value).take(limit);
        errors.map(|error| (error.instance_path().to_string(), error.to_string())).collect()
    }
}

#[cfg(not(feature = "schema"))]
impl SchemaChecker {
    /// Without the feature `schema` nothing can be checked.
    pub(crate) fn violations(&self, _value: &Value, _limit: usize) -> Vec<Violation> {
        match self.0 {}
    }
}
