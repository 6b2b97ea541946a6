//! Removes secrets from text that comes from outside, before it becomes an event, an error, a log or a record.
//!
//! It finds known secrets anywhere, both literally and as JSON escapes them. Of a long secret (32 bytes or more) it also
//! finds the first half, because texts may be cut. It also removes text that looks like a token: bearer values, API keys by
//! their prefixes, and JWTs.
//!
//! ```
//! use nexus_core::redact::Redactor;
//!
//! let redactor = Redactor::new(["swordfish"]);
//! assert_eq!(redactor.redact(b"the password is swordfish"), b"the password is [redacted]");
//! ```

mod secrets;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use memchr::memmem;
use serde_json::Value;

pub(crate) use secrets::Secrets;

const REDACTED: &[u8] = b"[redacted]";

/// Prefixes of tokens, each with the number of token characters that must follow.
const SHAPES: [(&[u8], usize); 9] = [
    (b"Bearer ", 8),
    (b"bearer ", 8),
    (b"sk-", 16),
    (b"eyJ", 24),
    (b"ghp_", 16),
    (b"gho_", 16),
    (b"ghs_", 16),
    (b"github_pat_", 16),
    (b"AKIA", 16),
];

/// Longest run of token characters that is treated as one token, in bytes. The rest of a longer run is removed piece by
/// piece.
const LONGEST_TOKEN_BYTES: usize = 16 << 10;

/// Number of token characters that must follow a prefix of [`Redactor::with_key_prefixes`].
const KEY_BYTES: usize = 16;

/// Longest prefix of a possible token that cannot be recognised yet, in bytes.
const UNDECIDED_BYTES: usize = 40;

/// Finds secrets in bytes. Clones know the same secrets, also secrets that are added later. `Debug` shows only
/// their number.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<KnownSecrets>,
    key_prefixes: &'static [&'static str],
}

/// Secrets that the redactor replaces.
#[derive(Default)]
struct KnownSecrets {
    secrets: RwLock<Secrets>,
    /// Number of secrets. The owner of a copy compares it without a lock to detect that the copy is outdated.
    count: AtomicUsize,
}

impl Redactor {
    /// Creates a redactor for these secrets and for text that looks like a token. Ignores an empty secret.
    pub fn new(secrets: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let redactor = Self::default();
        for secret in secrets {
            redactor.learn(secret);
        }
        redactor
    }

