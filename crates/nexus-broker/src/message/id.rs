//! Ids of messages.

use std::borrow::Cow;

use nexus_core::name_type;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sha2::{Digest as _, Sha256};

use crate::error::BrokerError;

/// Maximum length of an id, in bytes.
const MAX_ID_BYTES: usize = 256;

name_type! {
    /// Identifies a message. A message that is sent again keeps its id.
    ///
    /// An id is free text of 1 to 256 bytes without control characters.
    pub struct EnvelopeId: check_id => BrokerError;
}

impl EnvelopeId {
    /// Creates a random id.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string().into())
    }

    /// Returns the id of a single occurrence, such as the firing of a trigger. Two brokers that see the occurrence create
    /// the same id. It is `WHAT@OCCURRENCE`, or the hash of both if that would be too long or ambiguous.
    #[must_use]
    pub fn of_occurrence(what: &str, occurrence: &str) -> Self {
        if !what.contains('@')
            && let Ok(id) = format!("{what}@{occurrence}").parse()
        {
            return id;
        }
        let mut hash = Sha256::new();
        hash.update((what.len() as u64).to_le_bytes());
        hash.update(what);
        hash.update(occurrence);
        Self(named_by(hash).into())
    }

    /// Returns the id in a form that is safe in an HTTP header: the id itself if it has only visible ASCII characters, else
    /// its hash. Programs decode other characters in different ways, and drop spaces at the ends.
    #[must_use]
    pub fn header_text(&self) -> Cow<'_, str> {
        match self.0.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Cow::Borrowed(&self.0),
            false => Cow::Owned(named_by(Sha256::new_with_prefix(self.as_str()))),
        }
    }
}

fn named_by(hash: Sha256) -> String {
    format!("sha256@{}", nexus_files::hex(hash.finalize()))
}

fn check_id(text: &str) -> Result<(), BrokerError> {
    match (1..=MAX_ID_BYTES).contains(&text.len()) && !text.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(BrokerError::invalid(
            format!("{:?} is not an id of a message", text.chars().take(80).collect::<String>()),
            format!("write 1 to {MAX_ID_BYTES} bytes without control characters"),
        )),
    }
}

impl JsonSchema for EnvelopeId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EnvelopeId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_ID_BYTES,
            "description": "Unique id of the message. A message that is sent again has the same id."
        })
    }
}
