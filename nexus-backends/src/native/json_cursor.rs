//! Fast reader for plain JSON, without values in between.
//!
//! Servers write nearly every event as plain JSON: no control characters, no escapes in keys and short whole numbers. A
//! [`JsonCursor`] reads such a text in one pass, with a small part of the instructions of `serde_json`. It returns `None`
//! for anything else, and the caller reads the text with `serde_json`. A text that it reads to its [end](JsonCursor::end)
//! is valid JSON, and nothing in it needs a [repair](nexus_core::lenient_json::repair).

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Deepest nesting that is read. `serde_json` reads deeper texts, or rejects them.
const MAX_DEPTH: usize = 32;

/// Longest whole number that is read, in digits. It fits into a `u64`.
const MAX_DIGITS: usize = 15;

/// Position in a plain JSON text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonCursor<'a> {
    text: &'a str,
    /// Number of bytes that were read.
    position: usize,
    has_escapes: bool,
}

impl<'a> JsonCursor<'a> {
    /// Creates a cursor at the start of a text. Returns `None` if the text has a control character.
    pub(crate) fn new(text: &'a str) -> Option<Self> {
        let found = SpecialBytes::of(text.as_bytes());
        (!found.has_control).then_some(Self { text, position: 0, has_escapes: found.has_backslash })
    }

    /// Returns the number of bytes that were read.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Returns `Some` if only spaces are left.
    pub(crate) fn end(mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    /// Reads an object. `member` gets each key, and must read the value of each.
    pub(crate) fn object(&mut self, mut member: impl FnMut(&'a str, &mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'{')?;
        if self.skips(b'}') {
            return Some(());
        }
        loop {
            let key = self.key()?;
            member(key, self)?;
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Reads an array. `element` must read each element.
    pub(crate) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.expect(b'[')?;
        if self.skips(b']') {
            return Some(());
        }
        loop {
            element(self)?;
            match self.next()? {
                b',' => {}
                b']' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Reads a string.
    pub(crate) fn string(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b'"')?;
        let (raw, is_escaped) = self.raw_string()?;
        if is_escaped { unescaped(raw).map(Cow::Owned) } else { Some(Cow::Borrowed(raw)) }
    }

    /// Reads a short whole number that is not negative.
    pub(crate) fn number(&mut self) -> Option<u64> {
        self.peek()?;
        let rest = self.rest();
        let digits = rest.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
        let is_number = match digits {
            0 => false,
            1 => true,
            // JSON allows no leading zero.
            _ => digits <= MAX_DIGITS && rest.first() != Some(&b'0'),
        };
        // A fraction or an exponent may follow.
        let is_whole = matches!(rest.get(digits), None | Some(b',' | b'}' | b']' | b' '));
        if !is_number || !is_whole {
            return None;
        }
        let digit = |number: u64, byte: &u8| number * 10 + u64::from(byte - b'0');
        let number = rest.get(..digits)?.iter().fold(0, digit);
        self.position += digits;
        Some(number)
    }

    /// Reads `null`. Returns false for any other value, which stays unread.
    pub(crate) fn null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.literal("null").is_some()
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&mut self) -> Option<bool> {
        match self.peek()? {
            b't' => self.literal("true").map(|()| true),
            b'f' => self.literal("false").map(|()| false),
            _ => None,
        }
    }

    /// Skips any value.
    pub(crate) fn skip(&mut self) -> Option<()> {
        self.skip_below(MAX_DEPTH)
    }

    /// Skips any value, and returns its text.
    pub(crate) fn raw(&mut self) -> Option<&'a str> {
        self.peek()?;
        let start = self.position;
        self.skip()?;
        self.text.get(start..self.position)
    }

    /// Returns the first byte of the next value, which stays unread.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.position)? {
                b' ' => self.position += 1,
                byte => return Some(*byte),
            }
        }
    }

    fn skip_below(&mut self, depth: usize) -> Option<()> {
        let below = depth.checked_sub(1)?;
        match self.peek()? {
            b'"' => {
                self.position += 1;
                let (raw, is_escaped) = self.raw_string()?;
                (!is_escaped || has_plain_escapes(raw)).then_some(())
            }
            b'{' => self.object(|_, value| value.skip_below(below)),
            b'[' => self.array(|value| value.skip_below(below)),
            b'n' => self.literal("null"),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            _ => self.skip_number(),
        }
    }

    /// Skips a number with an optional sign, fraction and exponent.
    fn skip_number(&mut self) -> Option<()> {
        let bytes = self.rest();
        let digits = |from: usize| {
            let rest = bytes.get(from..).unwrap_or_default();
            let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (count > 0).then_some(from + count)
        };
        let start = usize::from(bytes.first() == Some(&b'-'));
        let mut end = digits(start)?;
        // JSON allows no leading zero.
        if bytes.get(start) == Some(&b'0') && end > start + 1 {
            return None;
        }
        if bytes.get(end) == Some(&b'.') {
            end = digits(end + 1)?;
        }
        if let Some(b'e' | b'E') = bytes.get(end) {
            let is_signed = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
            end = digits(end + 1 + usize::from(is_signed))?;
        }
        self.position += end;
        Some(())
    }

    fn key(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let (key, is_escaped) = self.raw_string()?;
        self.expect(b':')?;
        // Callers compare keys with names, so an escaped key is left to `serde_json`.
        (!is_escaped).then_some(key)
    }

    /// Reads the rest of a string after its first quotation mark. The second value is true if it has escapes.
    fn raw_string(&mut self) -> Option<(&'a str, bool)> {
        let start = self.position;
        let mut is_escaped = false;
        loop {
            let rest = self.rest();
            // Without any backslash in the text, the search for one byte suffices, which is faster.
            let found = if self.has_escapes { quote_or_backslash(rest)? } else { quote(rest)? };
            let is_over = rest.get(found) == Some(&b'"');
            // Skip the byte after a backslash too: an escaped quotation mark does not end the string.
            self.position += found + if is_over { 1 } else { 2 };
            if is_over {
                return Some((self.text.get(start..self.position - 1)?, is_escaped));
            }
            is_escaped = true;
        }
    }

    fn literal(&mut self, literal: &str) -> Option<()> {
        self.rest().starts_with(literal.as_bytes()).then(|| self.position += literal.len())
    }

    /// Reads `byte` if it is next.
    fn skips(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.position += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// Reads the next byte other than a space.
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.position += 1;
        Some(byte)
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.position..).unwrap_or_default()
    }
}

