//! Source of keys: variables, or a profile of the vendor's command-line tool.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_core::harness::run_blocking;
use nexus_core::{Credential, CredentialError, CredentialSource, Secret, Standing};
use nexus_process::environment::Environment;
use tokio::sync::Mutex;

use super::key_program::{key, key_of, words};
use super::profile::{Profile, ProfileFiles};
use crate::printing_program::{PrintingProgram, TIME_LIMIT};

/// Variables with a key.
const ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const SESSION: &str = "AWS_SESSION_TOKEN";

/// Settings of a profile that need a program of the vendor, because they exchange one key for another.
const EXCHANGES: [&str; 5] =
    ["sso_session", "sso_start_url", "role_arn", "web_identity_token_file", "login_session"];

/// Spare validity of a printed key. A key that ends sooner is replaced. Source: our own choice, as long as the vendor's SDKs take.
const SPARE: Duration = Duration::from_secs(300);

/// Keys of Amazon Web Services.
pub struct AwsKeys {
    origin: KeyOrigin,
    /// The key that the program printed last.
    printed: Mutex<Option<PrintedKey>>,
}

/// A key, and the time at which a program printed it.
#[derive(Clone)]
struct PrintedKey {
    key: Credential,
    at: SystemTime,
}

/// Location of a profile, and the surroundings of its program.
#[derive(Debug)]
pub struct ProfilePlace {
    /// Name of the profile.
    pub name: String,
    /// The file `credentials`.
    pub credentials: PathBuf,
    /// The file `config`.
    pub config: PathBuf,
    /// Folder in which the program of the profile runs.
    pub folder: PathBuf,
    /// Environment of that program.
    pub environment: Environment,
    /// Longest run of that program. Default: 30 seconds.
    pub time_limit: Option<Duration>,
}

enum KeyOrigin {
    Variables(Result<Credential, Unusable>),
    Profile { files: ProfileFiles, place: Box<ProfilePlace> },
}

/// Reason why variables have no key.
enum Unusable {
    Missing(&'static str),
    Broken(String),
}

/// Key or program that a profile names.
enum ProfileKey {
    Key(Credential),
    Program(Vec<String>),
}

impl AwsKeys {
    /// Takes the key from the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
    pub fn from_variables(environment: &BTreeMap<String, String>) -> Self {
        let value = |name: &str| environment.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let found = match (value(ID), value(SECRET)) {
            (None, _) => Err(Unusable::Missing(ID)),
            (_, None) => Err(Unusable::Missing(SECRET)),
            (Some(id), Some(secret)) => key(id, secret, value(SESSION))
                .map_err(|(part, reason)| Unusable::Broken(format!("the {part} is unusable: {reason}"))),
        };
        Self { origin: KeyOrigin::Variables(found), printed: Mutex::default() }
    }

    /// Takes the key from a profile. Its files are read for each turn, so that their owner can replace the key.
    pub fn from_profile(place: ProfilePlace) -> Self {
        let files = ProfileFiles { credentials: place.credentials.clone(), config: place.config.clone() };
        Self { origin: KeyOrigin::Profile { files, place: Box::new(place) }, printed: Mutex::default() }
    }

    fn unreadable(&self, reason: impl Into<String>) -> CredentialError {
        CredentialError::Unreadable { place: self.describe(), reason: reason.into() }
    }

    fn of_variables(&self, found: &Result<Credential, Unusable>) -> Result<Credential, CredentialError> {
        match found {
            Ok(key) => Ok(key.clone()),
            Err(Unusable::Broken(reason)) => Err(self.unreadable(reason.as_str())),
            Err(Unusable::Missing(name)) => Err(CredentialError::Missing {
                place: self.describe(),
                remedy: format!(
                    "set {name}, or name a profile: `credential: {{ aws: {{ profile: NAME }} }}`"
                ),
            }),
        }
    }

    async fn of_profile(&self, files: &ProfileFiles, name: &str) -> Result<ProfileKey, CredentialError> {
        let (files, owned) = (files.clone(), name.to_owned());
        let read = run_blocking(move || files.profile(&owned)?.key(&owned)).await;
        read.map_err(|_| self.unreadable("reading the profile failed"))?
            .map_err(|reason| self.unreadable(reason))
    }

    fn program(place: &ProfilePlace, words: Vec<String>) -> PrintingProgram {
        let mut words = words.into_iter();
        PrintingProgram {
            program: words.next().unwrap_or_default().into(),
            arguments: words.map(Into::into).collect(),
            folder: place.folder.clone(),
            environment: place.environment.clone(),
            time_limit: place.time_limit.unwrap_or(TIME_LIMIT),
            setting: "credential_process",
            printed: "one key as JSON",
        }
    }

