//! Protected paths: a path with everything below it, or a glob.

use std::path::{Component, Path, PathBuf};

use super::{path_glob::PathGlob, path_spelling::shell_shorthand};
use crate::name_type;

/// Longest rule, in bytes. Source: our own bound.
const MAX_BYTES: usize = 1024;

/// Characters that turn a rule into a glob.
const GLOB_CHARACTERS: [char; 4] = ['*', '?', '[', '{'];

/// Escapes the next character in a glob. On Windows it separates names.
const ESCAPE: char = '\\';

name_type! {
    /// A protected path, or a glob for protected paths; both include everything below.
    ///
    /// | rule | protects |
    /// | --- | --- |
    /// | `deploy/keys` | this path, relative to the scope's root |
    /// | `/srv/vault` | this path |
    /// | `*.pem`, `.env*` | a glob without `/`: every name that it matches, at any depth |
    /// | `infra/*.tf` | a glob with `/`: relative to the root; `*` stops at a `/` |
    /// | `**/private/**` | `**` stands for any number of folders, also outside of the root |
    ///
    /// `?` stands for one character, `[ab]` for one of several, `{a,b}` for one of several texts. `\` escapes the next
    /// character, and also turns the rule into a glob. On Windows `\` separates names, and does neither in a rule
    /// without other glob characters. Rules that begin with `~` or `$HOME` are rejected. A glob without a leading `/`
    /// is not matched against the name of the root, nor against the folders above it.
    ///
    /// In doubt a rule denies: it applies to every spelling that some file system treats as the same name, such as
    /// other case and other Unicode forms. A rule that can be read as a glob also applies to the path with that
    /// spelling. Globs need the feature `globs`; without it a rule with a glob is refused.
    /// ```
    /// use nexus_core::scope::PathRule;
    ///
    /// let rule: PathRule = "**/.env".parse()?;
    /// assert_eq!(rule.as_str(), "**/.env");
    /// assert!("../elsewhere".parse::<PathRule>().is_err());
    /// # Ok::<(), nexus_core::scope::InvalidRule>(())
    /// ```
    pub struct PathRule: check => InvalidRule;
}

impl PathRule {
    /// Returns the path that a rule without glob syntax would name.
    pub(super) fn path_below(&self, root: &Path) -> PathBuf {
        // `components` removes `.` and doubled slashes. `join` with an absolute rule drops the root.
        root.join(&*self.0).components().collect()
    }

    /// Returns the glob for absolute paths. `None` if the rule is a plain path.
    pub(super) fn glob_below(&self, root: &str) -> Result<Option<PathGlob>, String> {
        glob_below(&self.0, root)
    }
}

fn glob_below(rule: &str, root: &str) -> Result<Option<PathGlob>, String> {
    let is_glob = rule.contains(GLOB_CHARACTERS) || (cfg!(not(windows)) && rule.contains(ESCAPE));
    if is_glob { PathGlob::new(rule, root).map(Some) } else { Ok(None) }
}

fn check(text: &str) -> Result<(), InvalidRule> {
    let invalid = |problem: String| InvalidRule { text: text.chars().take(MAX_BYTES).collect(), problem };
    if text.is_empty() {
        return Err(invalid("is empty".to_owned()));
    }
    if text.len() > MAX_BYTES {
        return Err(invalid(format!("is longer than {MAX_BYTES} bytes")));
    }
    if text.contains('\0') {
        return Err(invalid("has a NUL byte in it".to_owned()));
    }
    if let Some(problem) = shell_shorthand(text) {
        return Err(invalid(problem));
    }
    if Path::new(text).components().any(|part| part == Component::ParentDir) {
        return Err(invalid("has `..` in it; write the path it leads to".to_owned()));
    }
    glob_below(text, "").map(drop).map_err(invalid)
}

/// Error for a text that is not a valid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule {text:?} {problem}")]
pub struct InvalidRule {
    /// The given text, shortened.
    pub text: String,
    /// Its fault.
    pub problem: String,
}

#[cfg(all(test, feature = "globs"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_rule_is_refused_with_its_reason() {
        for (text, problem) in [
            ("", "empty"),
            ("a/../b", "`..`"),
            ("a[", "is not a glob: a `[` is not closed"),
            ("a\0", "NUL"),
            ("[é]", "ASCII"),
            ("~/.ssh", "write the path it leads to"),
            ("~", "\"./~\""),
            ("$HOME/.ssh", "\"$HOME\""),
            ("${HOME}/*", "\"${HOME}\""),
        ] {
            let error = text.parse::<PathRule>().unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
        assert!("x".repeat(1025).parse::<PathRule>().is_err());
        assert!(serde_json::from_str::<PathRule>("\"a/../b\"").is_err());
        for text in ["~$report.docx", "$RECYCLE.BIN", "$id", "a/~", "./~/x", "./$HOME", "~user", "a~"] {
            assert!(text.parse::<PathRule>().is_ok(), "{text}");
        }
    }
}
