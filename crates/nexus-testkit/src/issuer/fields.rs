//! Parameters of a request, from the query, a form or JSON.

use serde_json::Value;
use url::form_urlencoded;

/// Named texts in their order. The first text of a name counts, as with most servers.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `application/x-www-form-urlencoded`, of a body or a query.
    pub(super) fn from_form(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// Reads a JSON object. Members that are not strings are written as JSON.
    pub(super) fn from_json(text: &[u8]) -> Self {
        // Other text has no parameters, so the endpoint misses the required ones and refuses the request.
        let Ok(Value::Object(members)) = serde_json::from_slice(text) else { return Self::default() };
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Self(members.into_iter().map(|(name, value)| (name, text(value))).collect())
    }

    /// Adds those of `other` behind.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns the value of `name`, if it exists and is not empty.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
