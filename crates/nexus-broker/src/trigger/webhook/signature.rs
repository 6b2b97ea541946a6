//! The signature of a request. Source: the Standard Webhooks specification, 1.0.0.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac;

/// Prefix of a secret.
pub(super) const SECRET_PREFIX: &str = "whsec_";
/// Prefix of a signature by HMAC-SHA256.
const SIGNATURE_PREFIX: &str = "v1,";
/// Range of the size of a key, in bytes.
pub(super) const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Maximum number of signatures of one request that are checked. A sender signs with old and new keys while it changes them.
const MAX_SIGNATURES: usize = 8;

/// The key of a webhook's secret. It is never printed.
#[derive(Clone)]
pub struct WebhookKey(hmac::Key);

impl WebhookKey {
    /// Reads the key of a secret: `whsec_` and the base64 of 24 to 64 bytes. None for any other text.
    #[must_use]
    pub fn read(secret: &str) -> Option<Self> {
        let key = STANDARD.decode(secret.strip_prefix(SECRET_PREFIX)?).ok()?;
        KEY_BYTES.contains(&key.len()).then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    /// Returns the value of `webhook-signature` that a sender computes for a request.
    #[must_use]
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let tag = hmac::sign(&self.0, &signed(id, timestamp, body));
        format!("{SIGNATURE_PREFIX}{}", STANDARD.encode(tag.as_ref()))
    }

    /// Returns true if one of the signatures is right. Each is compared in constant time, so that the time
    /// reveals nothing.
    pub(super) fn verifies(&self, signatures: &str, id: &str, timestamp: i64, body: &[u8]) -> bool {
        let signed = signed(id, timestamp, body);
        let stated = signatures.split(' ').filter_map(|one| one.strip_prefix(SIGNATURE_PREFIX));
        let mut tags = stated.take(MAX_SIGNATURES).filter_map(|tag| STANDARD.decode(tag).ok());
        tags.any(|tag| hmac::verify(&self.0, &signed, &tag).is_ok())
    }
}

impl fmt::Debug for WebhookKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookKey(…)")
    }
}

/// Returns the bytes that are signed.
fn signed(id: &str, timestamp: i64, body: &[u8]) -> Vec<u8> {
    [format!("{id}.{timestamp}.").as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Source: the examples of the specification's reference libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn the_example_of_the_specification_is_signed_as_it_says() {
        let key = WebhookKey::read(SECRET).unwrap();
        assert_eq!(key.sign(ID, 1_614_265_330, BODY), SIGNATURE);
        assert!(key.verifies(SIGNATURE, ID, 1_614_265_330, BODY));
        let rotated = format!("v1a,xyz v1,AAAA {SIGNATURE}");
        assert!(key.verifies(&rotated, ID, 1_614_265_330, BODY));
        assert!(!format!("{key:?}").contains("MfKQ"));
    }

    #[test]
    fn whatever_differs_is_not_signed() {
        let key = WebhookKey::read(SECRET).unwrap();
        let other = WebhookKey::read("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap();
        assert!(!other.verifies(SIGNATURE, ID, 1_614_265_330, BODY));
        assert!(!key.verifies(SIGNATURE, "msg_other", 1_614_265_330, BODY));
        assert!(!key.verifies(SIGNATURE, ID, 1_614_265_331, BODY));
        assert!(!key.verifies(SIGNATURE, ID, 1_614_265_330, b"{}"));
        let tag = SIGNATURE.strip_prefix("v1,").unwrap();
        for wrong in ["", "v1,", tag, &SIGNATURE[..20], "v1,====", &"v1,AAAA ".repeat(1000)] {
            assert!(!key.verifies(wrong, ID, 1_614_265_330, BODY), "{wrong}");
        }
        let too_late = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(MAX_SIGNATURES));
        assert!(!key.verifies(&too_late, ID, 1_614_265_330, BODY));
    }

    #[test]
    fn what_is_no_secret_is_no_key() {
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        for text in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_???", &short, &long] {
            assert!(WebhookKey::read(text).is_none(), "{text}");
        }
    }
}
