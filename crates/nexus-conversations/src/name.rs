//! Names of conversations.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::conversation_error::{ConversationError, ConversationErrorKind};

/// Longest name, in bytes. Source: our own bound, below what every file system takes.
const MAX_BYTES: usize = 100;

/// The name of a conversation: 1 to 100 ASCII letters, digits, `-`, `_` and `.`, of which the first is a letter or a digit. Names
/// that differ in case only are one.
///
/// ```
/// use nexus_conversations::ConversationName;
///
/// assert!("review-2.b".parse::<ConversationName>().is_ok());
/// assert!("../review".parse::<ConversationName>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationName(String);

impl ConversationName {
    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What its files are called, without an ending: the same on file systems that know no case.
    pub(crate) fn stem(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for ConversationName {
    type Err = ConversationError;

    fn from_str(text: &str) -> Result<Self, ConversationError> {
        let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = text.len() <= MAX_BYTES
            && text.bytes().all(is_taken)
            && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        if is_name {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().take(MAX_BYTES).collect();
        let message = format!(
            "{shown:?} is no name of a conversation: take 1 to {MAX_BYTES} letters from a to z, digits, `-`, `_` and `.`, of which \
             the first is a letter or a digit"
        );
        Err(ConversationError::new(ConversationErrorKind::InvalidName, message))
    }
}

impl TryFrom<String> for ConversationName {
    type Error = ConversationError;

    fn try_from(text: String) -> Result<Self, ConversationError> {
        text.parse()
    }
}

impl From<ConversationName> for String {
    fn from(name: ConversationName) -> Self {
        name.0
    }
}

impl fmt::Display for ConversationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        let long = "a".repeat(MAX_BYTES + 1);
        for wrong in
            ["", ".", "..", ".a", "-a", "a/b", "a\\b", "a b", "a\n", "a\0", "ä", "../a", long.as_str()]
        {
            let error = wrong.parse::<ConversationName>().unwrap_err();
            assert_eq!(error.kind(), ConversationErrorKind::InvalidName, "{wrong:?}");
        }
        for right in ["a", "9", "A.b-c_d", &long[1..]] {
            assert_eq!(right.parse::<ConversationName>().unwrap().as_str(), right);
        }
    }
}
