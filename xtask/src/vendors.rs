//! Vendor names outside the vendors' folders.

use std::path::{Path, PathBuf};

use crate::source::Source;

const NAMES: [&str; 8] = ["claude", "codex", "grok", "openai", "anthropic", "chatgpt", "xai", "supergrok"];

/// Files that may name vendors: their folders, the one list of them, and the names that shared code has to
/// know.
const HOMES_BASE: &str = "nexus-backends/src";
const HOMES: [&str; 6] = ["claude", "codex", "grok", "generic", "registry.rs", "wire_names.rs"];
/// The file that declares the vendors' folders may name them.
const DECLARING: &str = "nexus-backends/src/lib.rs";

/// The facade's front page is for users, who know the vendors by name.
const FRONT_PAGE: &str = "src/lib.rs";

/// The examples in help texts are lines to copy: `nexus login` takes the name of a vendor.
const EXAMPLES: &str = "crates/nexus-cli/src/args/examples.rs";

/// A file and how many of its lines name a vendor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mentions {
    pub(crate) path: PathBuf,
    /// Line numbers, counted from 1.
    pub(crate) lines: Vec<usize>,
}

/// Returns the mentions in `source`, in code and comments. `None`: nothing is mentioned, or the file may
/// mention vendors.
pub(crate) fn mentions(source: &Source) -> Option<Mentions> {
    let is_home = HOMES.iter().any(|home| source.path.starts_with(Path::new(HOMES_BASE).join(home)));
    if is_home || source.path == Path::new(EXAMPLES) {
        return None;
    }
    let declaring = source.path == Path::new(DECLARING);
    let lines: Vec<_> = source
        .product_lines()
        .filter(|(_, line)| names_vendor(line) && !(declaring && declares_folder(line)))
        .filter(|(_, line)| source.path != Path::new(FRONT_PAGE) || !line.starts_with("//!"))
        .map(|(number, _)| number)
        .collect();
    (!lines.is_empty()).then(|| Mentions { path: source.path.clone(), lines })
}

/// `mod vendor;`, or the condition before it: one feature of that name.
fn declares_folder(line: &str) -> bool {
    let line = line.trim().trim_start_matches("pub ");
    let name = line
        .strip_prefix("mod ")
        .and_then(|rest| rest.strip_suffix(';'))
        .or_else(|| line.strip_prefix("#[cfg(feature = \"").and_then(|rest| rest.strip_suffix("\")]")));
    name.is_some_and(|name| NAMES.contains(&name))
}

/// Returns true if `line` has a vendor's name as a word, or as a word of an identifier in any case.
fn names_vendor(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    NAMES.iter().any(|name| {
        lower.match_indices(name).any(|(start, _)| {
            let end = start + name.len();
            let bytes = line.as_bytes();
            let starts = start == 0
                || !bytes[start - 1].is_ascii_alphabetic()
                || (bytes[start - 1].is_ascii_lowercase() && bytes[start].is_ascii_uppercase());
            // A plural is a mention, too.
            let ends = |end: usize| bytes.get(end).is_none_or(|next| !next.is_ascii_lowercase());
            starts && (ends(end) || (bytes[end] == b's' && ends(end + 1)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declaring_a_folder_is_no_mention() {
        assert!(declares_folder("#[cfg(feature = \"grok\")]") && declares_folder("pub mod grok;"));
        assert!(!declares_folder("#[cfg(any(feature = \"grok\", feature = \"codex\"))]"));
        assert!(!declares_folder("mod grok_login;") && !declares_folder("use grok;"));
    }

    #[test]
    fn a_name_counts_as_a_word_or_as_a_part_of_an_identifier() {
        for line in
            ["Claude Code", "grok_cli", "CODEX_HOME", "OpenAiKey", "a codex's", "two Groks", "let myGrok"]
        {
            assert!(names_vendor(line), "{line}");
        }
        for line in ["relaxai", "grokking", "xaird", "codexes of law", "unclaude"] {
            assert!(!names_vendor(line), "{line}");
        }
    }
}
