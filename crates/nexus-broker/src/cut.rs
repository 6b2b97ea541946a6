//! Texts that are too long for a message.

/// Shortens a text to at most `most` bytes, and appends the number of omitted bytes.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}\n[… {} bytes more]", &text[..end], text.len() - end)
}
