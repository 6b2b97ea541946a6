//! Matches the rules of a scope against paths.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use super::{
    PathRule, ScopeError,
    path_glob::PathGlob,
    path_key::{joined, key_of, names},
};

/// The rules of a scope, compiled for absolute paths.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleSet {
    rules: Vec<CompiledRule>,
    /// Names of the root's path.
    root: Vec<String>,
}

/// A rule with its path in folded form.
#[derive(Clone, Debug)]
struct CompiledRule {
    rule: PathRule,
    path: PathBuf,
    key: Vec<String>,
    glob: Option<PathGlob>,
}

impl RuleSet {
    /// Compiles `rules`, relative to the absolute path `root`.
    pub(super) fn new(root: &Path, rules: &[PathRule]) -> Result<Self, ScopeError> {
        let root_names: Vec<String> = names(root).map(Cow::into_owned).collect();
        let root_text = joined(&root_names);
        let ready = rules.iter().map(|rule| {
            let glob = rule.glob_below(&root_text);
            let glob = glob.map_err(|problem| ScopeError::Rule { rule: rule.clone(), problem })?;
            let path = rule.path_below(root);
            Ok(CompiledRule { rule: rule.clone(), key: key_of(&path), path, glob })
        });
        Ok(Self { rules: ready.collect::<Result<_, _>>()?, root: root_names })
    }

    /// Returns the rule that protects `path`, which is absolute, or a folder above it.
    pub(super) fn rule_against(&self, path: &Path) -> Option<&PathRule> {
        let key = key_of(path);
        if let Some(ready) = self.rules.iter().find(|ready| key.starts_with(&ready.key)) {
            return Some(&ready.rule);
        }
        let globs = || self.rules.iter().filter_map(|ready| Some((&ready.rule, ready.glob.as_ref()?)));
        // Without globs, do not build the texts below.
        globs().next()?;
        let (mut plain, mut loose, mut is_above) = (String::new(), String::new(), true);
        // Match the globs against every folder above the path too, because a rule protects everything below
        // its matches.
        for (index, (name, key)) in names(path).zip(&key).enumerate() {
            plain = plain + "/" + &name;
            loose = loose + "/" + key;
            // The participant did not choose the names of the root and of the folders above it. Only absolute
            // globs apply to them.
            is_above = is_above && self.root.get(index).is_some_and(|above| *above == name);
            let found = globs()
                .filter(|(rule, _)| !is_above || rule.as_str().starts_with('/'))
                .find(|(_, glob)| glob.is_match(&plain, &loose));
            if let Some((rule, _)) = found {
                return Some(rule);
            }
        }
        None
    }

    /// Returns all rules, each with the path that it names literally.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&PathRule, &Path)> {
        self.rules.iter().map(|ready| (&ready.rule, ready.path.as_path()))
    }

    /// Returns true if a rule is a glob, so that a folder must be listed to check its content.
    pub(super) fn has_globs(&self) -> bool {
        self.rules.iter().any(|ready| ready.glob.is_some())
    }
}

#[cfg(all(test, feature = "globs"))]
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
        assert!(keeps_off("é/*.pem", "/ws/E\u{301}/k.PEM") && keeps_off("**/é/k*", "/ws/a/É/KEY/x"));
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

    #[cfg(unix)]
    #[test]
    fn a_name_that_is_not_unicode_hides_nothing() {
        use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
        let odd = |path: &[u8]| PathBuf::from(OsStr::from_bytes(path));
        for (text, path) in [
            ("**/.env", &b"/ws/d/\xff/.env"[..]),
            ("*.pem", b"/ws/\xff.pem"),
            ("d/?/x", b"/ws/d/\xff/x"),
            ("d", b"/ws/d/\xff"),
        ] {
            let rules = RuleSet::new(Path::new("/ws"), &[rule(text)]).unwrap();
            assert!(rules.rule_against(&odd(path)).is_some(), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_backslash_takes_the_meaning_from_the_next_character_in_every_rule() {
        assert!(keeps_off("my\\ dir", "/ws/my dir/x") && keeps_off("my\\ dir", "/ws/my\\ dir"));
        assert!(keeps_off("a/my\\ dir", "/ws/a/My Dir") && !keeps_off("a/my\\ dir", "/ws/my dir"));
        assert!(keeps_off("a\\\\b", "/ws/a\\b"));
    }

    #[test]
    fn a_name_that_begins_like_a_shorthand_is_kept_off() {
        assert!(keeps_off("./~", "/ws/~/x") && keeps_off("./$HOME/.ssh", "/ws/$HOME/.ssh"));
        assert!(keeps_off("./${A,B}", "/ws/$A"));
    }

    #[test]
    fn a_root_that_reads_as_a_glob_is_none() {
        let rules = RuleSet::new(Path::new("/w[s]/{a}"), &[rule("x/*.k")]).unwrap();
        assert!(rules.rule_against(Path::new("/w[s]/{a}/x/1.k")).is_some());
        assert!(rules.rule_against(Path::new("/ws/a/x/1.k")).is_none());
    }
}
