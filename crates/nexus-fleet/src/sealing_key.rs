//! Key pair of a machine. Access tokens are sealed to it.

use std::{fmt, io, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nexus_core::Secret;
use nexus_files::{SecretFile, SecretFileError};
use nkeys::XKey;
use serde::{Serialize, de::DeserializeOwned};
use zeroize::Zeroizing;

use crate::error::FleetError;

/// Message for a file that is not a key pair.
const NO_SEED: &str = "it contains no seed of a curve key: remove it, and run `nexus fleet key`";
/// Initial capacity for the plain text of a seal. Tokens have a few KiB, so the buffer never grows and leaves no copy
/// behind.
const ROOM: usize = 16 << 10;

/// Curve key pair of this machine. Only this machine can open a seal for its public key.
///
/// The file of the key pair has an `xkey` seed of NATS, and is owner-only.
#[derive(Clone)]
pub struct FleetKey {
    pair: XKey,
    public: String,
}

impl FleetKey {
    /// Reads the key pair in this file. `None`: the file does not exist.
    ///
    /// # Errors
    ///
    /// [`FleetError::Settings`]: the file cannot be read, or other users can read it; [`FleetError::Unreadable`]: it is not a seed.
    pub fn read(file: &Path) -> Result<Option<Self>, FleetError> {
        let what = file.display().to_string();
        let text = match SecretFile::at(file).read() {
            Ok(text) => Zeroizing::new(text),
            Err(SecretFileError::Missing) => return Ok(None),
            Err(SecretFileError::Unreadable(error)) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(FleetError::Unreadable { what, reason: NO_SEED.to_owned() });
            }
            Err(SecretFileError::Unreadable(source)) => return Err(FleetError::Settings { what, source }),
            Err(error) => return Err(FleetError::Unreadable { what, reason: error.to_string() }),
        };
        let pair = XKey::from_seed(text.trim())
            .map_err(|_| FleetError::Unreadable { what, reason: NO_SEED.to_owned() })?;
        Ok(Some(Self::of(pair)))
    }

    /// Like [`read`](Self::read), and creates the file with a new key pair if it is missing.
    ///
    /// # Errors
    ///
    /// Errors of [`read`](Self::read); [`FleetError::Unreadable`] also if the file cannot be written.
    pub fn read_or_make(file: &Path) -> Result<Self, FleetError> {
        if let Some(key) = Self::read(file)? {
            return Ok(key);
        }
        let pair = XKey::new();
        let seed = Secret::new(pair.seed().unwrap_or_default());
        let failed = |error: io::Error| FleetError::Unreadable {
            what: file.display().to_string(),
            reason: format!("it could not be created: {error}"),
        };
        let seed = Zeroizing::new(format!("{}\n", seed.expose()));
        match SecretFile::at(file).create(seed.as_bytes()) {
            Ok(true) => Ok(Self::of(pair)),
            // Another program has created the file meanwhile.
            Ok(false) => Self::read(file)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into())),
            Err(error) => Err(failed(error)),
        }
    }

    /// Creates a random key pair without a file.
    #[cfg(test)]
    pub(crate) fn random() -> Self {
        Self::of(XKey::new())
    }

    fn of(pair: XKey) -> Self {
        let public = pair.public_key();
        Self { pair, public }
    }

    /// Returns the public key: `X` and 55 letters and digits. It is not a secret.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// Seals a value so that only the owner of `recipient` can open it, with a proof of the sender.
    pub(crate) fn seal<T: Serialize>(&self, value: &T, recipient: &PublicKey) -> Option<String> {
        let mut text = Zeroizing::new(Vec::with_capacity(ROOM));
        serde_json::to_writer(&mut *text, value).ok()?;
        self.pair.seal(&text, &recipient.key).ok().map(|sealed| STANDARD.encode(sealed))
    }

    /// Opens a value that `sender` sealed to this key. `None` for anything else. It returns no reason, which could reveal a
    /// part of the content.
    pub(crate) fn open<T: DeserializeOwned>(&self, sealed: &str, sender: &PublicKey) -> Option<T> {
        let sealed = STANDARD.decode(sealed).ok()?;
        let text = Zeroizing::new(self.pair.open(&sealed, &sender.key).ok()?);
        serde_json::from_slice(&text).ok()
    }
}

