//! Adds entries to the text of a configuration. Every other byte stays as the person wrote it.

use nexus::ConfigFile;
use serde_json::{Map, Value};

/// Indentation of an entry in a section.
const INDENT: usize = 2;

/// An entry to add to a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Insertion {
    pub(super) section: &'static str,
    pub(super) key: String,
    /// Its lines, indented by two spaces.
    pub(super) text: String,
}

/// Returns the text with the entries. Each is added at the end of its section. A missing section is added at the end of the text.
///
/// # Errors
///
/// The reason why the text cannot be edited without a change of another part.
pub(super) fn inserted(text: &str, insertions: &[Insertion]) -> Result<String, String> {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut edited = text.to_owned();
    let mut sections: Vec<&str> = Vec::new();
    for insertion in insertions {
        if !sections.contains(&insertion.section) {
            sections.push(insertion.section);
        }
    }
    for section in sections {
        let lines: String = insertions
            .iter()
            .filter(|insertion| insertion.section == section)
            .map(|insertion| insertion.text.as_str())
            .collect();
        edited = match ConfigSection::find(&edited, section)? {
            Some(found) => {
                let lines = indented(&lines, found.indent).replace('\n', line_end);
                let (before, after) = edited.split_at(found.end);
                let gap = if before.ends_with('\n') { "" } else { line_end };
                format!("{before}{gap}{lines}{after}")
            }
            None => {
                let gap = if edited.is_empty() || edited.ends_with('\n') { "" } else { line_end };
                format!("{edited}{gap}{line_end}{section}:{line_end}{}", lines.replace('\n', line_end))
            }
        };
    }
    // Editing the text preserves comments and order. This check catches the forms of YAML that the edit misreads.
    verify(text, &edited, insertions)?;
    Ok(edited)
}

/// Position of a section in the text.
struct ConfigSection {
    /// Byte after its last entry.
    end: usize,
    /// Indentation of its entries.
    indent: usize,
}

impl ConfigSection {
    fn find(text: &str, name: &str) -> Result<Option<Self>, String> {
        let mut found: Option<Self> = None;
        let mut has_entry = false;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let end = at + line.len();
            at = end;
            let content = line.trim_end();
            let indent = content.len() - content.trim_start().len();
            let is_comment = content.trim_start().starts_with('#');
            match &mut found {
                None => {
                    // A byte order mark may be in front of the first key.
                    let key = content.trim_start_matches('\u{feff}').strip_prefix(name);
                    let Some(rest) = key.and_then(|rest| rest.trim_start().strip_prefix(':')) else {
                        continue;
                    };
                    let rest = rest.trim_start();
                    // A section such as `{ a: 1 }` cannot take a further line.
                    if !rest.is_empty() && !rest.starts_with('#') {
                        return Err(format!(
                            "its section `{name}` is not written as one entry for each line"
                        ));
                    }
                    found = Some(Self { end, indent: INDENT });
                }
                Some(_) if content.is_empty() => {}
                Some(_) if indent == 0 && !is_comment => break,
                // A comment at the margin belongs to the next section, unless an entry follows it.
                Some(_) if indent == 0 => {}
                Some(section) => {
                    if !has_entry && !is_comment {
                        section.indent = indent;
                        has_entry = true;
                    }
                    section.end = end;
                }
            }
        }
        Ok(found)
    }
}

/// Changes the indentation of lines that are indented by [`INDENT`].
fn indented(lines: &str, indent: usize) -> String {
    let line = |line: &str| format!("{:indent$}{}", "", line.get(INDENT..).unwrap_or_default());
    lines.split_inclusive('\n').map(line).collect()
}

