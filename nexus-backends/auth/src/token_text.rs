//! Rules for a text that serves as a token in an HTTP header.

use nexus_core::Secret;
use nexus_files::{UTF_16, is_utf_16};

/// Returns the token in a text, without surrounding white space, or the reason why the text is not a token.
pub(crate) fn usable(text: &str) -> Result<Secret, &'static str> {
    let token = text.trim();
    unusable(token).map_or_else(|| Ok(Secret::new(token)), Err)
}

/// Returns the reason why a text cannot be a token, or `None` if an HTTP header can contain it.
pub(crate) fn unusable(token: &str) -> Option<&'static str> {
    if token.starts_with('\u{feff}') {
        return Some("it begins with a byte order mark: save it without one");
    }
    if token.contains(char::is_whitespace) {
        return Some("it consists of more than one word");
    }
    let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    (!is_visible).then_some("it contains characters that are not allowed in a token")
}

/// Returns the reason why bytes that are not UTF-8 cannot be a token.
pub(crate) fn not_text(bytes: &[u8]) -> &'static str {
    if is_utf_16(bytes) { UTF_16 } else { "it is not text" }
}