/// Shows only the public key.
impl fmt::Debug for FleetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FleetKey").field(&self.public).finish()
    }
}

/// The public key of a machine.
#[derive(Clone)]
pub(crate) struct PublicKey {
    key: XKey,
}

impl PublicKey {
    /// Parses a public key.
    ///
    /// # Errors
    ///
    /// Description of the problem without the text, because the text may be a seed.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        if text.starts_with('S') {
            return Err(
                "is the secret half of a key: remove its file, run `nexus fleet key` again, and write its \
                 output",
            );
        }
        XKey::from_public_key(text).map(|key| Self { key }).map_err(|_| {
            "is not the public key of a machine: write the output of `nexus fleet key` on that \
                machine"
        })
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublicKey").field(&self.key.public_key()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    fn public(key: &FleetKey) -> PublicKey {
        PublicKey::read(key.public()).unwrap()
    }

    #[test]
    fn only_the_recipient_opens_a_seal_and_only_from_its_sender() {
        let [owner, worker, other] = [(); 3].map(|()| FleetKey::random());
        let sealed = owner.seal(&json!({ "token": "canary" }), &public(&worker)).unwrap();
        assert!(
            !sealed.contains("canary")
                && !STANDARD.decode(&sealed).unwrap().windows(6).any(|w| w == b"canary")
        );
        assert_eq!(worker.open::<Value>(&sealed, &public(&owner)), Some(json!({ "token": "canary" })));
        assert_eq!(other.open::<Value>(&sealed, &public(&owner)), None);
        assert_eq!(worker.open::<Value>(&sealed, &public(&other)), None);
        let bytes = STANDARD.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert_eq!(worker.open::<Value>(&STANDARD.encode(&bytes), &public(&owner)), None, "byte {at}");
        }
        for length in 0..bytes.len() {
            assert_eq!(worker.open::<Value>(&STANDARD.encode(&bytes[..length]), &public(&owner)), None);
        }
        for garbage in ["", "===", "AAAA", "\u{0}"] {
            assert_eq!(worker.open::<Value>(garbage, &public(&owner)), None);
        }
    }

    #[test]
    fn a_key_is_made_once_and_read_again_and_never_printed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("home/fleet.key");
        assert!(FleetKey::read(&file).unwrap().is_none());
        let made = FleetKey::read_or_make(&file).unwrap();
        let read = FleetKey::read_or_make(&file).unwrap();
        assert_eq!(made.public(), read.public());
        assert!(made.public().starts_with('X') && made.public().len() == 56);
        let seed = fs::read_to_string(&file).unwrap();
        assert!(seed.starts_with("SX") && !format!("{made:?} {:?}", public(&made)).contains(seed.trim()));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fleet.key");
        FleetKey::read_or_make(&file).unwrap();
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let error = FleetKey::read_or_make(&file).unwrap_err().to_string();
        assert!(error.contains("mode 640") && error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn what_is_no_seed_is_refused_and_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fleet.key");
        for text in ["canary", "", "SUACANARY", &"canary".repeat(10_000)] {
            let _ = fs::remove_file(&file);
            SecretFile::at(&file).create(text.as_bytes()).unwrap();
            let error = FleetKey::read(&file).unwrap_err();
            assert!(!format!("{error} {error:?}").to_lowercase().contains("canary"), "{error}");
            assert!(error.to_string().contains("nexus fleet key"), "{error}");
        }
    }

    #[test]
    fn a_seed_where_a_public_key_belongs_is_named_and_not_repeated() {
        let seed = FleetKey::random().pair.seed().unwrap();
        assert!(PublicKey::read(&seed).unwrap_err().contains("secret half"));
        for text in ["", "X", "canary", &FleetKey::random().public()[..55]] {
            assert!(PublicKey::read(text).unwrap_err().contains("is not the public key of a machine"));
        }
    }
}
