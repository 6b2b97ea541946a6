//! The known secrets of a redactor, and the search for them in text.

use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr_iter, memmem};
use zeroize::Zeroizing;

/// Length in bytes from which half of a secret identifies it, because texts may be cut anywhere. Half of a shorter secret may
/// be an ordinary word.
const LONG_SECRET_BYTES: usize = 32;

/// Texts shorter than this, in bytes, are searched byte by byte.
const SHORT_BYTES: usize = 32;

/// Number of leading bytes that the search uses, before it compares the rest. Preparing a longer search would cost more.
const NEEDLE_BYTES: usize = 32;

/// Known secrets, both literally and as JSON escapes them. Clones are cheap.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<Vec<Zeroizing<Vec<u8>>>>);

impl Secrets {
    /// Returns these secrets and `secret`, which is not empty.
    pub(super) fn with(&self, secret: &[u8]) -> Self {
        // Copy on write, because earlier clones are read without a lock.
        let mut secrets = Vec::clone(&self.0);
        if let Ok(text) = std::str::from_utf8(secret) {
            let quoted = Zeroizing::new(serde_json::to_string(text).unwrap_or_default());
            let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            if let Some(inner) = inner.filter(|inner| inner.as_bytes() != secret) {
                secrets.push(Zeroizing::new(inner.as_bytes().to_vec()));
            }
        }
        secrets.push(Zeroizing::new(secret.to_vec()));
        Self(Arc::new(secrets))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn longest(&self) -> usize {
        self.0.iter().map(|secret| secret.len()).max().unwrap_or(0)
    }

    /// Returns the length of the shortest text that identifies a secret, in bytes.
    #[inline]
    pub(crate) fn shortest(&self) -> usize {
        self.0.iter().map(|secret| telling(secret)).min().unwrap_or(usize::MAX)
    }

    /// Returns the positions of secrets, unsorted: whole secrets, or the first half and the matching rest.
    pub(super) fn places(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut places = Vec::new();
        for secret in self.0.iter() {
            let least = telling(secret);
            if bytes.len() < least {
                continue;
            }
            let place = |start: usize| start..start + common(&bytes[start..], secret);
            let found = memmem::find_iter(bytes, &secret[..least.min(NEEDLE_BYTES)]).map(place);
            places.extend(found.filter(|place| place.len() >= least));
        }
        places
    }

    /// Returns true if `bytes` contain a secret, or may end with the start of one.
    #[inline]
    pub(crate) fn may_be_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|secret| {
            // For few bytes, a direct comparison is faster than setting up a search.
            let begins = match secret.first_chunk().copied() {
                Some([first, second]) if bytes.len() < SHORT_BYTES => {
                    let pair = |pair: &[u8]| pair[0] == first && pair[1] == second;
                    bytes.last() == Some(&first) || bytes.windows(2).any(pair)
                }
                _ => true,
            };
            begins && beginnings(secret, bytes).next().is_some()
        })
    }

    /// Returns the start of a tail of `bytes` that later bytes may complete to a secret. Without such a tail it is the length
    /// of `bytes`.
    pub(crate) fn open_end(&self, bytes: &[u8]) -> usize {
        let places = self.places(bytes);
        let is_open = |secret: &[u8], start: usize| {
            let rest = &bytes[start..];
            // A match inside of another match is removed together with the outer one.
            let is_inside = |place: &Range<usize>| place.start < start && start < place.end;
            rest.len() < secret.len() && secret.starts_with(rest) && !places.iter().any(is_inside)
        };
        let ends = self
            .0
            .iter()
            .filter_map(|secret| beginnings(secret, bytes).find(|start| is_open(secret, *start)));
        ends.min().unwrap_or(bytes.len())
    }
}

/// Returns the length of a prefix that identifies a secret.
fn telling(secret: &[u8]) -> usize {
    match secret.len() {
        length @ LONG_SECRET_BYTES.. => length.div_ceil(2),
        length => length,
    }
}

/// Returns the length of the common prefix.
#[inline]
fn common(bytes: &[u8], secret: &[u8]) -> usize {
    bytes.iter().zip(secret).take_while(|(one, other)| one == other).count()
}

/// Returns the positions at which `bytes` match the start of the secret, up to the end of `bytes` or far enough to identify the
/// secret.
#[inline]
fn beginnings<'a>(secret: &'a [u8], bytes: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = secret.first().copied().unwrap_or_default();
    memchr_iter(first, bytes).filter(move |start| {
        let same = common(&bytes[*start..], secret);
        same == bytes.len() - start || same >= telling(secret)
    })
}