/// Checks that both texts mean the same, except for the entries.
fn verify(before: &str, after: &str, insertions: &[Insertion]) -> Result<(), String> {
    let parsed = |text: &str| match ConfigFile::of_text("nexus.yaml", text).value() {
        Ok(Value::Object(sections)) => Ok(sections),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("it is not a list of keys".to_owned()),
        Err(_) => Err("its form is unusual".to_owned()),
    };
    let (before, mut after) = (parsed(before)?, parsed(after)?);
    for Insertion { section, key, .. } in insertions {
        let entries = after.get_mut(*section).and_then(Value::as_object_mut);
        if entries.and_then(|entries| entries.remove(key)).is_none() {
            return Err(format!("an entry of its section `{section}` would be lost"));
        }
    }
    // A section that the edit created is empty now, and must not count as a difference.
    for Insertion { section, .. } in insertions {
        let is_empty = after.get(*section).and_then(Value::as_object).is_some_and(Map::is_empty);
        match before.get(*section) {
            None if is_empty => drop(after.remove(*section)),
            Some(Value::Null) if is_empty => drop(after.insert((*section).to_owned(), Value::Null)),
            _ => {}
        }
    }
    match before == after {
        true => Ok(()),
        false => Err("another part of it would change".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insertion(section: &'static str, key: &str, text: &str) -> Insertion {
        Insertion { section, key: key.to_owned(), text: text.to_owned() }
    }

    fn backend() -> Insertion {
        insertion("backends", "ollama", "  # found\n  ollama:\n    kind: responses\n")
    }

    #[test]
    fn an_entry_is_added_after_the_last_one_and_every_other_byte_stays() {
        let text = "# mine\nbackends: # all of them\n    one: # the first\n        kind: x   # odd   spaces\n\n    # before two\n    'two': {kind: y}\n\n# the types\ntypes: {}\n";
        let edited = inserted(text, &[backend()]).unwrap();
        assert_eq!(
            edited,
            "# mine\nbackends: # all of them\n    one: # the first\n        kind: x   # odd   spaces\n\n    # before two\n    'two': {kind: y}\n    # found\n    ollama:\n      kind: responses\n\n# the types\ntypes: {}\n"
        );
    }

    #[test]
    fn a_missing_or_empty_section_is_filled() {
        for (text, expected) in [
            ("types: {}", "types: {}\n\nbackends:\n  # found\n  ollama:\n    kind: responses\n"),
            ("backends:\ntypes: {}\n", "backends:\n  # found\n  ollama:\n    kind: responses\ntypes: {}\n"),
            ("# nothing\n", "# nothing\n\nbackends:\n  # found\n  ollama:\n    kind: responses\n"),
        ] {
            assert_eq!(inserted(text, &[backend()]).unwrap(), expected);
        }
    }

    #[test]
    fn line_ends_and_a_byte_order_mark_stay() {
        let text = "\u{feff}backends:\r\n  a: { kind: x }\r\n";
        let edited = inserted(text, &[backend()]).unwrap();
        assert!(edited.starts_with(text), "{edited:?}");
        assert!(!edited.replace("\r\n", "").contains('\n'), "{edited:?}");
    }

    #[test]
    fn a_text_that_cannot_be_edited_safely_is_refused() {
        for text in [
            "backends: { a: { kind: x } }\n",
            "{ backends: { a: { kind: x } } }\n",
            "\"backends\":\n  a: { kind: x }\n",
            "backends: &all\n  a: { kind: x }\n",
            "types: {}\n...\n",
            "backends:\n  ollama: { kind: x }\n",
            "note: \"\nbackends:\n  b\"\n",
            "- a\n",
            "backends:\n\ta: b\n",
        ] {
            let refused = inserted(text, &[backend()]);
            assert!(refused.is_err(), "{text:?}: {refused:?}");
        }
    }

    #[test]
    fn an_entry_of_a_section_with_a_block_of_text_stays() {
        let text = "backends:\n  a:\n    note: |\n      backends:\n        b\n\n      c\ntypes: {}\n";
        let edited = inserted(text, &[backend()]).unwrap();
        assert!(edited.contains("      c\n  # found\n  ollama:\n"), "{edited}");
    }
}
