//! The patterns that plain technical English does without.

use std::sync::LazyLock;

use fancy_regex::Regex;

/// Longest sentence, in words.
const MOST_WORDS: usize = 30;

/// A rule that a text breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) advice: &'static str,
    /// False for what plain writers do too, less often: comments that break only such rules are listed and not counted.
    pub(crate) counts: bool,
}

/// The kinds of text, which the rules treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    DocComment,
    InlineComment,
    StringLiteral,
    Sentence,
}

impl TextKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::DocComment => "doc comment",
            Self::InlineComment => "comment",
            Self::StringLiteral => "string",
            Self::Sentence => "sentence",
        }
    }
}

struct Pattern {
    rule: Rule,
    regex: Regex,
}

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let pattern = |name, advice, regex: &str| Pattern {
        rule: Rule { name, advice, counts: name != "identifier" },
        regex: Regex::new(regex).unwrap_or_else(|error| panic!("the pattern {name}: {error}")),
    };
    vec![
        pattern(
            "subject",
            "begin with a noun or a verb",
            "^(What|Who|Whoever|Whose|Whom|Whatever|Whether|How|Where|When|Which|That|Those|Such|Of|As) ",
        ),
        pattern(
            "actor",
            "name the actor: the caller, the worker, the vendor's CLI",
            r"(?i)\b(somebody|nobody|whoever|whatever|whichever|one that|those (that|who)|he who)\b",
        ),
        pattern(
            "saying",
            "use an active verb: returns, logs, reports, sends",
            r"(?i)\b(is|are|was|were|be|been|being) (told|said|heard|asked)\b|\b(told|tells?|said|says?|asked) (of|nothing)\b",
        ),
        pattern(
            "vague",
            "name the exact action",
            r"(?i)\b(comes? to nothing|come of it|comes? of it|came of|go(es)? on (with|from)|put back|hand(s|ed)? in|laid out|set aside|way out|at all events)\b",
        ),
        pattern(
            "archaic",
            "use a present-day word",
            r"(?i)\b(anew|likewise|thereby|hence|therein|thereof|lest|but for)\b",
        ),
        pattern(
            "is-no",
            "say what it is, or `is not`",
            r"(?i)\b(is|are|was|were) (no|none)\b(?! (longer|more))|\bis one\b|\bwhere (there is|it is) (one|none)\b",
        ),
        pattern(
            "identifier",
            "put the identifier into backticks",
            r#"(?<![`\w./:<"'-])[a-z]+_[a-z]+(?:_[a-z]+)*(?![\w`("'>]|://)"#,
        ),
    ]
});

const LONG_SENTENCE: Rule = Rule { name: "long", advice: "one idea per sentence", counts: false };

static CODE: LazyLock<[regex::Regex; 2]> = LazyLock::new(|| {
    [r"`[^`]*`", r"\[`x`\](\([^)]*\))?"].map(|regex| regex::Regex::new(regex).expect("a pattern"))
});

/// Returns the rules that the text breaks.
pub(crate) fn broken(text: &str, kind: TextKind) -> Vec<Rule> {
    let [code, link] = &*CODE;
    let text = code.replace_all(text, "`x`");
    let text = link.replace_all(&text, "`x`").into_owned();
    let is_string = kind == TextKind::StringLiteral;
    let skipped = |rule: &Rule| is_string && matches!(rule.name, "identifier" | "is-no");
    let mut found: Vec<Rule> = PATTERNS
        .iter()
        .filter(|pattern| !skipped(&pattern.rule) && pattern.regex.is_match(&text).unwrap_or(false))
        .map(|pattern| pattern.rule)
        .collect();
    if !is_string && sentences(&text).any(|sentence| sentence.split_whitespace().count() > MOST_WORDS) {
        found.push(LONG_SENTENCE);
    }
    found
}

/// The sentences of a text: what ends with a stop, a colon or a semicolon and a blank.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text
            .char_indices()
            .find(|&(at, char)| {
                matches!(char, '.' | '!' | '?' | ':' | ';')
                    && text.get(at + 1..).is_some_and(|next| next.starts_with(char::is_whitespace))
            })
            .map(|(at, _)| at + 1);
        rest = end.and_then(|end| text.get(end..));
        Some(end.and_then(|end| text.get(..end)).unwrap_or(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, kind: TextKind) -> Vec<&'static str> {
        broken(text, kind).iter().map(|rule| rule.name).collect()
    }

    #[test]
    fn texts_break_the_rules_that_they_break() {
        let long = "word ".repeat(31);
        let cases: [(&str, &[&str]); 12] = [
            ("Returns the `nobody` of a turn.", &[]),
            ("What is waited for.", &["subject"]),
            ("The key of somebody.", &["actor"]),
            ("The caller is told the id.", &["saying"]),
            ("The work is laid out.", &["vague"]),
            ("The turn begins anew.", &["archaic"]),
            ("The path is no link.", &["is-no"]),
            ("The path is no longer a link.", &[]),
            ("Calls run_turn again.", &["identifier"]),
            ("Calls `run_turn` and [`begin_turn`](x) again.", &[]),
            (&long, &["long"]),
            ("Short. Another: and a third; all fine.", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(names(text, TextKind::DocComment), expected, "{text}");
        }
        assert_eq!(names("the path is no link", TextKind::StringLiteral), [""; 0]);
    }
}
