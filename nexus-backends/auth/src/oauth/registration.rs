//! The client that a person's first sign-in registered, and the name of this installation. The file is beside the
//! logins and outlives them, so a later sign-in uses the same client. It contains no secret.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use nexus_core::{LostWork, harness::run_blocking};
use serde::{Deserialize, Serialize};

use super::issuer::{Issuer, SignInRegistration};
use crate::SignInError;

/// Maximum length of a client id, in bytes. Source: our own bound.
const MAX_CLIENT_ID_BYTES: usize = 200;

/// Stored registrations.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptRegistration {
    /// URN that names this installation to the issuer, created once.
    host_id: String,
    client: Option<RegisteredClient>,
}

/// Registered client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RegisteredClient {
    /// Base URL of the issuer.
    issuer: String,
    client_id: String,
    /// Subject of the person for whom the client is registered, once it is verified.
    subject: Option<String>,
    /// True if the last sign-in lacked a required consent. The next sign-in asks the person again.
    #[serde(default)]
    lacks_consent: bool,
}

/// Client registration during one sign-in.
#[derive(Debug)]
pub(super) struct Registration<'i> {
    file: PathBuf,
    issuer: &'i Issuer,
    style: &'i SignInRegistration,
    kept: KeptRegistration,
}

impl<'i> Registration<'i> {
    /// Reads `file`. An installation without a name gets one, which is stored before it is sent. With `anew`, an
    /// earlier client is not reused.
    pub(super) async fn open(
        file: &Path,
        issuer: &'i Issuer,
        style: &'i SignInRegistration,
        anew: bool,
    ) -> Result<Self, SignInError> {
        let place = file.to_owned();
        let kept = on_disk(file, move || match fs::read(&place) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let kept = KeptRegistration { host_id: uuid::Uuid::new_v4().urn().to_string(), client: None };
                write(&place, &kept).map(|()| kept)
            }
            Err(error) => Err(error),
        });
        let mut kept = kept.await?;
        kept.client = kept.client.filter(|client| !anew && client.issuer == issuer.url);
        Ok(Self { file: file.to_owned(), issuer, style, kept })
    }

    /// Returns the client id for this sign-in.
    pub(super) fn client_id(&self) -> &str {
        self.kept.client.as_ref().map_or(&self.issuer.client_id, |client| &client.client_id)
    }

    /// Returns the additional parameters of the authorization request.
    pub(super) fn parameters(&self) -> Vec<(&str, &str)> {
        let mut parameters = vec![(self.style.host_parameter.as_str(), self.kept.host_id.as_str())];
        match &self.kept.client {
            None => parameters.push((&self.style.name_parameter, &self.style.name)),
            Some(client) if client.lacks_consent => parameters.push(("prompt", "consent")),
            Some(_) => {}
        }
        parameters
    }

    /// Adopts the client that the issuer's response names, and stores it even if the sign-in fails later.
    pub(super) async fn take(&mut self, named: Option<&str>) -> Result<(), SignInError> {
        let malformed = |reason: &str| Err(SignInError::Malformed { reason: reason.to_owned() });
        match (&self.kept.client, named) {
            (Some(client), Some(named)) if client.client_id != named => {
                malformed("its answer belongs to another registration of this program")
            }
            (Some(_), _) => Ok(()),
            (None, Some(named)) if named != self.issuer.client_id && is_client_id(named) => {
                self.kept.client = Some(RegisteredClient {
                    issuer: self.issuer.url.clone(),
                    client_id: named.to_owned(),
                    subject: None,
                    lacks_consent: false,
                });
                self.keep().await
            }
            (None, _) => malformed("the registration of this program is incomplete: log in again"),
        }
    }

    /// Records the person who signed in, and the consent. Rejects a person other than the recorded one.
    pub(super) async fn conclude(&mut self, subject: &str, lacks_consent: bool) -> Result<(), SignInError> {
        let Some(client) = &mut self.kept.client else { return Ok(()) };
        if client.subject.as_deref().is_some_and(|known| known != subject) {
            let reason = "this program is registered for another account: log in with that account, or \
                          create a new registration (`--new-registration`)";
            return Err(SignInError::Declined { reason: reason.to_owned() });
        }
        let before = client.clone();
        client.subject = Some(subject.to_owned());
        client.lacks_consent = lacks_consent;
        match *client == before {
            true => Ok(()),
            false => self.keep().await,
        }
    }

    async fn keep(&self) -> Result<(), SignInError> {
        let (place, kept) = (self.file.clone(), self.kept.clone());
        on_disk(&self.file, move || write(&place, &kept)).await
    }
}

fn is_client_id(text: &str) -> bool {
    (1..=MAX_CLIENT_ID_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

async fn on_disk<T: Send + 'static>(
    file: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, SignInError> {
    let done = run_blocking(work).await.unwrap_or_else(|_| Err(io::Error::other(LostWork)));
    done.map_err(|error| SignInError::Unsupported {
        reason: format!("the registration in {} cannot be used: {error}", file.display()),
    })
}

/// Writes the file atomically and owner-only. Creates its folder if it is missing.
fn write(file: &Path, kept: &KeptRegistration) -> io::Result<()> {
    let prefix = file.file_name().unwrap_or_default();
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut unfinished = tempfile::Builder::new().prefix(prefix).tempfile_in(folder)?;
    unfinished.write_all(&serde_json::to_vec_pretty(kept)?)?;
    // Flush before the rename: otherwise a crash could leave an empty file.
    unfinished.as_file().sync_all()?;
    unfinished.persist(file)?;
    Ok(())
}
