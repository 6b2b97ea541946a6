//! Prompt in the format of the vendor's API.

use nexus_core::PromptBlock;
use serde_json::{Value, json};

/// Returns the blocks of a user message.
pub(super) fn blocks(prompt: &[PromptBlock]) -> Vec<Value> {
    prompt.iter().filter_map(block).collect()
}

/// Returns the blocks of a user message with this text.
pub(super) fn text_blocks(text: &str) -> Vec<Value> {
    vec![text_block(text)]
}

fn block(block: &PromptBlock) -> Option<Value> {
    match block {
        PromptBlock::Text { text } if text.is_empty() => None,
        PromptBlock::Text { text } => Some(text_block(text)),
        PromptBlock::Image { media_type, data } => Some(json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        })),
        _ => None,
    }
}

/// Returns a text block. The CLI would treat a text that begins with `/` as a command, even if commands are disabled; a
/// leading line break prevents this.
///
/// Source: transcripts stdin_slash, stdin_slash_disabled; observed with claude 2.1.197 and 2.1.329.
fn text_block(text: &str) -> Value {
    match text.starts_with('/') {
        true => json!({ "type": "text", "text": format!("\n{text}") }),
        false => json!({ "type": "text", "text": text }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_is_guarded_in_every_block() {
        let blocks = blocks(&[PromptBlock::text("/help"), PromptBlock::text("a /b"), PromptBlock::text("")]);
        let texts: Vec<_> = blocks.iter().map(|block| block["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["\n/help", "a /b"]);
    }
}
