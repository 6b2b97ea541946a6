//! Parts of this machine that a sandbox shows.

mod mount_point;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use self::mount_point::{hold_in_place, make_place, refuse_own_files};
use super::error::SandboxError;
use super::layout::Layout;
use super::limits::SandboxLimits;
use super::network::SandboxNetwork;
use super::secrets::{self, HiddenCredential};
use crate::private_home::PrivateHome;

/// Folders of the system, or links to them, that are shown if they exist.
pub(super) const SYSTEM: [&str; 10] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/libexec", "/nix/store", "/gnu/store"];
/// Paths that a sandbox creates itself, with everything below them.
const OWN: [&str; 3] = ["/proc", "/dev", "/sys"];
/// Folders that contain far too much for a tool chain.
const WIDE: [&str; 16] = [
    "/", "/boot", "/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv",
    "/sys", "/tmp", "/var", "/var/lib",
];
/// Default path of the home inside.
const HOME: &str = "/home/sandbox";

/// Root for untrusted programs: described once, then used for any number of [runs](Self::run). Each run gets fresh
/// scratch folders.
///
/// The order of the caller's mounts does not matter: a deeper path covers the path above it.
#[derive(Clone, Debug)]
pub struct Sandbox {
    pub(super) bubblewrap: Option<PathBuf>,
    pub(super) home: PathBuf,
    pub(super) limits: SandboxLimits,
    pub(super) network: Option<SandboxNetwork>,
    given: Vec<(PathBuf, Given)>,
}

/// Content of one path inside.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    /// A tool chain, without its credentials.
    ToolChain,
    /// A file or folder of this machine.
    Outside { path: PathBuf, is_writable: bool },
    /// An empty folder in memory.
    Scratch,
    /// Nothing, although the mounted folder has a file or folder at this path.
    Hidden,
}

