//! Reads the invalid JSON that some programs in other languages write.
//!
//! Where a text is cut inside a character, JavaScript writes half of a surrogate pair as an escape (`"\ud83d"`). Python writes
//! `NaN` and `Infinity`. `serde_json` rejects both. A *carrier* (a line of a program, an event of a stream, an envelope) must
//! not be lost for that. Its reader repairs the text with [`repair`] after `serde_json` rejected it. A *decision* (a path, a
//! command, a verdict, an approval, an amount) must not rest on a repaired value or on an object with a duplicate key.
//! [`read_message`] reports such a flaw beside the value, and [`read_decision`] rejects it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
    str,
};

use memchr::{memchr2, memchr3};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

use crate::visible::Visible;

/// A text after its repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The repaired text. It is valid JSON if it has no other fault.
    pub text: String,
    /// The repairs.
    pub repairs: Repairs,
}

/// List of the repairs in a text. `Display` names them without quoting the text.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// A byte order mark before the text was skipped.
    pub byte_order_mark: bool,
    /// Bytes that are not UTF-8 became U+FFFD.
    pub invalid_utf8: bool,
    /// Number of halves of surrogate pairs that became U+FFFD.
    pub lone_surrogates: usize,
    /// Number of `NaN`, `Infinity` and `-Infinity` that became `null`.
    pub not_finite: usize,
    /// Surrogate halves at the ends of the text's delta, for a [`HalfJoiner`].
    pub halves: Halves,
}

/// Halves of surrogate pairs at the ends of a delta. The repaired text has U+FFFD in their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Halves {
    /// Low half at the start of a string.
    pub leading: Option<u16>,
    /// High half at the end of a string.
    pub trailing: Option<u16>,
}

impl fmt::Display for Repairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.byte_order_mark {
            parts.push("a byte order mark was skipped".to_owned());
        }
        if self.invalid_utf8 {
            parts.push("bytes that are not UTF-8 became U+FFFD".to_owned());
        }
        if self.lone_surrogates > 0 {
            parts.push(format!("halves of surrogate pairs became U+FFFD: {}", self.lone_surrogates));
        }
        if self.not_finite > 0 {
            parts.push(format!("NaN or Infinity became null: {}", self.not_finite));
        }
        f.write_str(&parts.join("; "))
    }
}

/// Repairs a text that `serde_json` rejected. Returns `None` if the text has nothing to repair.
///
/// ```
/// let repaired = nexus_core::lenient_json::repair(br#"{"text":"cut \ud83d","cost":NaN}"#).unwrap();
/// assert_eq!(repaired.text, r#"{"text":"cut \ufffd","cost":null}"#);
/// assert!(nexus_core::lenient_json::repair(br#"{"text":"\ud83d\ude00"}"#).is_none());
/// ```
pub fn repair(text: &[u8]) -> Option<Repaired> {
    let mut repairs = Repairs::default();
    let text = match str::from_utf8(text) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            repairs.invalid_utf8 = true;
            String::from_utf8_lossy(text)
        }
    };
    let body = match text.strip_prefix('\u{feff}') {
        Some(body) => {
            repairs.byte_order_mark = true;
            body
        }
        None => &text,
    };
    let mut copy = Copy { text: body, done: 0, written: String::new() };
    let mut at = 0;
    let mut key = "";
    // Outside of strings, each repairable token has an `N` or `I`, so skip everything else.
    while let Some(found) = find(body, at, |rest| memchr3(b'"', b'N', b'I', rest)) {
        at = match body.as_bytes().get(found) {
            Some(b'"') => {
                let (end, halves) = repair_string(body, found + 1, &mut copy, &mut repairs);
                // A string before a colon is a key. The value after it belongs to this key.
                if body.get(end..).is_some_and(|rest| rest.trim_start().starts_with(':')) {
                    key = body.get(found + 1..end - 1).unwrap_or_default();
                } else if halves != Halves::default() && DELTA_KEYS.contains(&key) {
                    repairs.halves = halves;
                }
                end
            }
            _ => match not_finite(body, found) {
                Some(token) => {
                    copy.replace(token.clone(), "null");
                    repairs.not_finite += 1;
                    token.end
                }
                None => found + 1,
            },
        };
    }
    (repairs != Repairs::default()).then(|| Repaired { text: copy.finish(), repairs })
}

