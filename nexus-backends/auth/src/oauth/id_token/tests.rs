//! Tokens that are good, and everything that one can be instead. The token by RS256 was made with the crypto of Node.js; its
//! private key is nowhere.

use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::*;

const MODULUS: &str = "rh_loObxY-BC69G7l_Fl_Eb7Nw5jJ4pPyIguQNY_NyS_3ELp_IgjFQjYX_YlZS22n_-CoS2PwetlvxXkTF1NJYCckNjeyuzBcz4M7Q4a\
    aiEw0p4fOSfqdQqCdr3K2-faPiAP90lioG9vHCk2t7pHYIwDcbWUK3cvuIZ4G0ltPoXY6BHJXf9P1-5iP8yjAVwV4pfU8L7JCG5OFxB-\
    waz8RwdA734rZekO_UhWzgSFkM9RiTXy7olgAIBdX7UKElIav30X_X8SnuctBNMLaL7KzzKggwqKvdPbVyOiaaRNWwYh2QzYRywK6RHU\
    GPX_2QUGB--WRiSKGVS2mYl-2E4OuQ";
const SIGNED_BY_RSA: &str = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6Im9uZSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci50ZXN0Iiwic3ViIjoidXN\
    lci0xIiwiYXVkIjpbImNsaWVudC0xIl0sImV4cCI6MjAwMDAwMzYwMCwiaWF0IjoyMDAwMDAwMDAwLCJub25jZSI6Im5vbmNlLTEifQ.\
    mf3VDQLoSWuP84A6_lAvk2mem1zPgvco4snUfylHZnquNFojqeMnY76oT8jMO6ExjdUiQjaIWpAarrXqGWQ2fEBprCFj_UenmToOriwu\
    RDRqY4M51jC4Ta0ApM7SZZAlro1Z3HNWzm4aTnl1ZD_lChjkVwH8ztc-Kqk1c1qyJS59ENaIFdbL9nBnBEZduuA0-Fdr2tnmp9tHx1_m\
    JMWp3tUQc9kgRKTBFKnoQNGN0isrXotK8ccqREZLrivpoqNcbT24r_2DCXnl_bluUd3O7UkKTDUmE8RNr17IMxZNH7xS72YhoYn0n7tl\
    siK74p0vpW79nj0s6jYuMs3jd21Xjg";
/// Within the life of every token here, in seconds since 1970.
const NOW: u64 = 2_000_000_000;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa_keys(kid: &str) -> KeySet {
    KeySet { keys: vec![json!({ "kty": "RSA", "kid": kid, "n": MODULUS, "e": "AQAB" })] }
}

/// A key of its own, and what it signs.
struct Signer(EcdsaKeyPair);

impl Signer {
    fn new() -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).unwrap())
    }

    fn keys(&self) -> KeySet {
        let (x, y) = self.0.public_key().as_ref()[1..].split_at(32);
        let key = json!({ "kty": "EC", "crv": "P-256", "kid": "one", "x": encoded(x), "y": encoded(y) });
        KeySet { keys: vec![json!({ "kty": "OKP" }), json!(null), key] }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encoded(signature))
    }
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer.test", "sub": "user-1", "aud": "client-1", "exp": NOW + 3_600, "nonce": "nonce-1",
    })
}

fn checked(keys: &KeySet, token: &str) -> Result<String, &'static str> {
    let claims = keys.verified(token)?;
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    claims.check("https://issuer.test", "client-1", &Secret::new("nonce-1"), now).map(|()| claims.sub)
}

#[test]
fn a_token_is_verified_by_the_key_that_has_signed_it() {
    assert_eq!(checked(&rsa_keys("one"), SIGNED_BY_RSA).as_deref(), Ok("user-1"));
    let signer = Signer::new();
    for header in [json!({ "alg": "ES256", "kid": "one" }), json!({ "alg": "ES256" })] {
        assert_eq!(checked(&signer.keys(), &signer.sign(&header, &claims())).as_deref(), Ok("user-1"));
    }
}

#[test]
fn what_no_key_has_signed_is_not_believed() {
    const UNSIGNED: Result<String, &str> = Err("is not signed with the issuer's keys");
    let (signer, other) = (Signer::new(), Signer::new());
    let header = json!({ "alg": "ES256", "kid": "one" });
    let good = signer.sign(&header, &claims());
    assert_eq!(checked(&other.keys(), &good), UNSIGNED);
    assert_eq!(checked(&rsa_keys("one"), &good), UNSIGNED);
    assert_eq!(checked(&rsa_keys("two"), SIGNED_BY_RSA), UNSIGNED);
    for algorithm in ["none", "HS256", "RS256", "es256"] {
        let token = signer.sign(&json!({ "alg": algorithm, "kid": "one" }), &claims());
        assert_eq!(checked(&signer.keys(), &token), UNSIGNED, "{algorithm}");
    }
    // Other claims under the signature of these.
    let (_, signature) = good.rsplit_once('.').unwrap();
    let mut forged = claims();
    forged["sub"] = json!("user-2");
    let forged = format!("{}.{}.{signature}", encoded(header.to_string()), encoded(forged.to_string()));
    assert_eq!(checked(&signer.keys(), &forged), UNSIGNED);
    let (signed, _) = good.rsplit_once('.').unwrap();
    assert_eq!(checked(&signer.keys(), &format!("{signed}.")), UNSIGNED);
    for token in ["", "..", "a.b", "a.b.c", "e30.e30.e30", signed] {
        assert!(checked(&signer.keys(), token).is_err(), "{token}");
    }
}

#[test]
fn a_token_of_another_issuer_client_time_or_sign_in_is_not_ours() {
    let signer = Signer::new();
    for (claim, value, wrong) in [
        ("iss", json!("https://elsewhere.test"), "was issued by another issuer than expected"),
        ("aud", json!("client-2"), "is for another client"),
        ("aud", json!(["client-1", "client-2"]), "is for another client"),
        ("azp", json!("client-2"), "is for another client"),
        ("exp", json!(NOW - 301), "has expired: check the clock of this machine, and log in again"),
        ("nonce", json!("nonce-2"), "answers another sign-in"),
        ("nonce", Value::Null, "answers another sign-in"),
        ("sub", json!(""), "does not name the account it belongs to"),
        ("sub", json!(7), "cannot be read"),
    ] {
        let mut claims = claims();
        claims[claim] = value;
        let token = signer.sign(&json!({ "alg": "ES256" }), &claims);
        assert_eq!(checked(&signer.keys(), &token), Err(wrong), "{claim}");
    }
    for (claim, value) in [
        ("aud", json!(["client-1"])),
        ("azp", json!("client-1")),
        ("exp", json!(NOW - 299)),
        ("exp", json!(u64::MAX)),
    ] {
        let mut claims = claims();
        claims[claim] = value;
        let token = signer.sign(&json!({ "alg": "ES256" }), &claims);
        assert_eq!(checked(&signer.keys(), &token).as_deref(), Ok("user-1"), "{claim}");
    }
}
