//! Requests that the API is known to refuse.
//!
//! Source: the errors of the API for the order of contents and for signatures, in public threads, and the service
//! definition for the names of members.

use serde_json::Value;

use super::refuse;
use crate::sim::conversation::{list_at, string_at};
use crate::sim::server::Arrival;
use crate::sim::wire::Answer;

/// Members of a request.
const MEMBERS: [&str; 8] = [
    "cachedContent",
    "contents",
    "generationConfig",
    "model",
    "safetySettings",
    "systemInstruction",
    "toolConfig",
    "tools",
];

/// Keywords of a schema that a server does not know.
const UNKNOWN_KEYWORDS: [&str; 6] = ["allOf", "const", "definitions", "not", "pattern", "patternProperties"];

/// Returns the refusal of an invalid request, if the script is strict.
pub(super) fn refusal(arrival: &Arrival<'_>) -> Option<Answer> {
    if !arrival.scenario.strict_shape {
        return None;
    }
    let message = wrong_member(arrival.json)
        .or_else(|| wrong_function(arrival.json))
        .or_else(|| wrong_order(list_at(arrival.json, "contents")))?;
    Some(Answer::json(400, &refuse::error(400, "INVALID_ARGUMENT", &message)))
}

fn wrong_member(json: &Value) -> Option<String> {
    let unknown = json.as_object()?.keys().find(|name| !MEMBERS.contains(&name.as_str()));
    if let Some(name) = unknown {
        return Some(format!("Invalid JSON payload received. Unknown name \"{name}\": Cannot find field."));
    }
    let thinking = json.pointer("/generationConfig/thinkingConfig");
    let has = |name: &str| thinking.is_some_and(|config| config.get(name).is_some());
    (has("thinkingLevel") && has("thinkingBudget"))
        .then(|| "You can only set only one of thinking budget and thinking level.".to_owned())
}

fn wrong_function(json: &Value) -> Option<String> {
    let functions = list_at(json, "tools").iter().flat_map(|tool| list_at(tool, "functionDeclarations"));
    for (place, function) in functions.enumerate() {
        let at = format!("GenerateContentRequest.tools[0].function_declarations[{place}]");
        if !is_name(&string_at(function, "name")) {
            return Some(format!(
                "* {at}.name: Invalid function name. Must start with a letter or an underscore."
            ));
        }
        if let Some(keyword) = function.get("parametersJsonSchema").and_then(unknown_keyword) {
            return Some(format!("* {at}.parameters_json_schema: Unknown keyword \"{keyword}\"."));
        }
    }
    let schema = json.pointer("/generationConfig/responseJsonSchema")?;
    unknown_keyword(schema).map(|keyword| format!("response_json_schema: Unknown keyword \"{keyword}\"."))
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':' | b'-');
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(fits)
}

/// Returns a keyword that the API does not know. Names of properties do not count.
fn unknown_keyword(schema: &Value) -> Option<String> {
    match schema {
        Value::Object(members) => members.iter().find_map(|(keyword, value)| match keyword.as_str() {
            unknown if UNKNOWN_KEYWORDS.contains(&unknown) => Some(keyword.clone()),
            // The keys of these two are names that the user chose, not keywords.
            "properties" | "$defs" => value.as_object()?.values().find_map(unknown_keyword),
            // Their values are data, which may contain the name of a keyword.
            "enum" | "required" => None,
            _ => unknown_keyword(value),
        }),
        Value::Array(list) => list.iter().find_map(unknown_keyword),
        _ => None,
    }
}

