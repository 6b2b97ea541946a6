//! Chunk of the stream, which borrows from the received bytes.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::super::reading::parse;
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

impl GeneratedPart<'_> {
    /// Returns true for a part with a text or a call.
    pub(super) fn has_data(&self) -> bool {
        let has_call = self.function_call.0.as_ref().is_some_and(|call| !call.name.is_empty());
        has_call || self.text.as_ref().is_some_and(|text| !text.as_str().is_empty())
    }
}

/// Members that a part of any kind may have.
const SHARED_MEMBERS: [&str; 3] = ["thought", "thoughtSignature", "thought_signature"];

/// Parses a part. A value that is no object is a part without members.
pub(super) fn parse_part<'a>(raw: &'a RawValue) -> Result<GeneratedPart<'a>, serde_json::Error> {
    match raw.get().starts_with('{') {
        true => parse(raw.get()),
        false => Ok(GeneratedPart::default()),
    }
}

/// Returns the name of the member with a part's data; `None` for a part that has only a signature.
pub(super) fn data_kind(raw: &RawValue) -> Option<String> {
    let is_data = |name: &str, value: &Value| !value.is_null() && !SHARED_MEMBERS.contains(&name);
    part_members(raw).into_iter().find(|(name, value)| is_data(name, value)).map(|(name, _)| name)
}

/// Returns the name of a part's first member.
pub(super) fn first_member(raw: &RawValue) -> Option<String> {
    part_members(raw).into_iter().next().map(|(name, _)| name)
}

fn part_members(raw: &RawValue) -> Map<String, Value> {
    serde_json::from_str(raw.get()).unwrap_or_default()
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
