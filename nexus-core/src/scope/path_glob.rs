//! Globs for protected paths. Only this file uses the glob library.
//!
//! Without the feature `globs` a rule with a glob is rejected, so that no path is silently unprotected.

#[cfg(feature = "globs")]
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

#[cfg(feature = "globs")]
use super::path_key::folded;

/// The glob of a rule, for absolute paths. It has two forms: as written, and folded for comparing names.
#[derive(Clone, Debug)]
pub(super) struct PathGlob(Library);

#[cfg(feature = "globs")]
type Library = [GlobSet; 2];
#[cfg(not(feature = "globs"))]
type Library = std::convert::Infallible;

#[cfg(not(feature = "globs"))]
impl PathGlob {
    pub(super) fn new(_rule: &str, _root: &str) -> Result<Self, String> {
        Err("is a glob, and nexus-core is built without its feature `globs`; write a path".to_owned())
    }

    pub(super) fn is_match(&self, _path: &str, _folded: &str) -> bool {
        match self.0 {}
    }
}

#[cfg(feature = "globs")]
impl PathGlob {
    /// Compiles the glob `rule`, relative to `root`.
    pub(super) fn new(rule: &str, root: &str) -> Result<Self, String> {
        let ready = |fold| set_below(rule, root, fold).map_err(|problem| format!("is not a glob: {problem}"));
        Ok(Self([ready(str::to_owned)?, ready(folded)?]))
    }

    /// Returns true if it matches a path, as written or in the form for comparing names.
    pub(super) fn is_match(&self, path: &str, folded: &str) -> bool {
        let [exact, loose] = &self.0;
        exact.is_match(path) || loose.is_match(folded)
    }

    /// Returns true if it matches a path as written.
    #[cfg(feature = "files")]
    pub(super) fn is_exact_match(&self, path: &str) -> bool {
        let [exact, _] = &self.0;
        exact.is_match(path)
    }
}

#[cfg(feature = "globs")]
fn set_below(rule: &str, root: &str, fold: fn(&str) -> String) -> Result<GlobSet, String> {
    let text = rule.strip_suffix('/').unwrap_or(rule);
    let text = text.strip_prefix("./").unwrap_or(text);
    // Fold the rule first, because the rewritten glob contains classes of bytes.
    let below = glob_of_characters(&fold(text))?;
    let text = if text.starts_with('/') || text.starts_with("**/") {
        below
    } else if text.contains('/') || text == "**" {
        // Characters of the root's path must not act as a glob.
        format!("{}/{below}", globset::escape(&fold(root)))
    } else {
        format!("**/{below}")
    };
    let glob = GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build();
    let set = glob.and_then(|glob| GlobSetBuilder::new().add(glob).build());
    set.map_err(|error| error.kind().to_string())
}

/// Rewrites a glob so that it matches characters. [`globset`] matches bytes: its `?` matches half an `é`.
#[cfg(feature = "globs")]
fn glob_of_characters(glob: &str) -> Result<String, String> {
    /// Matches one byte of a multi-byte character.
    const BYTE: &str = "[!\u{1}-\u{7f}]";
    let one_or_more =
        |one: &str| format!("{{{one},{BYTE}{BYTE},{BYTE}{BYTE}{BYTE},{BYTE}{BYTE}{BYTE}{BYTE}}}");
    let mut found = String::new();
    let mut rest = glob.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => {
                found.push(character);
                found.extend(rest.next());
            }
            '?' => found += &one_or_more("?"),
            '[' => {
                let text = rest.as_str();
                let negated = text.starts_with(['!', '^']);
                let first = usize::from(negated);
                // A `]` in the first position is a member of the class.
                let after = text.char_indices().skip(first + 1).find(|(_, character)| *character == ']');
                let class = after.and_then(|(end, _)| text.get(..=end)).ok_or("a `[` is not closed")?;
                if !class.is_ascii() {
                    return Err(format!("{:?} is for ASCII characters; write {{a,b}}", format!("[{class}")));
                }
                let class_text = format!("[{class}");
                found += &if negated { one_or_more(&class_text) } else { class_text };
                rest = text.get(class.len()..).unwrap_or_default().chars();
            }
            character => found.push(character),
        }
    }
    Ok(found)
}
