//! Error that the server writes into a stream of events as bare JSON, outside of any event.
//!
//! Source: the vendor's SDK for JavaScript looks for such an object among the bytes of the stream. By the standard of
//! events its lines are ignored, so the splitter returns nothing of it.

use memchr::memchr2;
use serde_json::Value;

/// Number of bytes retained of bare JSON.
const MAX_STRAY_BYTES: usize = 64 << 10;

/// Bare JSON of a stream, from the first line that begins an object or a list.
#[derive(Debug, Default)]
pub(super) struct StrayJson {
    text: Vec<u8>,
    /// True within a line that is not bare JSON.
    is_in_line: bool,
}

impl StrayJson {
    /// Reads the next bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.text.is_empty() {
            match rest.first() {
                None => return,
                Some(b'{' | b'[') if !self.is_in_line => break,
                Some(_) => {}
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.is_in_line = true;
                return;
            };
            self.is_in_line = false;
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        let room = MAX_STRAY_BYTES.saturating_sub(self.text.len());
        self.text.extend_from_slice(rest.get(..rest.len().min(room)).unwrap_or_default());
    }

    /// Returns the error in the bare JSON.
    pub(super) fn error(&self) -> Option<Value> {
        let value: Value = serde_json::Deserializer::from_slice(&self.text).into_iter().next()?.ok()?;
        let first = value.get(0).unwrap_or(&value);
        first.get("error").is_some_and(Value::is_object).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> Option<Value> {
        let mut stray = StrayJson::default();
        pieces.iter().for_each(|piece| stray.push(piece.as_bytes()));
        stray.error()
    }

    #[test]
    fn only_an_error_outside_of_events_is_found_however_it_is_cut() {
        let error = "{\n \"error\": {\r\n  \"code\": 503\n }\n}\n";
        for (stream, has_error) in [
            (error.to_owned(), true),
            (format!("data: {{}}\r\n\r\n{error}"), true),
            (format!("data: {{}}\n\n[{error}]"), true),
            (format!("{error}\n\ndata: {{}}\n\n"), true),
            (format!(": {error}"), false),
            ("data: {\"error\":{}}\n\n".to_owned(), false),
            ("data: 1\n {\"error\":{}}\n".to_owned(), false),
            ("{\"error\":null}".to_owned(), false),
            ("{\"error\":{".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(read(&[&stream]).is_some(), has_error, "{stream:?}");
            let single: Vec<&str> = stream.split_inclusive(|_: char| true).collect();
            assert_eq!(read(&single), read(&[&stream]), "{stream:?}");
        }
    }

    #[test]
    fn endless_json_is_bounded() {
        let mut stray = StrayJson::default();
        stray.push(b"[");
        for _ in 0..100 {
            stray.push(&[b' '; 4096]);
        }
        assert!(stray.text.len() <= MAX_STRAY_BYTES && stray.error().is_none());
    }
}
