//! Chunk of the stream, which borrows from the received bytes.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::native::lenient::{Count, Flag, JsonText, List, Object, RawItems, Text};

/// Chunk of the stream, or a whole answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct GeneratedChunk<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<List<Candidate<'a>>>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Object<PromptFeedback<'a>>,
    pub(super) usage_metadata: Object<UsageMetadata>,
    #[serde(borrow)]
    pub(super) model_version: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// One of several alternative answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) content: Object<CandidateContent<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) finish_message: Text<'a>,
}

/// Content of a candidate.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CandidateContent<'a> {
    #[serde(borrow)]
    pub(super) parts: RawItems<'a>,
}

/// Part of a content. It has one of text and call, or neither.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct GeneratedPart<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    pub(super) thought: Flag,
    #[serde(borrow, alias = "thought_signature")]
    pub(super) thought_signature: Text<'a>,
    #[serde(borrow)]
    pub(super) function_call: Object<CalledFunction<'a>>,
}

/// Call of a function.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CalledFunction<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    /// Arguments, byte for byte.
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
}

impl CalledFunction<'_> {
    /// Returns the arguments as JSON text; `{}` without arguments. A server may send them as a string of JSON.
    pub(super) fn arguments(&self) -> String {
        let Some(raw) = self.args.map(RawValue::get).filter(|raw| *raw != "null") else {
            return "{}".to_owned();
        };
        match raw.starts_with('"') {
            true => {
                serde_json::from_str::<JsonText<'_>>(raw).map(|text| text.0.into_owned()).unwrap_or_default()
            }
            false => raw.to_owned(),
        }
    }
}

/// Judgement of the filters on the prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PromptFeedback<'a> {
    #[serde(borrow)]
    pub(super) block_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) block_reason_message: Text<'a>,
}

/// Token counts so far. The prompt includes cached tokens, and thinking is counted apart.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct UsageMetadata {
    pub(super) prompt_token_count: Count,
    pub(super) cached_content_token_count: Count,
    pub(super) candidates_token_count: Count,
    pub(super) thoughts_token_count: Count,
    pub(super) tool_use_prompt_token_count: Count,
}
