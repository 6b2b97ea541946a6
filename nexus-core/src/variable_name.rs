//! Distinguishes names of environment variables from keys that were written in their place.

use crate::redact::Redactor;

/// Longest name of a variable, in bytes. Source: our own bound; no platform uses longer names.
const MAX_NAME_BYTES: usize = 128;

/// Prefixes of services' keys, each with the minimum number of letters, digits, `-`, `_` and `.` after it. Source: the services'
/// documentation.
const KEY_BEGINNINGS: [(&str, usize); 21] = [
    ("AIza", 20),
    ("ASIA", 16),
    ("SG.", 16),
    ("dop_v1_", 16),
    ("glpat-", 8),
    ("gsk_", 16),
    ("hf_", 16),
    ("lin_api_", 16),
    ("npm_", 24),
    ("pk_live_", 8),
    ("pypi-", 16),
    ("r8_", 16),
    ("rk_live_", 8),
    ("shpat_", 16),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("whsec_", 8),
    ("xapp-", 8),
    ("xoxb-", 8),
    ("xoxp-", 8),
    ("ya29.", 8),
];

/// Shortest text that may be a key because of its mix of characters, in bytes.
const RANDOM_BYTES: usize = 24;

/// Shortest text of only hexadecimal digits, or of only capitals and digits, that may be a key, in bytes.
const CODE_BYTES: usize = 32;

/// Returns the reason why `name` cannot be the name of an environment variable, for an error; `None` if it can. The reason never
/// contains the name, which may be the secret itself.
///
/// ```
/// use nexus_core::variable_name_fault;
///
/// assert_eq!(variable_name_fault("SERVICE_API_KEY"), None);
/// assert!(variable_name_fault("sk-proj-0123456789abcdef").is_some());
/// assert!(variable_name_fault("ghp_0123456789abcdefghij").is_some());
/// ```
pub fn variable_name_fault(name: &str) -> Option<&'static str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() {
        return Some("is empty: write the name of an environment variable");
    }
    if looks_like_key(name) {
        return Some(
            "looks like a key, and is not shown: write the name of an environment variable here, and store \
             the key in that variable. A key that was written to a file may be known to others: create a new \
             one",
        );
    }
    let is_name = name.len() <= MAX_NAME_BYTES
        && name.bytes().all(fits)
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    (!is_name).then_some(
        "is not a name of an environment variable, and is not shown: write letters, digits and `_`; store \
         the key itself in the variable",
    )
}

/// Returns true if a text looks like a key, so that no message repeats it.
pub fn looks_like_key(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins_like_one = KEY_BEGINNINGS.iter().any(|(beginning, more)| {
        text.strip_prefix(beginning).is_some_and(|rest| rest.len() >= *more && rest.bytes().all(fits))
    });
    // A redactor without secrets still recognises the common shapes of tokens.
    if begins_like_one || Redactor::default().redacted(text).is_some() {
        return true;
    }
    let has = |kind: fn(&u8) -> bool| text.bytes().any(|byte| kind(&byte));
    // A long word with both cases and digits is more likely a key than a name.
    let is_mixed = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit);
    let is_all = |kind: fn(u8) -> bool| text.bytes().all(kind);
    let is_code = has(u8::is_ascii_digit)
        && (is_all(|byte| byte.is_ascii_hexdigit())
            || is_all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()));
    text.bytes().all(fits) && (is_mixed && text.len() >= RANDOM_BYTES || is_code && text.len() >= CODE_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_names_and_keys_are_none() {
        for name in [
            "A",
            "_x",
            "SERVICE_API_KEY",
            "my_token",
            "NEXUS_VENDOR_TOKEN_2",
            "Path",
            "AWS_SECRET_ACCESS_KEY_2026_PRODUCTION",
        ] {
            assert_eq!(variable_name_fault(name), None, "{name}");
        }
        for key in [
            "",
            "1A",
            "a-b",
            "two words",
            "a=b",
            "\u{e9}t\u{e9}",
            "sk-abc-def01-0123456789abcdef",
            "sk-0123456789abcdef",
            "ghp_0123456789abcdefghij",
            "AKIA0123456789ABCDEF",
            "AIzaSyA0123456789abcdefghijk",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "hf_0123456789abcdefgh",
            "eyJhbGciOiJIUzI1NiJ9eyJzdWIiOiIx",
            "0123456789abcdef0123456789abcdef",
            "deadbeef0123456789abcdef01234567",
            "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
            "Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZg",
        ] {
            assert!(variable_name_fault(key).is_some(), "{key}");
        }
        assert!(variable_name_fault(&"A".repeat(129)).is_some());
    }

    proptest! {
        #[test]
        fn no_message_repeats_what_it_refuses(text in "\\PC{4,40}|sk-[a-zA-Z0-9]{16,40}") {
            if let Some(fault) = variable_name_fault(&text) {
                prop_assert!(!fault.contains(&text) || text.trim().len() < 8, "{}", text);
            }
        }
    }
}
