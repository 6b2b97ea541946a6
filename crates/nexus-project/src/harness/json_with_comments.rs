//! JSON with comments and trailing commas, as editors and some programs accept it.
//!
//! The book's page *Libraries* compares this module with `jsonc-parser`, which reads the same texts.

/// Returns a text with spaces in place of comments. All other bytes keep their positions.
pub(super) fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                at = end_of_string(&bytes, at);
                continue;
            }
            (b'/', Some(b'/')) => {
                bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length)
            }
            (b'/', Some(b'*')) => match bytes[at + 2..].windows(2).position(|pair| pair == b"*/") {
                Some(length) => at + 2 + length + 2,
                // The JSON reader reports an unclosed comment with its position.
                None => break,
            },
            _ => {
                at += 1;
                continue;
            }
        };
        // Leave the line breaks, so that the positions in error messages stay correct.
        bytes[at..end]
            .iter_mut()
            .filter(|byte| !matches!(**byte, b'\n' | b'\r'))
            .for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns a text without comments with spaces in place of trailing commas.
pub(super) fn without_trailing_commas(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut before, mut comma) = (0, None, None);
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            // A comma without a value before it is an error.
            b',' => comma = Some(at).filter(|_| !matches!(before, None | Some(b'{' | b'[' | b','))),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
            }
            _ => comma = None,
        }
        before = Some(byte);
        at = if byte == b'"' { end_of_string(&bytes, at) } else { at + 1 };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the position behind a string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Text between two tokens. A line comment has its end, so that it hides no token.
    const BETWEEN: &str = r#"( |\n|\t|\r\n|//[ -~é]{0,6}\n|/\*[ -)+-.0-~é\n]{0,6}\*/){0,3}"#;

    /// A value, and a text of it with comments and trailing commas.
    fn document() -> impl Strategy<Value = (Value, String)> {
        let text =
            prop_oneof![Just("a"), Just("//"), Just("/* , */"), Just("\\\""), Just(",]}"), Just("é\n")];
        let leaf = prop_oneof![
            text.prop_map(|text| json(text.into())),
            any::<i32>().prop_map(|number| json(number.into())),
            Just(json(Value::Null)),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            let items = prop::collection::vec((inner, BETWEEN, BETWEEN), 0..4);
            (items, any::<bool>(), any::<bool>(), BETWEEN).prop_map(|(items, is_object, trails, end)| {
                let (mut values, mut texts) = (Vec::new(), Vec::new());
                for (number, ((value, text), before, after)) in items.into_iter().enumerate() {
                    let key = if is_object { format!("\"k{number}\"{after}:") } else { String::new() };
                    texts.push(format!("{before}{key}{before}{text}{after}"));
                    values.push(value);
                }
                let comma = if trails && !texts.is_empty() { "," } else { "" };
                let inside = format!("{}{comma}{end}", texts.join(","));
                match is_object {
                    true => {
                        let keys = (0..).map(|number| format!("k{number}"));
                        (keys.zip(values).collect::<serde_json::Map<_, _>>().into(), format!("{{{inside}}}"))
                    }
                    false => (values.into(), format!("[{inside}]")),
                }
            })
        })
    }

    fn json(value: Value) -> (Value, String) {
        let text = value.to_string();
        (value, text)
    }

    proptest! {
        #[test]
        fn comments_and_trailing_commas_between_any_tokens_change_no_value((value, text) in document()) {
            let plain = without_trailing_commas(&without_comments(&text));
            prop_assert_eq!(plain.len(), text.len());
            let read: Value = serde_json::from_str(&plain)
                .map_err(|error| TestCaseError::fail(format!("{error}: {text:?} as {plain:?}")))?;
            prop_assert_eq!(read, value, "{:?}", text);
        }
    }

    #[test]
    fn comments_and_trailing_commas_become_spaces_and_nothing_else_changes() {
        let cases = [
            ("{\"a\": 1, // one\n}", "{\"a\": 1        \n}"),
            ("/* e\n */{\"a\":[1,2,],}", "    \n   {\"a\":[1,2 ] }"),
            (r#"{"url": "http://h", "b": "/* no */,]"}"#, r#"{"url": "http://h", "b": "/* no */,]"}"#),
            (r#"{"a": "\\", "b": "\"// no",}"#, r#"{"a": "\\", "b": "\"// no" }"#),
            ("[1, /* last */ ]", "[1             ]"),
            ("[,]", "[,]"),
            ("[1,,]", "[1,,]"),
            ("{} /* open", "{} /* open"),
        ];
        for (text, expected) in cases {
            let blanked = without_trailing_commas(&without_comments(text));
            assert_eq!(blanked, expected);
            assert_eq!(blanked.len(), text.len());
        }
    }
}