/// Reads a value. If `serde_json` rejects the text, reads the repaired text.
///
/// # Errors
///
/// The error of `serde_json` for the original text.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<(T, Option<Repairs>), serde_json::Error> {
    let refused = match serde_json::from_slice(text) {
        Ok(value) => return Ok((value, None)),
        Err(error) => error,
    };
    let Some(repaired) = repair(text) else { return Err(refused) };
    match serde_json::from_str(&repaired.text) {
        Ok(value) => Ok((value, Some(repaired.repairs))),
        // Return the original error, because positions in the repaired text differ.
        Err(_) => Err(refused),
    }
}

/// A message of a caller, such as a JSON-RPC request.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedMessage {
    /// The message. Of a duplicate key it has the last value.
    pub value: Value,
    /// Reason why no decision may rest on the message: it was repaired, or an object has a duplicate key.
    pub flaw: Option<String>,
}

/// Reads a message that may request an action.
///
/// # Errors
///
/// The error of `serde_json` for the original text.
pub fn read_message(text: &[u8]) -> Result<CheckedMessage, serde_json::Error> {
    let refused = match serde_json::from_slice(text) {
        Ok(value) => {
            // Report a duplicate key beside the value, so that the caller can still answer the request.
            let flaw = serde_json::from_slice::<UniqueKeys>(text).err().map(|error| error.to_string());
            return Ok(CheckedMessage { value, flaw });
        }
        Err(error) => error,
    };
    let Some(Repaired { text, repairs }) = repair(text) else { return Err(refused) };
    let Ok(value) = serde_json::from_str(&text) else { return Err(refused) };
    // A byte order mark changes no value, so it is not a flaw.
    let only_marked = Repairs { byte_order_mark: true, ..Repairs::default() };
    let flaw = match serde_json::from_str::<UniqueKeys>(&text) {
        _ if repairs != only_marked => Some(repairs.to_string()),
        Ok(UniqueKeys) => None,
        Err(error) => Some(error.to_string()),
    };
    Ok(CheckedMessage { value, flaw })
}

/// Reads a value for a decision, such as the arguments of a call. Rejects repairs and duplicate keys.
///
/// # Errors
///
/// The fault of the text, with its position.
pub fn read_decision(text: &str) -> Result<Value, serde_json::Error> {
    let value = serde_json::from_str(text)?;
    serde_json::from_str::<UniqueKeys>(text).map(|UniqueKeys| value)
}

