//! The fence of turns that may write in their working directory: bubblewrap around the whole CLI.
//!
//! Grok has a sandbox of its own, which also needs bubblewrap and leaves all of `/tmp` and `/var/tmp` open to
//! writing (observed with grok 1.0.41). Ours opens the working directory, the extra roots and the run's home,
//! gives the turn an empty `/tmp` of its own, and leaves the rest readable. The network stays: the CLI calls
//! its model from inside.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::delegated::executable::Executable;

/// The folder that a turn gets empty.
const TEMPORARY: &str = "/tmp";

/// What the fence leaves open.
#[derive(Debug)]
pub(super) struct Fence<'a> {
    /// The working directory and the extra roots.
    pub(super) roots: Vec<&'a Path>,
    /// The run's home.
    pub(super) home: &'a Path,
    /// What must stay readable although it may be below `/tmp`.
    pub(super) readable: Vec<PathBuf>,
}

/// The bubblewrap of this machine, if it has one.
pub(super) fn find(search_path: Option<&std::ffi::OsStr>) -> Option<Executable> {
    Executable::find("bwrap", search_path).ok()
}

/// The arguments of bubblewrap that run `program` with `arguments` inside `fence`.
pub(super) fn wrap(fence: &Fence<'_>, program: &Path, arguments: Vec<OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = ["--ro-bind", "/", "/", "--dev", "/dev", "--unshare-pid", "--proc", "/proc"]
        .map(OsString::from)
        .to_vec();
    all.extend(["--tmpfs".into(), TEMPORARY.into()]);
    let mut bind = |how: &str, path: &Path| all.extend([how.into(), path.into(), path.into()]);
    let hidden = fence.readable.iter().map(PathBuf::as_path).chain([program]);
    for path in hidden.filter(|path| path.starts_with(TEMPORARY) && *path != Path::new(TEMPORARY)) {
        bind("--ro-bind", path);
    }
    for root in &fence.roots {
        bind("--bind", root);
    }
    bind("--bind", fence.home);
    all.extend(["--".into(), program.into()]);
    all.extend(arguments);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_roots_and_the_home_are_writable() {
        let fence = Fence {
            roots: vec![Path::new("/w"), Path::new("/extra")],
            home: Path::new("/nexus/tmp/run"),
            readable: vec!["/home/me".into(), "/tmp/ca.pem".into()],
        };
        let all = wrap(&fence, Path::new("/tmp/bin/grok"), vec!["--x".into()]);
        let all: Vec<_> = all.iter().map(|one| one.to_string_lossy().into_owned()).collect();
        let after = |how: &str| -> Vec<String> {
            let places = all.iter().enumerate().filter(|(_, one)| *one == how);
            places.map(|(place, _)| all[place + 1].clone()).collect()
        };
        assert_eq!(after("--bind"), ["/w", "/extra", "/nexus/tmp/run"]);
        assert_eq!(after("--ro-bind"), ["/", "/tmp/ca.pem", "/tmp/bin/grok"]);
        assert_eq!(all[all.len() - 3..], ["--", "/tmp/bin/grok", "--x"]);
    }
}
