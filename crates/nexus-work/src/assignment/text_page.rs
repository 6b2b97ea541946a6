//! Long texts, shown in pages.

use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum length of a page in one answer, in bytes, without the remark. Source: the harnesses of all vendors pass on at
/// most 10,000 bytes of an answer, as measured.
const PAGE_BYTES: usize = 9_000;

/// Maximum length of a cut answer, in bytes, without the remark about the rest.
const ANSWER_BYTES: usize = 9_800;

/// Beginning of a page.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageRequest {
    /// Beginning of the page, in bytes from the start: the number in the last answer. Leave it out to begin at
    /// the start.
    #[serde(default)]
    pub offset: Option<usize>,
}

/// Page of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct TextPage<'t> {
    /// Part of the text on this page.
    pub text: &'t str,
    /// True if the page begins within a line.
    pub begins_within_a_line: bool,
    /// Remark about the rest, if the page is not the whole text.
    pub remark: Option<String>,
}

impl<'t> TextPage<'t> {
    /// Returns the page of `whole` that begins at `offset`, or at the character before. It ends with a line, unless the line
    /// is longer than a page. `mark` is the number of bytes that will be added to each line.
    pub fn of(whole: &'t str, offset: Option<usize>, mark: usize) -> Self {
        let first = whole.floor_char_boundary(offset.unwrap_or(0));
        let rest = &whole[first..];
        let (mut end, mut room) = (0, PAGE_BYTES);
        for line in rest.split_inclusive('\n') {
            if line.len() + mark > room {
                break;
            }
            room -= line.len() + mark;
            end += line.len();
        }
        // A line that is longer than a page is cut.
        if end == 0 {
            end = rest.floor_char_boundary(PAGE_BYTES);
        }
        let last = first + end;
        let remark = match (first, last == whole.len()) {
            (0, true) => None,
            (_, true) => Some(format!("[bytes {first} to {last}: this is the end]")),
            (_, false) => {
                Some(format!("[bytes {first} to {last} of {}; continue with offset {last}]", whole.len()))
            }
        };
        let begins_within_a_line = first > 0 && !whole[..first].ends_with('\n');
        Self { text: &rest[..end], begins_within_a_line, remark }
    }

    /// Returns a page of a text that consists of quotations. If the page begins within a quoted line, it begins with a
    /// quotation mark.
    pub fn of_quotes(whole: &str, offset: Option<usize>) -> String {
        let page = TextPage::of(whole, offset, 0);
        let mut text = String::new();
        // The rest of a cut line needs the mark of a quotation again.
        if page.begins_within_a_line {
            text.push_str("> ");
        }
        text.push_str(page.text);
        page.with_remark(text)
    }

    /// Returns `text` followed by the remark on its own line.
    pub fn with_remark(&self, mut text: String) -> String {
        if let Some(remark) = &self.remark {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(remark);
        }
        text
    }
}

/// Cuts an answer that is too long at a line end, and states how much is missing.
pub fn bounded_answer(mut text: String) -> String {
    if text.len() > ANSWER_BYTES {
        let end = text.floor_char_boundary(ANSWER_BYTES);
        // Cut after a complete line, so that no half line looks like the end of the output.
        let end = text[..end].rfind('\n').map_or(end, |line_end| line_end + 1);
        let left_out = text.len() - end;
        text.truncate(end);
        text.push_str(&format!("[{left_out} more bytes are not shown: print less]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_one_after_the_other_are_the_whole_text(
            text in "([a-z\u{e9}\u{20ac}]{0,30}\n){0,40}[a-z\u{1f600}]{0,40}",
            times in 1_usize..40,
        ) {
            let whole = text.repeat(times);
            let (mut offset, mut joined) = (0, String::new());
            loop {
                let page = TextPage::of(&whole, Some(offset), 2);
                prop_assert!(page.text.len() <= PAGE_BYTES);
                joined.push_str(page.text);
                offset += page.text.len();
                if offset == whole.len() {
                    break;
                }
                prop_assert!(!page.text.is_empty());
                let next = format!("continue with offset {offset}]");
                prop_assert!(page.remark.is_some_and(|remark| remark.ends_with(&next)));
            }
            prop_assert_eq!(joined, whole);
        }
    }

    #[test]
    fn a_page_that_begins_within_a_quoted_line_stays_quoted_wherever_it_begins() {
        let whole = format!("[the handoff]\n> {}\n> [the verdict]\n", "x[the verdict]".repeat(2_000));
        for offset in (14..whole.len()).step_by(7) {
            let page = TextPage::of_quotes(&whole, Some(offset));
            let forged = page.lines().any(|line| line.starts_with("[the verdict]"));
            assert!(!forged, "{offset}");
        }
        assert!(TextPage::of_quotes(&whole, Some(usize::MAX)).ends_with("this is the end]"));
    }
}
