//! Links of the repository's pages that lead to no file or heading, and pages of the book that its summary does not list.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Folder of the book, and the page that lists its pages.
const BOOK: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";

/// A link to a file or heading that does not exist.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeadLink {
    pub(crate) page: PathBuf,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// Returns the dead links of the Markdown pages in `root`, one folder below it, and anywhere in the book. A page of the book that
/// [`SUMMARY`] lacks is reported as a link that it should have.
pub(crate) fn dead(root: &Path) -> Result<Vec<DeadLink>, String> {
    let mut dead = Vec::new();
    let mut listed = BTreeSet::new();
    for page in pages(root)? {
        let text = read(root, &page)?;
        let folder = page.parent().unwrap_or(Path::new(""));
        for (line, target) in links(&text) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { page.clone() } else { folder.join(path) };
            if page == Path::new(SUMMARY) {
                listed.insert(file.clone());
            }
            let is_right = root.join(&file).exists()
                && (heading.is_empty()
                    || file.extension().is_none_or(|extension| extension != "md")
                    || headings(&read(root, &file)?).contains(heading));
            // The book is served without the rest of the repository.
            let leaves_the_book = page.starts_with(BOOK) && !is_within_the_book(folder, path);
            if !is_right || leaves_the_book {
                dead.push(DeadLink { page: page.clone(), line, target: target.to_owned() });
            }
        }
    }
    if root.join(SUMMARY).exists() {
        let unlisted = pages(root)?
            .into_iter()
            .filter(|page| page.starts_with(BOOK) && page != Path::new(SUMMARY) && !listed.contains(page));
        dead.extend(unlisted.map(|page| DeadLink {
            page: SUMMARY.into(),
            line: 1,
            target: page.display().to_string(),
        }));
    }
    Ok(dead)
}

fn read(root: &Path, page: &Path) -> Result<String, String> {
    fs::read_to_string(root.join(page)).map_err(|error| format!("{}: {error}", page.display()))
}

/// Returns true if a relative link from a folder of the book stays in the book.
fn is_within_the_book(folder: &Path, link: &str) -> bool {
    let depth = folder.components().count() - 1;
    Path::new(link).components().filter(|part| part.as_os_str() == "..").count() <= depth
}

fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let fault = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(root.join(&folder)).map_err(fault)? {
            let path = folder.join(entry.map_err(fault)?.file_name());
            let is_skipped = path.to_string_lossy().starts_with('.') || path == Path::new("target");
            if root.join(&path).is_dir() {
                if !is_skipped && (folder.as_os_str().is_empty() || path.starts_with(BOOK)) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// The lines of a page that are not in a block of code, counted from 1.
fn lines_of_text(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code).then_some((index + 1, line))
    })
}

/// The relative links of a page, with their lines.
fn links(page: &str) -> impl Iterator<Item = (usize, &str)> {
    lines_of_text(page).flat_map(|(number, line)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets
            // A colon follows a scheme such as `https`, and a check of the network would depend on other servers.
            .filter(|target| !target.is_empty() && !target.contains(':'))
            .map(move |target| (number, target))
    })
}

/// The ids of a page's headings, as GitHub and mdBook make them: a repeated one gets a number.
fn headings(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in lines_of_text(page) {
        let text = line.trim_start_matches('#');
        if text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let id: String = text
            .trim()
            .chars()
            .filter_map(|character| match character {
                ' ' => Some('-'),
                '-' | '_' => Some(character),
                _ => character.is_alphanumeric().then(|| character.to_ascii_lowercase()),
            })
            .collect();
        // GitHub and mdBook number repeated headings in the order of the page, beginning with 1.
        let repeated = (1..).map(|number| format!("{id}-{number}"));
        found
            .insert(std::iter::once(id.clone()).chain(repeated).find(|id| !found.contains(id)).unwrap_or(id));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize, String)> {
        let folder = folder(files);
        let dead = dead(folder.path()).unwrap().into_iter();
        dead.map(|link| (link.page.display().to_string(), link.line, link.target)).collect()
    }

    #[test]
    fn only_relative_links_of_the_text_are_followed() {
        let page = "see [a](x/y.rs), [b](https://host/z), [c](#here)\n```\n[`d`](e.md#f)\n```\nand `g(h)`, [i](j.md#k)";
        assert_eq!(links(page).collect::<Vec<_>>(), [(1, "x/y.rs"), (1, "#here"), (5, "j.md#k")]);
    }

    #[test]
    fn a_link_to_nothing_is_found_with_its_line() {
        let files =
            [("README.md", "[sub](sub)\n[gone](sub/gone.rs)\n"), ("sub/README.md", "[up](../README.md)\n")];
        assert_eq!(found(&files), [("README.md".to_owned(), 2, "sub/gone.rs".to_owned())]);
    }

    #[test]
    fn a_link_leads_to_a_heading_of_the_page() {
        let page = "[a](#the-nexus-command) [b](#twice-1) [c](#gone)\n# The `nexus` command\n## Twice\n## Twice\n```sh\n# gone\n```";
        assert_eq!(found(&[("README.md", page)]), [("README.md".to_owned(), 1, "#gone".to_owned())]);
    }

    #[test]
    fn the_book_lists_its_pages_and_links_within_itself() {
        let files = [
            ("README.md", "[book](docs/guide/a.md)"),
            ("docs/SUMMARY.md", "[a](guide/a.md)"),
            ("docs/guide/a.md", "[out](../../README.md) [b](b.md)"),
            ("docs/guide/b.md", ""),
        ];
        let expected = [
            ("docs/guide/a.md".to_owned(), 1, "../../README.md".to_owned()),
            ("docs/SUMMARY.md".to_owned(), 1, "docs/guide/b.md".to_owned()),
        ];
        assert_eq!(found(&files), expected);
    }
}
