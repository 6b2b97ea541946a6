//! Contents of a request, written part by part.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::writing::{MISSING_BEGINNING, element};

/// Author of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentRole {
    User,
    Model,
}

/// Part of a content. Exactly one member has data.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GeminiPart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inline_data: Option<InlineBlob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<FunctionCallPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_response: Option<FunctionResponsePart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<&'a str>,
}

/// Picture as base64.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InlineBlob<'a> {
    pub(super) mime_type: &'a str,
    pub(super) data: &'a str,
}

/// Call of a function.
#[derive(Debug, Serialize)]
pub(super) struct FunctionCallPart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) name: Cow<'a, str>,
    pub(super) args: Box<RawValue>,
}

/// Response of a function.
#[derive(Debug, Serialize)]
pub(super) struct FunctionResponsePart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    pub(super) name: Cow<'a, str>,
    pub(super) response: FunctionOutput<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<GeminiPart<'a>>,
}

/// Output of a function, or its error.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FunctionOutput<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

impl<'a> GeminiPart<'a> {
    /// Creates a part with this text.
    pub(super) fn text(text: &'a str) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    /// Creates a part with a picture.
    pub(super) fn picture(mime_type: &'a str, data: &'a str) -> Self {
        Self { inline_data: Some(InlineBlob { mime_type, data }), ..Self::default() }
    }
}

/// Writer of contents into an open list. Neighbouring parts of one author are one content.
#[derive(Debug)]
pub(super) struct Contents<'w> {
    into: &'w mut Vec<u8>,
    role: Option<ContentRole>,
}

impl<'w> Contents<'w> {
    /// Creates a writer at the beginning of a list.
    pub(super) fn new(into: &'w mut Vec<u8>) -> Self {
        Self { into, role: None }
    }

    /// Writes a part. A list that begins with the model gets a named beginning of the user.
    pub(super) fn part(&mut self, role: ContentRole, part: &GeminiPart<'_>) {
        if self.role.is_none() && role == ContentRole::Model {
            self.part(ContentRole::User, &GeminiPart::text(MISSING_BEGINNING));
        }
        if self.role != Some(role) {
            self.close();
            let name = match role {
                ContentRole::User => "user",
                ContentRole::Model => "model",
            };
            let comma = if self.role.is_some() { "," } else { "" };
            self.into.extend_from_slice(format!("{comma}{{\"role\":\"{name}\",\"parts\":[").as_bytes());
            self.role = Some(role);
        }
        element(self.into, part);
    }

    /// Ends the last content.
    pub(super) fn close(&mut self) {
        if self.role.is_some() {
            self.into.extend_from_slice(b"]}");
        }
    }
}
