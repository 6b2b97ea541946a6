//! Address and framing of model calls, where they differ from those of the wire.

use std::{fmt::Write as _, sync::Arc};

use nexus_core::{ErrorKind, ModelId, harness::Failure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Word in a path that stands for the name of the model.
const MODEL: &str = "{model}";

/// Address and framing of the calls of one server. The default is that of the wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallRoute {
    /// Path below the base URL, with [`MODEL`] where the name of the model belongs.
    pub(crate) path: Option<String>,
    /// Query of every call, percent-encoded.
    pub(crate) query: Option<String>,
    /// Framing of streamed answers.
    pub(crate) framing: StreamFraming,
}

/// StreamFraming of a streamed answer: how the body is divided into events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StreamFraming {
    /// Server-sent events.
    #[default]
    Sse,
    /// Binary messages of Amazon Web Services (`application/vnd.amazon.eventstream`).
    AwsEventStream,
}

impl StreamFraming {
    /// Returns the media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::AwsEventStream => "application/vnd.amazon.eventstream",
        }
    }
}

impl CallRoute {
    /// Returns the fault of a path, if it has one.
    pub(crate) fn path_fault(path: &str) -> Option<&'static str> {
        let around = path.split(MODEL).collect::<Vec<_>>();
        let fits = |c: char| {
            c.is_ascii_graphic() && !matches!(c, '{' | '}' | '?' | '#' | '\\' | '"' | '<' | '>' | '%')
        };
        match () {
            () if !path.starts_with('/') => Some("must begin with `/`"),
            () if around.len() > 2 => Some("must contain `{model}` once at most"),
            () if !around.iter().all(|part| part.chars().all(fits)) => Some(
                "must be a path of ASCII characters without `?`, `#`, `%` and braces, except for `{model}`",
            ),
            () => None,
        }
    }

    /// Returns the path of a call of `model`, if it differs from that of the wire.
    pub(crate) fn path(&self, model: &ModelId) -> Result<Option<Arc<str>>, Failure> {
        let Some(path) = &self.path else { return Ok(None) };
        let Some((before, after)) = path.split_once(MODEL) else { return Ok(Some(path.as_str().into())) };
        let name = model.as_str();
        if name.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            let words = format!(
                "{name:?} is not the name of a model: set `model` for this backend in nexus.yaml to a name without \
                 empty segments, `.` and `..`"
            );
            return Err(Failure::new(ErrorKind::InvalidRequest, words));
        }
        let mut path = before.to_owned();
        path.reserve(name.len() + after.len());
        for byte in name.bytes() {
            match byte {
                // Vertex AI documents names with a bare `@`. Bedrock's SDKs escape `:` and `/`, also in an ARN, as does
                // botocore for every label of a path.
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'@' => {
                    path.push(char::from(byte));
                }
                // Writing to a string cannot fail.
                _ => drop(write!(path, "%{byte:02X}")),
            }
        }
        path.push_str(after);
        Ok(Some(path.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(template: &str, model: &str) -> Result<String, Failure> {
        assert_eq!(CallRoute::path_fault(template), None, "{template}");
        let route = CallRoute { path: Some(template.to_owned()), ..CallRoute::default() };
        Ok(route.path(&ModelId::new(model))?.unwrap().to_string())
    }

    #[test]
    fn the_name_of_a_model_is_one_segment_of_the_path() {
        let bedrock = "/model/{model}/invoke-with-response-stream";
        for (template, model, expected) in [
            (
                bedrock,
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream",
            ),
            (
                bedrock,
                "arn:aws:bedrock:us-east-1:1:inference-profile/x",
                "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx/invoke-with-response-stream",
            ),
            (
                "/models/{model}:streamRawPredict",
                "claude-sonnet-4-5@20250929",
                "/models/claude-sonnet-4-5@20250929:streamRawPredict",
            ),
            ("/models/{model}:x", "a?b#c é", "/models/a%3Fb%23c%20%C3%A9:x"),
            ("/fixed", "any", "/fixed"),
        ] {
            assert_eq!(path(template, model).unwrap(), expected);
        }
        for model in ["", "..", "a/../b", "/"] {
            let failure = path(bedrock, model).unwrap_err();
            assert!(failure.message.unwrap().contains("set `model`"), "{model}");
        }
        assert_eq!(CallRoute::default().path(&ModelId::new("m")).unwrap(), None);
    }

    #[test]
    fn a_path_that_leads_elsewhere_has_a_fault() {
        for path in ["", "x", "/{model}/{model}", "/{zone}", "/a?b", "/a b", "/%2e", "/é", "/{model", "/a#b"]
        {
            assert!(CallRoute::path_fault(path).is_some(), "{path}");
        }
    }
}
