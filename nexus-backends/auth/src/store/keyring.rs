//! The keyring of the system: Secret Service, macOS Keychain, Windows Credential Manager. Only the Secret Service is
//! tested.
//!
//! A keyring may ask the user for a password, and block meanwhile. So each request runs on its own thread and is
//! abandoned after [`ANSWER_WITHIN`]. Once the keyring is unlocked, it answers the next request.
//!
//! The keyring might execute an abandoned write later, over a newer text. So a write begins only right after the
//! keyring has answered another request. Atomic replacement and durability are up to the keyring's service; a written
//! text is read back before the write counts as done.
//!
//! The process connects to the keyring once. It does not find a service that starts later.
//!
//! The buffers of the D-Bus client and the memory of the service cannot be overwritten from here.

use std::{
    collections::HashMap,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use ::keyring::{Error, v1::Entry};
use nexus_core::Secret;
use zeroize::Zeroizing;

use super::{DamagedText, PreparedWrite, StoreError, TokenStore};

/// Longest wait for one response of the keyring. After its token is spent, a refresh makes four requests: it reads the
/// present content, and a [write](KeyringStore::write) makes three. A second try makes it five. Other tasks wait for it
/// under the refresh lock.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Service name of all entries.
pub(super) const SERVICE: &str = "nexus";

/// Stores a text in one entry of the keyring.
#[derive(Clone, Debug)]
pub struct KeyringStore {
    service: String,
    user: String,
}

impl KeyringStore {
    /// Creates the store in the entry of `service` and `user`. Sends no request yet.
    pub fn new(service: impl Into<String>, user: impl Into<String>) -> Self {
        Self { service: service.into(), user: user.into() }
    }

    fn error(&self, reason: impl Into<String>) -> StoreError {
        StoreError::new(self.place(), reason)
    }

    /// Returns the user names of all entries of a service.
    pub(super) fn users(service: &str) -> Result<Vec<String>, StoreError> {
        let specification = service.to_owned();
        // Creating an entry connects to the keyring. This entry is never read.
        let found = Self::new(service, "").ask(move |_| {
            let found = keyring_core::Entry::search(&HashMap::from([("service", specification.as_str())]))?;
            let users = found.iter().filter_map(|entry| Some(entry.get_specifiers()?.1));
            Ok(users.collect())
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Sends a request on its own thread; `None` if the entry does not exist.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Entry) -> Result<T, Error> + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        let Self { service, user } = self.clone();
        let (answer, answered) = mpsc::sync_channel(1);
        let began = Instant::now();
        // The library blocks, and the keyring may wait for a person, so each request has its own thread and a
        // time limit.
        let asked = thread::Builder::new().name("nexus-keyring".to_owned()).spawn(move || {
            let entry = Entry::new(&service, &user);
            // After this time the caller has given up, so do not send the request.
            if began.elapsed() < ANSWER_WITHIN {
                let _ = answer.send(entry.and_then(|entry| question(&entry)));
            }
        });
        if let Err(error) = asked {
            return Err(self.error(format!("no thread could be started ({error})")));
        }
        match answered.recv_timeout(ANSWER_WITHIN) {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(Error::NoEntry)) => Ok(None),
            Ok(Err(error)) => Err(self.error(reason(&error))),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(self.error(format!(
                "the keyring did not answer within {} seconds, perhaps because it waits for its password: unlock it, \
                 then try again",
                ANSWER_WITHIN.as_secs()
            ))),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(self.error("the keyring client failed, because \
                it panicked")),
        }
    }

    /// Makes three requests: checks that the keyring answers, writes, and reads the text back.
    fn write(&self, text: &Secret) -> Result<(), StoreError> {
        self.ask(|entry| entry.get_secret().map(Zeroizing::new))?;
        let bytes = Zeroizing::new(text.expose().as_bytes().to_vec());
        self.ask(move |entry| entry.set_secret(&bytes))?;
        // A keyring may accept a value without storing it.
        match self.read()? {
            Some(kept) if kept == *text => Ok(()),
            _ => Err(self.error("the keyring did not store the value: store it in a file instead")),
        }
    }
}

impl TokenStore for KeyringStore {
    fn place(&self) -> String {
        // The user name is empty for the request that lists the entries of a service.
        match self.user.as_str() {
            "" => format!("the keyring (service {})", self.service),
            user => format!("the keyring (service {}, user {user})", self.service),
        }
    }

    fn identity(&self) -> String {
        format!("keyring {:?}", (&self.service, &self.user))
    }

    fn read(&self) -> Result<Option<Secret>, StoreError> {
        let Some(mut bytes) = self.ask(|entry| entry.get_secret().map(Zeroizing::new))? else {
            return Ok(None);
        };
        match String::from_utf8(std::mem::take(&mut *bytes)) {
            Ok(text) => Ok(Some(Secret::new(text))),
            Err(error) => {
                drop(Zeroizing::new(error.into_bytes()));
                Err(self.error("the entry in the keyring is not text: remove it, and store it again"))
            }
        }
    }

    /// Reads the entry: a keyring that returns it also accepts a new text. If the entry does not exist, writes and
    /// removes a trial entry.
    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError> {
        if self.read()?.is_none() {
            let trial = Self::new(&self.service, format!("{} (trial)", self.user));
            trial
                .write(&Secret::new("Nexus tries whether the keyring can be written to"))
                .and_then(|()| trial.remove())
                .map_err(|error| self.error(error.reason))?;
        }
        Ok(Box::new(PendingEntry(self.clone())))
    }

    /// Nothing to recover: the keyring's service replaces an entry completely or not at all.
    fn recover(&self, _is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn damaged(&self) -> Result<Option<DamagedText>, StoreError> {
        Ok(None)
    }

    fn remove(&self) -> Result<bool, StoreError> {
        self.ask(Entry::delete_credential).map(|removed| removed.is_some())
    }
}

#[derive(Debug)]
struct PendingEntry(KeyringStore);

impl PreparedWrite for PendingEntry {
    fn commit(self: Box<Self>, text: &Secret) -> Result<(), StoreError> {
        self.0.write(text)
    }
}

/// Returns the fault, with advice. Does not print an error that contains stored text.
fn reason(error: &Error) -> String {
    match error {
        Error::NoDefaultStore => match Entry::store_status() {
            Err(error) => format!(
                "no keyring answers ({error}): start the Secret Service of your desktop, such as \
                 gnome-keyring or KWallet, then restart this program; or store it in a file"
            ),
            Ok(()) => "no keyring answers: store it in a file".to_owned(),
        },
        Error::NoStorageAccess(error) => {
            format!(
                "the keyring is locked, or has no default collection ({error}): unlock it, then try again"
            )
        }
        Error::Ambiguous(entries) => format!(
            "the keyring has {} entries of that name: remove the entries of other programs with your \
             desktop's keyring program",
            entries.len()
        ),
        Error::TooLong(_, limit) => {
            format!("the keyring accepts at most {limit} characters: store it in a file")
        }
        Error::PlatformFailure(error) => format!(
            "the keyring failed ({error}): check that its service runs, then restart this program; or store \
            it in a file"
        ),
        Error::BadEncoding(_) | Error::BadDataFormat(..) => {
            "the entry in the keyring cannot be read: remove it, and store it again".to_owned()
        }
        error => format!("the keyring cannot be used ({error}): store it in a file"),
    }
}
