//! A token that somebody else keeps fresh.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use async_trait::async_trait;
use nexus_core::Secret;

use super::{Credential, CredentialError, CredentialSource, Standing};

/// Largest credential file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A token that somebody else keeps fresh: in a variable of the host's environment, or in a file.
///
/// The variable is looked up when the backend is built, since a process's environment does not change by
/// itself. The file is read anew for each turn, so that its owner can replace it; it must belong to us alone.
#[derive(Clone)]
pub struct StaticToken {
    place: Place,
    account: Option<String>,
}

#[derive(Clone)]
enum Place {
    Variable { name: String, value: Option<Secret> },
    File(PathBuf),
}

impl StaticToken {
    /// The token in the variable `name` of `environment`.
    pub fn from_environment(name: impl Into<String>, environment: &BTreeMap<String, String>) -> Self {
        let name = name.into();
        let value = environment.get(&name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let value = value.map(Secret::new);
        Self { place: Place::Variable { name, value }, account: None }
    }

    /// The token that is the whole content of a file.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self { place: Place::File(path.into()), account: None }
    }

    /// Names the account.
    #[must_use]
    pub fn with_account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }

    fn token(&self) -> Result<Secret, CredentialError> {
        match &self.place {
            Place::Variable { value: Some(value), .. } => match unusable(value.expose()) {
                Some(reason) => {
                    Err(CredentialError::Unreadable { place: self.describe(), reason: reason.into() })
                }
                None => Ok(value.clone()),
            },
            Place::Variable { .. } => Err(CredentialError::Missing {
                place: self.describe(),
                remedy: "set it, or name another source in the configuration".into(),
            }),
            Place::File(path) => read_private_file(path).map_err(|problem| match problem {
                Problem::Missing => CredentialError::Missing {
                    place: self.describe(),
                    remedy: "write the token there, readable by you alone".into(),
                },
                Problem::Unreadable(reason) => CredentialError::Unreadable { place: self.describe(), reason },
            }),
        }
    }
}

enum Problem {
    Missing,
    Unreadable(String),
}

/// Reads a token file that nobody else may read.
fn read_private_file(path: &std::path::Path) -> Result<Secret, Problem> {
    use std::io::Read as _;

    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Problem::Missing,
        _ => Problem::Unreadable(error.to_string()),
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Problem::Unreadable("it is not a file".into()));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(Problem::Unreadable(format!("others may read it (mode {mode:o}): make it 600")));
        }
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(Problem::Unreadable(format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    let text = Secret::new(text);
    let token = text.expose().trim();
    if token.is_empty() {
        return Err(Problem::Missing);
    }
    match unusable(token) {
        Some(reason) => Err(Problem::Unreadable(reason.into())),
        None => Ok(Secret::new(token)),
    }
}

/// Why a text is no token: no header could carry it.
pub(super) fn unusable(token: &str) -> Option<&'static str> {
    if token.contains(char::is_whitespace) {
        return Some("it holds more than one word");
    }
    let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    (!is_visible).then_some("it holds characters that no token has")
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticToken({})", self.describe())
    }
}

#[async_trait]
impl CredentialSource for StaticToken {
    fn describe(&self) -> String {
        match &self.place {
            Place::Variable { name, .. } => format!("the variable {name}"),
            Place::File(path) => format!("the file {}", path.display()),
        }
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        self.token().map(|_| Standing::default())
    }

    async fn credential(&self, _life: Duration) -> Result<Credential, CredentialError> {
        let mut credential = Credential::new(self.token()?);
        credential.account.clone_from(&self.account);
        Ok(credential)
    }

    /// A file may have been replaced since it was read; a variable stays what it is.
    async fn renewed(
        &self,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        match &self.place {
            Place::Variable { .. } => Ok(None),
            Place::File(_) => {
                let credential = self.credential(life).await?;
                Ok((credential.token != refused.token).then_some(credential))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lend(source: &StaticToken) -> Result<Credential, CredentialError> {
        source.credential(Duration::ZERO).await
    }

    #[tokio::test]
    async fn a_variable_that_is_not_set_is_missing() {
        let source = StaticToken::from_environment("TOKEN", &BTreeMap::new());
        assert!(matches!(lend(&source).await, Err(CredentialError::Missing { .. })));
    }

    #[tokio::test]
    async fn what_no_header_can_carry_is_no_token() {
        for text in ["canary two", "canary\ntwo", "canary\u{0}", "can\u{e4}ry", "\u{feff}canary"] {
            let environment = BTreeMap::from([("TOKEN".to_owned(), text.to_owned())]);
            let error = lend(&StaticToken::from_environment("TOKEN", &environment)).await.unwrap_err();
            assert!(matches!(error, CredentialError::Unreadable { .. }), "{text:?}");
            assert!(!error.to_string().contains("ary"), "{error}");
        }
    }

    #[tokio::test]
    async fn no_token_is_printed() {
        let environment = BTreeMap::from([("TOKEN".to_owned(), "canary".to_owned())]);
        let source = StaticToken::from_environment("TOKEN", &environment);
        let credential = lend(&source).await.unwrap();
        assert_eq!(credential.token.expose(), "canary");
        assert!(!format!("{source:?} {credential:?}").contains("canary"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "canary\n").unwrap();
        let set_mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();

        set_mode(0o644);
        let error = lend(&StaticToken::from_file(&path)).await.unwrap_err();
        assert!(matches!(error, CredentialError::Unreadable { .. }), "{error}");
        set_mode(0o600);
        assert_eq!(lend(&StaticToken::from_file(&path)).await.unwrap().token.expose(), "canary");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_refused_token_is_renewed_only_by_another_one() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "first").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let source = StaticToken::from_file(&path).with_account("account");
        let refused = lend(&source).await.unwrap();
        assert!(source.renewed(&refused, Duration::ZERO).await.unwrap().is_none());

        std::fs::write(&path, "second").unwrap();
        let renewed = source.renewed(&refused, Duration::ZERO).await.unwrap().unwrap();
        assert_eq!((renewed.token.expose(), renewed.account.as_deref()), ("second", Some("account")));

        std::fs::remove_file(&path).unwrap();
        let error = source.renewed(&refused, Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, CredentialError::Missing { .. }), "{error}");

        let environment = BTreeMap::from([("TOKEN".to_owned(), "first".to_owned())]);
        let variable = StaticToken::from_environment("TOKEN", &environment);
        assert!(variable.renewed(&refused, Duration::ZERO).await.unwrap().is_none());
    }
}
