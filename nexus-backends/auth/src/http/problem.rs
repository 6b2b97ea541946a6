//! Kinds of socket, TLS and HTTP errors. Their messages reveal nothing about the request.

use std::{error::Error, io};

use rustix::io::Errno;
use rustls::CertificateError;
use thiserror::Error;

/// Maximum number of bytes read at once, and maximum size of a response's head. `hyper` starts with a buffer of 8 KiB
/// and enlarges it if a stream arrives faster than it is read. Source: our own choice, twice the default limit of
/// Node.js, because gateways add long headers.
pub(super) const MAX_READ_BYTES: usize = 32 << 10;
/// Maximum number of headers in a response. Source: our own choice; the default of `hyper` is 100.
pub(super) const MAX_HEADERS: usize = 500;

/// Kind of an HTTP failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HttpProblem {
    /// `reqwest` rejected the client's configuration.
    #[error("the HTTP client cannot be created")]
    Client,
    /// `rustls` rejected the configuration.
    #[error("TLS cannot be set up")]
    Tls,
    /// DNS returned no address.
    #[error("the name of the server cannot be resolved")]
    Name,
    /// Connection refused.
    #[error("nothing listens at the server's address")]
    ConnectionRefused,
    /// This process or the whole system has reached its limit of open files.
    #[error("the limit of open files is reached: raise it (`ulimit -n`), or run fewer turns at once")]
    NoDescriptor,
    /// No connection, for a reason without a variant of its own.
    #[error("the server cannot be reached")]
    Unreachable,
    /// The connect timeout passed.
    #[error("no connection was established in time")]
    ConnectTimeout,
    /// The proxy refused the connection, or cannot be reached.
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
    /// The certificate was rejected for another reason.
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
    /// The head of the response exceeds `MAX_READ_BYTES` or `MAX_HEADERS`.
    #[error("the head of the answer is longer than {} KiB, or has more than {} headers", MAX_READ_BYTES >> 10, MAX_HEADERS)]
    TooLargeHead,
    /// The connection closed within the body.
    #[error("the connection was lost in the middle of the answer")]
    LostInAnswer,
    /// The chunked encoding or the content length is invalid.
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
    /// Kind of the failure.
    pub problem: HttpProblem,
    /// Cause of the failure. Its text contains no URL.
    #[source]
    pub source: BoxError,
}

/// Error of another crate.
pub(super) type BoxError = Box<dyn Error + Send + Sync>;

impl HttpError {
    /// Creates an error from its kind and its cause.
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
    /// Classifies a `reqwest` error that occurred before a response began.
    pub fn before_answer(error: &reqwest::Error, is_proxied: bool) -> Self {
        match error.is_connect() {
            true if error.is_timeout() => Self::ConnectTimeout,
            true => Self::without_connection(error, is_proxied, error.is_dns()),
            false => Self::without_answer(error),
        }
    }

    /// Classifies a failure to open a connection.
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
            // With a proxy, the failed connection is that to the proxy or through it.
            _ if is_proxied => Self::Proxy,
            _ if is_unresolved => Self::Name,
            Some(io::ErrorKind::ConnectionRefused) => Self::ConnectionRefused,
            _ => Self::Unreachable,
        }
    }

    /// Classifies a failure of an open connection before a response began.
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

    /// Classifies a failure within a response body.
    pub fn in_answer(error: &(dyn Error + 'static)) -> Self {
        match (cause::<hyper::Error>(error), cause::<io::Error>(error).map(io::Error::kind)) {
            // `hyper` reads the body, so an error without a cause of it comes from the decoder.
            (None, _) => Self::Undecodable,
            (Some(_), Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)) => {
                Self::UnreadableFraming
            }
            (Some(http), _) if http.is_parse() => Self::UnreadableFraming,
            _ => Self::LostInAnswer,
        }
    }

    /// Classifies a failed TLS handshake.
    pub fn of_tls(error: &rustls::Error) -> Self {
        use rustls::Error as Tls;
        match error {
            Tls::InvalidCertificate(certificate) => match certificate {
                // A bad signature: the trusted authority has the same name as the issuer, but another key.
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

/// Returns true if the error code means that the limit of open files is reached.
fn is_want_of_descriptors(code: i32) -> bool {
    [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error).contains(&code)
}

/// Returns the innermost cause of type `E`. An error wrapped in an [`io::Error`] also counts as a cause.
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
