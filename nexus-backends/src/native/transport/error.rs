//! Errors of a connection: our own message with the relevant setting, before the causes.

use std::{error::Error, fmt};

use nexus_core::{ErrorKind, Retry, harness::Failure};
use thiserror::Error;

use crate::http::{HttpError, HttpProblem};

/// Error of another crate.
type BoxError = Box<dyn Error + Send + Sync>;

/// Missing or incomplete response.
#[derive(Debug, Error)]
#[error("{fault}")]
pub(crate) struct TransportError {
    fault: AnswerFault,
    source: Option<BoxError>,
}

/// Reason for a missing or unusable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerFault {
    /// The connection failed or was lost.
    Way(HttpProblem),
    /// The response has an encoding that was not requested and is not known.
    UnknownEncoding,
    /// The response has more than this number of bytes.
    TooLarge(usize),
}

impl fmt::Display for AnswerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Way(problem) => match remedy(*problem) {
                Some(remedy) => write!(f, "{problem}: {remedy}"),
                None => write!(f, "{problem}"),
            },
            Self::UnknownEncoding => {
                f.write_str("the answer has an encoding that was not requested and is not supported")
            }
            Self::TooLarge(limit) => write!(f, "the answer is larger than {limit} bytes"),
        }
    }
}

/// Returns the setting that fixes the problem.
fn remedy(problem: HttpProblem) -> Option<&'static str> {
    Some(match problem {
        HttpProblem::Tls => "the platform has no certificate authorities: name a file in `network.ca_file`",
        HttpProblem::ConnectTimeout => "`connect_timeout_seconds` sets the time limit for it",
        HttpProblem::Proxy => "`network` sets the proxy that is used",
        HttpProblem::UnknownAuthority => "name it in `network.ca_file`",
        HttpProblem::WrongName => "`base_url` names a server with another name",
        HttpProblem::Certificate => "`network.ca_file` can name further certificate authorities",
        HttpProblem::NotTls => "check the port and `https` in `base_url`",
        HttpProblem::UnreadableHead | HttpProblem::ConnectionRefused => "check `base_url`",
        HttpProblem::Name => "check the network and `base_url`",
        _ => return None,
    })
}

impl AnswerFault {
    /// Returns the kind of the failure, and if the same request may be retried.
    fn outcome(self) -> (ErrorKind, Retry) {
        match self {
            Self::TooLarge(_) | Self::UnknownEncoding => (ErrorKind::Protocol, Retry::Never),
            // Another attempt would meet the same settings, certificates and clock.
            Self::Way(
                HttpProblem::Client
                | HttpProblem::Tls
                | HttpProblem::UnknownAuthority
                | HttpProblem::Expired
                | HttpProblem::NotYetValid
                | HttpProblem::WrongName
                | HttpProblem::Certificate
                | HttpProblem::NotTls,
            ) => (ErrorKind::Transport, Retry::Never),
            Self::Way(_) => (ErrorKind::Transport, Retry::Now),
        }
    }
}

impl TransportError {
    /// Creates the error for a response of more than `limit` bytes.
    pub(super) fn too_large(limit: usize) -> Self {
        Self { fault: AnswerFault::TooLarge(limit), source: None }
    }

    /// Creates the error for a response with an unknown encoding.
    pub(super) fn unknown_encoding() -> Self {
        Self { fault: AnswerFault::UnknownEncoding, source: None }
    }
}

impl From<HttpError> for TransportError {
    fn from(error: HttpError) -> Self {
        Self { fault: AnswerFault::Way(error.problem), source: Some(error.source) }
    }
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        let (kind, retry) = error.fault.outcome();
        let failure = Self::new(kind, error.to_string()).with_retry(retry);
        match error.source {
            Some(source) => failure.with_source(source),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustls::CertificateError;

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
            let error = HttpError::new(HttpProblem::of_tls(&error), error);
            let failure = Failure::from(TransportError::from(error));
            assert_eq!((failure.kind, failure.retry), (ErrorKind::Transport, Retry::Never));
            assert!(failure.message.as_deref().unwrap().contains(words), "{failure:?}");
            assert!(failure.source.is_some());
        }
    }
}
