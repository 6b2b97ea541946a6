//! The settings file of another program, or a link to one in the user's home, as dotfile managers create it.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

use crate::{error::ProjectError, file};

/// Byte order mark, which some editors write before UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Settings that were read.
#[derive(Debug)]
pub(super) struct SettingsFile {
    /// Path that the program reads.
    path: PathBuf,
    /// Target of the path, if it is a link.
    linked: Option<PathBuf>,
    has_mark: bool,
    /// The text without a byte order mark. `None` if the file is missing or blank.
    pub(super) text: Option<String>,
}

impl SettingsFile {
    /// Reads the settings at `path` of the project in `root`. A link is followed if the link and its target are in `home`,
    /// the target is outside of the project, and both belong to the same user. A link inside a project could come from its
    /// repository.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ProjectErrorKind::Damaged) for a link that is not followed, for anything else that is not a file,
    /// and for a file that is not UTF-8. Errors of the file system.
    pub(super) fn read(path: PathBuf, root: &Path, home: Option<&Path>) -> Result<Self, ProjectError> {
        let linked = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                let followed = follow(&path, &found, root, home);
                Some(followed.map_err(|reason| ProjectError::damaged(&path, reason))?)
            }
            _ => None,
        };
        let at = linked.as_deref().unwrap_or(&path);
        let whole = file::read_text(at)?;
        let text = whole.as_deref().map(|text| text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text));
        let has_mark = whole.as_ref().is_some_and(|whole| whole.starts_with(BYTE_ORDER_MARK));
        // `remove` leaves the target of a link empty, so an empty file counts as missing.
        let text = text.filter(|text| !text.trim().is_empty()).map(str::to_owned);
        Ok(Self { path, linked, has_mark, text })
    }

    /// Returns the path that the program reads.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file, or the target of the link. A byte order mark stays.
    ///
    /// # Errors
    ///
    /// Errors of [`file::replace`].
    pub(super) fn write(&self, text: &str) -> Result<(), ProjectError> {
        let at = self.linked.as_deref().unwrap_or(&self.path);
        match self.has_mark {
            true => file::replace(at, format!("{BYTE_ORDER_MARK}{text}").as_bytes()),
            false => file::replace(at, text.as_bytes()),
        }
    }

    /// Removes the file, and returns true if it is gone. The target of a link becomes empty instead of being removed.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub(super) fn remove(&self) -> Result<bool, ProjectError> {
        match &self.linked {
            // Without its target, the link of a dotfile manager would lead nowhere.
            Some(target) => file::replace(target, b"").map(|()| false),
            None => file::remove(&self.path).map(|()| true),
        }
    }
}

/// Returns the target of a link, or the reason why the link is not followed.
fn follow(path: &Path, link: &Metadata, root: &Path, home: Option<&Path>) -> Result<PathBuf, String> {
    let refused = |reason: &str| Err(format!("it is a link {reason}: put a file in its place"));
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return refused("that leads nowhere"),
        Err(error) => return refused(&format!("that cannot be followed ({error})")),
    };
    let real = |path: &Path| fs::canonicalize(path).ok();
    let Some(home) = home.and_then(real) else { return refused("and no home folder is known") };
    // Resolve the folder of the link, because a folder on the way may be a link itself.
    let folder = path.parent().and_then(real);
    if !target.starts_with(&home) || !folder.is_some_and(|folder| folder.starts_with(&home)) {
        return refused("that is not from your home folder into your home folder");
    }
    if real(root).is_some_and(|root| target.starts_with(root)) {
        return refused("to a path in the project itself");
    }
    match fs::metadata(&target) {
        Ok(found) if !found.is_file() => refused("to something that is no regular file"),
        Ok(found) if !is_of_one_user(link, &found) => refused("to a file of another user"),
        Ok(_) => Ok(target),
        Err(error) => refused(&format!("that cannot be followed ({error})")),
    }
}

