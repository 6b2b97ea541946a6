//! Fast parser for deltas that are flat objects.
//!
//! Nearly every event of a stream is a delta, and nearly every delta is a flat object of plain members. This parser
//! reads it in one pass, with half the instructions of a general parser, measured. For anything else, such as an escape
//! or a nested value, it returns `None`, and the general parser reads the event. Both parsers give the same result.

use std::{borrow::Cow, str};

use memchr::memchr;

use super::deltas::DeltaTarget;
use super::unknown::first_key;
use crate::native::wires::responses::wire::{Count, DeltaEvent, Text};

/// Returns the target of a delta, and its event.
pub(super) fn delta(data: &[u8]) -> Option<(DeltaTarget, DeltaEvent<'_>)> {
    let mut rest = data.get(first_key(data)?..)?;
    let target = DeltaTarget::of(string(&mut rest)?)?;
    if !is_plain(data) {
        return None;
    }
    let mut event = DeltaEvent::default();
    let mut told = 0_u8;
    loop {
        match next(&mut rest)? {
            b',' => {}
            b'}' if rest.is_empty() && told & DeltaMember::Delta.bit() != 0 => return Some((target, event)),
            _ => return None,
        }
        (next(&mut rest)? == b'"').then_some(())?;
        let key = key(&mut rest)?;
        if told & key.bit() != 0 {
            // Duplicate member: the general parser decides.
            return None;
        }
        told |= key.bit();
        match key {
            DeltaMember::Delta => event.delta = text(&mut rest)?,
            DeltaMember::ItemId => event.item_id = text(&mut rest)?,
            DeltaMember::OutputIndex => event.output_index = count(&mut rest)?,
            DeltaMember::SummaryIndex => event.summary_index = count(&mut rest)?,
            DeltaMember::Other => skip(&mut rest)?,
        }
    }
}

/// Returns true if `data` has no backslash and no control character, and is UTF-8. Then a string ends at the next
/// quotation mark.
fn is_plain(data: &[u8]) -> bool {
    let mut plain = Plain::default();
    let (blocks, rest) = data.as_chunks::<BLOCK_BYTES>();
    blocks.iter().for_each(|block| plain.add(block));
    match data.last_chunk() {
        Some(last) if !rest.is_empty() => plain.add(last),
        Some(_) => {}
        None => {
            let mut block = [b' '; BLOCK_BYTES];
            block.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            plain.add(&block);
        }
    }
    let is_special = plain.special.iter().any(|byte| *byte != 0);
    !is_special && (plain.all.is_ascii() || str::from_utf8(data).is_ok())
}

/// Number of bytes that are compared in parallel.
const BLOCK_BYTES: usize = 32;

/// Accumulated properties of all bytes of some blocks, in parallel lanes.
#[derive(Default)]
struct Plain {
    /// Nonzero if a byte is a control character or a backslash.
    special: [u8; BLOCK_BYTES],
    /// Bitwise OR of all bytes.
    all: [u8; BLOCK_BYTES],
}

impl Plain {
    fn add(&mut self, block: &[u8; BLOCK_BYTES]) {
        for ((special, all), &byte) in self.special.iter_mut().zip(&mut self.all).zip(block) {
            *special |= u8::from(byte < b' ') | u8::from(byte == b'\\');
            *all |= byte;
        }
    }
}

/// Returns the next byte other than a space.
fn next(rest: &mut &[u8]) -> Option<u8> {
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        if byte != b' ' {
            return Some(byte);
        }
    }
}

/// Returns the text up to the next quotation mark.
fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr(b'"', rest)?;
    let (string, after) = rest.split_at_checked(end)?;
    *rest = after.get(1..)?;
    Some(string)
}

/// Member of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeltaMember {
    Delta,
    ItemId,
    OutputIndex,
    SummaryIndex,
    Other,
}

impl DeltaMember {
    /// Returns a distinct bit for each used member.
    fn bit(self) -> u8 {
        match self {
            Self::Delta => 1,
            Self::ItemId => 1 << 1,
            Self::OutputIndex => 1 << 2,
            Self::SummaryIndex => 1 << 3,
            Self::Other => 0,
        }
    }
}

/// Parses a key, from inside its quotation marks to after its colon.
fn key(rest: &mut &[u8]) -> Option<DeltaMember> {
    let known = match rest.first()? {
        b'd' => rest.strip_prefix(b"delta\":").map(|after| (DeltaMember::Delta, after)),
        b'i' => rest.strip_prefix(b"item_id\":").map(|after| (DeltaMember::ItemId, after)),
        b'o' => rest.strip_prefix(b"output_index\":").map(|after| (DeltaMember::OutputIndex, after)),
        b'c' => rest.strip_prefix(b"content_index\":").map(|after| (DeltaMember::Other, after)),
        b's' => rest.strip_prefix(b"sequence_number\":").map(|after| (DeltaMember::Other, after)),
        _ => None,
    };
    if let Some((key, after)) = known {
        *rest = after;
        return Some(key);
    }
    let key = match string(rest)? {
        b"delta" => DeltaMember::Delta,
        b"item_id" => DeltaMember::ItemId,
        b"output_index" => DeltaMember::OutputIndex,
        b"summary_index" => DeltaMember::SummaryIndex,
        _ => DeltaMember::Other,
    };
    (next(rest)? == b':').then_some(key)
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<Text<'a>> {
    (next(rest)? == b'"').then_some(())?;
    Some(Text(Cow::Borrowed(str::from_utf8(string(rest)?).ok()?)))
}

