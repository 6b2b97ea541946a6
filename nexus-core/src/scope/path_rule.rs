//! What must not be touched: a path with everything below it, or a glob.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

use super::path_key::{folded, folded_name, joined, names};

/// Longest rule, in bytes. Source: our own bound.
const MAX_BYTES: usize = 1024;

/// Characters that make a glob of a rule.
const GLOB_CHARACTERS: [char; 4] = ['*', '?', '[', '{'];

/// What must not be touched: a path, or a glob; either with everything below it.
///
/// | rule | keeps off |
/// | --- | --- |
/// | `deploy/keys` | this path, relative to the scope's root |
/// | `/srv/vault` | this path |
/// | `*.pem`, `.env*` | a glob without `/`: every name that it matches, at any depth |
/// | `infra/*.tf` | a glob with `/`: relative to the root; `*` stops at a `/` |
/// | `**/private/**` | `**` stands for any number of folders, also outside of the root |
///
/// `?` is one character, `[ab]` one of several, `{a,b}` one of several texts, and `\` takes the meaning from the
/// next character. A rule errs to denial: it holds for every spelling that some file system takes for the same name,
/// as of case and of Unicode forms; and a rule that reads as a glob holds for the path that is spelt like it, too.
///
/// ```
/// use nexus_core::scope::PathRule;
///
/// let rule: PathRule = "**/.env".parse()?;
/// assert_eq!(rule.as_str(), "**/.env");
/// assert!("../elsewhere".parse::<PathRule>().is_err());
/// # Ok::<(), nexus_core::scope::InvalidRule>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathRule(Arc<str>);

impl PathRule {
    /// The rule as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_glob(&self) -> bool {
        self.0.contains(GLOB_CHARACTERS)
    }

    /// The path that is spelt like the rule.
    pub(super) fn path_below(&self, root: &Path) -> PathBuf {
        // Without `.` and doubled slashes; an absolute one takes the place of the root.
        root.join(&*self.0).components().collect()
    }

    /// The glob for absolute paths.
    fn glob_below(&self, root: &str, fold: fn(&str) -> String) -> Result<Glob, globset::Error> {
        let text = self.0.strip_suffix('/').unwrap_or(&self.0);
        let text = text.strip_prefix("./").unwrap_or(text);
        let text = if text.starts_with('/') || text.starts_with("**/") {
            fold(text)
        } else if text.contains('/') || text == "**" {
            format!("{}/{}", globset::escape(&fold(root)), fold(text))
        } else {
            format!("**/{}", fold(text))
        };
        GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build()
    }
}

impl FromStr for PathRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
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
        if Path::new(text).components().any(|part| part == Component::ParentDir) {
            return Err(invalid("has `..` in it; write the path it leads to".to_owned()));
        }
        let rule = Self(text.into());
        if rule.is_glob() {
            for fold in [str::to_owned, folded] {
                rule.glob_below("/", fold)
                    .map_err(|error| invalid(format!("is no glob: {}", error.kind())))?;
            }
        }
        Ok(rule)
    }
}

impl TryFrom<String> for PathRule {
    type Error = InvalidRule;

    fn try_from(text: String) -> Result<Self, InvalidRule> {
        text.parse()
    }
}

impl From<PathRule> for String {
    fn from(rule: PathRule) -> Self {
        rule.0.as_ref().to_owned()
    }
}

impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PathRule({:?})", &*self.0)
    }
}

/// A text that says of no path that it must not be touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule {text:?} {problem}")]
pub struct InvalidRule {
    /// What was given, shortened.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The rules of a scope, made ready for absolute paths.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleSet {
    rules: Vec<Ready>,
    /// The globs, and for each its place in `rules`.
    exact: GlobSet,
    loose: GlobSet,
    globs: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Ready {
    rule: PathRule,
    path: PathBuf,
    key: Vec<String>,
}

impl RuleSet {
    /// `rules`, relative to `root`, which is absolute.
    pub(super) fn new(root: &Path, rules: &[PathRule]) -> Result<Self, (PathRule, globset::Error)> {
        let root_text = names(root).map(|names| joined(&names)).unwrap_or_default();
        let (mut exact, mut loose) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let (mut ready, mut globs) = (Vec::new(), Vec::new());
        for rule in rules {
            if rule.is_glob() {
                let failed = |error| (rule.clone(), error);
                exact.add(rule.glob_below(&root_text, str::to_owned).map_err(failed)?);
                loose.add(rule.glob_below(&root_text, folded).map_err(failed)?);
                globs.push(ready.len());
            }
            let path = rule.path_below(root);
            ready.push(Ready { rule: rule.clone(), key: key_of(&path), path });
        }
        let last = rules.last().cloned();
        let built = exact.build().and_then(|exact| Ok((exact, loose.build()?)));
        match (built, last) {
            (Ok((exact, loose)), _) => Ok(Self { rules: ready, exact, loose, globs }),
            (Err(error), Some(rule)) => Err((rule, error)),
            (Err(_), None) => Ok(Self::default()),
        }
    }

