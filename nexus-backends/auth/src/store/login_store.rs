//! Storage of a login that Nexus owns: its file or, if the file says so, the keyring.
//!
//! `$NEXUS_HOME/auth/NAME.json` is authoritative: it contains the login, or a pointer to the keyring. In the keyring,
//! the service is `nexus`, and the user is `NAME@` followed by the folder `$NEXUS_HOME`. So two homes have two logins.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use nexus_core::Secret;

use super::{DamagedText, FileStore, PreparedWrite, StoreError, TokenStore, format, pending};

/// Store of a login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorePlace {
    /// Owner-only file.
    #[default]
    File,
    /// The keyring of the system.
    Keyring,
}

impl StorePlace {
    /// Returns the name of the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Keyring => "keyring",
        }
    }
}

/// Stores one login of a `$NEXUS_HOME`.
#[derive(Clone, Debug)]
pub struct LoginStore {
    file: FileStore,
    home: PathBuf,
    name: String,
    /// Store for the next write; `None` for the present store.
    moving_to: Option<StorePlace>,
    /// True if the last read found the login in the keyring. Used for messages.
    was_in_keyring: Arc<AtomicBool>,
}

impl LoginStore {
    /// Creates the store of the login `name` below `nexus_home`. Opens nothing yet. An existing login stays in its
    /// store; a first login is written to the file.
    pub fn at(nexus_home: &Path, name: &str) -> Self {
        Self {
            file: FileStore::new(nexus_home.join("auth").join(format!("{name}.json"))),
            home: nexus_home.to_owned(),
            name: name.to_owned(),
            moving_to: None,
            was_in_keyring: Arc::default(),
        }
    }

    /// Sets the store for all later writes, wherever the login is now.
    ///
    /// For a sign-in, not for a refresh. If the process stops while it moves the login, the earlier login remains. A
    /// refresh has already spent that login's token.
    #[must_use]
    pub fn moving_to(self, place: StorePlace) -> Self {
        Self { moving_to: Some(place), ..self }
    }

    /// Returns the present store of the login; `None` if no login exists.
    fn present_place(&self) -> Result<Option<StorePlace>, StoreError> {
        let Some(text) = self.file.read()? else {
            self.was_in_keyring.store(false, Ordering::Relaxed);
            return Ok(None);
        };
        let is_in_keyring = self.points_to_keyring(&text)?;
        Ok(Some(if is_in_keyring { StorePlace::Keyring } else { StorePlace::File }))
    }

    fn points_to_keyring(&self, text: &Secret) -> Result<bool, StoreError> {
        let points = format::points_to_keyring(text).map_err(|reason| self.file.error(reason))?;
        self.was_in_keyring.store(points, Ordering::Relaxed);
        Ok(points)
    }

    /// Returns the login that the file's text contains or points to; `None` if the keyring lacks it.
    fn login(&self, text: &Secret) -> Result<Option<Secret>, StoreError> {
        match self.points_to_keyring(text)? {
            true => self.keyring()?.read(),
            false => Ok(Some(text.clone())),
        }
    }

    #[cfg(feature = "keyring")]
    fn keyring(&self) -> Result<super::KeyringStore, StoreError> {
        // All paths to one home must lead to the same keyring entry.
        let home = std::fs::canonicalize(&self.home)
            .or_else(|_| std::path::absolute(&self.home))
            .map_err(|error| self.file.error(format!("its folder has no absolute path ({error})")))?;
        let user = format!("{}@{}", self.name, home.display());
        Ok(super::KeyringStore::new(super::keyring::SERVICE, user))
    }

    #[cfg(not(feature = "keyring"))]
    fn keyring(&self) -> Result<FileStore, StoreError> {
        Err(self.file.error(format!(
            "the login {} of {} is stored in the keyring, but this build of Nexus lacks the feature \
             `keyring`: use a build with it, or move the file away and log in again",
            self.name,
            self.home.display()
        )))
    }
}

impl TokenStore for LoginStore {
    fn place(&self) -> String {
        match self.was_in_keyring.load(Ordering::Relaxed) {
            true => self.keyring().map_or_else(|_| "the keyring".to_owned(), |keyring| keyring.place()),
            false => self.file.place(),
        }
    }

    /// Identity of the file, even if the login is in the keyring.
    fn identity(&self) -> String {
        self.file.identity()
    }

