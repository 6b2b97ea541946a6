//! Kinds of socket, TLS and HTTP errors, in words that reveal nothing of a request.

use std::{error::Error, io};

use rustix::io::Errno;
use rustls::CertificateError;
use thiserror::Error;

/// Most bytes that are read at once, and most that the head of an answer may have. `hyper` begins with 8 KiB, and grows
/// where a stream comes faster than it is read. Source: our own choice, twice what Node.js allows a head by default:
/// gateways add long headers of their own.
pub(super) const MAX_READ_BYTES: usize = 32 << 10;
/// Most headers that an answer may have. Source: our own choice; `hyper` has 100.
pub(super) const MAX_HEADERS: usize = 500;

/// Kind of an HTTP failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HttpProblem {
    /// `reqwest` refused the configuration of the client.
    #[error("the HTTP client cannot be created")]
    Client,
    /// `rustls` refused the configuration.
    #[error("TLS cannot be set up")]
    Tls,
    /// DNS gave no address.
    #[error("the name of the server cannot be resolved")]
    Name,
    /// Connection refused.
    #[error("nothing listens at the server's address")]
    ConnectionRefused,
    /// This process may open no more files, or the system.
    #[error("the limit of open files is reached: raise it (`ulimit -n`), or run fewer turns at once")]
    NoDescriptor,
    /// No connection, for another reason than the ones that have a variant.
    #[error("the server cannot be reached")]
    Unreachable,
    /// The connect timeout passed.
    #[error("no connection was established in time")]
    ConnectTimeout,
    /// The proxy refused, or cannot be reached.
    #[error("no connection was established through the proxy")]
    Proxy,
    /// No trusted authority signed the certificate.
    #[error("the server's certificate was issued by an unknown authority")]
    UnknownAuthority,
    /// The certificate has expired.
    #[error("the server's certificate has expired, or the clock here is wrong")]
    Expired,
    /// The certificate is not yet valid.
    #[error("the server's certificate is not yet valid, or the clock here is wrong")]
    NotYetValid,
    /// The certificate names another host.
    #[error("the server's certificate is for another name")]
    WrongName,
    /// The certificate was refused for another reason.
    #[error("the server's certificate was refused")]
    Certificate,
    /// The received bytes are not a TLS record.
    #[error("the server at this address does not use TLS")]
    NotTls,
    /// The handshake failed for another reason.
    #[error("TLS failed")]
    Handshake,
    /// The connection closed before the head of a response.
    #[error("the connection was lost before an answer began")]
    LostBeforeAnswer,
    /// The head of the response is not HTTP/1.1.
    #[error("the answer is not valid HTTP")]
    UnreadableHead,
    /// The head of the response has more bytes or more headers than are read.
    #[error("the head of the answer is longer than {} KiB, or has more than {} headers", MAX_READ_BYTES >> 10, MAX_HEADERS)]
    TooLargeHead,
    /// The connection closed within the body.
    #[error("the connection was lost in the middle of the answer")]
    LostInAnswer,
    /// Chunked encoding or content length are violated.
    #[error("the framing of the answer is not valid HTTP")]
    UnreadableFraming,
    /// The body is not valid gzip.
    #[error("the answer cannot be decompressed")]
    Undecodable,
}

/// An HTTP failure and its cause.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct HttpError {
    /// Its kind.
    pub problem: HttpProblem,
    /// The cause. It names no URL.
    #[source]
    pub source: BoxError,
}

/// Error of another crate.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

impl HttpError {
    /// With its cause.
    pub fn new(problem: HttpProblem, source: impl Into<BoxError>) -> Self {
        Self { problem, source: source.into() }
    }

    pub(super) fn client(error: reqwest::Error) -> Self {
        Self::new(HttpProblem::Client, error.without_url())
    }

    pub(super) fn tls(error: rustls::Error) -> Self {
        Self::new(HttpProblem::Tls, error)
    }
}

impl HttpProblem {
    /// Converts a request by `reqwest` that failed before an answer began.
    pub fn before_answer(error: &reqwest::Error, is_proxied: bool) -> Self {
        match error.is_connect() {
            true if error.is_timeout() => Self::ConnectTimeout,
            true => Self::without_connection(error, is_proxied, error.is_dns()),
            false => Self::without_answer(error),
        }
    }

    /// Converts the failure to open a connection.
    pub(super) fn without_connection(
        error: &(dyn Error + 'static),
        is_proxied: bool,
        is_unresolved: bool,
    ) -> Self {
        if let Some(tls) = cause::<rustls::Error>(error) {
            return Self::of_tls(tls);
        }
        let io = cause::<io::Error>(error);
        if io.and_then(io::Error::raw_os_error).is_some_and(is_want_of_descriptors) {
            return Self::NoDescriptor;
        }
        match io.map(io::Error::kind) {
            Some(io::ErrorKind::TimedOut) => Self::ConnectTimeout,
            _ if is_proxied => Self::Proxy,
            _ if is_unresolved => Self::Name,
            Some(io::ErrorKind::ConnectionRefused) => Self::ConnectionRefused,
            _ => Self::Unreachable,
        }
    }

    /// Converts the failure of a connection without an answer.
    pub(super) fn without_answer(error: &(dyn Error + 'static)) -> Self {
        if let Some(tls) = cause::<rustls::Error>(error) {
            return Self::of_tls(tls);
        }
        match cause::<hyper::Error>(error) {
            Some(http) if http.is_parse_too_large() => Self::TooLargeHead,
            Some(http) if http.is_parse() => Self::UnreadableHead,
            _ => Self::LostBeforeAnswer,
        }
    }

    /// Converts the failure of a body.
    pub fn in_answer(error: &(dyn Error + 'static)) -> Self {
        match (cause::<hyper::Error>(error), cause::<io::Error>(error).map(io::Error::kind)) {
            (None, _) => Self::Undecodable,
            (Some(_), Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)) => {
                Self::UnreadableFraming
            }
            (Some(http), _) if http.is_parse() => Self::UnreadableFraming,
            _ => Self::LostInAnswer,
        }
    }

    /// Converts the failure of a handshake.
    pub fn of_tls(error: &rustls::Error) -> Self {
        use rustls::Error as Tls;
        match error {
            Tls::InvalidCertificate(certificate) => match certificate {
                // A bad signature: an authority of the same name is trusted, and it is another one.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownAuthority,
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Self::NotYetValid
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    Self::WrongName
                }
                _ => Self::Certificate,
            },
            Tls::InvalidMessage(_) => Self::NotTls,
            _ => Self::Handshake,
        }
    }
}

/// Returns true if the system's error means that no further file can be opened.
fn is_want_of_descriptors(code: i32) -> bool {
    [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error).contains(&code)
}

/// The innermost cause of type `E`. What an [`io::Error`] wraps is a cause as well.
pub(super) fn cause<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut found = None;
    let mut next = Some(error);
    while let Some(error) = next {
        found = error.downcast_ref().or(found);
        // `source` of an io::Error skips the wrapped error and returns that error's own source.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    found
}
