//! JSON with comments and trailing commas, as editors and some programs accept it.

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
        // The lines stay, for the positions in messages.
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
    use super::*;

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
