//! Checks values against a JSON Schema. No other module uses the schema library.
//!
//! Without the feature `schema` no [`SchemaChecker`] can be created. So nothing exists that needs one: neither an
//! [`OutputSchema`](crate::OutputSchema) nor a tool with a hand-written schema.

use serde_json::Value;

#[cfg(feature = "schema")]
type Library = std::sync::Arc<jsonschema::Validator>;
#[cfg(not(feature = "schema"))]
type Library = std::convert::Infallible;

/// Largest size of a compiled regular expression of [`SchemaChecker::of_pattern`]. Source: our own bound.
#[cfg(feature = "schema")]
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A compiled JSON Schema.
#[derive(Clone, Debug)]
pub(crate) struct SchemaChecker(Library);

/// A violation of a schema: its position as a JSON Pointer (empty for the root), and the problem.
pub(crate) type Violation = (String, String);

#[cfg(feature = "schema")]
impl SchemaChecker {
    /// Checks and compiles `schema`. Does not follow references to other documents.
    ///
    /// # Errors
    ///
    /// The position and the reason, if `schema` is not a JSON Schema.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        let library = jsonschema::validator_for(schema).map_err(|error| {
            let place = error.instance_path().to_string();
            format!("at {}: {error}", if place.is_empty() { "its root" } else { &place })
        })?;
        Ok(Self(library.into()))
    }

    /// Compiles a regular expression from outside, which must not take long: without lookaround and backreferences, and
    /// of limited size.
    ///
    /// # Errors
    ///
    /// The library's reason.
    pub(crate) fn of_pattern(pattern: &str) -> Result<Self, String> {
        let limited = jsonschema::PatternOptions::regex()
            .size_limit(MAX_PATTERN_BYTES)
            .dfa_size_limit(MAX_PATTERN_BYTES);
        let schema = serde_json::json!({ "type": "string", "pattern": pattern });
        let library = jsonschema::options().with_pattern_options(limited).build(&schema);
        Ok(Self(library.map_err(|error| error.to_string())?.into()))
    }

    /// Returns the violations in `value`, at most `limit` of them.
    pub(crate) fn violations(&self, value: &Value, limit: usize) -> Vec<Violation> {
        let errors = self.0.iter_errors(value).take(limit);
        errors.map(|error| (error.instance_path().to_string(), error.to_string())).collect()
    }
}

#[cfg(not(feature = "schema"))]
impl SchemaChecker {
    /// Never called, because without the feature `schema` no checker exists.
    pub(crate) fn violations(&self, _value: &Value, _limit: usize) -> Vec<Violation> {
        match self.0 {}
    }
}
