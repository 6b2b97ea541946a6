//! Fastest parser of deltas, which compares a delta with the previous one.
//!
//! The deltas of one item differ only in their number, in their text and in the padding that some vendors add. After
//! one delta was parsed, the bytes between these gaps are compared, not parsed. A match is the same object with other
//! values in the gaps, so it is valid JSON if its values are.

use std::{borrow::Cow, ops::Range, str};

use memchr::memchr2;

use super::deltas::DeltaTarget;
use crate::native::json_cursor::{JsonCursor, unescaped};
use crate::native::wires::responses::wire::{Count, DeltaEvent, Text};

/// Number of consecutive unused templates after which no more are created.
const MAX_USELESS: u32 = 32;

/// Shape of the last delta.
#[derive(Debug, Default)]
pub(super) struct Template {
    /// Bytes that deltas have in common, without the content of the gaps.
    common: Vec<u8>,
    /// Gaps, each with the end of the common bytes before it.
    places: Vec<(usize, TemplateGap)>,
    target: Option<DeltaTarget>,
    item_id: String,
    output_index: Option<u64>,
    summary_index: Option<u64>,
    /// True until a delta has matched the template.
    is_unused: bool,
    useless: u32,
}

/// Gap between two stretches of common bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplateGap {
    /// A whole number.
    Number,
    /// Text without its quotation marks, which is ignored.
    Padding,
    /// Text of the delta, without its quotation marks.
    Delta,
}

impl Template {
    /// Parses `data` as a delta, if it has the shape of the previous one.
    pub(super) fn read<'a>(&'a self, data: &'a [u8]) -> Option<(DeltaTarget, DeltaEvent<'a>)> {
        let target = self.target?;
        let mut rest = data;
        let mut from = 0;
        let mut delta = Cow::Borrowed("");
        for (to, place) in &self.places {
            rest = rest.strip_prefix(self.common.get(from..*to)?)?;
            from = *to;
            match place {
                TemplateGap::Number => rest = after_number(rest)?,
                TemplateGap::Padding => rest = text(rest)?.1,
                TemplateGap::Delta => (delta, rest) = text(rest)?,
            }
        }
        (rest == self.common.get(from..)?).then_some(())?;
        let event = DeltaEvent {
            delta: Text(delta),
            item_id: Text(Cow::Borrowed(&self.item_id)),
            output_index: Count(self.output_index),
            summary_index: Count(self.summary_index),
        };
        Some((target, event))
    }

    /// Records that `read` has matched a delta.
    pub(super) fn was_used(&mut self) {
        self.is_unused = false;
    }

    /// Learns the shape of `data`, a plain object that was read as `event`.
    pub(super) fn learn(&mut self, data: &[u8], target: DeltaTarget, event: &DeltaEvent<'_>) {
        // In a stream whose deltas never repeat their shape, learning costs more than it saves.
        if self.useless > MAX_USELESS {
            return;
        }
        self.useless = if self.is_unused { self.useless + 1 } else { 0 };
        // Without a target nothing matches, even if this shape turns out to be unusable.
        self.target = None;
        let Some(places) = str::from_utf8(data).ok().and_then(places) else { return };
        self.common.clear();
        self.places.clear();
        let mut from = 0;
        for (range, place) in places {
            self.common.extend_from_slice(data.get(from..range.start).unwrap_or_default());
            self.places.push((self.common.len(), place));
            from = range.end;
        }
        self.common.extend_from_slice(data.get(from..).unwrap_or_default());
        self.target = Some(target);
        event.item_id.as_str().clone_into(&mut self.item_id);
        self.output_index = event.output_index.0;
        self.summary_index = event.summary_index.0;
        self.is_unused = true;
    }
}

/// Returns the gaps in a plain object, in order. `None` if it has no text of a delta.
fn places(data: &str) -> Option<Vec<(Range<usize>, TemplateGap)>> {
    let mut found = Vec::new();
    let mut has_delta = false;
    JsonCursor::new(data)?.object(|key, value| {
        let first = value.peek()?;
        let start = value.position();
        value.skip()?;
        let end = value.position();
        match (key, first) {
            ("delta", b'"') => {
                has_delta = true;
                found.push((start + 1..end - 1, TemplateGap::Delta));
            }
            // These stay among the common bytes, because they decide the target and the item.
            ("type" | "item_id", _) => {}
            // The text of any other member is ignored, such as the random padding of some vendors.
            (_, b'"') => found.push((start + 1..end - 1, TemplateGap::Padding)),
            ("sequence_number", b'0'..=b'9') => found.push((start..end, TemplateGap::Number)),
            _ => {}
        }
        Some(())
    })?;
    has_delta.then_some(found)
}

/// Returns the rest after a whole number in JSON notation.
fn after_number(rest: &[u8]) -> Option<&[u8]> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_number = digits == 1 || (digits > 1 && rest.first() != Some(&b'0'));
    is_number.then(|| rest.get(digits..)).flatten()
}

