//! Text of a server or a client, within limits.

/// Cuts a text that is longer than `most` bytes, and appends a note.
pub fn cut_text(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let kept = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    format!("{kept}\n[{} more bytes]", text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(cut_text("äää", 3), "ä\n[4 more bytes]");
        assert_eq!(cut_text("äää", 6), "äää");
    }
}
