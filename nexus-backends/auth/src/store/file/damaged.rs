//! A file whose text cannot be parsed. It is moved aside for a person to inspect when a new text replaces it.

use std::ffi::OsString;

use nexus_core::Secret;
use rustix::{
    fs::{AtFlags, Mode, OFlags, fchmod, renameat, statat},
    io::Errno,
};

use super::{FileStore, read_whole, secret};
use crate::store::{
    StoreError, TokenStore as _,
    folder::{OwnerOnlyFolder, explained},
};

/// Maximum number of names that are tried while earlier ones are in use.
const MAX_NAMES: usize = 1000;

/// A text that cannot be parsed. The caller holds the refresh lock.
#[derive(Debug)]
pub struct DamagedText(FileStore);

impl FileStore {
    /// Returns the text if it is not UTF-8 or if `is_damaged` returns true.
    pub(in crate::store) fn damaged_by(
        &self,
        is_damaged: &dyn Fn(&Secret) -> bool,
    ) -> Result<Option<DamagedText>, StoreError> {
        let wrong = |reason: String| self.error(reason);
        let Some(folder) = OwnerOnlyFolder::open(self.folder_path()).map_err(wrong)? else { return Ok(None) };
        let Some((file, found)) = self.open(&folder)? else { return Ok(None) };
        let text = secret(read_whole(&file, &found).map_err(wrong)?);
        Ok(text.is_none_or(|text| is_damaged(&text)).then(|| DamagedText(self.clone())))
    }
}

impl DamagedText {
    /// Renames the file to an owner-only file beside it, and returns the new location.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub fn set_aside(self) -> Result<String, StoreError> {
        let Self(store) = self;
        let wrong = |reason: String| store.error(reason);
        let failed = |error| store.error(explained("it is damaged and cannot be renamed", error));
        let Some(folder) = OwnerOnlyFolder::open(store.folder_path()).map_err(wrong)? else {
            return Ok(store.place());
        };
        let main = store.name()?;
        if let Some((file, _)) = super::open_private(&folder, main, OFlags::RDONLY).map_err(wrong)? {
            // The damaged text may contain tokens, so the renamed file is owner-only.
            fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        }
        for number in 1..=MAX_NAMES {
            let mut name = OsString::from(main);
            name.push(format!(".damaged-{number}"));
            // A rename would replace an existing file, so find a free name first.
            match statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => continue,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(failed(error)),
            }
            renameat(&folder, main, &folder, &name).map_err(failed)?;
            folder.sync().map_err(wrong)?;
            return Ok(folder.path().join(name).display().to_string());
        }
        Err(store.error("it cannot be renamed: too many damaged files are in the folder already"))
    }
}
