//! `cargo xtask prose`: how plainly the repository is written.
//!
//! Counts comment blocks of product code, string literals that are sentences, and sentences of Markdown pages. A text is a
//! hit if it breaks one of the [rules].

mod rules;
mod texts;
mod unchanged;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use self::{
    rules::TextKind,
    texts::{Text, comments, sentences, strings},
};
pub(crate) use unchanged::run as code_unchanged;

/// Highest share of hits, in percent, of each kind of text.
const MOST_COMMENTS: f64 = 3.0;
const MOST_STRINGS: f64 = 1.0;
const MOST_SENTENCES: f64 = 4.0;
/// Number of hits that is allowed in a crate or page of any size.
const ALWAYS_ALLOWED: usize = 2;

/// Words that STYLE replaces in identifiers.
const VAGUE_NAMES: [&str; 5] = ["place", "kept", "told", "said", "held"];

/// Counts of one crate or page.
#[derive(Default)]
struct Measure {
    texts: usize,
    hits: usize,
    inline_comments: usize,
    code_lines: usize,
    vague_names: usize,
}

impl Measure {
    fn percent(&self) -> f64 {
        percent(self.hits, self.texts)
    }

    fn is_above(&self, most: f64) -> bool {
        // In a small crate, one hit would already exceed a share of a few percent.
        self.hits > ALWAYS_ALLOWED && self.percent() > most
    }

    /// Counts a text, and prints it if it breaks a rule.
    fn add(&mut self, path: &str, text: &Text, is_listed: bool) {
        self.texts += 1;
        let broken = rules::broken(&text.text, text.kind);
        // In a page every rule counts.
        let is_hit = broken.iter().any(|rule| rule.counts || text.kind == TextKind::Sentence);
        self.hits += usize::from(is_hit);
        if is_listed {
            for rule in broken {
                let shown: String = text.text.chars().take(140).collect();
                println!(
                    "{path}:{} {} {}: {shown} [{}]",
                    text.line,
                    text.kind.word(),
                    rule.name,
                    rule.advice
                );
            }
        }
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts of lines are small")]
    let (part, whole) = (part as f64, whole.max(1) as f64);
    100.0 * part / whole
}

/// Measures the repository, and prints the measures of each crate and page. Lists the texts that break a rule: of paths below
/// `below`, or, without it, of crates and pages above a bound. Returns how many bounds are exceeded.
pub(crate) fn run(below: Option<&str>) -> Result<usize, String> {
    let root = root()?;
    let files = git(&root, &["ls-files"])?;
    let (mut crates, mut pages) = (BTreeMap::<String, Measure>::new(), BTreeMap::<String, Measure>::new());
    let mut string_literals = Measure::default();
    let is_listed = |path: &str| below.is_none_or(|below| path.starts_with(below));
    for path in files.lines() {
        let read = || std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
        if is_product(path) {
            // Names of tests are sentences with rules of their own.
            let source = without_tests(&read()?);
            let measure = crates.entry(package(path)).or_default();
            for text in comments(&source) {
                // One or two words are a label, not a reason.
                let is_comment = text.kind == TextKind::InlineComment && text.text.matches(' ').count() >= 2;
                measure.inline_comments += usize::from(is_comment);
                measure.add(path, &text, is_listed(path));
            }
            let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
            measure.code_lines += source.lines().filter(is_code).count();
            measure.vague_names += vague_names(&source);
            for text in strings(&source) {
                string_literals.add(path, &text, is_listed(path));
            }
        } else if is_page(path) {
            let measure = pages.entry(path.to_owned()).or_default();
            for text in sentences(&read()?) {
                measure.add(path, &text, is_listed(path));
            }
        }
    }
    let faults = print_crates(&crates) + print_pages(&pages) + print_strings(&string_literals);
    println!("\n{faults} bounds are exceeded");
    Ok(faults)
}

fn print_crates(crates: &BTreeMap<String, Measure>) -> usize {
    println!(
        "\ncomment blocks, at most {MOST_COMMENTS} % of each crate; names with {}:",
        VAGUE_NAMES.join(", ")
    );
    let mut faults = 0;
    for (name, measure) in crates {
        let is_fault = measure.is_above(MOST_COMMENTS);
        faults += usize::from(is_fault);
        println!(
            "  {:24} {:5} blocks {:5.1} %, {:4.1} inline comments per 100 lines, {:3} vague names{}",
            if name.is_empty() { "(facade)" } else { name },
            measure.texts,
            measure.percent(),
            percent(measure.inline_comments, measure.code_lines),
            measure.vague_names,
            mark(is_fault),
        );
    }
    faults
}

fn print_pages(pages: &BTreeMap<String, Measure>) -> usize {
    println!("\nsentences of Markdown pages, at most {MOST_SENTENCES} % of each page:");
    let mut faults = 0;
    for (path, measure) in pages.iter().filter(|(_, measure)| measure.texts > 0) {
        let is_fault = measure.is_above(MOST_SENTENCES);
        faults += usize::from(is_fault);
        println!("  {path:45} {:5} sentences {:5.1} %{}", measure.texts, measure.percent(), mark(is_fault));
    }
    faults
}

fn print_strings(measure: &Measure) -> usize {
    let is_fault = measure.is_above(MOST_STRINGS);
    println!(
        "\nstring literals that are prose, at most {MOST_STRINGS} %: {}, {:.1} %{}",
        measure.texts,
        measure.percent(),
        mark(is_fault)
    );
    usize::from(is_fault)
}

fn mark(is_fault: bool) -> &'static str {
    if is_fault { ": TOO MANY" } else { "" }
}

