//! Paths of the person's project that tests see although git does not track them.

use std::path::{Component, Path, PathBuf};

use nexus_core::scope::is_dot_git;

use super::error::CheckError;

/// Project path that a program sees, read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownPath {
    /// Path in the project, and in every copy.
    pub(super) place: PathBuf,
    /// Real path of the content, with all links resolved.
    pub(super) outside: PathBuf,
}

/// Checks the `keep` paths of the settings, and returns the existing ones. Blocks.
///
/// # Errors
///
/// [`CheckError::Settings`] for an invalid path, and for a link that leads out of the project.
pub(super) fn find(project: &Path, keep: &[String]) -> Result<Vec<ShownPath>, CheckError> {
    let mut found: Vec<ShownPath> = Vec::new();
    for (number, path) in keep.iter().enumerate() {
        let refused =
            |reason: String| CheckError::Settings { setting: format!("sandbox.keep[{number}]"), reason };
        let place = plain(path).map_err(|reason| refused(format!("{path:?} {reason}")))?;
        let (Ok(root), Ok(outside)) = (project.canonicalize(), project.join(&place).canonicalize()) else {
            // Skip a path that does not exist, and a link without a target.
            continue;
        };
        if !outside.starts_with(&root) || outside == root {
            return Err(refused(format!(
                "{path:?} is a link that leads out of the project; name a path in the project"
            )));
        }
        let inside = outside.strip_prefix(&root).unwrap_or(&outside);
        // A link inside the project may lead into `.git`, which the check of the written path cannot see.
        if inside.components().next() == Some(Component::Normal(".git".as_ref())) {
            return Err(refused(format!("{path:?} leads into the repository itself")));
        }
        if !found.iter().any(|kept| kept.place == place) {
            found.push(ShownPath { place, outside });
        }
    }
    Ok(found)
}

/// Checks the folders that a setting names, relative to the project's root.
///
/// # Errors
///
/// [`CheckError::Settings`] for an invalid path.
pub(super) fn places(setting: &str, paths: &[String]) -> Result<Vec<PathBuf>, CheckError> {
    let place = |(number, path): (usize, &String)| {
        plain(path).map_err(|reason| CheckError::Settings {
            setting: format!("{setting}[{number}]"),
            reason: format!("{path:?} {reason}"),
        })
    };
    paths.iter().enumerate().map(place).collect()
}

/// Normalises a path below the project's root to plain names.
fn plain(path: &str) -> Result<PathBuf, &'static str> {
    if path.is_empty() || path.contains('\0') {
        return Err("is no path");
    }
    let mut place = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) if is_dot_git(name.as_encoded_bytes()) => {
                return Err("names a repository");
            }
            Component::Normal(name) => place.push(name),
            _ => return Err("is not a path below the project's root: write it from there, without `..`"),
        }
    }
    if place.as_os_str().is_empty() { Err("is the project itself") } else { Ok(place) }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn found(project: &Path, path: &str) -> Result<Vec<ShownPath>, CheckError> {
        find(project, &[path.to_owned()])
    }

    #[test]
    fn only_what_lies_in_the_project_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (project, outside) = (folder.path().join("project"), folder.path().join("outside"));
        for folder in ["project/vendor/deep", "project/.git/objects", "outside"] {
            fs::create_dir_all(folder_in(&project, folder)).unwrap();
        }
        for (target, link) in [
            (outside.as_path(), "out"),
            (Path::new("vendor"), "in"),
            (Path::new(".git"), "repository"),
            (Path::new("nowhere"), "broken"),
            (Path::new("."), "all"),
        ] {
            symlink(target, project.join(link)).unwrap();
        }
        let project = project.canonicalize().unwrap();
        let place =
            |place: &str, real: &str| vec![ShownPath { place: place.into(), outside: project.join(real) }];
        assert_eq!(found(&project, "vendor").unwrap(), place("vendor", "vendor"));
        assert_eq!(found(&project, "./vendor//deep/").unwrap(), place("vendor/deep", "vendor/deep"));
        assert_eq!(found(&project, "in").unwrap(), place("in", "vendor"));
        for absent in ["node_modules", "broken"] {
            assert_eq!(found(&project, absent).unwrap(), []);
        }
        for refused in [
            "",
            ".",
            "..",
            "/etc",
            "vendor/../..",
            "out",
            "out/x/..",
            ".git",
            "a/.GIT",
            "a/git~1",
            "repository",
            "all",
            "a\0b",
        ] {
            let error = found(&project, refused).unwrap_err().to_string();
            assert!(error.starts_with("`sandbox.keep[0]` of the task's settings: "), "{refused:?}: {error}");
        }
    }

    #[test]
    fn folders_of_a_setting_are_paths_below_the_root() {
        let places = |path: &str| super::places("sandbox.caches", &["target".to_owned(), path.to_owned()]);
        assert_eq!(places("./a//b/").unwrap(), [PathBuf::from("target"), PathBuf::from("a/b")]);
        for refused in ["", ".", "..", "a/../b", "/etc", ".git", "a/git~1"] {
            let error = places(refused).unwrap_err().to_string();
            assert!(
                error.starts_with("`sandbox.caches[1]` of the task's settings: "),
                "{refused:?}: {error}"
            );
        }
    }

    /// `name` begins with the project's own.
    fn folder_in(project: &Path, name: &str) -> PathBuf {
        project.parent().unwrap().join(name)
    }
}
