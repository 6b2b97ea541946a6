//! Sandbox of turns that may write in their working directory: bubblewrap around the whole CLI.
//!
//! Grok has its own sandbox, which also needs bubblewrap but leaves all of `/tmp` and `/var/tmp` writable (observed
//! with grok 1.0.41). Our sandbox makes the working directory, the extra roots and the run's home writable. It gives
//! the turn an empty `/tmp`, hides the content of the folder with Nexus's own logins, and leaves the rest readable. The
//! network stays available, because the CLI calls its model from inside.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use nexus_process::{executable::Executable, sandbox::Layout};

/// Folder that is empty in the sandbox.
const TEMPORARY: &str = "/tmp";

/// Paths that the sandbox treats specially.
#[derive(Debug)]
pub(super) struct SandboxPaths<'a> {
    /// Writable folders: the working directory and the extra roots.
    pub(super) roots: Vec<&'a Path>,
    /// Home of the run, which is writable.
    pub(super) home: &'a Path,
    /// Paths that must stay readable although they may be below `/tmp`.
    pub(super) readable: Vec<PathBuf>,
    /// Existing folders that appear empty, wherever they are.
    pub(super) closed: Vec<PathBuf>,
}

/// Returns the bubblewrap of this machine, if it is installed.
pub(super) fn find(search_path: Option<&std::ffi::OsStr>) -> Option<Executable> {
    Executable::find("bwrap", search_path).ok()
}

/// Returns the arguments of bubblewrap that run `program` with `arguments` inside the sandbox.
pub(super) fn wrap(paths: &SandboxPaths<'_>, program: &Path, arguments: Vec<OsString>) -> Vec<OsString> {
    let mut layout = Layout::whole_machine();
    let hidden = paths.readable.iter().map(PathBuf::as_path).chain([program]);
    for path in hidden.filter(|path| path.starts_with(TEMPORARY) && *path != Path::new(TEMPORARY)) {
        layout = layout.read_only(path, path);
    }
    for path in paths.roots.iter().copied().chain([paths.home]) {
        layout = layout.writable(path, path);
    }
    // Add the closed folders last, so that no writable root opens them again.
    for folder in &paths.closed {
        layout = layout.scratch(folder, None);
    }
    let mut all = layout.arguments();
    all.extend(["--".into(), program.into()]);
    all.extend(arguments);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_roots_and_the_home_are_writable() {
        let paths = SandboxPaths {
            roots: vec![Path::new("/w"), Path::new("/extra")],
            home: Path::new("/nexus/tmp/run"),
            readable: vec!["/home/me".into(), "/tmp/ca.pem".into()],
            closed: vec!["/nexus/auth".into()],
        };
        let all = wrap(&paths, Path::new("/tmp/bin/grok"), vec!["--x".into()]);
        let all: Vec<_> = all.iter().map(|one| one.to_string_lossy().into_owned()).collect();
        let after = |how: &str| -> Vec<String> {
            let places = all.iter().enumerate().filter(|(_, one)| *one == how);
            places.map(|(place, _)| all[place + 1].clone()).collect()
        };
        assert_eq!(after("--bind"), ["/w", "/extra", "/nexus/tmp/run"]);
        assert_eq!(after("--ro-bind"), ["/", "/tmp/ca.pem", "/tmp/bin/grok"]);
        assert_eq!(all[all.len() - 3..], ["--", "/tmp/bin/grok", "--x"]);
    }

    /// What a shell inside of a sandbox with these roots sees of a folder `auth` that is `closed`, below its home.
    fn seen_inside(open_the_parent: bool) -> Option<String> {
        let bubblewrap = find(std::env::var_os("PATH").as_deref())?;
        // Not below `/tmp`, which is empty inside anyway.
        let folder = tempfile::Builder::new().prefix("nexus-paths-").tempdir_in("/var/tmp").unwrap();
        let (auth, run) = (folder.path().join("auth"), folder.path().join("run"));
        for path in [&auth, &run] {
            std::fs::create_dir(path).unwrap();
        }
        std::fs::write(auth.join("login.json"), "canary").unwrap();
        let paths = SandboxPaths {
            roots: if open_the_parent { vec![folder.path()] } else { vec![] },
            home: &run,
            readable: vec![],
            closed: vec![auth.clone()],
        };
        let look =
            format!("ls -A '{0}'; cat '{0}/login.json'; echo x > '{0}/new'; echo looked", auth.display());
        let arguments = wrap(&paths, Path::new("/bin/sh"), vec!["-c".into(), look.into()]);
        let ran = std::process::Command::new(bubblewrap.path()).args(arguments).output().unwrap();
        assert_eq!(std::fs::read_dir(&auth).unwrap().count(), 1, "nothing from inside arrives there");
        Some(format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr)))
    }

    #[test]
    fn a_closed_folder_is_empty_also_below_a_root() {
        for open_the_parent in [false, true] {
            // A machine without bubblewrap has no sandbox, and no turn that needs it.
            let Some(seen) = seen_inside(open_the_parent) else { return };
            assert!(seen.contains("looked") && seen.contains("No such file"), "{seen}");
            assert!(!seen.contains("canary"), "{seen}");
        }
    }
}
