//! Status and output of a tool call.
//!
//! Source: observed with grok 1.0.41.

use nexus_core::{ToolCallStatus, ToolContent};
use serde_json::Value;

use super::wire;

/// Beginning of the result of a denied call.
const NOT_LET_THROUGH: &str = "User cancelled the execution"; // perm-cancel-streaming-json
/// Part of the result of a call that a rule denied. The rule follows it.
const DENIED_BY_RULE: &str = "Denied by permission policy"; // strict-deny-bare

/// Beginning of an image from a server's tool. Each image is on its own line.
const PICTURE: &str = "data:image/";
/// Text between an image's type and its data.
const ENCODING: &str = ";base64,";

/// Returns status and output of a call. `succeeded` is the vendor's verdict.
pub(super) fn of_call(update: &wire::ToolCallUpdate, succeeded: bool) -> (ToolCallStatus, Vec<ToolContent>) {
    let output = tool_output(update);
    let status = match succeeded {
        true if command_failed(&update.raw_output) => ToolCallStatus::Failed,
        true => ToolCallStatus::Succeeded,
        // The text of a server's tool comes from the tool, even if it reads like a denial.
        false if !is_of_a_server(update) && was_denied(&output) => ToolCallStatus::Denied,
        false => ToolCallStatus::Failed,
    };
    (status, output)
}

/// Returns true if the result comes from a server, which means that its tool was called.
pub(super) fn is_of_a_server(update: &wire::ToolCallUpdate) -> bool {
    update.raw_output.get("type").is_some_and(|kind| kind == "MCP")
}

/// Returns the output of a tool: the displayed text or, without one, the harness's copy.
fn tool_output(update: &wire::ToolCallUpdate) -> Vec<ToolContent> {
    let text_of = |part: &Value| part.pointer("/content/text").and_then(Value::as_str).map(ToolContent::text);
    let shown: Vec<ToolContent> = update.content.iter().filter_map(text_of).collect();
    if !shown.is_empty() {
        return shown;
    }
    let raw = &update.raw_output;
    let places =
        ["/Content/content", "/output/OkayOutput", "/output/Error", "/EditsApplied/tool_output_for_prompt"];
    match places.iter().find_map(|place| raw.pointer(place)) {
        Some(Value::String(text)) => vec![ToolContent::text(text.as_str())],
        Some(value) => vec![ToolContent::Json { value: value.clone() }],
        None if raw.is_null() => Vec::new(),
        None => vec![ToolContent::Json { value: raw.clone() }],
    }
}

/// Separates the images from a text in which the CLI has embedded them.
pub(super) fn with_pictures(output: Vec<ToolContent>) -> Vec<ToolContent> {
    let apart = |part: ToolContent| match part {
        ToolContent::Text { text } if text.contains(PICTURE) => apart(&text),
        other => vec![other],
    };
    output.into_iter().flat_map(apart).collect()
}

fn apart(text: &str) -> Vec<ToolContent> {
    let mut parts = Vec::new();
    let mut words: Option<String> = None;
    for line in text.split_inclusive('\n') {
        match picture(line.trim_end_matches('\n')) {
            Some(picture) => {
                // The CLI added the line end before an image, so remove it.
                let before = words.take().map(|text| text.strip_suffix('\n').unwrap_or(&text).to_owned());
                parts.extend(before.map(ToolContent::text));
                parts.push(picture);
            }
            None => words.get_or_insert_default().push_str(line),
        }
    }
    parts.extend(words.map(ToolContent::text));
    parts
}

fn picture(line: &str) -> Option<ToolContent> {
    let (kind, data) = line.strip_prefix(PICTURE)?.split_once(ENCODING)?;
    let is_kind = kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_kind.then(|| ToolContent::Image { media_type: format!("image/{kind}"), data: data.to_owned() })
}

/// Returns true if a shell command ended with a status other than 0. The vendor reports such a call as completed.
fn command_failed(raw: &Value) -> bool {
    let is_command = raw.get("type").and_then(Value::as_str) == Some("Bash");
    is_command && raw.get("exit_code").and_then(Value::as_i64).is_some_and(|code| code != 0)
}

fn was_denied(output: &[ToolContent]) -> bool {
    output.iter().any(|part| match part {
        ToolContent::Text { text } => text.starts_with(NOT_LET_THROUGH) || text.contains(DENIED_BY_RULE),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_pictures_again() {
        let text = "a heron\nat dusk\ndata:image/png;base64,AAAA\ndata:image/svg+xml;base64,BBBB\nthe end";
        let parts = with_pictures(vec![ToolContent::text(text)]);
        let picture = |media_type: &str, data: &str| ToolContent::Image {
            media_type: media_type.into(),
            data: data.into(),
        };
        let expected = [
            ToolContent::text("a heron\nat dusk"),
            picture("image/png", "AAAA"),
            picture("image/svg+xml", "BBBB"),
            ToolContent::text("the end"),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_text_without_pictures_stays_as_it_is() {
        for text in ["", "\n", "a\n", "see data:image/png;base64,AAAA", "data:image/png"] {
            assert_eq!(with_pictures(vec![ToolContent::text(text)]), [ToolContent::text(text)], "{text:?}");
        }
    }
}
