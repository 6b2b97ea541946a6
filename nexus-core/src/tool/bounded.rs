//! Limits results to the size that a model accepts.

use super::{ToolContent, ToolResult};
use crate::picture::MAX_PICTURE_BYTES;

/// Largest answer of a tool, in bytes of text. Source: measured; every vendor's harness passes on this much uncut.
pub const MAX_ANSWER_BYTES: usize = 10_000;

/// Space for the note at the end of a cut answer, in bytes.
const NOTE_BYTES: usize = 300;

impl ToolResult {
    /// Limits the result to `most_bytes` bytes of texts and JSON values, and [`MAX_PICTURE_BYTES`] of pictures. Cuts a longer text
    /// and leaves out pictures that do not fit. A note at the end states how much is missing and how to get it.
    ///
    /// Use it for tools without a limit of their own, such as those of other people's servers. After an answer of several megabytes
    /// a model accepts no further request.
    ///
    /// ```
    /// use nexus_core::{MAX_ANSWER_BYTES, ToolContent, ToolResult};
    ///
    /// let result = ToolResult::text("line of a log\n".repeat(300_000)).within(MAX_ANSWER_BYTES);
    /// let [ToolContent::Text { text }, ToolContent::Text { text: note }] = &result.content[..] else { panic!() };
    /// assert!(text.len() + note.len() <= MAX_ANSWER_BYTES);
    /// assert!(note.starts_with("[4190"), "{note}");
    /// ```
    #[must_use]
    pub fn within(self, most_bytes: usize) -> Self {
        self.bounded(most_bytes, MAX_PICTURE_BYTES)
    }

    fn bounded(mut self, most_bytes: usize, most_picture_bytes: usize) -> Self {
        let texts = self.content.iter().map(text_bytes).sum::<usize>();
        let pictures = self.content.iter().map(picture_bytes).sum::<usize>();
        // No separator follows the last text.
        if texts.saturating_sub(1) <= most_bytes && pictures <= most_picture_bytes {
            return self;
        }
        let mut room = most_bytes.saturating_sub(NOTE_BYTES);
        let mut picture_room = most_picture_bytes;
        let (mut missing_bytes, mut missing_pictures) = (0, 0);
        let mut kept = Vec::new();
        for content in self.content {
            let (bytes, picture) = (text_bytes(&content), picture_bytes(&content));
            if picture > picture_room {
                missing_pictures += 1;
                continue;
            }
            picture_room -= picture;
            let text = match content {
                ToolContent::Text { text } if bytes > room => text,
                ToolContent::Json { value } if bytes > room => value.to_string(),
                content => {
                    room -= bytes;
                    kept.push(content);
                    continue;
                }
            };
            let end = text.floor_char_boundary(room);
            missing_bytes += text.len() - end;
            if end > 0 {
                kept.push(ToolContent::text(&text[..end]));
            }
            // Leave out all later texts.
            room = 0;
        }
        let missing = match (missing_bytes, missing_pictures) {
            (bytes, 0) => format!("{bytes} more bytes of the answer are"),
            (0, 1) => "a picture that is too large is".to_owned(),
            (0, pictures) => format!("{pictures} pictures that are too large together are"),
            (bytes, pictures) => {
                format!("{bytes} more bytes of the answer and {pictures} of its pictures are")
            }
        };
        kept.push(ToolContent::text(format!(
            "[{missing} left out. The call itself succeeded. Request less at once, or a part, if the tool \
            supports it.]"
        )));
        self.content = kept;
        self
    }
}

/// Returns the length of a text, or of a value as JSON, including the separator to the next one.
fn text_bytes(content: &ToolContent) -> usize {
    match content {
        ToolContent::Text { text } => text.len() + 1,
        ToolContent::Json { value } => value.to_string().len() + 1,
        ToolContent::Image { .. } => 0,
    }
}

fn picture_bytes(content: &ToolContent) -> usize {
    match content {
        ToolContent::Image { data, .. } => data.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};
    use serde_json::json;

    use super::*;

    const MOST_PICTURE_BYTES: usize = 500;

    fn content() -> impl Strategy<Value = ToolContent> {
        let picture = |data: String| ToolContent::Image { media_type: "image/png".to_owned(), data };
        prop_oneof![
            4 => "(?s)(.|ü|🦀|\"|\n){0,400}".prop_map(ToolContent::text),
            2 => prop::collection::vec("[a-zé\"]{0,30}", 0..12).prop_map(|texts| ToolContent::json(json!(texts))),
            1 => "[A-Z]{1,40}".prop_map(picture),
            1 => (MOST_PICTURE_BYTES / 3..MOST_PICTURE_BYTES * 2).prop_map(move |bytes| picture("A".repeat(bytes))),
        ]
    }

    fn text(content: &ToolContent) -> Option<String> {
        match content {
            ToolContent::Text { text } => Some(text.clone()),
            ToolContent::Json { value } => Some(value.to_string()),
            ToolContent::Image { .. } => None,
        }
    }

    fn texts(result: &ToolResult) -> Vec<String> {
        result.content.iter().filter_map(text).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(0x2803), ..ProptestConfig::default() })]
        #[test]
        fn a_bounded_answer_is_a_beginning_and_says_what_is_missing(
            content in prop::collection::vec(content(), 0..12),
            most in 400_usize..3_000,
            is_error in any::<bool>(),
        ) {
            let mut whole = ToolResult::ok(content);
            whole.is_error = is_error;
            let bounded = whole.clone().bounded(most, MOST_PICTURE_BYTES);
            prop_assert_eq!(bounded.is_error, is_error);
            let shown = texts(&bounded).join("\n");
            prop_assert!(shown.len() <= most, "{} of {most} bytes", shown.len());
            let pictures = bounded.content.iter().map(picture_bytes).sum::<usize>();
            prop_assert!(pictures <= MOST_PICTURE_BYTES);
            if bounded == whole {
                return Ok(());
            }
            let mut shown = texts(&bounded);
            let note = shown.pop().unwrap_or_default();
            prop_assert!(note.starts_with('[') && note.contains("left out"), "{note}");
            let all = texts(&whole);
            let all_bytes: usize = all.iter().map(String::len).sum();
            let shown_bytes: usize = shown.iter().map(String::len).sum();
            let missing = all_bytes - shown_bytes;
            prop_assert!(missing == 0 || note.contains(&format!("{missing} more bytes")), "{missing}: {note}");
            // Each text that is shown is the beginning of its own, and all but the last are whole.
            for (number, (shown_text, text)) in shown.iter().zip(&all).enumerate() {
                prop_assert!(text.starts_with(shown_text.as_str()));
                prop_assert!(number + 1 == shown.len() || shown_text == text);
            }
            let lost = whole.content.len() - all.len() - (bounded.content.len() - shown.len() - 1);
            prop_assert!(lost == 0 || note.contains("picture"), "{lost}: {note}");
        }
    }

    #[test]
    fn an_answer_of_just_the_bound_is_whole() {
        let whole = ToolResult::text("x".repeat(MAX_ANSWER_BYTES));
        assert_eq!(whole.clone().within(MAX_ANSWER_BYTES), whole);
        assert_ne!(whole.clone().within(MAX_ANSWER_BYTES - 1), whole);
    }

    #[test]
    fn a_bound_that_is_smaller_than_the_note_leaves_the_note() {
        let result = ToolResult::text("long".repeat(100)).within(10);
        assert_eq!(texts(&result).len(), 1);
        assert!(texts(&result)[0].starts_with("[400 more bytes of the answer are left out"));
    }
}