/// Number of bytes that are searched for the end of a string before the general search, which takes some time to begin.
const SHORT_BYTES: usize = 32;

fn quote(rest: &[u8]) -> Option<usize> {
    let head = rest.get(..SHORT_BYTES).unwrap_or(rest);
    if let Some(found) = first_match(head, |word| zero_bytes(word ^ QUOTES)) {
        return Some(found);
    }
    memchr(b'"', rest.get(head.len()..)?).map(|found| head.len() + found)
}

fn quote_or_backslash(rest: &[u8]) -> Option<usize> {
    let head = rest.get(..SHORT_BYTES).unwrap_or(rest);
    let matches = |word| zero_bytes(word ^ QUOTES) | zero_bytes(word ^ BACKSLASHES);
    if let Some(found) = first_match(head, matches) {
        return Some(found);
    }
    memchr2(b'"', b'\\', rest.get(head.len()..)?).map(|found| head.len() + found)
}

/// Eight quotation marks.
const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);

/// Eight backslashes.
const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; 8]);

/// Returns a word whose lowest nonzero byte is at the first byte of `word` that is zero.
#[inline(always)]
fn zero_bytes(word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    word.wrapping_sub(LOW) & !word & HIGH
}

/// Returns the position of the first byte that `matches` marks in its word.
#[inline(always)]
fn first_match(bytes: &[u8], matches: impl Fn(u64) -> u64) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    // Pad the rest with zero bytes, which match neither a quotation mark nor a backslash.
    last.get_mut(..rest.len())?.copy_from_slice(rest);
    let last = (!rest.is_empty()).then_some(&last);
    words.iter().chain(last).enumerate().find_map(|(index, word)| {
        // In little-endian order, the lowest bit that is set belongs to the first matching byte.
        let found = matches(u64::from_le_bytes(*word));
        (found != 0).then(|| index * 8 + (found.trailing_zeros() / 8) as usize)
    })
}

/// Returns a text without its escapes. `None` for an escaped code unit, such as half of a surrogate pair.
pub(crate) fn unescaped(raw: &str) -> Option<String> {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(found) = memchr(b'\\', rest.as_bytes()) {
        text.push_str(rest.get(..found)?);
        text.push(match rest.as_bytes().get(found + 1)? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            _ => return None,
        });
        rest = rest.get(found + 2..)?;
    }
    text.push_str(rest);
    Some(text)
}

/// Returns true if a text has only escapes that [`unescaped`] knows.
fn has_plain_escapes(raw: &str) -> bool {
    let mut rest = raw.as_bytes();
    while let Some(found) = memchr(b'\\', rest) {
        match rest.get(found + 1..found + 2) {
            Some([b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't']) => {}
            _ => return false,
        }
        rest = rest.get(found + 2..).unwrap_or_default();
    }
    true
}

/// Number of bytes that are compared in parallel.
const BLOCK_BYTES: usize = 32;

/// Kinds of bytes in a text that need care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SpecialBytes {
    has_control: bool,
    has_backslash: bool,
}

