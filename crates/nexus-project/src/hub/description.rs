//! The description of a skill, from its SKILL.md.

use std::collections::BTreeMap;

use serde_json::Value;

/// Maximum length of a shown description, in characters. The format of skills has the same limit.
const MAX_CHARACTERS: usize = 1024;
/// Maximum number of values in front matter, with its aliases expanded.
const MAX_NODES: usize = 5_000;

/// Returns the description in the front matter of a SKILL.md, or else the first line of its text. The result is one line.
pub(super) fn description_of(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().skip_while(|line| line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return shortened(first.trim_start_matches('#'));
    }
    let front: Vec<&str> = lines.by_ref().take_while(|line| line.trim_end() != "---").collect();
    let described = in_yaml(&front.join("\n")).or_else(|| in_lines(&front));
    described.map_or_else(
        || shortened(lines.find(|line| !line.trim().is_empty()).unwrap_or_default().trim_start_matches('#')),
        |described| shortened(&described),
    )
}

/// Returns the description in front matter that is YAML.
fn in_yaml(front: &str) -> Option<String> {
    let budget = serde_yaml::budget! {
        max_nodes: MAX_NODES,
        max_events: 4 * MAX_NODES,
        max_aliases: 100,
        max_anchors: 100,
        max_depth: 16,
        max_documents: 2,
    };
    let options = serde_yaml::options! { budget: budget, with_snippet: false };
    let keys: BTreeMap<String, Value> = serde_yaml::from_str_with_options(front, options).ok()?;
    match keys.get("description")? {
        Value::String(description) => Some(description.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// Returns the description in front matter that is not valid YAML. The most frequent fault is a colon in unquoted text.
fn in_lines(front: &[&str]) -> Option<String> {
    let described = |line: &&str| {
        Some(line.strip_prefix("description")?.trim_start().strip_prefix(':')?.trim().to_owned())
    };
    let described = front.iter().find_map(described)?;
    Some(described.trim_matches(['"', '\'']).to_owned()).filter(|described| !described.is_empty())
}

/// Puts a text on one line.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MAX_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_in_each_form_that_skills_have() {
        let forms = [
            ("---\nname: x\ndescription: Finds dead links.\n---\n# X\n", "Finds dead links."),
            ("---\ndescription: Reviews: \"links\", all of them\n---\n", "Reviews: \"links\", all of them"),
            ("---\ndescription: >\n  Finds\n  dead links.\nlicense: MIT\n---\n", "Finds dead links."),
            ("---\ndescription: >-\n  Finds\n  dead links.\n---\n", "Finds dead links."),
            ("---\ndescription: |\n  Finds dead links.\n  And more.\n---\n", "Finds dead links. And more."),
            ("---\ndescription: Finds\n  dead links.\n---\n", "Finds dead links."),
            ("---\ndescription:\n  Finds dead links.\n---\n", "Finds dead links."),
            ("---\ndescription: \"Says \\\"links\\\" \\u00e9\"\n---\n", "Says \"links\" é"),
            ("---\ndescription: 'It''s about links'\n---\n", "It's about links"),
            ("\u{feff}---\ndescription: Finds dead links.\n---\n", "Finds dead links."),
            ("---\r\ndescription: Finds dead links.\r\n---\r\n", "Finds dead links."),
            ("---\ndescription: Finds dead links. # for people\n---\n", "Finds dead links."),
            ("---\ndescription : Finds dead links.\n---\n", "Finds dead links."),
            (
                "---\nmetadata:\n  description: not this\ndescription: Finds dead links.\n---\n",
                "Finds dead links.",
            ),
            ("\n\n---\ndescription: Finds dead links.\n---\n", "Finds dead links."),
            ("---\ndescription: 2026\n---\n", "2026"),
            ("---\nname: x\n---\n\n# Finds dead links\n", "Finds dead links"),
            ("# Finds dead links\n\nText.\n", "Finds dead links"),
            ("", ""),
            ("---\nname: [\n---\nText.\n", "Text."),
        ];
        for (text, expected) in forms {
            assert_eq!(description_of(text), expected, "{text:?}");
        }
        let long = format!("---\ndescription: {}\n---\n", "x".repeat(5_000));
        assert_eq!(description_of(&long).len(), MAX_CHARACTERS);
        let bomb = "---\na: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d]\ndescription: Bounded.\n---\n";
        assert_eq!(description_of(bomb), "Bounded.");
    }
}