    /// Also redacts keys that begin with one of these prefixes, followed by 16 token characters or more: letters, digits and
    /// `-_.~+/=`. Earlier clones do not.
    #[must_use]
    pub fn with_key_prefixes(mut self, prefixes: &'static [&'static str]) -> Self {
        self.key_prefixes = prefixes;
        self
    }

    /// Adds a secret, also for all clones. Ignores an empty secret.
    pub fn learn(&self, secret: impl AsRef<[u8]>) {
        let secret = secret.as_ref();
        if secret.is_empty() {
            return;
        }
        let mut secrets = self.known.secrets.write().unwrap_or_else(PoisonError::into_inner);
        *secrets = secrets.with(secret);
        // Publish the count under the lock, so that a reader of the new count finds the secret too.
        self.known.count.store(secrets.count(), Ordering::Release);
    }

    fn secrets(&self) -> Secrets {
        self.known.secrets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a copy of the known secrets, if there are more than `count`.
    #[inline]
    pub(crate) fn more_than(&self, count: usize) -> Option<(usize, Secrets)> {
        let is_more = self.known.count.load(Ordering::Acquire) != count;
        is_more.then(|| {
            let secrets = self.secrets();
            (secrets.count(), secrets)
        })
    }

    /// Returns `bytes` with every secret replaced.
    #[must_use]
    pub fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        self.render(bytes, 0..bytes.len(), &self.matches(bytes))
    }

    /// Returns `text` with every secret replaced.
    #[must_use]
    pub fn redact_text(&self, text: &str) -> String {
        self.text_without(text, &self.matches(text.as_bytes())).unwrap_or_else(|| text.to_owned())
    }

    /// Like [`Redactor::redact_text`], but returns `None` if nothing is replaced.
    pub(crate) fn redacted(&self, text: &str) -> Option<String> {
        self.text_without(text, &self.matches(text.as_bytes()))
    }

    /// Returns `text` with every known secret replaced, but keeps text that only looks like a token. Use it for text that
    /// must stay exact, such as the model's words and the arguments of its calls. Returns `None` if the text contains no
    /// secret.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> Option<String> {
        self.text_without(text, &merged(self.secrets().places(text.as_bytes())))
    }

    /// Like [`Redactor::without_secrets`], for every string and every key of a value.
    #[must_use]
    pub fn value_without_secrets(&self, value: &Value) -> Option<Value> {
        // Most values contain no secret, so search before copying.
        let is_clean = |text: &str| self.without_secrets(text).is_none();
        if is_all(value, &is_clean) {
            return None;
        }
        let mut value = value.clone();
        replace_in(&mut value, &|text| self.without_secrets(text));
        Some(value)
    }

    fn text_without(&self, text: &str, places: &[Range<usize>]) -> Option<String> {
        let shown = || self.render(text.as_bytes(), 0..text.len(), places);
        // A match of half a secret may end inside a character, so the remaining bytes may not be UTF-8.
        (!places.is_empty()).then(|| String::from_utf8_lossy(&shown()).into_owned())
    }

    /// Returns the shapes of tokens: a prefix, and the number of token characters that must follow.
    fn shapes(&self) -> impl Iterator<Item = (&'static [u8], usize)> {
        SHAPES.into_iter().chain(self.key_prefixes.iter().map(|prefix| (prefix.as_bytes(), KEY_BYTES)))
    }

    /// Returns the length of the longest prefix of a token or secret that cannot be recognised yet.
    fn undecided(&self) -> usize {
        let prefix = self.key_prefixes.iter().map(|prefix| prefix.len() + KEY_BYTES).max().unwrap_or(0);
        UNDECIDED_BYTES.max(prefix).max(self.longest().saturating_sub(1))
    }

    fn longest(&self) -> usize {
        self.secrets().longest()
    }

    /// Returns the positions of secrets, in order and without overlap.
    fn matches(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut ranges = self.secrets().places(bytes);
        for (prefix, least) in self.shapes() {
            let mut until = 0;
            for start in memmem::find_iter(bytes, prefix) {
                // Skip prefixes inside of the previous token, so that the search stays linear in its length.
                if start < until {
                    continue;
                }
                // A prefix inside of a word begins no token, for example `sk-` in `task-`.
                let word = start == 0 || !is_word(bytes[start - 1]);
                let body = start + prefix.len();
                let length = bytes[body..].iter().take_while(|byte| is_token(**byte)).count();
                if word && length >= least {
                    until = body + length;
                    ranges.push(start..until);
                }
            }
        }
        merged(ranges)
    }

    /// Returns the part `within` of `bytes`, with matches replaced. A match that begins before the part counts too.
    fn render(&self, bytes: &[u8], within: Range<usize>, matches: &[Range<usize>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(within.len());
        let mut at = within.start;
        for found in matches.iter().filter(|found| found.end > within.start && found.start < within.end) {
            out.extend_from_slice(bytes.get(at..found.start).unwrap_or_default());
            out.extend_from_slice(REDACTED);
            at = found.end.min(within.end);
        }
        out.extend_from_slice(bytes.get(at..within.end).unwrap_or_default());
        out
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Redactor({} patterns)", self.secrets().count())
    }
}

/// Returns true if the condition holds for every string and every key of a value.
fn is_all(value: &Value, is_such: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_such(text),
        Value::Array(items) => items.iter().all(|item| is_all(item, is_such)),
        Value::Object(fields) => fields.iter().all(|(key, item)| is_such(key) && is_all(item, is_such)),
        _ => true,
    }
}

/// Replaces every string and every key for which `other` returns a replacement.
pub(crate) fn replace_in(value: &mut Value, other: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(other) = other(text) {
                *text = other;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_in(item, other)),
        Value::Object(fields) => {
            // A key cannot change in place, so rebuild the object, but only if a key contains a secret.
            if fields.keys().any(|key| other(key).is_some()) {
                let renamed = std::mem::take(fields).into_iter();
                *fields = renamed.map(|(key, item)| (other(&key).unwrap_or(key), item)).collect();
            }
            fields.values_mut().for_each(|item| replace_in(item, other));
        }
        _ => {}
    }
}

/// Returns the ranges in order, with overlapping ones merged.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'+' | b'/' | b'=')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Redacts a stream of bytes that arrive in arbitrary pieces. Withholds bytes that may begin a secret: at most 16 KiB of a
/// token, or the length of the longest known secret.
#[derive(Debug)]
pub struct StreamRedactor {
    redactor: Redactor,
    held: Vec<u8>,
    /// True inside a token that is too long to withhold. Its remaining bytes are dropped.
    swallowing: bool,
}

