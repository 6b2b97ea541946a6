//! Names of conversations.

use std::path::Path;

use nexus_core::name_type;

use crate::conversation_error::ConversationError;

/// Longest name, in bytes. Source: our own bound, below what every file system takes.
const MAX_BYTES: usize = 100;

name_type! {
    /// Name of a conversation: 1 to 100 ASCII letters, digits, `-`, `_` and `.`. It begins with a letter or a digit. Names
    /// that differ only in case are the same.
    ///
    /// ```
    /// use nexus_conversations::ConversationName;
    ///
    /// assert!("review-2.b".parse::<ConversationName>().is_ok());
    /// assert!("../review".parse::<ConversationName>().is_err());
    /// ```
    pub struct ConversationName: check => ConversationError;
}

impl ConversationName {
    /// Returns the name of its files without an extension. It is unique even on file systems that ignore case.
    pub(crate) fn stem(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

/// Returns the name of a file without its extension.
pub(crate) fn file_stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn check(text: &str) -> Result<(), ConversationError> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = text.len() <= MAX_BYTES
        && text.bytes().all(is_taken)
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    if is_name {
        return Ok(());
    }
    let shown: String = text.chars().take(MAX_BYTES).collect();
    let advice = format!(
        "write 1 to {MAX_BYTES} letters from a to z, digits, `-`, `_` and `.`, beginning with a letter or a \
         digit"
    );
    Err(ConversationError::invalid(format!("{shown:?} is not a name of a conversation"), advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation_error::ConversationErrorKind;

    #[test]
    fn a_name_leads_nowhere_else() {
        let long = "a".repeat(MAX_BYTES + 1);
        for wrong in
            ["", ".", "..", ".a", "-a", "a/b", "a\\b", "a b", "a\n", "a\0", "ä", "../a", long.as_str()]
        {
            let error = wrong.parse::<ConversationName>().unwrap_err();
            assert_eq!(error.kind, ConversationErrorKind::InvalidName, "{wrong:?}");
        }
        for right in ["a", "9", "A.b-c_d", &long[1..]] {
            assert_eq!(right.parse::<ConversationName>().unwrap().as_str(), right);
        }
    }
}
