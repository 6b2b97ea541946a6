//! A project of its own for each test, with the good tree in it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use nexus_artifacts::{Artifacts, LintOptions, lint};
use tempfile::TempDir;

/// The folder of the fixtures.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A project with nothing in it.
pub(crate) fn empty() -> (TempDir, Artifacts) {
    let folder = TempDir::new().unwrap();
    let artifacts = Artifacts::at(folder.path());
    (folder, artifacts)
}

/// A project in which the lint finds nothing.
pub(crate) fn good() -> (TempDir, Artifacts) {
    let (folder, artifacts) = empty();
    overlay(&fixtures().join("good"), folder.path());
    (folder, artifacts)
}

/// Copies what is in a folder, links as links.
pub(crate) fn overlay(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            overlay(&entry.path(), &target);
        } else if kind.is_symlink() {
            let _ = fs::remove_file(&target);
            #[cfg(unix)]
            std::os::unix::fs::symlink(fs::read_link(entry.path()).unwrap(), target).unwrap();
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// What the lint finds in a project, with paths from its root.
pub(crate) fn findings(root: &Path) -> Vec<String> {
    let report = lint(&[root.to_owned()], &LintOptions::default()).unwrap();
    let found = report.findings.into_iter().map(|mut finding| {
        finding.path = finding.path.strip_prefix(root).unwrap().to_owned();
        finding.message = finding.message.replace(&root.display().to_string(), "ROOT");
        finding.to_string()
    });
    found.collect()
}
