//! Reads texts that people and other programs wrote.

use std::io::{self, Read};

/// UTF-8 byte order mark, which some editors write before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Fault of a text that begins with a byte order mark of UTF-16. Its subject is the file.
pub const UTF_16: &str = "it begins with a byte order mark of UTF-16: save it as UTF-8";

/// Reads a text to its end, or up to `max_bytes`. Retains a UTF-8 byte order mark.
///
/// # Errors
///
/// [`InvalidData`](io::ErrorKind::InvalidData) as [`text_of`]. Otherwise the error of the reader.
pub fn read_text(from: impl Read, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(max_bytes).read_to_end(&mut bytes)?;
    // At the size limit the last character may be incomplete.
    if bytes.len() as u64 == max_bytes
        && let Err(error) = std::str::from_utf8(&bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
    text_of(bytes)
}

/// Converts bytes to text.
///
/// # Errors
///
/// [`InvalidData`](io::ErrorKind::InvalidData) for bytes that are not UTF-8. The message names UTF-16 if the bytes have its byte
/// order mark.
pub fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let reason = match is_utf_16(error.as_bytes()) {
            true => UTF_16.to_owned(),
            false => format!("byte {} is not UTF-8", error.utf8_error().valid_up_to() + 1),
        };
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

/// Returns true if bytes begin with a byte order mark of UTF-16.
pub fn is_utf_16(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff])
}

/// Returns a text without a leading byte order mark.
pub fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_another_encoding_is_named() {
        let utf_16: Vec<u8> = "\u{feff}hi".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let error = read_text(&utf_16[..], 100).unwrap_err();
        assert_eq!(error.to_string(), "it begins with a byte order mark of UTF-16: save it as UTF-8");
        assert_eq!(read_text(&b"gr\xf6\xdfe"[..], 100).unwrap_err().to_string(), "byte 3 is not UTF-8");
        assert_eq!(read_text("\u{feff}größe".as_bytes(), 100).unwrap(), "\u{feff}größe");
        assert_eq!(without_byte_order_mark("\u{feff}größe"), "größe");
    }

    #[test]
    fn a_text_that_is_cut_within_a_character_is_a_text() {
        assert_eq!(read_text("größe".as_bytes(), 3).unwrap(), "gr");
        assert!(read_text(&b"gr\xc3"[..], 100).is_err());
    }
}
