//! Links of the repository's pages that lead to no file.

use std::path::{Path, PathBuf};

/// A link to a file that is not there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeadLink {
    pub(crate) page: PathBuf,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// The dead links of every Markdown page in `root` and one folder below it.
pub(crate) fn dead(root: &Path) -> Result<Vec<DeadLink>, String> {
    let mut dead = Vec::new();
    for page in pages(root)? {
        let text = std::fs::read_to_string(root.join(&page))
            .map_err(|error| format!("{}: {error}", page.display()))?;
        let folder = root.join(page.parent().unwrap_or(Path::new("")));
        for (index, line) in text.lines().enumerate() {
            for target in targets(line) {
                if !folder.join(target).exists() {
                    dead.push(DeadLink { page: page.clone(), line: index + 1, target: target.to_owned() });
                }
            }
        }
    }
    Ok(dead)
}

fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>, String> {
        let entries =
            std::fs::read_dir(root.join(folder)).map_err(|error| format!("{}: {error}", folder.display()))?;
        let entries: Result<Vec<_>, _> = entries.collect();
        Ok(entries
            .map_err(|error| format!("{}: {error}", folder.display()))?
            .iter()
            .map(|entry| folder.join(entry.file_name()))
            .collect())
    };
    let mut pages = Vec::new();
    for entry in list(Path::new(""))? {
        let hidden = entry.to_string_lossy().starts_with('.') || entry == Path::new("target");
        if root.join(&entry).is_dir() && !hidden {
            pages.extend(list(&entry)?);
        } else {
            pages.push(entry);
        }
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    Ok(pages)
}

/// The relative paths that `line` links to, without their fragments.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains(':'))
        .map(|target| target.split('#').next().unwrap_or(target))
        .filter(|target| !target.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_to_files_are_followed() {
        let line = "see [a](x/y.rs), [b](https://host/z), [c](#here), [`d`](e.md#f) and `g(h)`";
        assert_eq!(targets(line).collect::<Vec<_>>(), ["x/y.rs", "e.md"]);
    }

    #[test]
    fn a_link_to_nothing_is_found_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("README.md"), "[sub](sub)\n[gone](sub/gone.rs)\n").unwrap();
        std::fs::write(folder.path().join("sub/README.md"), "[up](../README.md)\n").unwrap();
        let found = dead(folder.path()).unwrap();
        let expected = DeadLink { page: "README.md".into(), line: 2, target: "sub/gone.rs".into() };
        assert_eq!(found, [expected]);
    }
}
