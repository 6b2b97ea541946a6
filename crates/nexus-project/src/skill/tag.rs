//! Tags at the beginning of a person's message.

use super::Skill;

/// A tag of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    /// Starts a skill.
    Skill {
        /// The skill.
        skill: Skill,
        /// Text after the colon: `auto` in `[plan:auto]`.
        variant: Option<String>,
    },
    /// Has an immediate effect.
    Inline(InlineAction),
}

/// Immediate effect of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InlineAction {
    /// `[d]`: records a decision.
    Decide,
    /// `[m]`: stores a lesson.
    Remember,
    /// `[m:gc]`: asks the model to tidy up the lessons.
    CollectMemory,
    /// `[rule]` and `[rule:NAME]`: store a rule, in a file of that name.
    Rule(Option<String>),
}

impl Tag {
    /// Returns the tag at the beginning of a message, and the text after it. Ignores other text in brackets, and tags
    /// further on.
    pub fn of(message: &str) -> Option<(Self, &str)> {
        let (inside, rest) = message.trim_start().strip_prefix('[')?.split_once(']')?;
        let (word, variant) = match inside.split_once(':') {
            Some((word, variant)) => (word.trim(), Some(variant.trim())),
            None => (inside.trim(), None),
        };
        let variant_fits = |variant: &str| {
            (1..=64).contains(&variant.len())
                && variant.chars().all(|character| character.is_alphanumeric() || "-_".contains(character))
        };
        if variant.is_some_and(|variant| !variant_fits(variant)) {
            return None;
        }
        let word = word.to_ascii_lowercase();
        let tag = match (&*word, variant) {
            ("d", None) => Self::Inline(InlineAction::Decide),
            ("m", None) => Self::Inline(InlineAction::Remember),
            ("m", Some("gc")) => Self::Inline(InlineAction::CollectMemory),
            ("rule", variant) => Self::Inline(InlineAction::Rule(variant.map(str::to_owned))),
            (word, variant) => {
                Self::Skill { skill: Skill::of_tag(word)?, variant: variant.map(str::to_owned) }
            }
        };
        Some((tag, rest.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(message: &str) -> Option<(String, Option<String>, String)> {
        match Tag::of(message)? {
            (Tag::Skill { skill, variant }, rest) => Some((skill.name.to_owned(), variant, rest.to_owned())),
            (Tag::Inline(action), rest) => Some((format!("{action:?}"), None, rest.to_owned())),
        }
    }

    #[test]
    fn tags_are_at_the_beginning_of_a_message() {
        let skill = |name: &str, variant: Option<&str>, rest: &str| {
            Some((name.to_owned(), variant.map(str::to_owned), rest.to_owned()))
        };
        assert_eq!(named("[plan] caching"), skill("plan", None, "caching"));
        assert_eq!(named(" [PLAN:auto]caching"), skill("plan", Some("auto"), "caching"));
        assert_eq!(named("[run]"), skill("run", None, ""));
        assert_eq!(named("[d] yes"), skill("Decide", None, "yes"));
        assert_eq!(named("[m:gc]"), skill("CollectMemory", None, ""));
        assert_eq!(named("[rule:style] short"), skill("Rule(Some(\"style\"))", None, "short"));
        for none in [
            "see [plan]",
            "[ ] open",
            "[x] done",
            "[link](http://plan)",
            "[plan",
            "plan]",
            "[m:xx] a",
            "[rule:../a] b",
            "[d:1] x",
            "[plan:] x",
            "",
        ] {
            assert_eq!(named(none), None, "{none:?}");
        }
    }
}
