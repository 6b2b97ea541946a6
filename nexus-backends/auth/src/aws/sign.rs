//! Signature of a request: Signature Version 4 of Amazon Web Services.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings},
    sign::v4,
};
use bytes::Bytes;
use http::{Request, header::CONTENT_TYPE};
use nexus_core::Credential;

/// Prefix of the headers of the vendor, which a signature covers.
const OWN_HEADERS: &str = "x-amz";

/// Service and region that a signature is valid for.
#[derive(Clone, Copy, Debug)]
pub struct SigningScope<'a> {
    /// Name of the service in signatures, such as `bedrock`.
    pub service: &'a str,
    /// Region of the server, such as `us-east-1`.
    pub region: &'a str,
}

/// Error of a request that cannot be signed.
#[derive(Debug, thiserror::Error)]
#[error("the request cannot be signed: {reason}")]
pub struct SignError {
    reason: String,
}

impl SignError {
    // No source: the vendor's error may show the request.
    fn new(reason: &str) -> Self {
        Self { reason: reason.to_owned() }
    }
}

/// Adds the signature with `credential` to a complete request, as of `now`. The signature covers the address, the host, the type
/// of the body, the vendor's headers and the body. A proxy may change other headers.
///
/// # Errors
///
/// [`SignError`] if the credential is not a key that signs, or the request is invalid.
pub fn sign(
    request: &mut Request<Bytes>,
    credential: &Credential,
    scope: SigningScope<'_>,
    now: SystemTime,
) -> Result<(), SignError> {
    let key =
        credential.signing.as_ref().ok_or_else(|| SignError::new("the credential is not a signing key"))?;
    let session = key.session.as_ref().map(|session| session.expose().to_owned());
    let identity =
        Credentials::new(key.id.as_str(), credential.token.expose(), session, credential.expires_at, "nexus")
            .into();
    let settings = SigningSettings::default();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(scope.region)
        .name(scope.service)
        .time(now)
        .settings(settings)
        .build()
        .map_err(|_| SignError::new("a part of the signature's scope is missing"))?;
    let address = request.uri().to_string();
    let headers = request.headers().iter().filter_map(|(name, value)| {
        let is_signed = *name == CONTENT_TYPE || name.as_str().starts_with(OWN_HEADERS);
        Some((name.as_str(), value.to_str().ok()?)).filter(|_| is_signed)
    });
    let body = SignableBody::Bytes(request.body());
    let signable = SignableRequest::new(request.method().as_str(), address, headers, body)
        .map_err(|_| SignError::new("its address or a header is invalid"))?;
    let signed = aws_sigv4::http_request::sign(signable, &parameters.into())
        .map_err(|_| SignError::new("its address or a header is invalid"))?;
    let (instructions, _) = signed.into_parts();
    instructions.apply_to_request_http1x(request);
    for name in ["authorization", "x-amz-security-token"] {
        if let Some(value) = request.headers_mut().get_mut(name) {
            // `Debug` of the headers then hides these values.
            value.set_sensitive(true);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nexus_core::{Secret, SigningKey};

    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    fn key(session: Option<&str>) -> Credential {
        let public = SigningKey::new("AKIDEXAMPLE", session.map(Secret::new));
        Credential::new(Secret::new(SECRET)).with_signing(public)
    }

    /// 2015-08-30T12:36:00Z, the time of the published examples.
    fn then() -> SystemTime {
        nexus_files::rfc3339::parse("2015-08-30T12:36:00Z").unwrap()
    }

    fn signature(request: &Request<Bytes>) -> &str {
        request.headers()["authorization"].to_str().unwrap()
    }

    #[test]
    fn the_signature_is_that_of_the_published_example() {
        // Source: "Signature Version 4 test suite" of Amazon Web Services, `post-x-www-form-urlencoded` and `get-vanilla`.
        let scope = SigningScope { service: "service", region: "us-east-1" };
        let mut request = Request::post("https://example.amazonaws.com/")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Bytes::from_static(b"Param1=value1"))
            .unwrap();
        sign(&mut request, &key(None), scope, then()).unwrap();
        assert_eq!(
            signature(&request),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
        );
        assert_eq!(request.headers()["x-amz-date"], "20150830T123600Z");
        let mut request = Request::get("https://example.amazonaws.com/").body(Bytes::new()).unwrap();
        sign(&mut request, &key(None), scope, then()).unwrap();
        assert!(
            signature(&request)
                .ends_with("Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31")
        );
    }

    #[test]
    fn the_secret_is_in_no_header_and_nothing_prints_the_session() {
        let scope = SigningScope { service: "bedrock", region: "eu-west-1" };
        let url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/a%3A0/invoke?x=1";
        let mut request =
            Request::post(url).header("user-agent", "nexus").body(Bytes::from_static(b"{}")).unwrap();
        sign(&mut request, &key(Some("canary")), scope, then()).unwrap();
        assert_eq!(request.headers()["x-amz-security-token"], "canary");
        assert!(signature(&request).contains("SignedHeaders=host;x-amz-date;x-amz-security-token,"));
        let shown = format!("{request:?}");
        assert!(!shown.contains("canary") && !shown.contains(SECRET), "{shown}");
        let values = request.headers().values();
        assert!(values.filter_map(|value| value.to_str().ok()).all(|value| !value.contains(SECRET)));
        let token = Credential::new(Secret::new("canary"));
        let error = sign(&mut request, &token, scope, then()).unwrap_err();
        assert!(!error.to_string().contains("canary"));
    }
}
