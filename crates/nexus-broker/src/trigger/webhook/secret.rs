//! Storage of the secrets of webhooks.

use std::{env, fmt, io, path::PathBuf, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use nexus_core::Secret;
use nexus_files::{SecretFile, SecretFileError};

use super::{
    super::{document::TriggerId, schedule::WebhookSchedule},
    signature::{SECRET_PREFIX, WebhookKey},
};
use crate::error::{BrokerError, BrokerErrorKind};

/// Random bytes of a new secret.
const NEW_KEY_BYTES: usize = 32;

/// Source of environment variables.
type VariableSource = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The secrets of webhooks: each in a file of a folder, or in an environment variable.
///
/// A document never contains a secret: every program with access to the store reads documents, copies of the store have
/// them, and `list` shows them. In JetStream they cross the network.
///
/// The secrets are owner-only files, like this user's logins without a keyring. They are not in the keyring, because a
/// broker may run while no user is signed in to unlock it. For several machines, copy the file, or put the secret into an
/// environment variable and its name into the document.
#[derive(Clone)]
pub struct WebhookSecrets {
    folder: PathBuf,
    environment: VariableSource,
}

impl WebhookSecrets {
    /// Uses secrets in this folder, and in the environment of this process. The folder is created with the first secret.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::with_environment(folder, |name| env::var(name).ok())
    }

    /// Replaces the environment of this process as the source of variables.
    pub fn with_environment(
        folder: impl Into<PathBuf>,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { folder: folder.into(), environment: Arc::new(environment) }
    }

    /// Creates the secret of a trigger and its file. The caller shows it once to the person who configures the
    /// sender, and never again. It blocks.
    ///
    /// # Errors
    ///
    /// [`Conflict`](BrokerErrorKind::Conflict) if the trigger has a secret, [`Failed`](BrokerErrorKind::Failed)
    /// if the file cannot be created.
    pub fn create(&self, id: &TriggerId) -> Result<Secret, BrokerError> {
        let mut random = [0; NEW_KEY_BYTES];
        getrandom::fill(&mut random)
            .map_err(|error| self.failed(id, &io::Error::other(error.to_string())))?;
        let secret = Secret::new(format!("{SECRET_PREFIX}{}", STANDARD.encode(random)));
        match self.file(id).create(secret.expose().as_bytes()) {
            Ok(true) => Ok(secret),
            Ok(false) => Err(BrokerError::new(
                BrokerErrorKind::Conflict,
                format!("the webhook {id} already has a secret"),
                "delete the trigger, which also deletes the secret, or choose another id",
            )),
            Err(error) => Err(self.failed(id, &error)),
        }
    }

    /// Deletes the secret file of a trigger, if it exists. It blocks.
    pub fn delete(&self, id: &TriggerId) -> Result<(), BrokerError> {
        self.file(id).remove().map_err(|error| self.failed(id, &error))
    }

    /// Returns the key of a trigger's secret. It blocks.
    ///
    /// # Errors
    ///
    /// [`Unknown`](BrokerErrorKind::Unknown) if the secret does not exist,
    /// [`Damaged`](BrokerErrorKind::Damaged) if it is not a valid secret, or others can read its file, and
    /// [`Failed`](BrokerErrorKind::Failed) if the file cannot be read.
    pub fn key(&self, id: &TriggerId, schedule: &WebhookSchedule) -> Result<WebhookKey, BrokerError> {
        let no_secret = || {
            BrokerError::new(
                BrokerErrorKind::Damaged,
                format!("the secret of the webhook {id} is not valid"),
                "write `whsec_` and the base64 of 24 to 64 bytes",
            )
        };
        if let Some(name) = &schedule.secret_environment {
            let Some(secret) = (self.environment)(name).map(Secret::new) else {
                let message = format!("the webhook {id} has its secret in {name}, which is not set");
                return Err(BrokerError::unknown(
                    message,
                    "set the variable in the environment of the broker",
                ));
            };
            return WebhookKey::read(secret.expose().trim()).ok_or_else(no_secret);
        }
        match self.file(id).read().map(Secret::new) {
            Ok(secret) => WebhookKey::read(secret.expose().trim()).ok_or_else(no_secret),
            Err(SecretFileError::Missing) => Err(BrokerError::unknown(
                format!("the secret of the webhook {id} is not on this machine"),
                "copy its file from the machine that created it, or store it in an environment variable",
            )),
            Err(SecretFileError::Exposed(_)) => Err(BrokerError::new(
                BrokerErrorKind::Damaged,
                format!("the file of the secret of the webhook {id}: others can read it"),
                "delete the trigger, and create it again",
            )),
            Err(SecretFileError::Unreadable(error)) => Err(self.failed(id, &error)),
        }
    }

    fn file(&self, id: &TriggerId) -> SecretFile {
        SecretFile::at(self.path(id))
    }

    fn path(&self, id: &TriggerId) -> PathBuf {
        self.folder.join(file_name(id))
    }

    fn failed(&self, id: &TriggerId, error: &io::Error) -> BrokerError {
        let path = self.path(id);
        BrokerError {
            message: format!("the secret of the webhook {id}, {}: {error}", path.display()),
            ..BrokerError::unusable(&path, error)
        }
    }
}

