//! Arguments of bubblewrap that define the visible file tree.

use std::ffi::OsString;
use std::path::Path;

/// File tree inside of bubblewrap, in the order of its mounts: a later mount covers an earlier one.
#[derive(Clone, Debug, Default)]
pub struct Layout(Vec<OsString>);

impl Layout {
    /// Returns a layout without files.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns a layout with the whole machine, read-only, and its network, but separate processes and devices and an
    /// empty `/tmp`. For a program that is trusted with everything it can read.
    #[must_use]
    pub fn whole_machine() -> Self {
        Self::empty()
            .read_only("/", "/")
            .devices()
            .options(["--unshare-pid"])
            .processes()
            .scratch("/tmp", None)
    }

    /// Shows the file or folder `outside` at the path `inside`.
    #[must_use]
    pub fn read_only(self, outside: impl AsRef<Path>, inside: impl AsRef<Path>) -> Self {
        self.with(["--ro-bind".into(), outside.as_ref().into(), inside.as_ref().into()])
    }

    /// Shows the file or folder `outside` at the path `inside`, writable.
    #[must_use]
    pub fn writable(self, outside: impl AsRef<Path>, inside: impl AsRef<Path>) -> Self {
        self.with(["--bind".into(), outside.as_ref().into(), inside.as_ref().into()])
    }

    /// Adds an empty folder in memory with a size of `bytes`. Without a size, it may use half of the machine's memory.
    #[must_use]
    pub fn scratch(mut self, inside: impl AsRef<Path>, bytes: Option<u64>) -> Self {
        if let Some(bytes) = bytes {
            self = self.options(["--size", &bytes.to_string()]);
        }
        self.with(["--tmpfs".into(), inside.as_ref().into()])
    }

    /// Adds a symbolic link.
    pub(super) fn link(self, target: impl AsRef<Path>, inside: impl AsRef<Path>) -> Self {
        self.with(["--symlink".into(), target.as_ref().into(), inside.as_ref().into()])
    }

    /// Adds a minimal set of devices.
    pub(super) fn devices(self) -> Self {
        self.options(["--dev", "/dev"])
    }

    /// Adds a `/proc` with the processes of the namespace.
    pub(super) fn processes(self) -> Self {
        self.options(["--proc", "/proc"])
    }

    /// Makes `inside` itself read-only. Mounts on top of it are not affected.
    pub(super) fn closed(self, inside: impl AsRef<Path>) -> Self {
        self.with(["--remount-ro".into(), inside.as_ref().into()])
    }

    pub(super) fn options<'a>(self, options: impl IntoIterator<Item = &'a str>) -> Self {
        self.with(options.into_iter().map(OsString::from))
    }

    pub(super) fn with(mut self, arguments: impl IntoIterator<Item = OsString>) -> Self {
        self.0.extend(arguments);
        self
    }

    /// Returns the arguments before `--`, the program and the program's own arguments.
    #[must_use]
    pub fn arguments(self) -> Vec<OsString> {
        self.0
    }
}
