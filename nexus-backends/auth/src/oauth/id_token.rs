//! Verification of an ID token: OpenID Connect Core 1.0 section 3.1.3.7, for tokens signed with RS256 or ES256.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use nexus_core::Secret;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;

use super::{discovery::Discovered, issuer::Issuer, issuer_client::IssuerClient};
use crate::RefreshError;

/// Largest difference between the issuer's clock and ours. Source: our own choice.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);

/// Verifies the ID token that the issuer returned for a code, and returns its subject (`sub`). Fetches the keys each
/// time, because a person signs in rarely.
pub(super) async fn verify(
    issuer_client: &IssuerClient,
    issuer: &Issuer,
    token: Option<&Secret>,
    nonce: &Secret,
    now: SystemTime,
) -> Result<String, RefreshError> {
    let unbelievable = |what: &str| RefreshError::Malformed { reason: format!("its ID token {what}") };
    let token = token.ok_or_else(|| unbelievable("is missing"))?;
    let described = Discovered::fetch(issuer_client, issuer).await?;
    let keys: KeySet = described.keys(issuer_client, issuer).await?;
    let claims = keys.verified(token.expose()).map_err(unbelievable)?;
    claims.check(&described.issuer, &issuer.client_id, nonce, now).map_err(unbelievable)?;
    Ok(claims.sub)
}

/// Key set of RFC 7517. A key that cannot be read is skipped, because an issuer may publish keys of other kinds.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<serde_json::Value>,
}

/// Public key. Its parts are encoded in base64url.
#[derive(Deserialize)]
#[serde(tag = "kty")]
enum SigningKey {
    #[serde(rename = "RSA")]
    Rsa { n: String, e: String },
    #[serde(rename = "EC")]
    Elliptic { crv: String, x: String, y: String },
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
}

#[derive(Deserialize)]
struct IdTokenClaims {
    iss: String,
    sub: String,
    aud: Audience,
    azp: Option<String>,
    exp: u64,
    nonce: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl KeySet {
    /// Returns the claims of a token signed by one of the keys. The error is the fault of the token.
    fn verified(&self, token: &str) -> Result<IdTokenClaims, &'static str> {
        const NO_JWT: &str = "cannot be read";
        let (signed, signature) = token.rsplit_once('.').ok_or(NO_JWT)?;
        let (header, claims) = signed.split_once('.').ok_or(NO_JWT)?;
        let header: Header = decoded(header).and_then(|it| serde_json::from_slice(&it).ok()).ok_or(NO_JWT)?;
        let signature = decoded(signature).ok_or(NO_JWT)?;
        // `kid` is optional (RFC 7515, 4.1.4). Without it each key is tried.
        let mut fitting = self.keys.iter().filter(|key| {
            header.kid.is_none()
                || key.get("kid").and_then(serde_json::Value::as_str) == header.kid.as_deref()
        });
        let is_signed = fitting.any(|key| {
            let key = serde_json::from_value::<SigningKey>(key.clone());
            key.is_ok_and(|key| key.has_signed(&header.alg, signed.as_bytes(), &signature))
        });
        match is_signed {
            true => decoded(claims).and_then(|it| serde_json::from_slice(&it).ok()).ok_or(NO_JWT),
            false => Err("is not signed with the issuer's keys"),
        }
    }
}

impl SigningKey {
    /// Returns true if this key created the signature with the algorithm. The type of the key, not the token, decides
    /// which algorithm is allowed.
    fn has_signed(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Rsa { n, e } if algorithm == "RS256" => decoded(n).zip(decoded(e)).map(|(n, e)| {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }),
            Self::Elliptic { crv, x, y } if algorithm == "ES256" && crv == "P-256" => {
                decoded(x).zip(decoded(y)).map(|(x, y)| {
                    // Uncompressed point. Source: SEC 1 section 2.3.3.
                    let point = [&[4][..], &x, &y].concat();
                    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
                })
            }
            _ => None,
        };
        matches!(verified, Some(Ok(())))
    }
}

impl IdTokenClaims {
    fn check(
        &self,
        issuer: &str,
        client_id: &str,
        nonce: &Secret,
        now: SystemTime,
    ) -> Result<(), &'static str> {
        let (is_for_us, is_for_us_alone) = match &self.aud {
            Audience::One(one) => (one == client_id, true),
            Audience::Several(all) => (all.iter().any(|one| one == client_id), all.len() == 1),
        };
        // With several audiences, `azp` names the client that the token was issued to (OpenID Connect Core, 2).
        let is_authorized = match &self.azp {
            Some(azp) => azp == client_id,
            None => is_for_us_alone,
        };
        let end = UNIX_EPOCH.checked_add(Duration::from_secs(self.exp).saturating_add(CLOCK_TOLERANCE));
        match () {
            () if self.iss != issuer => Err("was issued by another issuer than expected"),
            () if !is_for_us || !is_authorized => Err("is for another client"),
            () if end.is_some_and(|end| end <= now) => {
                Err("has expired: check the clock of this machine, and log in again")
            }
            () if self.nonce.as_deref() != Some(nonce.expose()) => Err("answers another sign-in"),
            () if self.sub.is_empty() => Err("does not name the account it belongs to"),
            () => Ok(()),
        }
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests;