/// Finds the `id` of a JSON-RPC message that cannot be read as a whole. The id is a text or a whole number.
pub fn request_id(text: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(text);
    let mut depth = 0_usize;
    let mut at = 0;
    let mut key: Option<Range<usize>> = None;
    while let Some(&byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => {
                let end = at + string_length(text.as_bytes().get(at..)?)?;
                // Only members of the message itself count: an `id` deeper inside belongs to its parameters.
                key = (depth == 1).then_some(at..end);
                at = end;
                continue;
            }
            b':' => {
                let is_id = key.take().is_some_and(|key| text.get(key) == Some("\"id\""));
                if is_id && let Some(id) = leading_id(text.get(at + 1..)?) {
                    return Some(id);
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the text or whole number at the start of a JSON text.
fn leading_id(text: &str) -> Option<Value> {
    let text = text.trim_start();
    let end = match text.strip_prefix('"') {
        Some(_) => string_length(text.as_bytes())?,
        None => {
            let end = text.find(|c: char| !c.is_ascii_digit() && c != '-')?;
            text.get(end..)?.trim_start().starts_with([',', '}']).then_some(end)?
        }
    };
    serde_json::from_str(text.get(..end)?).ok().filter(is_request_id)
}

/// Returns true for a valid JSON-RPC id: a text or a whole number.
pub(crate) fn is_request_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

/// Returns the length of the JSON string at the start of `text`, including its quotation marks. `None` if no string ends there.
pub fn string_length(text: &[u8]) -> Option<usize> {
    let mut at = text.strip_prefix(b"\"").map(|_| 1)?;
    loop {
        let found = at + memchr2(b'"', b'\\', text.get(at..)?)?;
        at = match text.get(found) {
            Some(b'"') => return Some(found + 1),
            // Skip the escaped character, which may be a quotation mark.
            _ => found + 2,
        };
    }
}

/// Joins surrogate halves that were split between two deltas of a text.
///
/// A delta that ends in a half is delivered without the half. The half comes with the next delta of the same text, joined to
/// the other half, or else as U+FFFD.
#[derive(Clone, Debug, Default)]
pub struct HalfJoiner {
    /// Waiting high halves, by the names of their texts.
    pending: BTreeMap<String, u16>,
}

impl HalfJoiner {
    /// Returns true if a delta can be delivered unchanged: no half waits, and the repair of the delta found none.
    pub fn is_idle(&self, halves: Halves) -> bool {
        self.pending.is_empty() && halves == Halves::default()
    }

    /// Returns the text to deliver for a delta of the text `name`, whose repair found `halves`.
    pub fn delta<'t>(&mut self, name: &str, delta: Cow<'t, str>, halves: Halves) -> Cow<'t, str> {
        if self.is_idle(halves) || delta.is_empty() {
            return delta;
        }
        let mut rest = &*delta;
        let mut whole = String::with_capacity(rest.len() + char::MAX_LEN_UTF8);
        if let Some(high) = self.pending.remove(name) {
            let low = halves.leading.filter(|_| rest.starts_with(char::REPLACEMENT_CHARACTER));
            match low.and_then(|low| char::decode_utf16([high, low]).next()?.ok()) {
                Some(joined) => {
                    whole.push(joined);
                    // The repair wrote U+FFFD in place of the low half.
                    rest = rest.strip_prefix(char::REPLACEMENT_CHARACTER).unwrap_or(rest);
                }
                None => whole.push(char::REPLACEMENT_CHARACTER),
            }
        }
        if let Some(high) = halves.trailing
            && let Some(before) = rest.strip_suffix(char::REPLACEMENT_CHARACTER)
        {
            self.pending.insert(name.to_owned(), high);
            rest = before;
        }
        whole.push_str(rest);
        Cow::Owned(whole)
    }

    /// Ends the text `name`. Returns U+FFFD for a waiting half without its other half.
    pub fn finish(&mut self, name: &str) -> Option<char> {
        self.pending.remove(name).map(|_| char::REPLACEMENT_CHARACTER)
    }
}

/// Copy of a text in which parts are replaced.
struct Copy<'t> {
    text: &'t str,
    /// End of the part that is already copied.
    done: usize,
    written: String,
}

impl Copy<'_> {
    fn replace(&mut self, part: Range<usize>, with: &str) {
        self.written.push_str(self.text.get(self.done..part.start).unwrap_or_default());
        self.written.push_str(with);
        self.done = part.end;
    }

    fn finish(mut self) -> String {
        self.written.push_str(self.text.get(self.done..).unwrap_or_default());
        self.written
    }
}

/// Keys whose values are deltas of a text. Other strings of an event, such as padding, may also be cut inside a character, but
/// their halves are not joined. The empty key stands for a string without a key.
const DELTA_KEYS: [&str; 11] = [
    "",
    "delta",
    "text",
    "thinking",
    "data",
    "content",
    "refusal",
    "reasoning",
    "reasoning_content",
    "arguments",
    "partial_json",
];

/// Repairs the string whose content begins at `start`, after the quotation mark. Returns its end, and the halves at its ends.
fn repair_string(text: &str, start: usize, copy: &mut Copy<'_>, repairs: &mut Repairs) -> (usize, Halves) {
    let mut at = start;
    let mut halves = Halves::default();
    while let Some(found) = find(text, at, |rest| memchr2(b'"', b'\\', rest)) {
        if text.as_bytes().get(found) == Some(&b'"') {
            return (found + 1, halves);
        }
        let Some(unit) = escaped_unit(text, found) else {
            at = found + 2;
            continue;
        };
        at = found + ESCAPE_BYTES;
        let is_pair = is_high(unit) && escaped_unit(text, at).is_some_and(is_low);
        if is_pair {
            at += ESCAPE_BYTES;
        } else if is_high(unit) || is_low(unit) {
            copy.replace(found..at, "\\ufffd");
            repairs.lone_surrogates += 1;
            if is_low(unit) && found == start {
                halves.leading = Some(unit);
            }
            if is_high(unit) && text.as_bytes().get(at) == Some(&b'"') {
                halves.trailing = Some(unit);
            }
        }
    }
    (text.len(), halves)
}