/// Returns the name of a trigger's file. Two ids that differ only in capitals get two names on every file system.
fn file_name(id: &TriggerId) -> String {
    let mut name = String::with_capacity(id.as_str().len() + 7);
    for letter in id.as_str().chars() {
        if letter.is_ascii_uppercase() {
            name.push('+');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name + ".secret"
}

impl fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSecrets").field("folder", &self.folder).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn a_secret_is_made_once_read_and_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = WebhookSecrets::in_folder(folder.path().join("secrets"));
        let id: TriggerId = "hook".parse().unwrap();
        let schedule = WebhookSchedule::in_folder();
        assert_eq!(secrets.key(&id, &schedule).unwrap_err().kind, BrokerErrorKind::Unknown);
        let secret = secrets.create(&id).unwrap();
        assert_eq!(secrets.create(&id).unwrap_err().kind, BrokerErrorKind::Conflict);
        secrets.create(&"HOOK".parse().unwrap()).unwrap();
        let signature = WebhookKey::read(secret.expose()).unwrap().sign("a", 1, b"body");
        assert!(secrets.key(&id, &schedule).unwrap().verifies(&signature, "a", 1, b"body"));
        assert_eq!(fs::read_dir(folder.path().join("secrets")).unwrap().count(), 2, "nothing is left beside");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let path = secrets.path(&id);
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            let error = secrets.key(&id, &schedule).unwrap_err();
            assert_eq!(error.kind, BrokerErrorKind::Damaged);
            assert!(!error.to_string().contains(&secret.expose()[6..]), "{error}");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::write(secrets.path(&id), "whsec_short").unwrap();
        assert_eq!(secrets.key(&id, &schedule).unwrap_err().kind, BrokerErrorKind::Damaged);
        secrets.delete(&id).unwrap();
        secrets.delete(&id).unwrap();
        assert_eq!(secrets.key(&id, &schedule).unwrap_err().kind, BrokerErrorKind::Unknown);
    }

    #[test]
    fn a_secret_may_be_in_the_environment() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let secrets = WebhookSecrets::with_environment("/nowhere", move |name| {
            (name == "HOOK").then(|| secret.to_owned())
        });
        let id: TriggerId = "hook".parse().unwrap();
        assert!(secrets.key(&id, &WebhookSchedule::in_environment("HOOK")).is_ok());
        let error = secrets.key(&id, &WebhookSchedule::in_environment("OTHER")).unwrap_err();
        assert_eq!(error.kind, BrokerErrorKind::Unknown);
    }
}
