//! The token that a caller presents to a session.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use subtle::ConstantTimeEq as _;

use crate::secret::Secret;

/// Length of a token's randomness, in bytes.
const RANDOM_BYTES: usize = 32;

/// Random text that authorises calls of one session. It exists only in memory, prints as `[redacted]`, and is
/// compared in constant time.
#[derive(Clone)]
pub struct SessionToken(Secret);

impl SessionToken {
    /// Creates a token of 256 bits from the operating system's generator.
    ///
    /// # Panics
    ///
    /// If the operating system returns no random numbers, because no safe token exists then.
    pub(super) fn random() -> Self {
        let mut bytes = zeroize::Zeroizing::new([0; RANDOM_BYTES]);
        if let Err(error) = getrandom::fill(bytes.as_mut()) {
            panic!("the operating system gives no random numbers: {error}");
        }
        Self(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Wraps a text that a caller presents as a token.
    pub fn presented(text: impl Into<String>) -> Self {
        Self(Secret::new(text))
    }

    /// Returns the text: letters, digits, `-` and `_`. Review every call of this method.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Compares two tokens in a time that depends only on the length of `other`.
    pub fn is(&self, other: &Self) -> bool {
        let (own, other) = (self.expose().as_bytes(), other.expose().as_bytes());
        // Copy the given text into a buffer of the token's length, because `ct_eq` returns early for
        // different lengths.
        let mut shown = zeroize::Zeroizing::new(vec![0; own.len()]);
        shown.iter_mut().zip(other).for_each(|(place, byte)| *place = *byte);
        (own.ct_eq(&shown) & own.len().ct_eq(&other.len())).into()
    }
}

impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_itself_and_no_other() {
        let (one, other) = (SessionToken::random(), SessionToken::random());
        assert!(one.is(&SessionToken::presented(one.expose())));
        assert!(!one.is(&other) && !other.is(&one));
        let text = one.expose();
        for wrong in ["", "\0", &text[1..], &text[..42], &format!("{text}\0"), &format!("{text}{text}")] {
            assert!(!one.is(&SessionToken::presented(wrong)), "{wrong:?}");
        }
        for place in 0..text.len() {
            let mut wrong = text.to_owned().into_bytes();
            wrong[place] ^= 1;
            assert!(!one.is(&SessionToken::presented(String::from_utf8(wrong).unwrap())), "{place}");
        }
        assert_eq!(one.expose().len(), 43);
        assert_eq!(format!("{one:?}"), "[redacted]");
    }
}
