//! Public items that no other product code, example or page names.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use crate::source::Source;

/// Keywords of the items that are counted.
const ITEMS: [&str; 6] = ["fn", "struct", "enum", "trait", "const", "type"];

/// Public items, and how often each word stands in product code, examples and pages.
#[derive(Default)]
pub(crate) struct ItemUses {
    words: HashMap<String, usize>,
    /// `path:line` of each definition, by name.
    items: BTreeMap<String, Vec<String>>,
}

impl ItemUses {
    /// Adds product code: its words and its public items.
    pub(crate) fn add_source(&mut self, source: &Source) {
        for (number, line) in source.product_lines() {
            self.add_text(line);
            if let Some(name) = public_item(line) {
                let definition = format!("{}:{number}", source.path.display());
                self.items.entry(name.to_owned()).or_default().push(definition);
            }
        }
    }

    /// Adds the words of a text that may name items.
    pub(crate) fn add_text(&mut self, text: &str) {
        for word in text.split(|character: char| !character.is_alphanumeric() && character != '_') {
            if !word.is_empty() {
                *self.words.entry(word.to_owned()).or_default() += 1;
            }
        }
    }

    /// Returns the items whose names stand in their definitions alone.
    pub(crate) fn unused(&self) -> impl Iterator<Item = (&str, &[String])> {
        // Each definition contains the name once. Count words, because resolving all paths would need a compiler.
        let is_unused = |name: &String, definitions: &Vec<String>| self.words[name] <= definitions.len();
        self.items
            .iter()
            .filter(move |(name, definitions)| is_unused(name, definitions))
            .map(|(name, definitions)| (name.as_str(), definitions.as_slice()))
    }
}

/// Returns the examples and pages of the repository, which use items as a user does.
pub(crate) fn user_texts(root: &Path) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries {
            let path: PathBuf = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_example = path.components().any(|part| part.as_os_str() == "examples");
            let is_text =
                // The changelog also names removed items.
                name.ends_with(".md") && name != "CHANGELOG.md" || is_example && name.ends_with(".rs");
            if path.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules" {
                folders.push(path);
            } else if is_text {
                texts
                    .push(fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?);
            }
        }
    }
    Ok(texts)
}

/// The name of the public item that a line defines.
fn public_item(line: &str) -> Option<&str> {
    let mut words = line.trim_start().strip_prefix("pub ")?.split_whitespace().peekable();
    while words.next_if(|word| ["async", "const", "unsafe"].contains(word)).is_some()
        && words.peek() != Some(&"fn")
    {
        // `pub const NAME` has its keyword last.
        if words.peek().is_some_and(|word| word.ends_with(':')) {
            return words.next().map(|word| word.trim_end_matches(':')).filter(|word| !word.starts_with('$'));
        }
    }
    words.next_if(|word| ITEMS.contains(word))?;
    let name = words.next()?;
    let end =
        name.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(name.len());
    // A macro's `$name` is not an identifier.
    (end > 0).then(|| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_items_are_told_from_other_lines() {
        for (line, name) in [
            ("    pub fn new(text: &str) -> Self {", Some("new")),
            ("pub const fn most() -> u8 {", Some("most")),
            ("pub async fn run<T>(", Some("run")),
            ("pub const MOST: usize = 3;", Some("MOST")),
            ("pub struct Name<'a>(&'a str);", Some("Name")),
            ("pub struct $name(u8);", None),
            ("pub(crate) fn inner() {", None),
            ("pub use other::Name;", None),
            ("pub name: String,", None),
        ] {
            assert_eq!(public_item(line), name, "{line}");
        }
    }
}
