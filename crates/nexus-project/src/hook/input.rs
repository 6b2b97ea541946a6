//! The input of a hook: JSON, or the readable part of damaged JSON.

use std::collections::BTreeMap;

use nexus_core::lenient_json::{self, CheckedMessage, string_length};
use serde_json::Value;

/// Byte order mark, which some programs write and JSON does not allow.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads an input.
///
/// # Errors
///
/// Reason why it cannot be read.
pub(super) fn read(bytes: &[u8]) -> Result<Value, String> {
    let CheckedMessage { value, flaw } =
        lenient_json::read_message(bytes).map_err(|error| format!("it is not valid JSON: {error}"))?;
    match (value, flaw) {
        (value @ Value::Object(_), None) => Ok(value),
        (_, Some(flaw)) => Err(format!("its JSON is unreliable: {flaw}")),
        (_, None) => Err("it is not a JSON object, as required".to_owned()),
    }
}

/// Returns the members of the outermost object whose values are strings, up to the first damage. A duplicate name and an
/// unreadable string have no value.
pub(super) fn strings(bytes: &[u8]) -> BTreeMap<String, Option<String>> {
    let mut found = BTreeMap::new();
    let mut rest = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes).trim_ascii_start();
    let Some(inside) = rest.strip_prefix(b"{") else { return found };
    rest = inside.trim_ascii_start();
    while let Some((name, after)) = string(rest) {
        let (Some(name), Some(value)) = (name, after.trim_ascii_start().strip_prefix(b":")) else { break };
        let value = value.trim_ascii_start();
        let (text, after) = match string(value) {
            Some((text, after)) => (text, after),
            None => (None, &value[value_length(value)..]),
        };
        // JSON readers differ on which of two equal names counts, so neither does here.
        found.entry(name).and_modify(|known| *known = None).or_insert(text);
        let Some(next) = after.trim_ascii_start().strip_prefix(b",") else { break };
        rest = next.trim_ascii_start();
    }
    found
}

/// Reads the string at the start. Returns its value, if it is readable, and the text after it. `None`: the string does not
/// end.
fn string(text: &[u8]) -> Option<(Option<String>, &[u8])> {
    let end = string_length(text)?;
    Some((serde_json::from_slice(&text[..end]).ok(), &text[end..]))
}

/// Returns the length of a value that is not a string: up to the comma or brace behind it, or to the end.
fn value_length(text: &[u8]) -> usize {
    let (mut place, mut depth) = (0, 0_usize);
    while let Some(byte) = text.get(place) {
        match byte {
            b'"' => {
                let Some(length) = string_length(&text[place..]) else { return text.len() };
                place += length;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return place,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        place += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Names with the text that stands there, if it can be read.
    type Strings<'a> = &'a [(&'a str, Option<&'a str>)];

    #[test]
    fn strings_are_found_around_what_cannot_be_read() {
        let text = |input: &str| strings(input.as_bytes()).into_iter().collect::<Vec<_>>();
        let pair = |name: &str, value: Option<&str>| (name.to_owned(), value.map(ToOwned::to_owned));
        #[rustfmt::skip]
        let cases: &[(&str, Strings<'_>)] = &[
            ("", &[]),
            ("[1]", &[]),
            ("{", &[]),
            (r#"{"a":"x""#, &[("a", Some("x"))]),
            ("\u{feff} { \"a\" : \"x\" , \"b\" : \"y\" }", &[("a", Some("x")), ("b", Some("y"))]),
            (r#"{"a":NaN,"b":"y"}"#, &[("a", None), ("b", Some("y"))]),
            (r#"{"a":"\udc00","b":"y"}"#, &[("a", None), ("b", Some("y"))]),
            (r#"{"a":{"b":"\"}, \"b\":","c":["}"]},"b":"y"}"#, &[("a", None), ("b", Some("y"))]),
            (r#"{"b":"x","b":"y"}"#, &[("b", None)]),
            (r#"{"a":{"b":"x"#, &[("a", None)]),
            (r#"{"a":"x" "b":"y"}"#, &[("a", Some("x"))]),
        ];
        for (input, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|(name, value)| pair(name, *value)).collect();
            assert_eq!(text(input), expected, "{input}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn valid_objects_have_the_strings_that_serde_json_sees(members in prop::collection::btree_map(".{0,8}", value(), 0..6)) {
            let text = serde_json::to_string(&members).unwrap();
            let expected: BTreeMap<_, _> =
                members.iter().map(|(name, value)| (name.clone(), value.as_str().map(ToOwned::to_owned))).collect();
            prop_assert_eq!(strings(text.as_bytes()), expected);
        }

        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>) {
            let _ = strings(&bytes);
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            r#"["\\{}\[\],:]{0,12}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(Value::from_iter),
            ]
        })
    }
}