fn count(rest: &mut &[u8]) -> Option<Count> {
    match next(rest)? {
        first @ b'0'..=b'9' => number(first, rest).map(|number| Count(Some(number))),
        _ => None,
    }
}

/// Parses a short whole number that begins with `first`, followed by another member or the end.
fn number(first: u8, rest: &mut &[u8]) -> Option<u64> {
    let mut number = u64::from(first - b'0');
    let mut digits = 1;
    while let Some((&byte @ b'0'..=b'9', after)) = rest.split_first() {
        number = number * 10 + u64::from(byte - b'0');
        digits += 1;
        *rest = after;
        if digits > 15 {
            return None;
        }
    }
    let is_over = matches!(rest.first(), Some(b',' | b'}' | b' '));
    (is_over && (first != b'0' || digits == 1)).then_some(number)
}

/// Skips the value of an unused member.
fn skip(rest: &mut &[u8]) -> Option<()> {
    let literal: &[u8] = match next(rest)? {
        b'"' => {
            string(rest)?;
            return Some(());
        }
        first @ b'0'..=b'9' => return number(first, rest).map(|_| ()),
        b'[' => b"]",
        b'{' => b"}",
        b'n' => b"ull",
        b't' => b"rue",
        b'f' => b"alse",
        _ => return None,
    };
    *rest = rest.strip_prefix(literal)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: &str = r#"{"type":"response.output_text.delta","sequence_number":12,"item_id":"m","output_index":0,"content_index":3,"delta":"é","logprobs":[],"x":null}"#;

    #[test]
    fn a_plain_delta_is_read() {
        let (target, event) = delta(PLAIN.as_bytes()).unwrap();
        assert_eq!(target, DeltaTarget::Text);
        assert_eq!((event.item_id.as_str(), event.delta.as_str()), ("m", "é"));
        assert_eq!(event.output_index.0, Some(0));
        assert_eq!(event.summary_index.0, None);
    }

    #[test]
    fn what_is_not_plain_is_left_to_the_parser() {
        for odd in [
            r#"{"type":"response.refusal.delta","delta":"a\n"}"#,
            r#"{"type":"response.refusal.delta","delta":null}"#,
            r#"{"type":"response.refusal.delta","delta":"a","delta":"b"}"#,
            r#"{"type":"response.refusal.delta","delta":"a","item_id":"","item_id":"b"}"#,
            r#"{"type":"response.refusal.delta","delta":"a","output_index":null,"output_index":1}"#,
            r#"{"type":"response.refusal.delta","delta":"a","logprobs":[1]}"#,
            r#"{"type":"response.refusal.delta","delta":"a","output_index":01}"#,
            r#"{"type":"response.refusal.delta","delta":"a","output_index":1.5}"#,
            r#"{"type":"response.refusal.delta","delta":"a","output_index":"1"}"#,
            r#"{"type":"response.refusal.delta","delta":"a"} x"#,
            r#"{"type":"response.refusal.delta","delta":"a",}"#,
            r#"{"type":"response.refusal.delta" "delta":"a"}"#,
            r#"{"type":"response.refusal.delta"}"#,
            r#"{"type":"response.refusal.done","delta":"a"}"#,
            r#"{"delta":"a","type":"response.refusal.delta"}"#,
            "{\"type\":\"response.refusal.delta\",\"delta\":\"a\u{1}\"}",
        ] {
            assert!(delta(odd.as_bytes()).is_none(), "{odd}");
        }
        assert!(delta(b"{\"type\":\"response.refusal.delta\",\"delta\":\"\xFF\"}").is_none());
        for end in 0..PLAIN.len() {
            assert!(delta(&PLAIN.as_bytes()[..end]).is_none(), "cut at {end}");
        }
    }

    fn member() -> impl Strategy<Value = String> {
        let key = prop_oneof![
            Just("delta"),
            Just("item_id"),
            Just("output_index"),
            Just("summary_index"),
            Just("content_index"),
            Just("logprobs"),
            Just("é"),
            Just(""),
        ];
        let value = prop_oneof![
            4 => "\"[a-z{},:é ]{0,6}\"",
            3 => "[0-9]{1,18}",
            2 => prop_oneof![Just("null"), Just("true"), Just("false"), Just("[]"), Just("{}"), Just("[ ]")]
                .prop_map(str::to_owned),
            1 => prop_oneof![Just("nul"), Just("-1"), Just("1e3"), Just("\"\\n\""), Just(""), Just("{\"a\":1}")]
                .prop_map(str::to_owned),
        ];
        let space = prop_oneof![Just(""), Just(" ")];
        (key, space.clone(), value, space)
            .prop_map(|(key, before, value, after)| format!("\"{key}\"{before}:{after}{value}{before}"))
    }

    proptest! {
        /// The members of JSON objects, whole and broken.
        #[test]
        fn the_parser_reads_the_same(
            members in prop::collection::vec(member(), 0..6),
            end in prop_oneof![6 => Just("}"), 1 => Just(" } "), 1 => Just(",}"), 1 => Just("")],
        ) {
            let mut data = r#"{"type":"response.output_text.delta""#.to_owned();
            for member in members {
                data.push(',');
                data.push_str(&member);
            }
            data.push_str(end);
            if let Some((_, quick)) = delta(data.as_bytes()) {
                let parsed: DeltaEvent<'_> = serde_json::from_str(&data).unwrap();
                prop_assert_eq!(format!("{quick:?}"), format!("{parsed:?}"));
            }
        }
    }
}