impl StreamRedactor {
    /// Creates a redactor for a new stream.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, held: Vec::new(), swallowing: false }
    }

    /// Takes the next bytes, and returns the redacted bytes that can be shown now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        self.skip_token();
        let matches = self.redactor.matches(&self.held);
        let mut cut = self.held.len().saturating_sub(self.redactor.undecided());
        // Do not cut through a match, because the next call would show its rest.
        if let Some(found) = matches.iter().find(|found| found.start < cut && cut < found.end) {
            cut = found.start;
        }
        // The next piece may continue a token at the very end.
        if let Some(open) = matches.last().filter(|found| found.end == self.held.len()) {
            // The token is too long to withhold. Replace this part now, and drop the rest as it arrives.
            if open.len() > LONGEST_TOKEN_BYTES.max(self.redactor.longest()) {
                self.swallowing = true;
                let out = self.redactor.render(&self.held, 0..self.held.len(), &matches);
                self.held.clear();
                return out;
            }
            cut = cut.min(open.start);
        }
        let out = self.redactor.render(&self.held, 0..cut, &matches);
        self.held.drain(..cut);
        out
    }

    /// Returns the withheld bytes, redacted, at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        self.skip_token();
        let held = std::mem::take(&mut self.held);
        self.redactor.redact(&held)
    }

    fn skip_token(&mut self) {
        if self.swallowing {
            let rest = self.held.iter().take_while(|byte| is_token(**byte)).count();
            self.swallowing = rest == self.held.len();
            self.held.drain(..rest);
        }
    }
}

/// Stores the last bytes of a stream, for redacted display. `Debug` prints only their number.
#[derive(Clone)]
pub struct Tail {
    bytes: VecDeque<u8>,
    bound: usize,
}

/// Number of bytes stored beyond the bound, so that a secret at the cut is still recognised.
const TAIL_MARGIN_BYTES: usize = 4 << 10;

impl Tail {
    /// Stores the last `bound` bytes, and 4 KiB before them, so that a secret at the cut is recognised.
    pub fn new(bound: usize) -> Self {
        Self { bytes: VecDeque::new(), bound }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        let keep = self.bound + TAIL_MARGIN_BYTES;
        let bytes = bytes.get(bytes.len().saturating_sub(keep)..).unwrap_or_default();
        let excess = (self.bytes.len() + bytes.len()).saturating_sub(keep);
        if excess > 0 {
            self.bytes.drain(..excess.min(self.bytes.len()));
        }
        self.bytes.extend(bytes);
    }

