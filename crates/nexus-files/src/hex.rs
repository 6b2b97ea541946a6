//! Bytes as text.

use std::fmt::Write as _;

/// Formats bytes as lower-case hexadecimal digits, two for each byte.
///
/// ```
/// assert_eq!(nexus_files::hex([0, 10, 255]), "000aff");
/// ```
#[must_use]
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
