//! The secrets that a redactor was given, and where they stand in a text.

use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr_iter, memmem};
use zeroize::Zeroizing;

/// A secret of this length, in bytes, is given away by its first half: texts are cut off anywhere. Of a shorter one the half is
/// an ordinary word.
const LONG_SECRET_BYTES: usize = 32;

/// Texts shorter than this, in bytes, are looked at one byte after the other.
const SHORT_BYTES: usize = 32;

/// Bytes of a secret that the search uses, before the rest is compared: preparing a longer search costs more.
const NEEDLE_BYTES: usize = 32;

/// Given secrets, as they are and as JSON writes them. Clones are cheap.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<Vec<Zeroizing<Vec<u8>>>>);

impl Secrets {
    /// These and `secret`, which is not empty.
    pub(super) fn with(&self, secret: &[u8]) -> Self {
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

    /// Length of the shortest text that gives one away, in bytes.
    #[inline]
    pub(crate) fn shortest(&self) -> usize {
        self.0.iter().map(|secret| telling(secret)).min().unwrap_or(usize::MAX)
    }

    /// Returns their positions, in no order: whole secrets, or the first half and the matching rest.
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

    /// Returns true if `bytes` contain a secret, or may end with its beginning.
    #[inline]
    pub(crate) fn may_be_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|secret| {
            // A search costs more to begin than a few bytes to look at.
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

    /// Returns the start of the end of `bytes` that later bytes may complete to a secret; their length without
    /// such an end.
    pub(crate) fn open_end(&self, bytes: &[u8]) -> usize {
        let places = self.places(bytes);
        let is_open = |secret: &[u8], start: usize| {
            let rest = &bytes[start..];
            // A match inside of another match is removed with that.
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

/// Returns the length of a prefix that reveals a secret.
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

/// Returns the range in which `bytes` continue like `secret`, to their end or for as long as it reveals the
/// secret.
#[inline]
fn beginnings<'a>(secret: &'a [u8], bytes: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let first = secret.first().copied().unwrap_or_default();
    memchr_iter(first, bytes).filter(move |start| {
        let same = common(&bytes[*start..], secret);
        same == bytes.len() - start || same >= telling(secret)
    })
}
