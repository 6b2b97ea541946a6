//! Shape of requests on the Gemini wire.

use std::{fmt::Write as _, sync::Arc};

use nexus_core::{ErrorKind, ModelId, harness::Failure};
use serde::{Deserialize, de::IgnoredAny};

use super::super::AnswerFormat;

/// Shape of a request.
#[derive(Clone, Debug)]
pub(crate) struct GeminiShape {
    /// Path of a model call below the base URL, which names the model.
    pub(crate) path: Arc<str>,
    /// Form in which an effort is sent.
    pub(crate) thinking: ThinkingControl,
    /// Position of the pictures of a result.
    pub(crate) pictures: ResultPictures,
    /// True if requests contain the ids of calls. The vendor's cloud platform rejects them, by public threads.
    pub(crate) call_ids: bool,
    /// Recipient of an answer's schema.
    pub(crate) answer: AnswerFormat,
    /// JSON object with more members of every request.
    pub(crate) body: Option<Arc<str>>,
    /// JSON object with more members of `generationConfig`.
    pub(crate) generation: Option<Arc<str>>,
}

/// Form in which an effort is sent, and with which thinking is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingControl {
    /// Sends `thinkingLevel`. Models with levels also require signatures of calls.
    Level,
    /// Sends `thinkingBudget`.
    Budget,
    /// Sends nothing about thinking.
    Nothing,
}

/// Position of the pictures of a tool's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultPictures {
    /// In the response of the function.
    Inside,
    /// In parts of their own after all responses.
    Beside,
}

/// Collections with which the name of a model may begin. Source: the API reference, `models` and `tunedModels`; the
/// vendor's cloud platform, the other two.
const COLLECTIONS: [&str; 4] = ["models/", "projects/", "publishers/", "tunedModels/"];

/// Returns the path of a call of a model, whose name may begin with its collection, such as `models/`. The name stays
/// within its collection: any other slash is escaped, and segments that lead elsewhere are an error.
pub(crate) fn call_path(model: &ModelId) -> Result<Arc<str>, Failure> {
    let name = model.as_str();
    if name.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        let words = format!(
            "{name:?} is not the name of a model: set `model` for this backend in nexus.yaml to a name without empty \
             segments, `.` and `..`"
        );
        return Err(Failure::new(ErrorKind::InvalidRequest, words));
    }
    let has_collection = COLLECTIONS.iter().any(|collection| name.starts_with(collection));
    let mut path = if has_collection { "/".to_owned() } else { "/models/".to_owned() };
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte));
            }
            b'/' if has_collection => path.push('/'),
            // Writing to a string cannot fail.
            _ => drop(write!(path, "%{byte:02X}")),
        }
    }
    path.push_str(":streamGenerateContent?alt=sse");
    Ok(path.into())
}

/// Returns true if a complete JSON body is an answer or a list of its chunks, not an error.
pub(crate) fn is_answer(body: &[u8]) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct AnswerStart {
        candidates: Option<IgnoredAny>,
        prompt_feedback: Option<IgnoredAny>,
        usage_metadata: Option<IgnoredAny>,
    }

    let is_chunk = |start: &AnswerStart| {
        start.candidates.is_some() || start.prompt_feedback.is_some() || start.usage_metadata.is_some()
    };
    match body.trim_ascii_start().first() {
        Some(b'[') => {
            serde_json::from_slice::<Vec<AnswerStart>>(body).is_ok_and(|list| list.iter().any(is_chunk))
        }
        _ => serde_json::from_slice::<AnswerStart>(body).is_ok_and(|start| is_chunk(&start)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_the_model() {
        for (model, path) in [
            ("gemini-flash-latest", "/models/gemini-flash-latest:streamGenerateContent?alt=sse"),
            ("models/gemini-3", "/models/gemini-3:streamGenerateContent?alt=sse"),
            ("tunedModels/mine", "/tunedModels/mine:streamGenerateContent?alt=sse"),
            ("google/gemini-3", "/models/google%2Fgemini-3:streamGenerateContent?alt=sse"),
            (
                "publishers/google/models/gemini-3",
                "/publishers/google/models/gemini-3:streamGenerateContent?alt=sse",
            ),
            ("a?b#c é", "/models/a%3Fb%23c%20%C3%A9:streamGenerateContent?alt=sse"),
        ] {
            assert_eq!(&*call_path(&ModelId::new(model)).unwrap(), path);
        }
        for model in ["", "/", "../../x", "models/../x", "models/", "models//x", "./x"] {
            let failure = call_path(&ModelId::new(model)).unwrap_err();
            assert_eq!(failure.kind, ErrorKind::InvalidRequest);
            assert!(failure.message.unwrap().contains("set `model`"), "{model}");
        }
    }

    #[test]
    fn an_answer_is_told_from_an_error() {
        for body in
            [r#"{"candidates":[]}"#, r#" [{"candidates":[]},{"error":{}}]"#, r#"{"promptFeedback":{}}"#]
        {
            assert!(is_answer(body.as_bytes()), "{body}");
        }
        for body in [r#"{"error":{"code":400}}"#, r#"[{"error":{"code":400}}]"#, "[]", "null", "[1]", ""] {
            assert!(!is_answer(body.as_bytes()), "{body}");
        }
    }
}
