//! Items as contents of a request.

use std::borrow::Cow;

use nexus_core::Effort;
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::super::AnswerFormat;
use super::super::writing::{ANSWER_TOOL, ANSWER_TOOL_USE, members, separate, tool_name, write};
use super::UNNAMED_CALL;
use super::contents::{
    ContentRole, Contents, FunctionCallPart, FunctionOutput, FunctionResponsePart, GeminiPart,
};
use super::shape::{GeminiShape, ResultPictures, ThinkingControl};
use super::signature::{MOVED_CALL, SealedSignature};
use crate::native::arguments::json_arguments;
use crate::native::item_transcript::RequestWriter;
use crate::native::items::{Exchange, Item, ItemPart, MISSING_RESULT, joined_text, user_parts};
use crate::native::tools::wire_tool::ToolList;
use crate::native::transcript::TurnConstants;

/// Smallest budget for thinking that every model with budgets accepts. Source: the guide to thinking.
const LEAST_BUDGET: u64 = 512;

/// Tokens of an answer that a budget for thinking leaves. Source: our own choice.
const ANSWER_TOKENS: u64 = 1_024;

/// Writer of requests.
#[derive(Debug)]
pub(crate) struct GeminiWriter {
    shape: GeminiShape,
    effort: Option<Effort>,
    /// Members of `generationConfig` that all requests share, as a JSON object.
    generation: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiHead<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[GeminiTools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiTools<'a> {
    function_declarations: ToolList<'a>,
}

impl GeminiWriter {
    /// Creates a writer for the requests of a turn.
    pub(crate) fn new(shape: GeminiShape, opening: &TurnConstants<'_>) -> Self {
        let mut generation = Map::new();
        if let Some(format) = opening.output_format.filter(|_| shape.answer == AnswerFormat::Native) {
            generation.insert("responseMimeType".to_owned(), json!("application/json"));
            generation
                .insert("responseJsonSchema".to_owned(), format.get("schema").cloned().unwrap_or_default());
        }
        Self { shape, effort: opening.effort, generation: Value::Object(generation).to_string() }
    }