/// Length of `\uXXXX`.
const ESCAPE_BYTES: usize = 6;

/// Returns the code unit of the escape `\uXXXX` at `start`.
fn escaped_unit(text: &str, start: usize) -> Option<u16> {
    let digits = text.get(start..start + ESCAPE_BYTES)?.strip_prefix("\\u")?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}

/// Returns the range of `NaN`, `Infinity` or `-Infinity`, if `start` is its `N` or `I` and it is a complete value.
fn not_finite(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    let before = text.get(..start)?;
    let (begin, length) = if rest.starts_with("NaN") {
        (start, "NaN".len())
    } else if rest.starts_with("Infinity") {
        (start - usize::from(before.ends_with('-')), "Infinity".len())
    } else {
        return None;
    };
    let is_part_of_a_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.');
    let end = start + length;
    // A token inside of a longer word is another fault, which a repair must not hide.
    let is_alone =
        !text.get(..begin)?.ends_with(is_part_of_a_word) && !text.get(end..)?.starts_with(is_part_of_a_word);
    is_alone.then_some(begin..end)
}

/// Returns the position at which `search` finds something at or after `start`.
fn find(text: &str, start: usize, search: impl FnOnce(&[u8]) -> Option<usize>) -> Option<usize> {
    text.as_bytes().get(start..).and_then(search).map(|found| start + found)
}

/// Checks that no object has a duplicate key. It stores no value: `serde_json`'s own reader builds the value, because other
/// crates can switch on features that change how it reads numbers.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = UniqueKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<UniqueKeys, A::Error> {
        while list.next_element::<UniqueKeys>()?.is_some() {}
        Ok(UniqueKeys)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<UniqueKeys, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, UniqueKeys)) = object.next_entry::<String, UniqueKeys>()? {
            if let Some(key) = keys.replace(key) {
                let shown: String = key.chars().take(MAX_SHOWN_KEY).collect();
                return Err(A::Error::custom(format!(
                    "the key `{}` occurs twice in its object",
                    Visible(&shown)
                )));
            }
        }
        Ok(UniqueKeys)
    }
}