impl SpecialBytes {
    fn of(data: &[u8]) -> Self {
        let mut found = SpecialLanes::default();
        let (blocks, rest) = data.as_chunks::<BLOCK_BYTES>();
        blocks.iter().for_each(|block| found.add(block));
        match data.last_chunk() {
            // The last block overlaps the one before. Counting a byte twice changes nothing.
            Some(last) if !rest.is_empty() => found.add(last),
            Some(_) => {}
            None => {
                let mut block = [b' '; BLOCK_BYTES];
                block.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                found.add(&block);
            }
        }
        let has = |lanes: [u8; BLOCK_BYTES]| lanes.iter().any(|byte| *byte != 0);
        Self { has_control: has(found.control), has_backslash: has(found.backslash) }
    }
}

/// The kinds found so far, in parallel lanes. Nonzero if a byte of the lane has the kind.
#[derive(Default)]
struct SpecialLanes {
    control: [u8; BLOCK_BYTES],
    backslash: [u8; BLOCK_BYTES],
}

impl SpecialLanes {
    fn add(&mut self, block: &[u8; BLOCK_BYTES]) {
        for ((control, backslash), &byte) in self.control.iter_mut().zip(&mut self.backslash).zip(block) {
            *control |= u8::from(byte < b' ');
            *backslash |= u8::from(byte == b'\\');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::de::IgnoredAny;
    use serde_json::{Map, Value};

    use super::*;

    /// Reads any value that the cursor accepts.
    fn value(cursor: &mut JsonCursor<'_>) -> Option<Value> {
        match cursor.peek()? {
            b'{' => {
                let mut fields = Map::new();
                cursor.object(|key, field| {
                    fields.insert(key.to_owned(), value(field)?);
                    Some(())
                })?;
                Some(fields.into())
            }
            b'[' => {
                let mut elements = Vec::new();
                cursor.array(|element| {
                    elements.push(value(element)?);
                    Some(())
                })?;
                Some(elements.into())
            }
            b'"' => Some(cursor.string()?.into()),
            b'n' => cursor.null().then_some(Value::Null),
            b't' | b'f' => cursor.boolean().map(Value::Bool),
            _ => cursor.number().map(Value::from),
        }
    }

    fn whole(text: &str) -> Option<Value> {
        let mut cursor = JsonCursor::new(text)?;
        let read = value(&mut cursor)?;
        cursor.end().map(|()| read)
    }

    fn skipped(text: &str) -> Option<()> {
        let mut cursor = JsonCursor::new(text)?;
        cursor.skip()?;
        cursor.end()
    }

    #[test]
    fn plain_json_is_read() {
        for text in [
            r#"{"a":[1,0,{"b c":"é \" \\ \n"},[]],"":null , "t":true,"f": false} "#,
            "12",
            "[]",
            "{ }",
            r#""""#,
        ] {
            assert_eq!(whole(text), serde_json::from_str(text).ok(), "{text}");
            assert!(whole(text).is_some() && skipped(text).is_some(), "{text}");
        }
        for number in ["-1", "1.5", "0.0", "1e9", "-0.1E-7", "123456789012345678901"] {
            assert_eq!((whole(number), skipped(number)), (None, Some(())), "{number}");
        }
    }

    #[test]
    fn other_text_is_left_to_the_general_parser() {
        for text in [
            "",
            "{",
            "[",
            "{]",
            "[}",
            "[1,]",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "nul",
            "truer",
            "NaN",
            "\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u00e9\"",
            "\"\\ud83d\"",
            "[1]2",
            "{a:1}",
            "{\"\\n\":1}",
            "\"\u{1}\"",
            "[\n1]",
            "\u{feff}1",
        ] {
            assert_eq!((whole(text), skipped(text)), (None, None), "{text}");
        }
        let deep = format!("{}1{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        assert_eq!(skipped(&deep), None);
        assert_eq!(
            skipped(deep.strip_prefix('[').and_then(|deep| deep.strip_suffix(']')).unwrap()),
            Some(())
        );
    }

    proptest! {
        /// Pieces of JSON in any order, most of which are not JSON.
        #[test]
        fn only_valid_json_is_accepted(pieces in prop::collection::vec(
            prop_oneof![
                Just("{"), Just("}"), Just("["), Just("]"), Just(","), Just(":"), Just("\"a\""), Just("\"a\":"), Just("\""),
                Just("\\"), Just("\\\""), Just("\\u0041"), Just("0"), Just("-1"), Just("1.5e3"), Just("17"), Just("null"),
                Just("true"), Just(" "), Just("é"), Just("\t"), Just("NaN"),
            ],
            0..12,
        )) {
            let text = pieces.concat();
            if let Some(read) = whole(&text) {
                prop_assert_eq!(Some(read), serde_json::from_str(&text).ok());
            }
            if skipped(&text).is_some() {
                prop_assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
                prop_assert!(nexus_core::lenient_json::repair(text.as_bytes()).is_none(), "{}", text);
            }
        }
    }
}