    /// Returns the functions, with the answer's if the schema is sent as one, and the choice among them.
    fn tools<'a>(&self, opening: &TurnConstants<'a>) -> (Option<[GeminiTools<'a>; 1]>, Option<Value>) {
        let mut functions = ToolList { tools: opening.tools, last: None };
        let mut choice = None;
        if let Some(format) = opening.output_format.filter(|_| self.shape.answer == AnswerFormat::Tool) {
            let mut calling = json!({ "mode": "ANY" });
            if functions.is_empty() {
                calling["allowedFunctionNames"] = json!([ANSWER_TOOL]);
            }
            choice = Some(json!({ "functionCallingConfig": calling }));
            let schema = format.get("schema").cloned().unwrap_or_default();
            functions.last = Some(json!({
                "name": ANSWER_TOOL, "description": ANSWER_TOOL_USE, "parametersJsonSchema": schema,
            }));
        }
        let tools = (!functions.is_empty()).then_some([GeminiTools { function_declarations: functions }]);
        (tools, choice)
    }

    /// Returns the settings of thinking for a request whose answer has at most `bound` tokens.
    fn thinking(&self, bound: Option<u64>) -> Option<Value> {
        let mut config = json!({ "includeThoughts": true });
        match (self.shape.thinking, self.effort) {
            (ThinkingControl::Nothing, _) => return None,
            (ThinkingControl::Level, Some(effort)) => config["thinkingLevel"] = json!(effort.as_str()),
            (ThinkingControl::Budget, Some(effort)) => {
                let room = bound.map_or(u64::MAX, |bound| bound.saturating_sub(ANSWER_TOKENS));
                // With less room, the smallest budget would use the tokens of the answer.
                if room >= LEAST_BUDGET {
                    config["thinkingBudget"] = json!(budget(effort).min(room));
                }
            }
            (_, None) => {}
        }
        Some(config)
    }

    /// Writes `generationConfig`, unless it is empty.
    fn generation(&self, bound: Option<u64>, into: &mut Vec<u8>) {
        let before = into.len();
        into.extend_from_slice(b",\"generationConfig\":{");
        let start = into.len();
        members(into, &self.generation);
        if let Some(bound) = bound {
            separate(into);
            into.extend_from_slice(format!("\"maxOutputTokens\":{}", bound.max(1)).as_bytes());
        }
        if let Some(thinking) = self.thinking(bound) {
            separate(into);
            into.extend_from_slice(b"\"thinkingConfig\":");
            write(into, &thinking);
        }
        if let Some(more) = &self.shape.generation {
            members(into, more);
        }
        match into.len() == start {
            true => into.truncate(before),
            false => into.push(b'}'),
        }
    }

    /// Returns the id that a request states: that of the server, or of the wire from which the conversation came.
    fn sent_id<'a>(&self, id: &'a str) -> Option<&'a str> {
        (self.shape.call_ids && !id.is_empty() && !id.starts_with(UNNAMED_CALL)).then_some(id)
    }

    /// Writes the model's reply.
    fn model(&self, items: &[&Item], contents: &mut Contents<'_>) {
        let role = ContentRole::Model;
        let (mut marks, mut signature) = (Vec::new(), None);
        let mut is_first_call = true;
        for item in items {
            match item {
                Item::Message { parts, .. } => {
                    for part in parts {
                        match part {
                            ItemPart::Text { text } => signed_text(text, &mut marks, contents),
                            ItemPart::Image { .. } => picture(role, part, contents),
                        }
                    }
                }
                Item::Reasoning { sealed, .. } => {
                    let Ok(sealed) = serde_json::from_str::<SealedSignature<'_>>(&sealed.json) else {
                        continue;
                    };
                    if let Some(thought) = &sealed.thought {
                        signed_text("", &mut marks, contents);
                        let part = GeminiPart {
                            thought: Some(true),
                            thought_signature: Some(&sealed.thought_signature),
                            ..GeminiPart::text(thought)
                        };
                        contents.part(role, &part);
                    } else if let Some((start, end)) = sealed.range {
                        marks.push(((start, end), sealed.thought_signature));
                    } else {
                        signature = Some(sealed.thought_signature);
                    }
                }
                Item::Call { id, name, arguments, .. } => {
                    signed_text("", &mut marks, contents);
                    let text =
                        json_arguments(arguments).map_or(Cow::Borrowed(arguments.as_str()), Cow::Owned);
                    let args = RawValue::from_string(text.into_owned());
                    // Only the first of several calls is signed.
                    let needs_mark = is_first_call && self.shape.thinking == ThinkingControl::Level;
                    let own = signature.take();
                    let part = GeminiPart {
                        function_call: Some(FunctionCallPart {
                            id: self.sent_id(id),
                            name: function_name(name),
                            args: args.unwrap_or_else(|_| RawValue::NULL.to_owned()),
                        }),
                        thought_signature: own.as_deref().or(needs_mark.then_some(MOVED_CALL)),
                        ..GeminiPart::default()
                    };
                    contents.part(role, &part);
                    is_first_call = false;
                }
                _ => {}
            }
        }
        signed_text("", &mut marks, contents);
    }

    /// Writes the results of the calls, in their order, and then the pictures that have no place in them.
    fn results(&self, exchange: &Exchange<'_>, contents: &mut Contents<'_>) {
        let role = ContentRole::User;
        let mut beside = Vec::new();
        for answer in &exchange.answers {
            let name = exchange.model.iter().find_map(|item| match item {
                Item::Call { id, name, .. } if id == answer.call => Some(name.as_str()),
                _ => None,
            });
            let name = function_name(name.unwrap_or_default());
            let (parts, is_error) = answer.result.unwrap_or((&[], true));
            let has_pictures = parts.iter().any(|part| matches!(part, ItemPart::Image { .. }));
            let text = match answer.result {
                None => Cow::Borrowed(MISSING_RESULT),
                Some(_) => Cow::Owned(joined_text(parts)),
            };
            let mut inside = Vec::new();
            match self.shape.pictures {
                ResultPictures::Inside => inside.extend(parts.iter().filter_map(picture_part)),
                ResultPictures::Beside if has_pictures => {
                    beside.push((format!("[pictures of the result of {name}]"), parts));
                }
                ResultPictures::Beside => {}
            }
            let response = if is_error { FunctionOutput::Error(text) } else { FunctionOutput::Output(text) };
            let response =
                FunctionResponsePart { id: self.sent_id(answer.call), name, response, parts: inside };
            contents.part(role, &GeminiPart { function_response: Some(response), ..GeminiPart::default() });
        }
        for (label, parts) in beside {
            contents.part(role, &GeminiPart::text(&label));
            parts.iter().for_each(|part| picture(role, part, contents));
        }
    }
}

