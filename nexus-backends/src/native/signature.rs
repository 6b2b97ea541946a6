//! Signature of requests (AWS Signature Version 4): its scope, and the key.

use bytes::Bytes;
use http::Request;
use nexus_core::{ErrorKind, SettingsError, harness::Failure};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::auth::Credential;
use crate::http::{HttpError, HttpProblem};

/// Longest name of a service or a region, in bytes. Source: our own bound.
const MAX_NAME_BYTES: usize = 63;

/// Service and region that a signature is valid for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignatureScope {
    /// Name of the service in signatures, such as bedrock.
    pub(crate) service: String,
    /// Region of the server, such as us-east-1.
    pub(crate) region: String,
}

impl SignatureScope {
    /// Rejects a name that no service or region has. `key` is the key of the setting.
    pub(crate) fn check(&self, key: &str) -> Result<(), SettingsError> {
        for (member, name, example) in
            [("service", &self.service, "bedrock"), ("region", &self.region, "us-east-1")]
        {
            if !is_scope_name(name) {
                let reason = format!(
                    "must consist of at most 63 lower-case letters, digits and `-`, such as {example}"
                );
                return Err(SettingsError { path: vec![key.to_owned(), member.to_owned()], reason });
            }
        }
        Ok(())
    }
}

/// Key and scope with which requests are signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSigner<'a> {
    pub(crate) scope: &'a SignatureScope,
    pub(crate) credential: &'a Credential,
}

impl RequestSigner<'_> {
    /// Adds the signature to a request that is complete.
    #[cfg(feature = "aws")]
    pub(crate) fn sign(&self, request: &mut Request<Bytes>) -> Result<(), HttpError> {
        let scope =
            crate::auth::aws::SigningScope { service: &self.scope.service, region: &self.scope.region };
        crate::auth::aws::sign(request, self.credential, scope, std::time::SystemTime::now())
            .map_err(|error| HttpError::new(HttpProblem::Client, error))
    }

    /// Fails, because this build has no signatures.
    #[cfg(not(feature = "aws"))]
    pub(crate) fn sign(&self, _request: &mut Request<Bytes>) -> Result<(), HttpError> {
        let (service, _) = (&self.scope.service, self.credential);
        let words =
            format!("this build of Nexus lacks the feature `aws`, which signs requests for {service}");
        Err(HttpError::new(HttpProblem::Client, std::io::Error::other(words)))
    }
}

/// Returns the signer of requests with `credential`, if it signs them.
pub(crate) fn signer<'a>(
    scope: Option<&'a SignatureScope>,
    credential: &'a Credential,
) -> Option<RequestSigner<'a>> {
    let scope = scope.filter(|_| credential.signing.is_some())?;
    Some(RequestSigner { scope, credential })
}

/// Rejects keys that sign requests where no signature is configured, so that no request goes out without one.
pub(crate) fn check_scope(scope: Option<&SignatureScope>, credential: &Credential) -> Result<(), Failure> {
    if credential.signing.is_none() || scope.is_some() {
        return Ok(());
    }
    let reason = "the credential is an AWS key, which signs requests: set `sigv4: { service: bedrock, region: REGION }` \
         for this backend in nexus.yaml, or use a provider that signs requests";
    Err(Failure::new(ErrorKind::Unauthenticated, reason))
}

/// Returns true if a service or a region may have this name.
pub(crate) fn is_scope_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.chars().all(fits)
}
