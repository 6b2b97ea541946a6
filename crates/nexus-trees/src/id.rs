//! The names that git gives to commits and trees.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

macro_rules! object_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        impl $name {
            /// The id in lower-case hexadecimal digits.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidObjectId;

            fn from_str(text: &str) -> Result<Self, InvalidObjectId> {
                check(text).map(|()| Self(text.into()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidObjectId;

            fn try_from(text: String) -> Result<Self, InvalidObjectId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

object_id! {
    /// Names a commit: the hash of its tree, parents, time and message.
    CommitId
}

object_id! {
    /// Names a tree, in git's sense: the hash of all names, modes and contents.
    TreeId
}

/// A text that names no object of git's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object of git's has 40 or 64 lower-case hexadecimal digits")]
pub struct InvalidObjectId;

fn check(text: &str) -> Result<(), InvalidObjectId> {
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_hex && matches!(text.len(), 40 | 64) { Ok(()) } else { Err(InvalidObjectId) }
}
