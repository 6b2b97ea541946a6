//! The `<task>` blocks of a slice's plan.

use std::{collections::BTreeMap, ops::Range};

use super::document::Artifact;

/// A `<task>` block with unchecked content.
#[derive(Clone, Debug)]
pub(super) struct TaskBlock {
    /// Byte offset of the block.
    pub(super) start: usize,
    /// Values of the attributes, with their byte offsets.
    pub(super) attributes: BTreeMap<String, (String, usize)>,
    /// Byte range of the content.
    pub(super) body: Range<usize>,
}

/// Byte offset and description of a malformed block.
pub(super) type BlockFault = (usize, String);

/// Returns the blocks of a plan in order, and the malformed blocks, which would otherwise be lost silently.
pub(super) fn blocks(document: &Artifact) -> (Vec<TaskBlock>, Vec<BlockFault>) {
    let text = prose_alone(document);
    let (mut blocks, mut faults) = (Vec::<TaskBlock>::new(), Vec::new());
    let mut open: Option<TaskBlock> = None;
    let mut at = 0;
    while let Some(found) = text[at..].find('<').map(|found| at + found) {
        at = found + 1;
        let rest = &text[at..];
        // A backtick in front begins inline code, for example a mention of `<task>` in a sentence.
        let is_code = text[..found].ends_with('`');
        if is_code {
            continue;
        }
        if let Some(after) = named(rest, "task") {
            if let Some(before) = open.take() {
                faults
                    .push((before.start, "the <task> has no </task> before the next one begins".to_owned()));
            }
            // Report other cases instead of skipping them: a skipped block would be lost silently.
            if !rest.starts_with("task") {
                faults.push((found, format!("<{}> is written <task>", &rest[..4])));
                continue;
            }
            match attributes(&text, at + (rest.len() - after.len())) {
                Ok((attributes, end, is_whole)) => {
                    let block = TaskBlock { start: found, attributes, body: end..end };
                    at = end;
                    if is_whole {
                        blocks.push(block);
                    } else {
                        open = Some(block);
                    }
                }
                Err((place, reason)) => faults.push((place, reason)),
            }
        } else if rest.strip_prefix('/').is_some_and(|rest| rest.starts_with("task>")) {
            match open.take() {
                Some(block) => blocks.push(TaskBlock { body: block.body.start..found, ..block }),
                // The malformed beginning of this block was reported already.
                None if !faults.is_empty() => {}
                None => faults.push((found, "this </task> has no <task>".to_owned())),
            }
        }
    }
    if let Some(block) = open {
        faults.push((block.start, "the <task> has no </task>".to_owned()));
    }
    (blocks, faults)
}

/// Returns the text between `<name>` and `</name>` of a block, without surrounding blanks.
pub(super) fn inner<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (inner, _) = rest.split_once(&format!("</{name}>"))?;
    Some(inner.trim()).filter(|inner| !inner.is_empty())
}

/// Returns the text with spaces in place of code and comments. All positions stay the same.
fn prose_alone(document: &Artifact) -> String {
    let text = document.text();
    let mut prose = String::with_capacity(text.len());
    for line in document.prose_in(document.body()) {
        // One space for each skipped byte, so that offsets are valid in both texts.
        prose.extend((prose.len()..line.start).map(|_| ' '));
        prose.push_str(&text[line]);
    }
    prose
}

/// Returns the text after an element's name, in upper or lower case.
fn named<'a>(rest: &'a str, name: &str) -> Option<&'a str> {
    let (found, after) = rest.split_at_checked(name.len())?;
    let ends =
        after.starts_with(|next: char| next.is_whitespace() || matches!(next, '>' | '/')) || after.is_empty();
    (ends && found.eq_ignore_ascii_case(name)).then_some(after)
}

/// Parses the attributes of an element from `at`. Returns them with the end of the element, and true if it is self-closing.
#[expect(clippy::type_complexity, reason = "the three parts are destructured together")]
fn attributes(
    text: &str,
    mut at: usize,
) -> Result<(BTreeMap<String, (String, usize)>, usize, bool), BlockFault> {
    let mut attributes = BTreeMap::new();
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        if rest.starts_with('>') {
            return Ok((attributes, at + 1, false));
        }
        if rest.starts_with("/>") {
            return Ok((attributes, at + 2, true));
        }
        let length = rest.find(|next: char| !(next.is_ascii_alphanumeric() || matches!(next, '_' | '-')));
        let (name, after) = rest.split_at(length.unwrap_or(rest.len()));
        let value = after.trim_start().strip_prefix('=').map(str::trim_start);
        let quote = value.and_then(|value| value.chars().next()).filter(|quote| matches!(quote, '"' | '\''));
        let (false, Some(value), Some(quote)) = (name.is_empty(), value, quote) else {
            let reason =
                "the <task> is not written as <task id=\"…\" depends_on=\"…\" wave=\"…\" tier=\"…\">";
            return Err((at, reason.to_owned()));
        };
        let Some((inner, end)) = value[1..].split_once(quote) else {
            return Err((at, format!("the value of {name} has no end")));
        };
        // `value` is a suffix of the text, so its length gives its offset. The 1 skips the quote.
        let start = text.len() - value.len() + 1;
        if attributes.insert(name.to_owned(), (inner.to_owned(), start)).is_some() {
            return Err((at, format!("{name} is there twice")));
        }
        at = text.len() - end.len();
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Kind, *};

    fn found(text: &str) -> (Vec<TaskBlock>, Vec<BlockFault>) {
        blocks(&Artifact::parse(Kind::SlicePlan, text))
    }

    #[test]
    fn blocks_are_found_over_lines_and_in_any_order_of_attributes() {
        let text = "é <tasks>\n<task\n  tier = 'opus'\n id=\"a>b\">\n<name>One</name>\n</task> <task id=\"2\"/>\n</tasks>\n";
        let (blocks, faults) = found(text);
        assert_eq!(faults, []);
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0].attributes["id"].0, "a>b");
        assert!(text[blocks[0].attributes["id"].1..].starts_with("a>b\""));
        assert_eq!(inner(&text[blocks[0].body.clone()], "name"), Some("One"));
    }

    #[test]
    fn what_is_code_or_a_comment_is_no_task() {
        let text = "<tasks>\nEach `<task>` counts.\n```\n<task id=\"1\">\n```\n<!--\n<task id=\"2\">\n-->\n</tasks>\n";
        assert!(matches!(found(text), (blocks, faults) if blocks.is_empty() && faults.is_empty()));
    }

    #[test]
    fn what_is_cut_off_is_a_fault_and_never_a_panic() {
        let whole = "<tasks>\n<task id=\"é\" tier='x'>\n<name>a</name>\n</task>\n<TASK id=\"2\">x</task>\n";
        for (cut, _) in whole.char_indices() {
            let _ = found(&whole[..cut]);
        }
        for bad in [
            "<task",
            "<task id>",
            "<task id=1>",
            "<task id=\"1>",
            "<task id=\"1\">",
            "<task a=\"\" a=\"\"/>",
            "</task>",
            "<Task>",
            "<task id=\"1\"><task id=\"2\"></task>",
        ] {
            assert_eq!(found(bad).1.len(), 1, "{bad}");
        }
    }
}
