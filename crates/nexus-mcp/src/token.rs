//! The token that HTTP clients bear.

use std::{
    fmt, fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use subtle::ConstantTimeEq as _;
use thiserror::Error;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// Longest file that is read as a token, in bytes.
const MAX_FILE_BYTES: u64 = 1024;

/// The token that HTTP clients bear: it is compared in a time that tells nothing, and never printed.
#[derive(Clone)]
pub struct HttpToken(String);

/// Why a token cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read, made or written.
    #[error("the file of the HTTP token, {}, cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read the file.
    #[error("the file of the HTTP token, {}, can be read by others: delete it, and a new one is made", path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// The file holds no token.
    #[error("the file {} holds no HTTP token: delete it, and a new one is made", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl HttpToken {
    /// The token in a file; if there is none, a new one is made, which only its owner can read.
    ///
    /// # Errors
    ///
    /// As [`TokenError`] has them.
    pub fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        match Self::load(path) {
            Err(TokenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        match Self::create(path) {
            // Another server was first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::load(path),
            created => created.map_err(|source| TokenError::File { path: path.to_owned(), source }),
        }
    }

    /// The token in a file.
    ///
    /// # Errors
    ///
    /// As [`TokenError`] has them.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let fail = |source| TokenError::File { path: path.to_owned(), source };
        let file = fs::File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            if metadata.permissions().mode() & 0o077 != 0 {
                return Err(TokenError::Open { path: path.to_owned() });
            }
        }
        let damaged = || TokenError::Damaged { path: path.to_owned() };
        if !metadata.is_file() {
            return Err(damaged());
        }
        let mut text = String::new();
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(fail)?;
        let token = text.trim();
        let is_token = URL_SAFE_NO_PAD.decode(token).is_ok_and(|bytes| bytes.len() == TOKEN_BYTES);
        if is_token { Ok(Self(token.to_owned())) } else { Err(damaged()) }
    }

    /// Makes a token and its file at once: it is written beside, and linked, so that it is whole or not there.
    fn create(path: &Path) -> io::Result<Self> {
        let mut random = [0; TOKEN_BYTES];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let token = URL_SAFE_NO_PAD.encode(random);
        let beside = path.with_extension(format!("new-{}", uuid::Uuid::new_v4()));
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let written = options.open(&beside).and_then(|mut file| {
            file.write_all(format!("{token}\n").as_bytes())?;
            file.sync_all()?;
            fs::hard_link(&beside, path)
        });
        let _ = fs::remove_file(&beside);
        written.map(|()| Self(token))
    }

    /// Whether a request bears it.
    pub(crate) fn is(&self, borne: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(borne).into()
    }

    /// The token itself, for the head of a request. Not to be printed.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for HttpToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpToken(…)")
    }
}
