//! What went wrong on the way: in words of ours, with the setting that mends it, before the causes.

use std::{error::Error, io};

use nexus_core::{ErrorKind, Retry};
use rustls::CertificateError;
use thiserror::Error;

use crate::turn::Failure;

type Cause = Box<dyn Error + Send + Sync>;

/// No answer, or not all of it.
#[derive(Debug, Error)]
#[error("{problem}")]
pub(crate) struct TransportError {
    problem: Problem,
    source: Option<Cause>,
}

/// What the errors of sockets, TLS and HTTP come down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum Problem {
    #[error("the HTTP client cannot be made")]
    Client,
    #[error(
        "TLS cannot be set up: without authorities of the platform, name a file of them in `network.ca_file`"
    )]
    Tls,
    #[error("the name of the server cannot be resolved")]
    Name,
    #[error("nothing listens at the server's address")]
    ConnectionRefused,
    #[error("the server cannot be reached")]
    Unreachable,
    #[error("no connection was made in time: `connect_timeout_seconds` says how long that may take")]
    ConnectTimeout,
    #[error("no connection was made through the proxy: `network` says which one is used")]
    Proxy,
    #[error("the server's certificate is of an unknown authority: name it in `network.ca_file`")]
    UnknownAuthority,
    #[error("the server's certificate has expired, or the clock here is wrong")]
    Expired,
    #[error("the server's certificate is not yet valid, or the clock here is wrong")]
    NotYetValid,
    #[error("the server's certificate is for another name than the one in `base_url`")]
    WrongName,
    #[error("the server's certificate was refused: `network.ca_file` may name further authorities")]
    Certificate,
    #[error("what answers does not speak TLS: check the port and `https` in `base_url`")]
    NotTls,
    #[error("TLS failed")]
    Handshake,
    #[error("the connection was lost before an answer began")]
    LostBeforeAnswer,
    #[error("what answered is not HTTP that can be read: check `base_url`")]
    UnreadableHead,
    #[error("the connection was lost in the middle of the answer")]
    LostInAnswer,
    #[error("the answer is not framed as HTTP wants it")]
    UnreadableFraming,
    #[error("the answer is compressed in a way that cannot be undone")]
    Undecodable,
    #[error("the answer is encoded in a way that was not asked for and is not known here")]
    UnknownEncoding,
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}

impl Problem {
    /// As a kind, and when the same request may be tried again.
    fn outcome(self) -> (ErrorKind, Retry) {
        match self {
            Self::TooLarge(_) | Self::UnknownEncoding => (ErrorKind::Protocol, Retry::Never),
            Self::Client
            | Self::Tls
            | Self::UnknownAuthority
            | Self::Expired
            | Self::NotYetValid
            | Self::WrongName
            | Self::Certificate
            | Self::NotTls => (ErrorKind::Transport, Retry::Never),
            _ => (ErrorKind::Transport, Retry::Now),
        }
    }
}

impl TransportError {
    /// The client could not be made.
    pub(super) fn client(error: reqwest::Error) -> Self {
        Self::new(Problem::Client, Some(error.without_url().into()))
    }

    /// TLS could not be set up.
    pub(super) fn tls(error: rustls::Error) -> Self {
        Self::new(Problem::Tls, Some(error.into()))
    }

    /// A request failed before an answer began.
    pub(super) fn sending(error: reqwest::Error, is_proxied: bool) -> Self {
        // Its text would name the whole URL.
        let error = error.without_url();
        let problem = before_answer(&error, is_proxied);
        Self::new(problem, Some(error.into()))
    }

    /// A body failed.
    pub(super) fn reading(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let problem = in_answer(&error);
        Self::new(problem, Some(error.into()))
    }

    /// The answer has more than `limit` bytes.
    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(Problem::TooLarge(limit), None)
    }

    /// The answer has an encoding that is not known.
    pub(super) fn unknown_encoding() -> Self {
        Self::new(Problem::UnknownEncoding, None)
    }

    fn new(problem: Problem, source: Option<Cause>) -> Self {
        Self { problem, source }
    }
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        let (kind, retry) = error.problem.outcome();
        let failure = Self::new(kind, error.to_string()).with_retry(retry);
        match error.source {
            Some(source) => failure.with_source(source),
            None => failure,
        }
    }
}

fn before_answer(error: &reqwest::Error, is_proxied: bool) -> Problem {
    if let Some(tls) = cause::<rustls::Error>(error) {
        return of_tls(tls);
    }
    if error.is_connect() {
        let io = cause::<io::Error>(error).map(io::Error::kind);
        return match io {
            _ if error.is_timeout() => Problem::ConnectTimeout,
            Some(io::ErrorKind::TimedOut) => Problem::ConnectTimeout,
            _ if is_proxied => Problem::Proxy,
            _ if error.is_dns() => Problem::Name,
            Some(io::ErrorKind::ConnectionRefused) => Problem::ConnectionRefused,
            _ => Problem::Unreachable,
        };
    }
    match cause::<hyper::Error>(error) {
        Some(http) if http.is_parse() => Problem::UnreadableHead,
        _ => Problem::LostBeforeAnswer,
    }
}

fn in_answer(error: &reqwest::Error) -> Problem {
    match (cause::<hyper::Error>(error), cause::<io::Error>(error).map(io::Error::kind)) {
        (None, _) => Problem::Undecodable,
        (Some(_), Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)) => {
            Problem::UnreadableFraming
        }
        (Some(http), _) if http.is_parse() => Problem::UnreadableFraming,
        _ => Problem::LostInAnswer,
    }
}

fn of_tls(error: &rustls::Error) -> Problem {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(certificate) => match certificate {
            // A bad signature: an authority of the same name is trusted, and it is another one.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Problem::UnknownAuthority,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Problem::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Problem::NotYetValid
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Problem::WrongName
            }
            _ => Problem::Certificate,
        },
        Tls::InvalidMessage(_) => Problem::NotTls,
        _ => Problem::Handshake,
    }
}

/// The innermost cause of type `E`. What an [`io::Error`] wraps is a cause as well.
fn cause<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut found = None;
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        found = error.downcast_ref().or(found);
        // `source` of an io::Error leaves out the error that it wraps, and goes on with that one's source.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tls_refuses_is_final_and_names_what_mends_it() {
        let certificate = |error| rustls::Error::InvalidCertificate(error);
        for (error, words) in [
            (certificate(CertificateError::UnknownIssuer), "network.ca_file"),
            (certificate(CertificateError::BadSignature), "network.ca_file"),
            (certificate(CertificateError::Revoked), "network.ca_file"),
            (certificate(CertificateError::Expired), "expired"),
            (certificate(CertificateError::NotValidYet), "not yet valid"),
            (certificate(CertificateError::NotValidForName), "another name"),
        ] {
            let failure = Failure::from(TransportError::new(of_tls(&error), Some(error.into())));
            assert_eq!((failure.kind, failure.retry), (ErrorKind::Transport, Retry::Never));
            assert!(failure.message.as_deref().unwrap().contains(words), "{failure:?}");
            assert!(failure.source.is_some());
        }
    }
}