fn is_of_one_user(link: &Metadata, target: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        link.uid() == target.uid()
    }
    #[cfg(not(unix))]
    {
        let _ = (link, target);
        true
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Stage {
        folder: tempfile::TempDir,
    }

    impl Stage {
        /// A home with a project and dotfiles, and a folder beside the home.
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["home/project/.claude", "home/dotfiles", "other"] {
                fs::create_dir_all(folder.path().join(name)).unwrap();
            }
            Self { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn settings(&self) -> PathBuf {
            self.path("home/project/.claude/settings.json")
        }

        fn read(&self) -> Result<SettingsFile, ProjectError> {
            SettingsFile::read(self.settings(), &self.path("home/project"), Some(&self.path("home")))
        }
    }

    #[test]
    fn a_link_in_the_home_is_followed_and_stays_a_link() {
        let stage = Stage::new();
        fs::write(stage.path("home/dotfiles/settings.json"), "{}\n").unwrap();
        // By two links, as some managers of dotfiles make them.
        symlink("settings.json", stage.path("home/dotfiles/link.json")).unwrap();
        symlink("../../dotfiles/link.json", stage.settings()).unwrap();
        let settings = stage.read().unwrap();
        assert_eq!(settings.text.as_deref(), Some("{}\n"));
        settings.write("{ }\n").unwrap();
        assert!(stage.settings().is_symlink() && stage.path("home/dotfiles/link.json").is_symlink());
        assert_eq!(fs::read_to_string(stage.path("home/dotfiles/settings.json")).unwrap(), "{ }\n");
        assert!(!settings.remove().unwrap());
        assert!(stage.settings().is_symlink());
        assert_eq!(stage.read().unwrap().text, None);
    }

    #[test]
    fn another_link_is_refused_with_the_reason() {
        let inside = |stage: &Stage| fs::write(stage.path("home/project/real.json"), "{}").unwrap();
        let outside = |stage: &Stage| fs::write(stage.path("other/real.json"), "{}").unwrap();
        let folder = |stage: &Stage| fs::create_dir(stage.path("home/dotfiles/folder")).unwrap();
        type Prepare<'p> = &'p dyn Fn(&Stage);
        let cases: [(&str, Prepare<'_>, &str); 5] = [
            ("../real.json", &inside, "in the project itself"),
            ("../../../other/real.json", &outside, "not from your home folder"),
            ("../../dotfiles/folder", &folder, "no regular file"),
            ("../../dotfiles/absent.json", &|_| {}, "leads nowhere"),
            ("settings.json", &|_| {}, "cannot be followed"),
        ];
        for (target, prepare, reason) in cases {
            let stage = Stage::new();
            prepare(&stage);
            symlink(target, stage.settings()).unwrap();
            let error = stage.read().unwrap_err().to_string();
            assert!(error.contains("it is a link") && error.contains(reason), "{target}: {error}");
        }
        let stage = Stage::new();
        fs::write(stage.path("home/dotfiles/settings.json"), "{}").unwrap();
        symlink("../../dotfiles/settings.json", stage.settings()).unwrap();
        for home in [None, Some(stage.path("other"))] {
            let read = SettingsFile::read(stage.settings(), &stage.path("home/project"), home.as_deref());
            assert!(read.unwrap_err().to_string().contains("it is a link"));
        }
    }

    #[test]
    fn a_byte_order_mark_stays_and_a_blank_file_counts_as_none() {
        let stage = Stage::new();
        fs::write(stage.settings(), "\u{feff}{}\n").unwrap();
        let settings = stage.read().unwrap();
        assert_eq!(settings.text.as_deref(), Some("{}\n"));
        settings.write("{ }\n").unwrap();
        assert_eq!(fs::read_to_string(stage.settings()).unwrap(), "\u{feff}{ }\n");
        for blank in ["", " \n", "\u{feff}"] {
            fs::write(stage.settings(), blank).unwrap();
            assert_eq!(stage.read().unwrap().text, None, "{blank:?}");
        }
    }
}
