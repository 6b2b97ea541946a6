//! Installs a fake where a backend can find it.

use std::{
    io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{
    Vendor,
    notes::{Invocation, Notes},
    script::FakeScript,
};
use crate::model_call::{ModelCall, Witness};

/// A fake in its own temporary folder, which is deleted with it.
#[derive(Debug)]
pub struct FakeCli {
    folder: TempDir,
    link: PathBuf,
}

impl FakeCli {
    /// Installs this program itself as the fake. Its `main` must first call
    /// [`run_if_invoked`](super::run_if_invoked).
    ///
    /// # Errors
    ///
    /// The folder, the link or the script cannot be created.
    pub fn install(vendor: Vendor, script: &FakeScript) -> io::Result<Self> {
        Self::install_program(&std::env::current_exe()?, vendor, script)
    }

    /// Installs a fake that is `program`, such as `nexus-fake-cli`.
    ///
    /// # Errors
    ///
    /// The folder, the link or the script cannot be created.
    pub fn install_program(program: &Path, vendor: Vendor, script: &FakeScript) -> io::Result<Self> {
        Self::install_link(program, vendor.program(), script)
    }

    /// Installs this program itself as a fake named `name`, which imitates no vendor. Its `main` must first call
    /// [`run_if_named`](super::run_if_named).
    ///
    /// # Errors
    ///
    /// The folder, the link or the script cannot be created.
    pub fn install_as(name: &str, script: &FakeScript) -> io::Result<Self> {
        Self::install_link(&std::env::current_exe()?, name, script)
    }

    fn install_link(program: &Path, name: &str, script: &FakeScript) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("nexus-fake-cli-").tempdir()?;
        let link = folder.path().join(name);
        std::os::unix::fs::symlink(program, &link)?;
        let fake = Self { folder, link };
        fake.set_script(script)?;
        Ok(fake)
    }

    /// Replaces the script. Calls that the old script has answered count for the new one.
    ///
    /// # Errors
    ///
    /// The script cannot be written.
    pub fn set_script(&self, script: &FakeScript) -> io::Result<()> {
        script.store(&script_path(&self.link))
    }

    /// The executable for a backend.
    pub fn executable(&self) -> &Path {
        &self.link
    }

    /// The folder that the fake, its script and its notes are in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Every call so far but those for the version, in order.
    pub fn invocations(&self) -> Vec<Invocation> {
        Notes::beside(&self.link).invocations()
    }
}

impl Witness for FakeCli {
    fn model_calls(&self) -> Vec<ModelCall> {
        Notes::beside(&self.link).model_calls()
    }
}

/// Returns the path of the script of the fake with this link.
pub(super) fn script_path(link: &Path) -> PathBuf {
    link.with_extension("script.json")
}
