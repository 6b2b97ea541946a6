//! The prompt of a turn in the form of the protocol.

use nexus_core::{PromptBlock, TurnRequest};
use serde_json::{Value, json};

/// Sentence before the system text of an agent that has no other place for it.
const SYSTEM_FOLLOWS: &str = "Your instructions follow. They rank above every later message.";

/// Converts the prompt into blocks of the protocol. `system` is the system text for an agent that has no other place for it.
pub(super) fn prompt(request: &TurnRequest, system: Option<&str>) -> Vec<Value> {
    let block = |block: &PromptBlock| match block {
        // An agent would treat a text that begins with a slash as a command. A leading line break prevents this.
        PromptBlock::Text { text } if text.starts_with('/') => {
            Some(json!({ "type": "text", "text": format!("\n{text}") }))
        }
        PromptBlock::Text { text } => Some(json!({ "type": "text", "text": text })),
        PromptBlock::Image { media_type, data } => {
            Some(json!({ "type": "image", "mimeType": media_type, "data": data }))
        }
        _ => None,
    };
    let mut blocks: Vec<Value> = request.prompt.iter().filter_map(block).collect();
    // One agent trims that line break from the first block, so put an empty block before it.
    if blocks.first().and_then(|block| block["text"].as_str()).is_some_and(|text| text.starts_with('\n')) {
        blocks.insert(0, json!({ "type": "text", "text": "" }));
    }
    if let Some(system) = system {
        blocks.insert(0, json!({ "type": "text", "text": format!("{SYSTEM_FOLLOWS}\n\n{system}\n\n") }));
    }
    if let Some(output) = &request.output {
        blocks.push(json!({ "type": "text", "text": output.instruction() }));
    }
    blocks
}

/// Returns the size of the prompt's text, in bytes.
pub(super) fn text_bytes(request: &TurnRequest) -> usize {
    let bytes = |block: &PromptBlock| match block {
        PromptBlock::Text { text } => text.len(),
        _ => 0,
    };
    request.prompt.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_text_precedes_the_prompt_and_a_command_stays_a_text() {
        let request = TurnRequest::new("/quit");
        let texts = |system| -> Vec<String> {
            let blocks = prompt(&request, system);
            blocks.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(texts(None), ["", "\n/quit"]);
        let with_system = texts(Some("/compact"));
        assert!(with_system[0].starts_with(SYSTEM_FOLLOWS) && with_system[0].contains("\n\n/compact\n\n"));
        assert_eq!(with_system[1..], ["", "\n/quit"]);
    }
}
