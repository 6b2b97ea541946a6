//! Texts that are too long for a message.

/// A text of at most so many bytes, and how much was left out.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}\n[… {} bytes more]", &text[..end], text.len() - end)
}