    fn read(&self) -> Result<Option<Secret>, StoreError> {
        let Some(text) = self.file.read()? else { return Ok(None) };
        if let Some(login) = self.login(&text)? {
            return Ok(Some(login));
        }
        // The login may have moved between the two reads, so read the file again.
        match self.file.read()? {
            None => Ok(None),
            Some(later) if later != text => self.login(&later),
            Some(_) => Err(self.file.error(
                "it refers to a login in the keyring, but the keyring has none: log out, then log in again",
            )),
        }
    }

    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError> {
        let from = self.present_place()?;
        let to = self.moving_to.or(from).unwrap_or_default();
        let was_in_keyring = self.was_in_keyring.clone();
        match to {
            StorePlace::File => {
                let left = (from == Some(StorePlace::Keyring)).then(|| self.clone());
                Ok(Box::new(IntoFile { file: self.file.prepare()?, left, was_in_keyring }))
            }
            StorePlace::Keyring => {
                let pointer = match from {
                    Some(StorePlace::Keyring) => None,
                    _ => Some(self.file.prepare()?),
                };
                Ok(Box::new(IntoKeyring { entry: self.keyring()?.prepare()?, pointer, was_in_keyring }))
            }
        }
    }

    /// Leaves a complete but unparsable text for a person to inspect, whether it is the pending or the current text.
    fn recover(&self, is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError> {
        self.file.recover_by(&|found, current| {
            if !format::is_whole(found) {
                return Ok(false);
            }
            let left =
                format!("the file of an unfinished write beside it, with the ending {}", pending::ENDING);
            format::understand(found).map_err(|reason| self.file.error(format!("{left}: {reason}")))?;
            if let Some(current) = current {
                format::understand(current).map_err(|reason| self.file.error(reason))?;
            }
            let Some(found) = self.login(found)? else { return Ok(false) };
            let current = current.map(|current| self.login(current)).transpose()?.flatten();
            Ok(is_newer(&found, current.as_ref()))
        })
    }

    /// Ignores a login in the keyring: its content must not be moved aside.
    fn damaged(&self) -> Result<Option<DamagedText>, StoreError> {
        self.file.damaged_by(&format::is_damaged)
    }

    /// Also removes texts that are untrusted or cannot be parsed. Fails only if a keyring that has the login does not
    /// answer: without the file, later calls would not look in the keyring again.
    fn remove(&self) -> Result<bool, StoreError> {
        let is_in_keyring = match self.file.peek() {
            Some(text) => format::points_to_keyring(&text).unwrap_or(false),
            None => false,
        };
        // Remove the entry first: without the file, no later call would look in the keyring.
        let was_there = if is_in_keyring { self.keyring()?.remove()? } else { false };
        let was_there = self.file.remove()? || was_there;
        self.was_in_keyring.store(false, Ordering::Relaxed);
        Ok(was_there)
    }
}

/// Prepared write of a login into the file, with the store whose keyring entry is then removed.
#[derive(Debug)]
struct IntoFile {
    file: Box<dyn PreparedWrite>,
    left: Option<LoginStore>,
    was_in_keyring: Arc<AtomicBool>,
}

impl PreparedWrite for IntoFile {
    fn commit(self: Box<Self>, text: &Secret) -> Result<(), StoreError> {
        // Write the file first, because the keyring has the only copy until then.
        self.file.commit(text)?;
        self.was_in_keyring.store(false, Ordering::Relaxed);
        if let Some(Err(error)) = self.left.map(|store| store.keyring()?.remove()) {
            tracing::warn!(%error, "the login is now in its file, but an old login remains in the keyring");
        }
        Ok(())
    }
}

/// Prepared write of a login into the keyring, with the pending write of the pointer in the file.
#[derive(Debug)]
struct IntoKeyring {
    entry: Box<dyn PreparedWrite>,
    pointer: Option<Box<dyn PreparedWrite>>,
    was_in_keyring: Arc<AtomicBool>,
}

impl PreparedWrite for IntoKeyring {
    fn commit(self: Box<Self>, text: &Secret) -> Result<(), StoreError> {
        // Write the entry first: the file must never point to a login that is not there.
        self.entry.commit(text)?;
        if let Some(pointer) = self.pointer {
            pointer.commit(&format::keyring_pointer())?;
        }
        self.was_in_keyring.store(true, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
