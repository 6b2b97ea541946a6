//! A token that its owner replaces, in a variable, a file or the keyring. Nexus never refreshes it.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use async_trait::async_trait;
use nexus_core::{Secret, harness::run_blocking, variable_name_fault};
use zeroize::Zeroizing;

#[cfg(feature = "keyring")]
use super::store::KeyringKey;
use super::token_text::{not_text, unusable, usable};
use super::{Credential, CredentialError, CredentialSource, Standing};

/// Maximum size of a credential file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// A token that another program keeps fresh: in a variable of the host's environment, in a file, or in the keyring of
/// the system.
///
/// The variable is read when the backend is built, because a process's environment does not change by itself. The file
/// and the keyring are read for each turn, so that their owner can replace the token. The file must be owner-only.
#[derive(Clone)]
pub struct StaticToken {
    place: TokenLocation,
    account: Option<String>,
}

#[derive(Clone)]
enum TokenLocation {
    Variable {
        name: String,
        value: Option<Secret>,
    },
    File(PathBuf),
    #[cfg(feature = "keyring")]
    Keyring(KeyringKey),
}

impl StaticToken {
    /// Creates a token from the variable `name` of `environment`.
    pub fn from_environment(name: impl Into<String>, environment: &BTreeMap<String, String>) -> Self {
        let name = name.into();
        let value = environment.get(&name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let value = value.map(Secret::new);
        Self { place: TokenLocation::Variable { name, value }, account: None }
    }

    /// Creates a token from a file that contains nothing else.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self { place: TokenLocation::File(path.into()), account: None }
    }

    /// Creates a token from an API key in the keyring of the system.
    #[cfg(feature = "keyring")]
    pub fn from_keyring(key: KeyringKey) -> Self {
        Self { place: TokenLocation::Keyring(key), account: None }
    }

    /// Sets the account that requests send with the token.
    #[must_use]
    pub fn with_account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }

    /// Reads the token. Files and keyrings are read on a thread for blocking work.
    async fn token(&self) -> Result<Secret, CredentialError> {
        if let TokenLocation::Variable { .. } = &self.place {
            return self.place.token();
        }
        let place = self.place.clone();
        match run_blocking(move || place.token()).await {
            Ok(token) => token,
            Err(_) => Err(self.place.unreadable("it could not be read because the program is ending")),
        }
    }
}

impl TokenLocation {
    fn token(&self) -> Result<Secret, CredentialError> {
        match self {
            Self::Variable { value: Some(value), .. } => match unusable(value.expose()) {
                Some(reason) => Err(self.unreadable(reason)),
                None => Ok(value.clone()),
            },
            Self::Variable { .. } => Err(self.missing("set it, or name another source in the configuration")),
            Self::File(path) => read_private_file(path).map_err(|problem| match problem {
                TokenFileProblem::Missing => self.missing("write the token there, with file mode 600"),
                TokenFileProblem::Unreadable(reason) => self.unreadable(reason),
            }),
            #[cfg(feature = "keyring")]
            Self::Keyring(key) => {
                let found = key.read().map_err(|error| self.unreadable(error.reason))?;
                let Some(token) = found.filter(|token| !token.expose().trim().is_empty()) else {
                    return Err(
                        self.missing(format!("write that entry, or run `nexus key set {}`", key.name()))
                    );
                };
                usable(token.expose()).map_err(|reason| self.unreadable(reason))
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Variable { name, .. } if variable_name_fault(name).is_some() => {
                "a variable, whose invalid name is not shown".to_owned()
            }
            Self::Variable { name, .. } => format!("the variable {name}"),
            Self::File(path) => format!("the file {}", path.display()),
            #[cfg(feature = "keyring")]
            Self::Keyring(key) => key.place(),
        }
    }

    fn missing(&self, remedy: impl Into<String>) -> CredentialError {
        CredentialError::Missing { place: self.describe(), remedy: remedy.into() }
    }

    fn unreadable(&self, reason: impl Into<String>) -> CredentialError {
        CredentialError::Unreadable { place: self.describe(), reason: reason.into() }
    }
}

enum TokenFileProblem {
    Missing,
    Unreadable(String),
}

/// Reads an owner-only token file. It may be a symbolic link, because hosts mount such files into containers.
fn read_private_file(path: &std::path::Path) -> Result<Secret, TokenFileProblem> {
    use std::io::Read as _;

    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => TokenFileProblem::Missing,
        _ => TokenFileProblem::Unreadable(error.to_string()),
    };
    let mut options = std::fs::File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Without `NONBLOCK`, opening a pipe at this path would block.
        options.custom_flags(i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default());
    }
    let mut file = options.open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(TokenFileProblem::Unreadable("it is not a file".into()));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenFileProblem::Unreadable(format!(
                "others may read it (mode {mode:o}): make it 600"
            )));
        }
    }
    // One byte above the expected size: the buffer is never reallocated, so no copy of the secret remains, and growth
    // of the file is still detected.
    let room = metadata.len().min(MAX_FILE_BYTES) + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(room).unwrap_or_default()));
    file.by_ref().take(room).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(TokenFileProblem::Unreadable(format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    let text =
        std::str::from_utf8(&bytes).map_err(|_| TokenFileProblem::Unreadable(not_text(&bytes).into()))?;
    if text.trim().is_empty() {
        return Err(TokenFileProblem::Missing);
    }
    usable(text).map_err(|reason| TokenFileProblem::Unreadable(reason.into()))
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticToken({})", self.describe())
    }
}

#[async_trait]
impl CredentialSource for StaticToken {
    fn describe(&self) -> String {
        self.place.describe()
    }

    async fn standing(&self) -> Result<Standing, CredentialError> {
        self.token().await.map(|_| Standing::default())
    }

    async fn credential(&self, _life: Duration) -> Result<Credential, CredentialError> {
        let mut credential = Credential::new(self.token().await?);
        credential.account.clone_from(&self.account);
        Ok(credential)
    }

    /// Reads the token again: a file or a keyring entry may have been replaced, whereas a variable does not change.
    async fn renewed(
        &self,
        refused: &Credential,
        life: Duration,
    ) -> Result<Option<Credential>, CredentialError> {
        match &self.place {
            // A variable was read once, but a file or a keyring entry may have a new token.
            TokenLocation::Variable { .. } => Ok(None),
            _ => {
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
    async fn what_is_no_file_is_refused_and_not_waited_for() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};

        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [folder.path(), &pipe] {
            let error = lend(&StaticToken::from_file(path)).await.unwrap_err();
            assert!(matches!(error, CredentialError::Unreadable { .. }), "{error}");
            assert!(error.to_string().ends_with("it is not a file"), "{error}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_file_with_more_or_other_than_a_token_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let large = "x".repeat(usize::try_from(MAX_FILE_BYTES).unwrap() + 1);
        for (bytes, reason) in [
            (large.as_bytes(), "it is larger than 65536 bytes"),
            (b"canary\xff", "it is not text"),
            (b"canary two", "it consists of more than one word"),
            ("\u{feff}canary".as_bytes(), "it begins with a byte order mark: save it without one"),
            (b"\xff\xfec\0a\0n\0", "it begins with a byte order mark of UTF-16: save it as UTF-8"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let error = lend(&StaticToken::from_file(&path)).await.unwrap_err().to_string();
            assert!(error.ends_with(reason) && !error.contains("canary"), "{error}");
        }
        std::fs::write(&path, " \n").unwrap();
        let error = lend(&StaticToken::from_file(&path)).await.unwrap_err();
        assert!(matches!(error, CredentialError::Missing { .. }), "{error}");
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