/// Returns true for the source of a library or program.
fn is_product(path: &str) -> bool {
    let is_test_folder =
        |part| matches!(part, "test" | "tests" | "benches" | "fuzz" | "examples" | "third-party");
    let Some((folder, file)) = path.rsplit_once('/') else { return false };
    let is_test_file =
        matches!(file, "test.rs" | "tests.rs") || file.ends_with("_test.rs") || file.ends_with("_tests.rs");
    path.ends_with(".rs") && !is_test_file && !folder.split('/').any(is_test_folder)
}

/// Returns true for a Markdown page of the project's own, not for a recorded one.
fn is_page(path: &str) -> bool {
    path.ends_with(".md")
        && !path.contains("transcript")
        && !path.contains("/test/")
        && !path.contains("/tests/")
}

/// The folder of the package that a source file is in.
fn package(path: &str) -> String {
    let parts: Vec<_> = path.split('/').collect();
    match parts.iter().position(|part| *part == "src") {
        Some(source) => parts.get(..source).unwrap_or_default().join("/"),
        None => parts.first().copied().unwrap_or_default().to_owned(),
    }
}

/// A source file up to its module of tests, which is its last item.
fn without_tests(source: &str) -> String {
    source.find("\n#[cfg(test)]\nmod tests {").and_then(|end| source.get(..end)).unwrap_or(source).to_owned()
}

/// Number of identifiers that have one of the [`VAGUE_NAMES`] as a word.
fn vague_names(source: &str) -> usize {
    fn count(tokens: proc_macro2::TokenStream) -> usize {
        tokens
            .into_iter()
            .map(|token| match token {
                proc_macro2::TokenTree::Ident(name) => usize::from(
                    name.to_string()
                        .split('_')
                        .any(|word| VAGUE_NAMES.contains(&word.to_lowercase().as_str())),
                ),
                proc_macro2::TokenTree::Group(group) => count(group.stream()),
                _ => 0,
            })
            .sum()
    }
    source.parse().map(count).unwrap_or_default()
}

/// The top folder of the workspace.
fn root() -> Result<PathBuf, String> {
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    parent.map(Path::to_path_buf).ok_or_else(|| "xtask is in no workspace".to_owned())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("git {}: {error}", arguments.join(" ")))?;
    if !output.status.success() {
        return Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("git {}: {error}", arguments.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_code_is_told_from_tests() {
        for path in ["src/lib.rs", "crates/nexus-cli/src/task/create.rs", "nexus-core/src/latest.rs"] {
            assert!(is_product(path), "{path}");
        }
        for path in [
            "tests/it/main.rs",
            "benches/decode.rs",
            "a/src/tests.rs",
            "a/src/b_tests.rs",
            "README.md",
            "a/examples/b.rs",
        ] {
            assert!(!is_product(path), "{path}");
        }
        assert_eq!(package("crates/nexus-cli/src/task/create.rs"), "crates/nexus-cli");
        assert_eq!(package("src/lib.rs"), "");
    }

    #[test]
    fn names_are_counted_by_their_words() {
        assert_eq!(vague_names("fn replace(kept_files: Place) { said(\"kept\"); } // held"), 3);
    }
}