    /// Returns the printed key if it is valid for `life`; otherwise runs the program. With `refused`, that key does not count.
    async fn print(
        &self,
        place: &ProfilePlace,
        words: Vec<String>,
        life: Duration,
        refused: Option<&Credential>,
    ) -> Result<Credential, CredentialError> {
        // Turns that need a key at the same time share one run.
        let mut printed = self.printed.lock().await;
        let is_usable = |printed: &&PrintedKey| {
            refused.is_none_or(|refused| !is_same(refused, &printed.key)) && printed.is_fresh(life)
        };
        if let Some(printed) = printed.as_ref().filter(is_usable) {
            return Ok(printed.key.clone());
        }
        // Count the lifetime from before the run, which can only underestimate it.
        let at = SystemTime::now();
        let output = Self::program(place, words).output().await.map_err(|reason| self.unreadable(reason))?;
        let key = key_of(&output).map_err(|reason| {
            self.unreadable(format!("{reason}: run `credential_process` of the profile in a terminal"))
        })?;
        if key.expires_at.is_some_and(|end| end <= SystemTime::now()) {
            return Err(self.unreadable("`credential_process` printed a key that has expired: sign in again"));
        }
        *printed = Some(PrintedKey { key: key.clone(), at });
        Ok(key)
    }

    async fn lend(
        &self,
        life: Duration,
        refused: Option<&Credential>,
    ) -> Result<Credential, CredentialError> {
        match &self.origin {
            KeyOrigin::Variables(found) => self.of_variables(found),
            KeyOrigin::Profile { files, place } => match self.of_profile(files, &place.name).await? {
                ProfileKey::Key(key) => Ok(key),
                ProfileKey::Program(words) => self.print(place, words, life, refused).await,
            },
        }
    }
}

impl PrintedKey {
    /// Returns true if the key may be lent for `life`. A key that lives shorter is lent for half of its time, so that the program
    /// does not run for each turn.
    fn is_fresh(&self, life: Duration) -> bool {
        let Some(end) = self.key.expires_at else { return true };
        let lifetime = end.duration_since(self.at).unwrap_or_default();
        let left = end.duration_since(SystemTime::now()).unwrap_or_default();
        left > life.max(SPARE).min(lifetime / 2)
    }
}

impl Profile {
    /// Returns the key of the profile, or its program. The error is the reason, with advice.
    fn key(&self, name: &str) -> Result<ProfileKey, String> {
        if let Some(setting) = self.first_of(&EXCHANGES) {
            return Err(format!(
                "the profile needs the vendor's own program (`{setting}`): add a profile with `credential_process = aws \
                 configure export-credentials --profile {name}`, and name that one in `credential.aws.profile`"
            ));
        }
        let value = |key: &str| self.value(key).map(Secret::expose);
        match (value("aws_access_key_id"), value("aws_secret_access_key"), value("credential_process")) {
            (Some(id), Some(secret), _) => key(id, secret, value("aws_session_token"))
                .map(ProfileKey::Key)
                .map_err(|(part, reason)| format!("its {part} is unusable: {reason}")),
            (None, None, Some(command)) => match words(command) {
                Some(words) if !words.is_empty() => Ok(ProfileKey::Program(words)),
                _ => Err("its `credential_process` is not a command: check its quotes".to_owned()),
            },
            (Some(_), None, _) => Err("it has no `aws_secret_access_key`".to_owned()),
            (None, Some(_), _) => Err("it has no `aws_access_key_id`".to_owned()),
            (None, None, None) => Err(format!(
                "it has no key and no `credential_process`: run `aws configure --profile {name}`"
            )),
        }
    }
}

/// Returns true if two keys are the same.
fn is_same(one: &Credential, other: &Credential) -> bool {
    let session = |key: &Credential| key.signing.as_ref().and_then(|key| key.session.clone());
    one.token == other.token && session(one) == session(other)
}

impl fmt::Debug for AwsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AwsKeys({})", self.describe())
    }
}

#[async_trait]
impl CredentialSource for AwsKeys {
    fn describe(&self) -> String {
        match &self.origin {
            KeyOrigin::Variables(_) => format!("the variables {ID} and {SECRET}"),
            KeyOrigin::Profile { place, .. } => format!("the AWS profile {}", place.name),
        }
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        let KeyOrigin::Profile { files, place } = &self.origin else {
            return self.lend(Duration::ZERO, None).await.map(|_| Standing::new(None, false));
        };
        let words = match self.of_profile(files, &place.name).await? {
            ProfileKey::Key(_) => return Ok(Standing::new(None, false)),
            ProfileKey::Program(words) => words,
        };
        if let Err(reason) = Self::program(place, words).executable() {
            return Err(self.unreadable(reason));
        }
        // During a run the lock is taken. Do not wait for it.
        let printed = self.printed.try_lock().ok().and_then(|printed| printed.clone());
        let expires_at = printed.as_ref().and_then(|printed| printed.key.expires_at);
        let is_fresh = printed.is_some_and(|printed| printed.is_fresh(SPARE));
        Ok(Standing::new(expires_at, true).with_program(!is_fresh))
    }

    async fn credential(&self, life: Duration) -> Result<Credential, CredentialError> {
        self.lend(life, None).await
    }

    async fn renewed(
        &self,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        let key = self.lend(life, Some(refused)).await?;
        Ok(Some(key).filter(|key| !is_same(key, refused)))
    }
}

#[cfg(test)]
mod tests;
