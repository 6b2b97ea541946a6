//! Inputs of the program: its arguments, which are always the same, and the requests on its standard input.

use std::path::Path;

use nexus_core::{AppliedEffort, ErrorKind, PromptBlock, ToolAccess, TurnRequest, harness::Failure};
use serde_json::{Value, json};

use super::conversation::KeptSession;
use super::sandbox::SandboxPolicy;
use super::translate::Script;
use crate::cli::TurnPlan;

/// All arguments. None depends on a request.
pub(super) const ARGUMENTS: [&str; 2] = ["app-server", "--strict-config"];

/// Maximum length of a turn's initial text, in characters. Source: the program rejects 1,048,577 characters.
const MAX_PROMPT_CHARS: usize = 1 << 20;

/// Image types that the program can prepare. It silently replaces an image of another type with a note to the model.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Replacement for the harness's instructions in a turn without tools. Those instructions are all about the harness's
/// tools.
const NO_TOOLS: &str = "Answer the user in text. There are no tools.";

/// Replacement for the harness's instructions in a turn that has only the caller's tools.
const CALLERS_TOOLS: &str = "Answer the user. You have the tools that are listed, and no others.";

/// Builds the requests of a turn in a working directory.
///
/// # Errors
///
/// [`ErrorKind::InvalidRequest`] if the prompt is longer than the program accepts, or contains an image that it cannot
/// prepare.
pub(super) fn script(
    plan: &TurnPlan,
    directory: &Path,
    policy: &SandboxPolicy,
    resumed: Option<&KeptSession>,
    effort: Option<AppliedEffort>,
) -> Result<Script, Failure> {
    let request = &*plan.request;
    // With this policy, the program answers each request for more rights with an error to its model.
    let mut thread = json!({ "cwd": directory, "approvalPolicy": "never" });
    if let Some(sandbox) = policy.mode() {
        thread["sandbox"] = json!(sandbox);
    }
    if let Some(model) = &request.model {
        thread["model"] = json!(model.as_str());
    }
    let mut system = request.system.as_deref();
    if request.tool_access == ToolAccess::ScopedOnly {
        // Without its tools the program would send its own instructions twice to some models, so replace them.
        thread["baseInstructions"] = json!("");
        let stand_in = if plan.tools.is_some() { CALLERS_TOOLS } else { NO_TOOLS };
        system = Some(system.unwrap_or(stand_in));
    }
    if let Some(system) = system {
        thread["developerInstructions"] = json!(system);
    }
    let thread_method = match resumed {
        Some(session) => {
            thread["threadId"] = json!(session.thread);
            // Otherwise the response repeats the whole conversation.
            thread["excludeTurns"] = json!(true);
            "thread/resume"
        }
        None => "thread/start",
    };
    let mut turn = json!({});
    let mut input = input(request)?;
    match &request.output {
        Some(output) if is_strict(output.schema()) => turn["outputSchema"] = output.schema().clone(),
        Some(output) => input.push(text_input(output.instruction())),
        None => {}
    }
    // After the instruction about the schema was added, because it counts too.
    check_length(&input)?;
    turn["input"] = Value::Array(input);
    if let Some(effort) = effort {
        turn["effort"] = json!(effort.applied.as_str());
    }
    Ok(Script { thread_method, thread, turn, policy: policy.words() })
}

fn input(request: &TurnRequest) -> Result<Vec<Value>, Failure> {
    let blocks = request.prompt.iter().map(|block| match block {
        PromptBlock::Text { text } => Ok(text_input(text)),
        PromptBlock::Image { media_type, data } if PICTURES.contains(&media_type.as_str()) => {
            Ok(json!({ "type": "image", "url": format!("data:{media_type};base64,{data}") }))
        }
        PromptBlock::Image { media_type, .. } => {
            let reason =
                format!("a picture of type {media_type:?}; only {} are supported", PICTURES.join(", "));
            Err(Failure::new(ErrorKind::InvalidRequest, reason))
        }
        _ => Err(Failure::new(ErrorKind::Unsupported, "a prompt block that is neither text nor a picture")),
    });
    blocks.collect()
}

fn text_input(text: impl Into<String>) -> Value {
    json!({ "type": "text", "text": text.into() })
}

fn check_length(input: &[Value]) -> Result<(), Failure> {
    let texts = input.iter().filter_map(|block| block.get("text")?.as_str());
    let chars: usize = texts.map(|text| text.chars().count()).sum();
    if chars <= MAX_PROMPT_CHARS {
        return Ok(());
    }
    let reason = format!("the prompt has {chars} characters; codex accepts at most {MAX_PROMPT_CHARS}");
    Err(Failure::new(ErrorKind::InvalidRequest, reason))
}

/// Returns true if the vendor accepts the schema unchanged. The root must be an object, and every object must require
/// all its properties and allow no others. The vendor rejects any other schema with status 400; the prompt must then
/// contain it. Source: the vendor's documentation of structured outputs.
fn is_strict(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object") && is_strict_within(schema)
}

fn is_strict_within(schema: &Value) -> bool {
    match schema {
        Value::Object(keys) => {
            let is_object =
                keys.get("type").is_some_and(|kind| kind == "object") || keys.contains_key("properties");
            (!is_object || closes_object(keys)) && keys.values().all(is_strict_within)
        }
        Value::Array(items) => items.iter().all(is_strict_within),
        _ => true,
    }
}

fn closes_object(keys: &serde_json::Map<String, Value>) -> bool {
    let required = keys.get("required").and_then(Value::as_array);
    let properties = keys.get("properties").and_then(Value::as_object);
    let requires = |name: &String| required.is_some_and(|list| list.iter().any(|word| word == name));
    keys.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_some_and(|properties| properties.keys().all(requires))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_goes_to_the_vendor_only_as_the_vendor_takes_it() {
        let closed = json!({
            "type": "object", "properties": { "a": { "type": "string" } },
            "required": ["a"], "additionalProperties": false,
        });
        assert!(is_strict(&closed));
        let nested = |inner: Value| json!({ "type": "object", "properties": { "x": inner }, "required": ["x"], "additionalProperties": false });
        assert!(is_strict(&nested(closed.clone())));
        assert!(!is_strict(&nested(json!({ "type": "object", "properties": {} }))));
        assert!(!is_strict(&json!({ "type": "array", "items": closed })));
        assert!(!is_strict(&json!({
            "type": "object", "properties": { "a": {} }, "required": [], "additionalProperties": false,
        })));
    }

    #[test]
    fn the_longest_prompt_is_counted_in_characters() {
        let fits = text_input("\u{e9}".repeat(MAX_PROMPT_CHARS));
        assert!(check_length(std::slice::from_ref(&fits)).is_ok());
        assert!(check_length(&[fits, text_input("x")]).is_err());
    }
}