impl RequestWriter for GeminiWriter {
    fn wire(&self) -> &'static str {
        "gemini"
    }

    fn head(&self, opening: &TurnConstants<'_>, _conversation: &str) -> Vec<u8> {
        let (tools, tool_config) = self.tools(opening);
        let system = opening.system.filter(|text| !text.trim().is_empty());
        let system_instruction = system.map(|text| json!({ "parts": [{ "text": text }] }));
        let mut into = Vec::new();
        write(&mut into, &GeminiHead { system_instruction, tools, tool_config });
        // Remove the closing brace: every request completes the object with its contents.
        into.pop();
        if let Some(more) = &self.shape.body {
            members(&mut into, more);
        }
        separate(&mut into);
        into.extend_from_slice(b"\"contents\":[");
        into
    }

    fn body(&self, head: &[u8], items: &[&Item], output_tokens: Option<u64>) -> Vec<u8> {
        let mut into = Vec::with_capacity(head.len() + 1024);
        into.extend_from_slice(head);
        let mut contents = Contents::new(&mut into);
        for exchange in Exchange::all_of(items) {
            for part in exchange.user.iter().flat_map(|item| user_parts(item)) {
                match &*part {
                    ItemPart::Text { text } if text.trim().is_empty() => {}
                    ItemPart::Text { text } => contents.part(ContentRole::User, &GeminiPart::text(text)),
                    ItemPart::Image { .. } => picture(ContentRole::User, &part, &mut contents),
                }
            }
            self.model(&exchange.model, &mut contents);
            self.results(&exchange, &mut contents);
        }
        contents.close();
        into.push(b']');
        self.generation(output_tokens, &mut into);
        into.push(b'}');
        into
    }

    fn move_pictures(&mut self) -> bool {
        std::mem::replace(&mut self.shape.pictures, ResultPictures::Beside) == ResultPictures::Inside
    }
}

/// Returns the budget for an effort. Source: our own choice, within the bounds that the guide to thinking lists for
/// every model.
fn budget(effort: Effort) -> u64 {
    match effort {
        Effort::Minimal => LEAST_BUDGET,
        Effort::Low => 4_096,
        Effort::Medium => 10_240,
        _ => 24_576,
    }
}

/// Returns the name of a called function in the form that the API requires.
fn function_name(name: &str) -> Cow<'_, str> {
    let name = tool_name(name);
    match name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        true => name,
        // All characters are ASCII, so the cut is at a boundary.
        false => Cow::Owned(format!("_{}", name.get(..name.len().min(63)).unwrap_or_default())),
    }
}

fn picture_part(part: &ItemPart) -> Option<GeminiPart<'_>> {
    match part {
        ItemPart::Image { media_type, data } => Some(GeminiPart::picture(media_type, data)),
        ItemPart::Text { .. } => None,
    }
}

fn picture(role: ContentRole, part: &ItemPart, contents: &mut Contents<'_>) {
    if let Some(part) = picture_part(part) {
        contents.part(role, &part);
    }
}

/// Bytes of a text that are a signed part, and the signature.
type SignedRange<'a> = ((usize, usize), Cow<'a, str>);

/// Writes a text of the model in the parts that its signatures require. An empty part may have a signature.
fn signed_text(text: &str, marks: &mut Vec<SignedRange<'_>>, contents: &mut Contents<'_>) {
    let mut written = 0;
    let plain = |from: usize, to: usize, contents: &mut Contents<'_>| {
        if let Some(text) = text.get(from..to).filter(|text| !text.is_empty()) {
            contents.part(ContentRole::Model, &GeminiPart::text(text));
        }
    };
    for ((start, end), signature) in marks.drain(..) {
        // Another text than the signed one has no part for the signature.
        let Some(signed) = text.get(start..end).filter(|_| start >= written) else { continue };
        plain(written, start, contents);
        let part = GeminiPart { thought_signature: Some(&signature), ..GeminiPart::text(signed) };
        contents.part(ContentRole::Model, &part);
        written = end;
    }
    plain(written, text.len(), contents);
}

#[cfg(test)]
mod tests;
