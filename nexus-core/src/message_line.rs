//! Collects JSON-RPC messages that arrive one per line, with a limit on their length.

use memchr::{memchr, memmem, memrchr};
use serde_json::Value;

use crate::lenient_json;

/// Number of bytes at each end of a too long line that are searched for the request's id.
const SEARCHED_BYTES: usize = 4 << 10;

/// One line of the input.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageLine {
    /// The line, without its end.
    Whole(Vec<u8>),
    /// A line above the limit, which was not stored.
    TooLong {
        /// Id of the request in the line, if it was found: a text or a whole number.
        id: Option<Value>,
    },
}

/// Collects one line from pieces of the input.
///
/// ```
/// use nexus_core::message_line::{LineCollector, MessageLine};
///
/// let mut line = LineCollector::new(16);
/// assert_eq!(line.take(b"[1, "), (4, false));
/// assert_eq!(line.take(b"2]\n[3]\n"), (3, true));
/// assert_eq!(line.finish(), Some(MessageLine::Whole(b"[1, 2]".to_vec())));
/// ```
#[derive(Debug)]
pub struct LineCollector {
    most_bytes: usize,
    /// Content of the line. Of a too long line, only its first bytes.
    bytes: Vec<u8>,
    /// Last bytes of a too long line.
    end: Option<Vec<u8>>,
}

impl LineCollector {
    /// Creates a collector of a line with at most `most_bytes` bytes.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, bytes: Vec::new(), end: None }
    }

    /// Takes bytes of the input up to the end of the line. Returns their number, and true if the line ended.
    pub fn take(&mut self, input: &[u8]) -> (usize, bool) {
        let found = memchr(b'\n', input);
        let piece = found.and_then(|end| input.get(..end)).unwrap_or(input);
        if self.end.is_none() && self.bytes.len() + piece.len() > self.most_bytes {
            // Copy the end of the stored bytes before the next line cuts them off.
            self.end = Some(last_bytes(&self.bytes).to_vec());
            self.bytes.truncate(SEARCHED_BYTES);
            self.bytes.shrink_to_fit();
        }
        match &mut self.end {
            None => self.bytes.extend_from_slice(piece),
            Some(end) => {
                let room = SEARCHED_BYTES.saturating_sub(self.bytes.len());
                self.bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
                end.extend_from_slice(last_bytes(piece));
                let surplus = end.len().saturating_sub(SEARCHED_BYTES);
                end.drain(..surplus);
            }
        }
        (piece.len() + usize::from(found.is_some()), found.is_some())
    }

    /// Returns the line, or `None` if it is blank.
    pub fn finish(self) -> Option<MessageLine> {
        match self.end {
            Some(end) => Some(MessageLine::TooLong { id: id_of_request(&self.bytes, &end) }),
            None if self.bytes.trim_ascii().is_empty() => None,
            None => Some(MessageLine::Whole(self.bytes)),
        }
    }
}

fn last_bytes(bytes: &[u8]) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(SEARCHED_BYTES)..).unwrap_or(bytes)
}

/// Returns the id of the request with this beginning and end. A response has no method and needs no answer, so its id is not
/// returned.
fn id_of_request(beginning: &[u8], end: &[u8]) -> Option<Value> {
    let has_method = |bytes| memmem::find(bytes, b"\"method\"").is_some();
    if !has_method(beginning) && !has_method(end) {
        return None;
    }
    lenient_json::request_id(beginning).or_else(|| id_at_end(end))
}

/// Returns the `id` among the last members of an object. The search goes backwards until a member with an object, a list or an
/// escape. Many clients write the id last.
fn id_at_end(text: &[u8]) -> Option<Value> {
    let mut members = text.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    loop {
        let (before, value) = members.split_at_checked(start_of_scalar(members)?)?;
        let before = before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
        let (before, key) = before.split_at_checked(start_of_scalar(before)?)?;
        if key == b"\"id\"" {
            return serde_json::from_slice(value).ok().filter(lenient_json::is_request_id);
        }
        members = before.trim_ascii_end().strip_suffix(b",")?.trim_ascii_end();
    }
}

/// Returns the start of the last scalar in the bytes: a text without escapes, a number or a word.
fn start_of_scalar(bytes: &[u8]) -> Option<usize> {
    if let Some(text) = bytes.strip_suffix(b"\"") {
        let start = memrchr(b'"', text)?;
        let is_plain =
            memchr(b'\\', text.get(start..)?).is_none() && text.get(..start)?.last() != Some(&b'\\');
        return is_plain.then_some(start);
    }
    let is_scalar = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let length = bytes.iter().rev().take_while(|byte| is_scalar(byte)).count();
    (length > 0).then(|| bytes.len() - length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], piece: usize, most: usize) -> Vec<MessageLine> {
        let mut found = Vec::new();
        let mut line = LineCollector::new(most);
        for mut piece in input.chunks(piece) {
            while !piece.is_empty() {
                let (used, is_end) = line.take(piece);
                piece = &piece[used..];
                if is_end {
                    found.extend(std::mem::replace(&mut line, LineCollector::new(most)).finish());
                }
            }
        }
        found.extend(line.finish());
        found
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let whole = |text: &str| MessageLine::Whole(text.as_bytes().to_vec());
        for piece in [1, 2, 3, 100] {
            let expected = [whole("ab"), MessageLine::TooLong { id: None }, whole("c"), whole("last")];
            assert_eq!(lines(b"\n \r\nab\n12345\nc\n\nlast", piece, 4), expected);
            assert_eq!(lines(b"", piece, 4), []);
            assert_eq!(lines(b"1234\n12345", piece, 4), [whole("1234"), MessageLine::TooLong { id: None }]);
        }
    }

    #[test]
    fn a_long_line_has_the_id_of_its_request_wherever_it_stands() {
        let text = "x".repeat(3 * SEARCHED_BYTES);
        let cases = [
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"text":"…"}}"#, Some(Value::from(7))),
            (r#"{"id":"a-1","method":"m","params":["…"]}"#, Some("a-1".into())),
            (r#"{"method":"m","params":{"text":"…"},"jsonrpc":"2.0","id":8}"#, Some(8.into())),
            (r#"{"params":{"text":"…"}, "id" : "a b" , "method":"m" } "#, Some("a b".into())),
            (r#"{"params":{"id":1,"text":"…"},"method":"m","id":-9,"x":null}"#, Some((-9).into())),
            (r#"{"method":"m","params":{"text":"…","id":5}}"#, None),
            (r#"{"method":"m","params":{"text":"…,\"id\":5"},"x":1}"#, None),
            (r#"{"method":"m","text":"…\",\"id\":5","x":"\"id\":6"}"#, None),
            (r#"{"method":"m","text":"…","id":{}}"#, None),
            (r#"{"method":"m","text":"…","id":1.5}"#, None),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"text":"…"}}"#, None),
            (r#"{"method":"m","text":"…","id":5"#, None),
            ("…", None),
        ];
        for (line, id) in cases {
            let line = line.replace('…', &text);
            for piece in [1, 1_000, SEARCHED_BYTES, 1 << 20] {
                let found = lines(line.as_bytes(), piece, 2 * SEARCHED_BYTES);
                assert_eq!(
                    found,
                    [MessageLine::TooLong { id: id.clone() }],
                    "{}",
                    &line[..40.min(line.len())]
                );
            }
        }
    }
}
