//! The token of HTTP clients.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use nexus_files::{SecretFile, SecretFileError};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

/// Number of random bytes in a token.
const TOKEN_BYTES: usize = 32;

/// The token of HTTP clients. It is compared in constant time, and never printed.
#[derive(Clone)]
pub struct HttpToken(String);

/// Reason why no token is available.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read, created or written.
    #[error("the file of the HTTP token, {}, cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Other users may read the file.
    #[error("the file of the HTTP token, {}, can be read by others: delete it, and the next start creates a \
        new one", path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// The file contains no valid token.
    #[error("the file {} contains no HTTP token: delete it, and the next start creates a new one", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl HttpToken {
    /// Reads the token in a file; creates the file with a new token, owner-only, if it is missing.
    ///
    /// # Errors
    ///
    /// [`TokenError`].
    pub fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        match Self::load(path) {
            Err(TokenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        let fail = |source| TokenError::File { path: path.to_owned(), source };
        let token = Self::random().map_err(fail)?;
        match SecretFile::at(path).create(format!("{}\n", token.0).as_bytes()).map_err(fail)? {
            true => Ok(token),
            // Another server created the file first.
            false => Self::load(path),
        }
    }

    /// Reads the token in a file.
    ///
    /// # Errors
    ///
    /// [`TokenError`].
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let fail = |source| TokenError::File { path: path.to_owned(), source };
        let text = SecretFile::at(path).read().map_err(|error| match error {
            SecretFileError::Missing => fail(io::ErrorKind::NotFound.into()),
            SecretFileError::Exposed(_) => TokenError::Open { path: path.to_owned() },
            SecretFileError::Unreadable(error) if error.kind() == io::ErrorKind::InvalidData => {
                TokenError::Damaged { path: path.to_owned() }
            }
            SecretFileError::Unreadable(error) => fail(error),
        })?;
        let token = text.trim();
        let is_token = URL_SAFE_NO_PAD.decode(token).is_ok_and(|bytes| bytes.len() == TOKEN_BYTES);
        if is_token { Ok(Self(token.to_owned())) } else { Err(TokenError::Damaged { path: path.to_owned() }) }
    }

    fn random() -> io::Result<Self> {
        let mut random = [0; TOKEN_BYTES];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(URL_SAFE_NO_PAD.encode(random)))
    }

    /// Returns true if the token of a request equals this one.
    pub(crate) fn is(&self, borne: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(borne).into()
    }

    /// Returns the token for the head of a request. Do not print it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for HttpToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpToken(…)")
    }
}