/// Mount at one path inside.
#[derive(Debug)]
enum Mount {
    Outside {
        path: PathBuf,
        is_writable: bool,
    },
    Scratch,
    /// A folder that appears empty.
    EmptyFolder,
    /// A file that appears empty.
    EmptyFile,
    /// A settings file without its credentials.
    Settings(String),
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// Creates a sandbox that shows only the system's folders.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bubblewrap: None,
            home: HOME.into(),
            limits: SandboxLimits::default(),
            network: None,
            given: Vec::new(),
        }
    }

    /// Sets the path of bubblewrap, in place of the one in the system's folders for programs.
    #[must_use]
    pub fn bubblewrap(mut self, program: impl Into<PathBuf>) -> Self {
        self.bubblewrap = Some(program.into());
        self
    }

    /// Sets the path of the home, which is empty except for the caller's mounts. Default `/home/sandbox`.
    #[must_use]
    pub fn home(mut self, inside: impl Into<PathBuf>) -> Self {
        self.home = inside.into();
        self
    }

    /// Sets the limits of a program.
    #[must_use]
    pub fn limits(mut self, limits: SandboxLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Lets programs reach the hosts of a list. Without this, or with an empty list, they have no network.
    #[must_use]
    pub fn network(mut self, network: SandboxNetwork) -> Self {
        self.network = (!network.hosts().is_empty()).then_some(network);
        self
    }

    /// Shows the folder of a tool chain, such as `~/.cargo`, `~/.rustup`, a pyenv or a `GOROOT`, read-only at its own
    /// path. A link is followed; a home or a folder of the system is rejected.
    ///
    /// Files that are known to contain credentials, such as `credentials.toml`, `.npmrc` and `.git/config`, appear
    /// empty, down to the third level. Settings files that may contain credentials, such as cargo's `config.toml`,
    /// appear without the affected lines. The caller must [hide](Self::hidden) all other credentials.
    #[must_use]
    pub fn tool_chain(self, folder: impl Into<PathBuf>) -> Self {
        self.with(folder.into(), Given::ToolChain)
    }

    /// Shows the file or folder `outside` read-only at the path `inside`. `outside` must not be a link.
    #[must_use]
    pub fn read_only(self, outside: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        self.with(inside.into(), Given::Outside { path: outside.into(), is_writable: false })
    }

    /// Shows the file or folder `outside` writable at the path `inside`. Changes are made outside and persist. If a
    /// mount below it needs a path that does not exist, the path is created, also outside.
    #[must_use]
    pub fn writable(self, outside: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        self.with(inside.into(), Given::Outside { path: outside.into(), is_writable: true })
    }

    /// Adds an empty writable folder in memory, which is removed after the run. Its size is
    /// [`SandboxLimits::scratch_bytes`].
    #[must_use]
    pub fn scratch(self, inside: impl Into<PathBuf>) -> Self {
        self.with(inside.into(), Given::Scratch)
    }

    /// Makes a mounted file or folder appear empty. The path need not exist. In a writable folder, the folders above it
    /// can be neither moved nor removed, so a later run finds it at the same path.
    #[must_use]
    pub fn hidden(self, inside: impl Into<PathBuf>) -> Self {
        self.with(inside.into(), Given::Hidden)
    }

    fn with(mut self, inside: PathBuf, given: Given) -> Self {
        self.given.push((inside, given));
        self
    }

    /// Returns the folders of this machine that a program can write to.
    pub(super) fn writable_trees(&self) -> impl Iterator<Item = &Path> {
        self.given.iter().filter_map(|(_, given)| match given {
            Given::Outside { path, is_writable: true } => Some(path.as_path()),
            _ => None,
        })
    }

    /// Adds the caller's mounts to a layout that has the system's folders. `empty` is an empty file, and `folder`
    /// receives the files of the run.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Path`], [`PathRefused`](SandboxError::PathRefused) and
    /// [`NoMountPoint`](SandboxError::NoMountPoint).
    pub(super) fn lay_out(
        &self,
        mut layout: Layout,
        empty: &Path,
        folder: &PrivateHome,
    ) -> Result<Layout, SandboxError> {
        let mut closed = Vec::new();
        let mounts = self.mounts()?;
        refuse_own_files(&mounts, empty)?;
        for (number, (inside, mount)) in mounts.into_iter().enumerate() {
            layout = match mount {
                Mount::Outside { path, is_writable: true } => layout.writable(path, inside),
                Mount::Outside { path, is_writable: false } => layout.read_only(path, inside),
                Mount::Scratch => layout.scratch(inside, Some(self.limits.scratch())),
                Mount::EmptyFolder => {
                    closed.push(inside.clone());
                    layout.scratch(inside, Some(PAGE_BYTES))
                }
                Mount::EmptyFile => layout.read_only(empty, inside),
                Mount::Settings(text) => {
                    let written = folder.write(format!("settings-{number}"), text);
                    let unwritten =
                        |source| SandboxError::Prepare { folder: folder.path().to_owned(), source };
                    layout.read_only(written.map_err(unwritten)?, inside)
                }
            };
        }
        // Make the empty folders read-only last, so that mount points below them can still be created.
        Ok(closed.into_iter().fold(layout, Layout::closed))
    }

    /// Returns all mounts by path, so that a folder precedes the paths below it.
    fn mounts(&self) -> Result<BTreeMap<PathBuf, Mount>, SandboxError> {
        let home = inside(&self.home)?;
        let (mut mounts, mut covered) = (BTreeMap::new(), BTreeMap::new());
        let (hidden, shown): (Vec<_>, Vec<_>) =
            self.given.iter().partition(|(_, given)| *given == Given::Hidden);
        for (place, given) in shown {
            let place = inside(place)?;
            let mount = match given {
                Given::ToolChain => Mount::Outside { path: tool_chain(&place)?, is_writable: false },
                Given::Outside { path, is_writable } => {
                    Mount::Outside { path: outside(path)?, is_writable: *is_writable }
                }
                Given::Scratch | Given::Hidden => Mount::Scratch,
            };
            if let (Given::ToolChain, Mount::Outside { path, .. }) = (given, &mount) {
                for secret in secrets::in_folder(path) {
                    match secret {
                        HiddenCredential::Whole(secret) => cover(&mut covered, path, &place, &secret, None)?,
                        HiddenCredential::Lines(settings, text) => {
                            cover(&mut covered, path, &place, &settings, Some(text))?;
                        }
                    }
                }
            }
            if mounts.insert(place.clone(), mount).is_some() {
                return Err(refused(&place, "two entries would have the same path"));
            }
        }
        for (place, mount) in covered {
            if mounts.insert(place.clone(), mount).is_some() {
                return Err(refused(&place, "two entries would have the same path"));
            }
        }
        mounts.entry(home).or_insert(Mount::Scratch);
        for (place, _) in hidden {
            let place = inside(place)?;
            if mounts.contains_key(&place) {
                return Err(refused(&place, "it was added as a whole and cannot be hidden"));
            }
            if let Some((above, path, _)) = shown_above(&mounts, &place) {
                let (path, above) = (path.to_owned(), above.to_owned());
                let below = path.join(place.strip_prefix(&above).unwrap_or(Path::new("")));
                if below.symlink_metadata().is_ok() {
                    cover(&mut mounts, &path, &above, &below, None)?;
                }
            }
        }
        hold_in_place(&mut mounts);
        for place in mounts.keys() {
            make_place(&mounts, place)?;
        }
        Ok(mounts)
    }
}