    /// The rule that keeps off `path`, which is absolute, or something above it.
    pub(super) fn rule_against(&self, path: &Path) -> Option<&PathRule> {
        let key = key_of(path);
        let by_path = self.rules.iter().find(|ready| key.starts_with(&ready.key));
        if by_path.is_some() || self.globs.is_empty() {
            return by_path.map(|ready| &ready.rule);
        }
        let names = names(path)?;
        let (mut plain, mut loose) = (String::new(), String::new());
        for (name, key) in names.iter().zip(&key) {
            plain = plain + "/" + name;
            loose = loose + "/" + key;
            let found = [self.exact.matches(&plain), self.loose.matches(&loose)].concat();
            if let Some(ready) = found.first().and_then(|at| self.rules.get(*self.globs.get(*at)?)) {
                return Some(&ready.rule);
            }
        }
        None
    }

    /// The rules that are spelt as a path, each with that path.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&PathRule, &Path)> {
        self.rules.iter().map(|ready| (&ready.rule, ready.path.as_path()))
    }

    /// Whether what is below a folder can only be judged by looking at it.
    pub(super) fn has_globs(&self) -> bool {
        !self.globs.is_empty()
    }
}

/// The names of a path as they are compared. A name that is not Unicode is compared by what of it is.
pub(super) fn key_of(path: &Path) -> Vec<String> {
    let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    parts.map(|part| folded_name(&part.as_os_str().to_string_lossy())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> PathRule {
        text.parse().unwrap()
    }

    fn keeps_off(text: &str, path: &str) -> bool {
        RuleSet::new(Path::new("/ws"), &[rule(text)]).unwrap().rule_against(Path::new(path)).is_some()
    }

    #[test]
    fn a_path_keeps_off_itself_and_what_is_below() {
        for path in ["/ws/keys", "/ws/keys/a/b", "/ws/KEYS/x", "/ws/ke\u{200b}ys"] {
            assert!(keeps_off("keys", path) && keeps_off("./keys/", path), "{path}");
        }
        for path in ["/ws", "/ws/keys2", "/ws/a/keys", "/keys"] {
            assert!(!keeps_off("keys", path), "{path}");
        }
        assert!(keeps_off("/srv/vault", "/srv/vault/x") && !keeps_off("/srv/vault", "/ws/srv/vault"));
        assert!(keeps_off(".", "/ws/anything") && keeps_off("/", "/anything"));
    }

    #[test]
    fn a_glob_without_a_slash_holds_at_any_depth() {
        for path in ["/ws/a.pem", "/ws/x/y/A.PEM", "/ws/dir.pem/inside", "/elsewhere/a.pem", "/ws/.pem"] {
            assert!(keeps_off("*.pem", path), "{path}");
        }
        assert!(!keeps_off("*.pem", "/ws/a.pem.txt"));
        assert!(keeps_off("*", "/ws/a") && keeps_off("**", "/ws/a/b") && !keeps_off("**", "/other/a"));
    }

    #[test]
    fn a_glob_with_a_slash_is_relative_to_the_root() {
        assert!(keeps_off("infra/*.tf", "/ws/infra/a.tf") && keeps_off("./infra/*.tf", "/ws/infra/a.tf"));
        assert!(!keeps_off("infra/*.tf", "/ws/infra/deep/a.tf"));
        assert!(!keeps_off("infra/*.tf", "/ws/x/infra/a.tf"));
        assert!(keeps_off("**/.env", "/ws/.env") && keeps_off("**/.env", "/ws/a/b/.ENV/c"));
        assert!(keeps_off("/srv/*/key", "/srv/a/key") && !keeps_off("/srv/*/key", "/ws/srv/a/key"));
        assert!(keeps_off("a?.{txt,md}", "/ws/d/ab.md") && keeps_off("?.txt", "/ws/e\u{301}.txt"));
    }

    #[test]
    fn a_path_that_reads_as_a_glob_is_kept_off_as_it_is_spelt() {
        assert!(keeps_off("app/[id]/page", "/ws/app/[id]/page"));
        assert!(keeps_off("app/[id]/page", "/ws/app/i/page"));
    }

    #[test]
    fn a_root_that_reads_as_a_glob_is_none() {
        let rules = RuleSet::new(Path::new("/w[s]/{a}"), &[rule("x/*.k")]).unwrap();
        assert!(rules.rule_against(Path::new("/w[s]/{a}/x/1.k")).is_some());
        assert!(rules.rule_against(Path::new("/ws/a/x/1.k")).is_none());
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_reason() {
        for (text, problem) in [("", "empty"), ("a/../b", "`..`"), ("a[", "no glob"), ("a\0", "NUL")] {
            let error = text.parse::<PathRule>().unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
        assert!("x".repeat(1025).parse::<PathRule>().is_err());
        assert!(serde_json::from_str::<PathRule>("\"a/../b\"").is_err());
    }
}
