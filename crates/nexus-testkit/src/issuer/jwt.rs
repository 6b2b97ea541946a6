//! Tokens as JWTs, signed with a key that lives as long as the issuer.

use std::fmt;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Map, Value, json};

use super::state::base64url;

/// The name of the only key.
const KEY_ID: &str = "simulated-key";

/// Signs tokens. `Debug` shows nothing.
pub(super) struct Signer(EcdsaKeyPair);

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Signer")
    }
}

impl Default for Signer {
    fn default() -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random)
            .and_then(|made| Ok(EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random)?));
        Self(made.unwrap_or_else(|_| unreachable!("the system's random numbers make a key")))
    }
}

impl Signer {
    /// The public key, as RFC 7517 has it.
    pub(super) fn keys(&self) -> Value {
        let point = self.0.public_key().as_ref();
        // The first byte of the point only says that it is not compressed.
        let part = |range: std::ops::Range<usize>| base64url(point.get(range).unwrap_or_default());
        json!({ "keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": KEY_ID, "x": part(1..33), "y": part(33..65),
        }] })
    }

    /// Writes `claims` as a token.
    pub(super) fn write(&self, claims: &Map<String, Value>) -> String {
        let signed = unsigned(&json!({ "alg": "ES256", "typ": "JWT", "kid": KEY_ID }), claims);
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes());
        format!("{signed}.{}", signature.map(base64url).unwrap_or_default())
    }
}

/// Writes `claims` as a token with `alg: none`, which ends with the second dot.
pub(super) fn without_signature(claims: &Map<String, Value>) -> String {
    unsigned(&json!({ "alg": "none", "typ": "JWT" }), claims) + "."
}

fn unsigned(header: &Value, claims: &Map<String, Value>) -> String {
    let claims = Value::Object(claims.clone());
    format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()))
}