/// Minimum size of a folder in memory.
const PAGE_BYTES: u64 = 4096;

/// Covers `secret`, which is in the folder `shown` that is mounted at `place`, with nothing or with the remaining text
/// `left`. For a link, covers its target if the target is shown; otherwise leaves the link alone.
fn cover(
    mounts: &mut BTreeMap<PathBuf, Mount>,
    shown: &Path,
    place: &Path,
    secret: &Path,
    left: Option<String>,
) -> Result<(), SandboxError> {
    let real = match secret.canonicalize() {
        Ok(real) => real,
        // A dangling link, or a path that this user cannot reach, neither inside nor outside.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(());
        }
        Err(source) => return Err(SandboxError::Path { path: secret.to_owned(), source }),
    };
    let root = shown.canonicalize().unwrap_or_else(|_| shown.to_owned());
    if let Ok(relative) = real.strip_prefix(&root) {
        let mount = match left {
            _ if real.is_dir() => Mount::EmptyFolder,
            Some(text) => Mount::Settings(text),
            None => Mount::EmptyFile,
        };
        let inside = if relative.as_os_str().is_empty() { place.into() } else { place.join(relative) };
        // A completely covered path must stay so, even if another name of it needs only a partial cover.
        let is_whole = matches!(mounts.get(&inside), Some(Mount::EmptyFile | Mount::EmptyFolder));
        if !(is_whole && matches!(mount, Mount::Settings(_))) {
            mounts.insert(inside, mount);
        }
    }
    Ok(())
}

/// Returns a normalised path inside. It must be absolute, without `..`, and outside of the paths that the sandbox
/// creates itself.
fn inside(path: &Path) -> Result<PathBuf, SandboxError> {
    let plain: PathBuf = path.components().collect();
    let is_plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    if !is_plain || plain.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(refused(path, "a path in a sandbox must be absolute, without `..` and NUL"));
    }
    if OWN.iter().any(|own| plain.starts_with(own)) {
        return Err(refused(path, "`/proc`, `/dev` and `/sys` are reserved for the sandbox"));
    }
    if plain == Path::new("/")
        || plain == Path::new("/etc")
        || SYSTEM.iter().any(|system| plain == Path::new(system))
    {
        return Err(refused(path, "the path belongs to the system's folders"));
    }
    Ok(plain)
}

/// Checks a file or folder outside, which must not be a link.
fn outside(path: &Path) -> Result<PathBuf, SandboxError> {
    let unusable = |source| SandboxError::Path { path: path.to_owned(), source };
    if !path.is_absolute() {
        return Err(refused(path, "it is not absolute"));
    }
    let kind = fs::symlink_metadata(path).map_err(unusable)?.file_type();
    if kind.is_symlink() {
        return Err(refused(path, "it is a symbolic link; name its target"));
    }
    if !kind.is_dir() && !kind.is_file() {
        return Err(refused(path, "it is neither a folder nor a regular file"));
    }
    Ok(path.to_owned())
}

/// Returns the canonical path of a tool chain's folder.
fn tool_chain(path: &Path) -> Result<PathBuf, SandboxError> {
    let real = path.canonicalize().map_err(|source| SandboxError::Path { path: path.to_owned(), source })?;
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let is_above = |home: &PathBuf| home.canonicalize().as_ref().unwrap_or(home).starts_with(&real);
    if WIDE.iter().any(|wide| real == Path::new(wide)) || home.as_ref().is_some_and(is_above) {
        return Err(refused(path, "it contains far more than a tool chain"));
    }
    if !real.is_dir() {
        return Err(refused(path, "a tool chain must be a folder"));
    }
    Ok(real)
}

/// Returns the nearest mounted path above a path: its path inside and outside, and true if it is writable.
fn shown_above<'a>(mounts: &'a BTreeMap<PathBuf, Mount>, place: &Path) -> Option<(&'a Path, &'a Path, bool)> {
    let mut above = place.ancestors().skip(1);
    match above.find_map(|above| mounts.get_key_value(above)) {
        Some((above, Mount::Outside { path, is_writable })) => Some((above, path, *is_writable)),
        Some(_) => None,
        None => {
            let system = SYSTEM.iter().map(Path::new).find(|system| place.starts_with(system))?;
            Some((system, system, false))
        }
    }
}

fn refused(path: &Path, reason: &'static str) -> SandboxError {
    SandboxError::PathRefused { path: path.to_owned(), reason }
}
