//! Conversions between text and the bytes of git's output and of file names.

use std::{
    ffi::OsString,
    fmt,
    ops::Deref,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize};

use super::{TreeError, TreeErrorKind, TreeId};

/// A path in a file of Nexus. Bytes that are not UTF-8, and `%`, are encoded as `%` and two digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(super) struct PathText(PathBuf);

impl Deref for PathText {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl From<PathBuf> for PathText {
    fn from(path: PathBuf) -> Self {
        Self(path)
    }
}

impl From<PathText> for String {
    fn from(path: PathText) -> Self {
        let mut text = Self::new();
        for chunk in path.0.as_os_str().as_bytes().utf8_chunks() {
            text += &chunk.valid().replace('%', "%25");
            for byte in chunk.invalid() {
                text += &format!("%{byte:02x}");
            }
        }
        text
    }
}

impl From<String> for PathText {
    fn from(text: String) -> Self {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) => {
                    bytes.push(byte);
                    bytes.extend_from_slice(&part.as_bytes()[2..]);
                }
                None => bytes.extend_from_slice(part.as_bytes()),
            }
        }
        Self(OsString::from_vec(bytes).into())
    }
}

impl fmt::Debug for PathText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Returns the single line that git printed.
pub(super) fn line(bytes: Vec<u8>) -> Result<String, TreeError> {
    let text = String::from_utf8(bytes).map_err(|_| unexpected("a name that is not UTF-8"))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Parses an id that git printed.
pub(super) fn id<I: FromStr>(text: &str) -> Result<I, TreeError> {
    text.parse().map_err(|_| unexpected(&format!("{text:?} where an id is expected")))
}

/// Returns the tree in a commit object, from its first line. Source: gitformat-commit.
pub(super) fn tree_in(commit: &[u8]) -> Result<TreeId, TreeError> {
    let line = commit.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let name = line.strip_prefix(b"tree ").ok_or_else(|| unexpected("an odd commit"))?;
    id(&String::from_utf8_lossy(name))
}

/// Returns the error for output that differs from git's manual.
pub(super) fn unexpected(what: &str) -> TreeError {
    TreeError::new(TreeErrorKind::Git, format!("git printed {what}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_path_is_read_back(bytes in prop::collection::vec(any::<u8>(), 0..12), text in "[%0-9a-fé]{0,8}") {
            for bytes in [bytes, text.into_bytes()] {
                let path = PathText(OsString::from_vec(bytes).into());
                prop_assert_eq!(PathText::from(String::from(path.clone())), path);
            }
        }
    }
}