/// Returns a text, and the rest from its closing quotation mark on.
fn text(rest: &[u8]) -> Option<(Cow<'_, str>, &[u8])> {
    let mut end = memchr2(b'"', b'\\', rest)?;
    let is_escaped = rest.get(end) == Some(&b'\\');
    while rest.get(end) == Some(&b'\\') {
        end += 2;
        end += memchr2(b'"', b'\\', rest.get(end..)?)?;
    }
    let (raw, after) = rest.split_at_checked(end)?;
    if raw.iter().any(|byte| *byte < b' ') {
        return None;
    }
    let raw = str::from_utf8(raw).ok()?;
    let text = if is_escaped { Cow::Owned(unescaped(raw)?) } else { Cow::Borrowed(raw) };
    Some((text, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::native::wires::responses::reader::quick;
    use crate::native::wires::responses::reader::template::*;

    fn learned(data: &str) -> Template {
        let mut template = Template::default();
        let (target, event) = quick::delta(data.as_bytes()).unwrap();
        template.learn(data.as_bytes(), target, &event);
        template
    }

    const FIRST: &str = r#"{"type":"response.output_text.delta","sequence_number":9,"item_id":"m","output_index":0,"delta":"é","logprobs":[],"obfuscation":"xY"}"#;

    #[test]
    fn another_number_text_and_padding_match() {
        let template = learned(FIRST);
        let next = FIRST.replace(":9,", ":10,").replace("é", "Hello, you").replace("xY", "");
        let (target, event) = template.read(next.as_bytes()).unwrap();
        assert_eq!(
            (target, event.delta.as_str(), event.item_id.as_str()),
            (DeltaTarget::Text, "Hello, you", "m")
        );
        assert_eq!(event.output_index.0, Some(0));
    }

    #[test]
    fn the_text_of_a_delta_may_have_escapes() {
        let first = FIRST.replace("é", r#"{\"a\":"#);
        for template in [learned(FIRST), learned(&first)] {
            let next = FIRST.replace("é", r#"\"C:\\x\\n\"}"#).replace("xY", r#"\""#);
            let (_, event) = template.read(next.as_bytes()).unwrap();
            assert_eq!(event.delta.as_str(), "\"C:\\x\\n\"}");
        }
    }

    #[test]
    fn members_of_nested_objects_are_no_gaps() {
        let first = FIRST.replace("[]", r#"[{"delta":"a","b":"c"}]"#);
        let template = learned(&first);
        assert_eq!(template.read(first.as_bytes()).unwrap().1.delta.as_str(), "é");
        assert!(template.read(first.replace("\"c\"", "\"d\"").as_bytes()).is_none());
    }

    #[test]
    fn whatever_else_differs_is_parsed() {
        let template = learned(FIRST);
        for (from, to) in [
            ("\"m\"", "\"n\""),
            ("output_index\":0", "output_index\":1"),
            (":9,", ":09,"),
            (":9,", ":-9,"),
            (":9,", ":,"),
            ("é", "\\u0041"),
            ("é", "\\x"),
            ("é", "\u{1}"),
            ("[]", "[1]"),
            ("xY\"}", "xY\"} "),
            ("xY\"}", "xY\""),
        ] {
            assert!(template.read(FIRST.replace(from, to).as_bytes()).is_none(), "{from} {to}");
        }
        assert!(template.read(&FIRST.as_bytes()[1..]).is_none());
        assert!(Template::default().read(FIRST.as_bytes()).is_none());
    }

    #[test]
    fn templates_that_are_of_no_use_are_given_up() {
        let mut template = Template::default();
        for index in 0..200 {
            let data = FIRST.replace("\"m\"", &format!("\"m{index}\""));
            let (target, event) = quick::delta(data.as_bytes()).unwrap();
            template.learn(data.as_bytes(), target, &event);
        }
        let last = FIRST.replace("\"m\"", "\"m199\"");
        assert!(template.read(last.as_bytes()).is_none());
    }

    proptest! {
        /// Whatever one delta makes of another's shape, the general way reads it the same.
        #[test]
        fn the_parser_reads_the_same(
            first in "[a-z{},: é]{0,6}",
            second in "[a-z{},: é\"\\\\\u{1}]{0,6}",
            numbers in ("[0-9]{1,4}", "[0-9]{0,4}"),
            padding in ("[a-z]{0,4}", "[a-z\"]{0,4}"),
        ) {
            let write = |delta: &str, number: &str, padding: &str| format!(
                r#"{{"type":"response.output_text.delta", "delta": "{delta}","sequence_number":{number},"x":"{padding}","n":7}}"#
            );
            let data = write(&first, &numbers.0, &padding.0);
            if let Some((target, event)) = quick::delta(data.as_bytes()) {
                let mut template = Template::default();
                template.learn(data.as_bytes(), target, &event);
                let next = write(&second, &numbers.1, &padding.1);
                if let Some((_, read)) = template.read(next.as_bytes()) {
                    let parsed: DeltaEvent<'_> = serde_json::from_str(&next).unwrap();
                    prop_assert_eq!(format!("{read:?}"), format!("{parsed:?}"));
                }
            }
        }
    }
}