/// Longest key in an error, in characters.
const MAX_SHOWN_KEY: usize = 60;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(bytes: &str) -> String {
        repair(bytes.as_bytes()).unwrap().text
    }

    #[test]
    fn what_javascript_and_python_write_is_repaired() {
        for (came, expected) in [
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
            (r#"{"a":"x\uDE00y"}"#, r#"{"a":"x\ufffdy"}"#),
            (r#"["\ud83d\ud83d\ude00"]"#, r#"["\ufffd\ud83d\ude00"]"#),
            (r#"["\\\ud83d"]"#, r#"["\\\ufffd"]"#),
            (
                r#"{"\ud83d":[NaN,-Infinity,Infinity , {"b":NaN}]}"#,
                r#"{"\ufffd":[null,null,null , {"b":null}]}"#,
            ),
            ("\u{feff}{}", "{}"),
        ] {
            assert_eq!(text(came), expected);
            serde_json::from_str::<Value>(expected).unwrap();
        }
        assert_eq!(repair(b"\"\xff\"").unwrap().text, "\"\u{fffd}\"");
    }

    #[test]
    fn what_is_something_else_is_left_alone() {
        for other in [
            r#"{"a":"\\ud83d","b":"NaN Infinity"}"#,
            r#"{"a":"\ud83d\ude00"}"#,
            "{NaNa:1}",
            "[xNaN, 1Infinity, NaN.5]",
            r#""\ud83"#,
            r#""\"#,
            "{",
            "",
        ] {
            assert_eq!(repair(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn halves_of_neighbouring_deltas_are_joined() {
        let joined = |deltas: &[&str]| {
            let mut joiner = HalfJoiner::default();
            let mut whole = String::new();
            for delta in deltas {
                let raw = format!("\"{delta}\"");
                let (read, repairs) = from_slice::<String>(raw.as_bytes()).unwrap();
                let halves = repairs.map(|repairs| repairs.halves).unwrap_or_default();
                whole.push_str(&joiner.delta("m", read.into(), halves));
            }
            whole.extend(joiner.finish("m"));
            whole
        };
        assert_eq!(joined(&["Good ", r"\ud83d", r"\ude00", " morning"]), "Good \u{1f600} morning");
        assert_eq!(joined(&[r"a\ud83d", "", r"\ude00b\ud83d", r"\ude01"]), "a\u{1f600}b\u{1f601}");
        assert_eq!(joined(&[r"a\ud83d", "b"]), "a\u{fffd}b");
        assert_eq!(joined(&[r"a\ud83d", r"\ud83d", r"\ude00"]), "a\u{fffd}\u{1f600}");
        assert_eq!(joined(&[r"a\ud83d"]), "a\u{fffd}");
        assert_eq!(joined(&[r"\ude00\ud83d"]), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_message_says_why_no_decision_may_rest_on_it() {
        let flaw = |text: &str| read_message(text.as_bytes()).unwrap().flaw;
        assert_eq!(flaw(r#"{"a":[1,2.5,null,true,"b"]}"#), None);
        assert_eq!(flaw("\u{feff}{\"a\":1}"), None);
        assert!(flaw(r#"{"a":{"path":"x","path":"y"}}"#).unwrap().contains("the key `path` occurs twice"));
        assert!(flaw("\u{feff}{\"a\":1,\"a\":1}").unwrap().contains("occurs twice"));
        assert!(flaw(r#"{"a":"\ud83d"}"#).unwrap().contains("surrogate"));
        assert!(flaw(r#"{"amount":NaN}"#).unwrap().contains("became null"));
        assert!(read_message(b"{").is_err());
        for refused in [r#"{"a":1,"a":2}"#, r#"{"a":"\ud83d"}"#, "[NaN]", "\u{feff}{}"] {
            read_decision(refused).unwrap_err();
        }
        assert_eq!(read_decision(r#"{"a":1}"#).unwrap(), json!({ "a": 1 }));
    }

    #[test]
    fn the_id_of_a_request_that_is_cut_is_found() {
        for (cut, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"id":8,"te"#, json!(7)),
            (r#"{"params":{"id":8},"id" : "a\"b", "meth"#, json!("a\"b")),
            (r#"{"jsonrpc":"2.0","id":-3,"params":{"a":tru}}"#, json!(-3)),
        ] {
            assert_eq!(request_id(cut.as_bytes()), Some(id), "{cut}");
        }
        for none in [
            r#"{"params":{"id":8},"i"#,
            r#"{"id":1.5,"a"#,
            r#"{"id":7"#,
            r#"["id",7"#,
            r#"{"a":"id","b":7"#,
            "",
        ] {
            assert_eq!(request_id(none.as_bytes()), None, "{none}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn valid_json_is_never_repaired(
            texts in proptest::collection::vec("(\\PC|[\u{0}-\u{20}\"\\\\\u{1f600}])*", 0..6),
            number in proptest::num::f64::NORMAL,
            is_ascii: bool,
        ) {
            let mut written = json!({ "texts": texts, "number": number, "NaN": ["Infinity"] }).to_string();
            if is_ascii {
                written = written.encode_utf16().map(|unit| match u8::try_from(unit) {
                    Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
                    _ => format!("\\u{unit:04x}"),
                }).collect();
            }
            prop_assert_eq!(repair(written.as_bytes()), None);
            let plain: Value = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(read_message(written.as_bytes()).unwrap(), CheckedMessage { value: plain, flaw: None });
        }

        #[test]
        fn a_text_cut_anywhere_in_utf16_is_joined_again(
            text in "[a\u{e9}\u{1f600}\u{10ffff}\"\\\\]{0,12}",
            cuts in proptest::collection::vec(0..24_usize, 0..5),
        ) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= units.len()).collect();
            cuts.extend([0, units.len()]);
            cuts.sort_unstable();
            let mut joiner = HalfJoiner::default();
            let mut whole = String::new();
            for pair in cuts.windows(2) {
                let piece: String = units[pair[0]..pair[1]].iter().map(|unit| format!("\\u{unit:04x}")).collect();
                let (read, repairs) = from_slice::<String>(format!("\"{piece}\"").as_bytes()).unwrap();
                whole.push_str(&joiner.delta("m", read.into(), repairs.map(|it| it.halves).unwrap_or_default()));
            }
            prop_assert_eq!(joiner.finish("m"), None);
            prop_assert_eq!(whole, text);
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = repair(&bytes);
            let _ = request_id(&bytes);
            let _ = read_message(&bytes);
        }
    }
}
