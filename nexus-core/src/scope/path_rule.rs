//! What must not be touched: a path with everything below it, or a glob.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

use super::{
    ScopeError,
    path_key::{folded, folded_name, joined, names},
};

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
/// next character. A glob that does not begin with `/` is not held against the name of the root, nor against those above it.
/// A rule errs to denial: it holds for every spelling that some file system takes for the same name,
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

    /// The glob, for absolute paths, as it is written and as names are compared. `None` if the rule is none.
    fn globs_below(&self, root: &str) -> Result<Option<[GlobSet; 2]>, String> {
        if !self.is_glob() {
            return Ok(None);
        }
        let ready = |fold| self.glob_below(root, fold).map_err(|problem| format!("is no glob: {problem}"));
        Ok(Some([ready(str::to_owned)?, ready(folded)?]))
    }

    fn glob_below(&self, root: &str, fold: fn(&str) -> String) -> Result<GlobSet, String> {
        let text = self.0.strip_suffix('/').unwrap_or(&self.0);
        let text = text.strip_prefix("./").unwrap_or(text);
        let below = glob_of_characters(&fold(text))?;
        let text = if text.starts_with('/') || text.starts_with("**/") {
            below
        } else if text.contains('/') || text == "**" {
            format!("{}/{below}", globset::escape(&fold(root)))
        } else {
            format!("**/{below}")
        };
        let glob = GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build();
        let set = glob.and_then(|glob| GlobSetBuilder::new().add(glob).build());
        set.map_err(|error| error.kind().to_string())
    }
}

/// A glob in which one character may be several bytes. [`globset`] goes by bytes: its `?` is half an `é`.
fn glob_of_characters(glob: &str) -> Result<String, String> {
    /// One of the bytes that a character has of which there are several.
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
                // A `]` that comes first is one of the characters.
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
        rule.globs_below("").map_err(invalid)?;
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
    /// The names of the root.
    root: Vec<String>,
}

#[derive(Clone, Debug)]
struct Ready {
    rule: PathRule,
    path: PathBuf,
    key: Vec<String>,
    /// As it is written, and as names are compared.
    globs: Option<[GlobSet; 2]>,
}

impl RuleSet {
    /// `rules`, relative to `root`, which is absolute.
    pub(super) fn new(root: &Path, rules: &[PathRule]) -> Result<Self, ScopeError> {
        let root_text = names(root).map(|names| joined(&names)).unwrap_or_default();
        let ready = rules.iter().map(|rule| {
            let globs = rule.globs_below(&root_text);
            let globs = globs.map_err(|problem| ScopeError::Rule { rule: rule.clone(), problem })?;
            let path = rule.path_below(root);
            Ok(Ready { rule: rule.clone(), key: key_of(&path), path, globs })
        });
        let root = names(root).unwrap_or_default().into_iter().map(str::to_owned).collect();
        Ok(Self { rules: ready.collect::<Result<_, _>>()?, root })
    }

    /// The rule that keeps off `path`, which is absolute, or something above it.
    pub(super) fn rule_against(&self, path: &Path) -> Option<&PathRule> {
        let key = key_of(path);
        if let Some(ready) = self.rules.iter().find(|ready| key.starts_with(&ready.key)) {
            return Some(&ready.rule);
        }
        let globs = || self.rules.iter().filter_map(|ready| Some((&ready.rule, ready.globs.as_ref()?)));
        globs().next()?;
        let (mut plain, mut loose, mut is_above) = (String::new(), String::new(), true);
        for (index, (name, key)) in names(path)?.iter().zip(&key).enumerate() {
            plain = plain + "/" + name;
            loose = loose + "/" + key;
            // The name of the root, and of what is above it, is not the participant's choice.
            is_above = is_above && self.root.get(index).is_some_and(|above| above == name);
            let found = globs()
                .filter(|(rule, _)| !is_above || rule.0.starts_with('/'))
                .find(|(_, [exact, folded])| exact.is_match(&plain) || folded.is_match(&loose));
            if let Some((rule, _)) = found {
                return Some(rule);
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
        self.rules.iter().any(|ready| ready.globs.is_some())
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
        assert!(keeps_off("a?.{txt,md}", "/ws/d/ab.md") && !keeps_off("a?.{txt,md}", "/ws/d/abc.md"));
    }

    #[test]
    fn a_character_of_a_glob_is_one_of_unicode() {
        for name in ["a", "e\u{301}", "é", "€", "\u{1f512}"] {
            assert!(keeps_off("?.txt", &format!("/ws/{name}.txt")), "{name}");
            assert!(keeps_off("[!b].txt", &format!("/ws/{name}.txt")), "{name}");
            assert!(keeps_off("x{[^b],ab}.txt", &format!("/ws/x{name}.txt")), "{name}");
        }
        assert!(!keeps_off("?.txt", "/ws/ab.txt") && !keeps_off("[!b].txt", "/ws/b.txt"));
        assert!(keeps_off("[]a].txt", "/ws/].txt") && keeps_off("\\?.txt", "/ws/?.txt"));
        assert!(!keeps_off("\\?.txt", "/ws/a.txt"));
        assert!(keeps_off("{é,b}.txt", "/ws/E\u{301}.txt"));
    }

    #[test]
    fn the_name_of_the_root_is_not_held_against_what_is_in_it() {
        let rules = RuleSet::new(Path::new("/home/.w/x.pem"), &[rule(".*"), rule("**/*.pem")]).unwrap();
        assert!(rules.rule_against(Path::new("/home/.w/x.pem/a")).is_none());
        assert!(rules.rule_against(Path::new("/home/.w")).is_none());
        assert!(rules.rule_against(Path::new("/home/.w/x.pem/.a")).is_some());
        assert!(rules.rule_against(Path::new("/home/.other/a")).is_some());
        let rules = RuleSet::new(Path::new("/home/.w"), &[rule("/home/*")]).unwrap();
        assert!(rules.rule_against(Path::new("/home/.w/a")).is_some());
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
        for (text, problem) in
            [("", "empty"), ("a/../b", "`..`"), ("a[", "no glob"), ("a\0", "NUL"), ("[é]", "ASCII")]
        {
            let error = text.parse::<PathRule>().unwrap_err();
            assert!(error.to_string().contains(problem), "{error}");
        }
        assert!("x".repeat(1025).parse::<PathRule>().is_err());
        assert!(serde_json::from_str::<PathRule>("\"a/../b\"").is_err());
    }
}