fn wrong_order(contents: &[Value]) -> Option<String> {
    let mut open: Vec<(String, String)> = Vec::new();
    let mut last = String::new();
    for (place, content) in contents.iter().enumerate() {
        let role = string_at(content, "role");
        let parts = list_at(content, "parts");
        if !matches!(role.as_str(), "user" | "model") {
            return Some("Please use a valid role: user, model.".to_owned());
        }
        if role == last || (place == 0 && role != "user") {
            return Some(format!(
                "contents[{place}]: Please ensure that roles alternate between user and model."
            ));
        }
        if parts.is_empty() || parts.iter().any(is_empty) {
            return Some(format!("contents[{place}].parts: must not be empty."));
        }
        let pair = |call: &Value| (string_at(call, "id"), string_at(call, "name"));
        let responses = parts.iter().filter_map(|part| part.get("functionResponse"));
        // Compare in order: clients send the results in the order of the calls.
        if responses.map(pair).collect::<Vec<_>>() != open {
            return Some(
                "Please ensure that the number of function response parts is equal to the number of function call \
                 parts of the function call turn."
                    .to_owned(),
            );
        }
        let calls: Vec<&Value> = parts.iter().filter(|part| part.get("functionCall").is_some()).collect();
        // Only the first of parallel calls is signed, so only this one must have a signature.
        if calls.first().is_some_and(|part| string_at(part, "thoughtSignature").is_empty()) {
            return Some("Function call is missing a thought_signature in functionCall parts.".to_owned());
        }
        open = calls.iter().filter_map(|part| part.get("functionCall")).map(pair).collect();
        last = role;
    }
    (!open.is_empty()).then(|| "Please ensure that function calls have their responses.".to_owned())
}

/// Returns true for a part without data. A signed part may have an empty text.
fn is_empty(part: &Value) -> bool {
    let is_signed = part.get("thoughtSignature").is_some();
    let has_text = part.get("text").and_then(Value::as_str).is_some_and(|text| is_signed || !text.is_empty());
    let has_data =
        ["functionCall", "functionResponse", "inlineData"].iter().any(|name| part.get(*name).is_some());
    !has_text && !has_data
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_contents_is_checked() {
        let user = json!({ "role": "user", "parts": [{ "text": "a" }] });
        let call = json!({ "role": "model", "parts": [
            { "functionCall": { "id": "1", "name": "x", "args": {} }, "thoughtSignature": "s" },
            { "functionCall": { "name": "y", "args": {} } },
        ] });
        let results = |first: &str| {
            json!({ "role": "user", "parts": [
                { "functionResponse": { "id": first, "name": "x", "response": {} } },
                { "functionResponse": { "name": "y", "response": {} } },
                { "text": "b" },
            ] })
        };
        let bare = json!({ "role": "model", "parts": [{ "functionCall": { "name": "x" } }] });
        let blank = json!({ "role": "model", "parts": [{ "text": "" }] });
        for (contents, words) in [
            (vec![user.clone(), call.clone(), results("1")], None),
            (vec![call.clone()], Some("alternate")),
            (vec![user.clone(), user.clone()], Some("alternate")),
            (vec![user.clone(), call.clone(), user.clone()], Some("number of function response")),
            (vec![user.clone(), call.clone(), results("2")], Some("number of function response")),
            (vec![results("1")], Some("number of function response")),
            (vec![user.clone(), call], Some("have their responses")),
            (vec![user.clone(), bare], Some("thought_signature")),
            (vec![user, blank], Some("must not be empty")),
        ] {
            let found = wrong_order(&contents);
            assert_eq!(found.is_some(), words.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(words.unwrap_or_default()));
        }
    }

    #[test]
    fn names_and_members_are_checked() {
        let function = |name: &str, schema: Value| json!({ "tools": [{ "functionDeclarations": [{ "name": name, "parametersJsonSchema": schema }] }] });
        assert_eq!(
            wrong_function(&function("add", json!({ "properties": { "not": { "type": "string" } } }))),
            None
        );
        assert!(wrong_function(&function("2", json!({}))).unwrap().contains("[0].name"));
        assert!(
            wrong_function(&function("a", json!({ "items": { "not": {} } }))).unwrap().contains("\"not\"")
        );
        assert!(wrong_member(&json!({ "messages": [] })).unwrap().contains("messages"));
        let both = json!({ "generationConfig": { "thinkingConfig": { "thinkingLevel": "low", "thinkingBudget": 1 } } });
        assert!(wrong_member(&both).is_some());
    }
}