    /// Returns the tail as text, without secrets. Its first line may be incomplete.
    pub fn redacted(mut self, redactor: &Redactor) -> String {
        let start = self.bytes.len().saturating_sub(self.bound);
        let bytes = self.bytes.make_contiguous();
        // Search the margin too, but show only the bytes after it.
        let matches = redactor.matches(bytes);
        let shown = redactor.render(bytes, start..bytes.len(), &matches);
        String::from_utf8_lossy(&shown).into_owned()
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tail({} bytes)", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JWT: &str = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcDEF-_123";

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn only_what_was_given_is_taken_out_of_the_models_words() {
        let redactor = Redactor::new(["sword\"fish", "fish-and-chips"]);
        let words = r#"sword"fish-and-chips, sword\"fish and Bearer 0123456789abcdef"#;
        let shown = redactor.without_secrets(words).unwrap();
        assert_eq!(shown, "[redacted], [redacted] and Bearer 0123456789abcdef");
        assert_eq!(redactor.without_secrets("Bearer 0123456789abcdef"), None);
        assert_eq!(Redactor::default().without_secrets("anything"), None);
    }

    #[test]
    fn a_long_secret_that_is_cut_off_is_a_secret() {
        let secret = "key-0123456789-0123456789-0123456789-01234";
        let redactor = Redactor::new([secret]);
        for length in [secret.len(), 30, 21] {
            let text = format!("it is {}…", &secret[..length]);
            assert_eq!(redactor.redact_text(&text), "it is [redacted]…", "{length}");
        }
        let less = &secret[..20];
        assert_eq!(redactor.without_secrets(less), None);
        assert_eq!(Redactor::new(["hunter2"]).without_secrets("hunter"), None);
    }

    #[test]
    fn a_value_is_redacted_in_its_keys_as_well() {
        let redactor = Redactor::new(["hunter2"]);
        let value = serde_json::json!({ "a": ["x hunter2"], "hunter2": { "b": 1 } });
        let clean = redactor.value_without_secrets(&value).unwrap();
        assert_eq!(clean, serde_json::json!({ "a": ["x [redacted]"], "[redacted]": { "b": 1 } }));
        assert_eq!(redactor.value_without_secrets(&clean), None);
    }

    #[test]
    fn given_secrets_and_token_shapes_go_and_prose_stays() {
        let redactor = Redactor::new(["hunter2", "with \"quotes\"", ""]);
        let input = format!(
            "pass=hunter2, {{\"a\":\"with \\\"quotes\\\"\"}} Authorization: Bearer abcdef0123456789 \
             key sk-ant-api03-AAAAAAAAAAAAAAAA jwt {JWT}! ask-me about sk-8 and task-abcdefghijklmnopqrstuv"
        );
        assert_eq!(
            text(redactor.redact(input.as_bytes())),
            "pass=[redacted], {\"a\":\"[redacted]\"} Authorization: [redacted] key [redacted] jwt [redacted]! \
             ask-me about sk-8 and task-abcdefghijklmnopqrstuv"
        );
    }

    #[test]
    fn keys_of_a_named_prefix_go() {
        const PREFIXES: &[&str] = &["quite-a-long-prefix-that-ends-here-"];
        let redactor = Redactor::default().with_key_prefixes(PREFIXES);
        let input = format!("a {}0123456789abcdef b {}short", PREFIXES[0], PREFIXES[0]);
        let whole = redactor.redact(input.as_bytes());
        assert_eq!(text(whole.clone()), format!("a [redacted] b {}short", PREFIXES[0]));
        let mut stream = StreamRedactor::new(redactor);
        let mut out: Vec<u8> = input.bytes().flat_map(|byte| stream.push(&[byte])).collect();
        out.extend(stream.finish());
        assert_eq!(out, whole);
    }

    #[test]
    fn a_clone_learns_what_the_other_learns() {
        let redactor = Redactor::new(["first"]);
        let mut stream = StreamRedactor::new(redactor.clone());
        redactor.learn("second");
        let mut out = stream.push(b"first, sec");
        out.extend(stream.push(b"ond, third"));
        out.extend(stream.finish());
        assert_eq!(text(out), "[redacted], [redacted], third");
    }

    #[test]
    fn a_stream_is_redacted_however_it_is_cut() {
        let redactor = Redactor::new(["swordfish"]);
        let input = format!(
            "a swordfish b Bearer 0123456789abcdef\nsk-live-0123456789abcdef {JWT}\nswordfis end swordfish"
        );
        let whole = redactor.redact(input.as_bytes());
        assert!(!text(whole.clone()).contains("swordfish"));
        for piece in 1..input.len() {
            let mut stream = StreamRedactor::new(redactor.clone());
            let mut out = Vec::new();
            for part in input.as_bytes().chunks(piece) {
                out.extend(stream.push(part));
            }
            out.extend(stream.finish());
            assert_eq!(text(out), text(whole.clone()), "pieces of {piece}");
        }
    }

    #[test]
    fn an_endless_token_is_neither_kept_nor_shown() {
        let mut stream = StreamRedactor::new(Redactor::default());
        let mut out = stream.push(b"x sk-");
        for _ in 0..1000 {
            out.extend(stream.push(&[b'A'; 1000]));
            assert!(stream.held.len() <= 32 << 10);
        }
        out.extend(stream.push(b" y"));
        out.extend(stream.finish());
        assert_eq!(text(out), "x [redacted] y");
    }

    #[test]
    fn a_tail_keeps_the_end_and_shows_no_half_secret() {
        let redactor = Redactor::new(["swordfish-swordfish"]);
        for shift in 0..40 {
            let mut tail = Tail::new(100);
            tail.push(&vec![b'.'; 10_000]);
            tail.push(b"swordfish-swordfish");
            tail.push(&vec![b'-'; 70 + shift]);
            let shown = tail.redacted(&redactor);
            assert!(!shown.contains("sh") && !shown.contains("fi"), "{shown}");
            assert!(shown.ends_with("-----"));
        }
    }

    #[test]
    fn hostile_text_takes_no_quadratic_time() {
        let started = std::time::Instant::now();
        let hostile = b"sk-".repeat(300_000);
        assert_eq!(text(Redactor::default().redact(&hostile)), "[redacted]");
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
    }
}
