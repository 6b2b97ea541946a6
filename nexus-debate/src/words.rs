//! Whether one text has words of another.

use std::collections::HashSet;

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// How many consecutive words are a copy.
pub const COPIED_WORDS: usize = 12;

/// Longest run of letters that counts as one word, in characters: whoever leaves out the spaces gains nothing.
const LONGEST_WORD: usize = 16;

/// The words of a text that must not be copied: normalised (compatibility forms are one, case and accents are folded), without
/// punctuation, space, and characters that cannot be seen.
#[derive(Clone, Debug)]
pub(crate) struct RawWords {
    letters: String,
    /// Where each word begins in `letters`, and their end.
    bounds: Vec<usize>,
}

/// The letters of a text in which copies are looked for, by which of twelve bytes there are in it: most runs are in no text, and a look
/// tells.
#[derive(Clone, Debug)]
pub(crate) struct SearchedText {
    letters: String,
    pieces: HashSet<[u8; COPIED_WORDS]>,
}

impl RawWords {
    pub(crate) fn of(text: &str) -> Self {
        let (mut letters, mut bounds, mut length) = (String::new(), vec![0], 0);
        for character in folded(text) {
            let ends_word = |bounds: &mut Vec<usize>, at: usize| {
                if bounds.last() != Some(&at) {
                    bounds.push(at);
                }
            };
            let Some(character) = character else {
                ends_word(&mut bounds, letters.len());
                length = 0;
                continue;
            };
            // Scripts that put no space between words: each character is one.
            if has_no_spaces(character) || length == LONGEST_WORD {
                ends_word(&mut bounds, letters.len());
                length = 0;
            }
            letters.push(character);
            length += 1;
            if has_no_spaces(character) {
                ends_word(&mut bounds, letters.len());
                length = 0;
            }
        }
        if bounds.last() != Some(&letters.len()) {
            bounds.push(letters.len());
        }
        Self { letters, bounds }
    }

    /// The first run of [`COPIED_WORDS`] words that `text` has as well, wherever it puts spaces and punctuation.
    pub(crate) fn shared_with(&self, text: &SearchedText) -> Option<String> {
        let run = self.bounds.windows(COPIED_WORDS + 1).find(|run| {
            let letters = &self.letters[run[0]..run[COPIED_WORDS]];
            // Each word has a byte at least.
            let piece = letters.as_bytes().first_chunk();
            piece.is_some_and(|piece| text.pieces.contains(piece)) && text.letters.contains(letters)
        })?;
        let words: Vec<&str> = run.windows(2).map(|word| &self.letters[word[0]..word[1]]).collect();
        Some(words.join(" "))
    }
}

impl SearchedText {
    pub(crate) fn of(text: &str) -> Self {
        let letters: String = folded(text).flatten().collect();
        let pieces = letters.as_bytes().windows(COPIED_WORDS).filter_map(|piece| piece.try_into().ok());
        Self { pieces: pieces.collect(), letters }
    }
}

/// The first run of 12 consecutive words of `raw` that `steelman` has as well. Words are compared without case, accents, punctuation, space
/// and characters that cannot be seen; compatibility forms, such as full-width letters, are what they stand for. Letters of another
/// script that look alike are not the same.
///
/// ```
/// use nexus_debate::shares_words;
///
/// let raw = "The cache key misses the tenant, so one customer is served the rows of another one.";
/// assert!(shares_words("Its key MISSES the tenant; so one customer is served the rows-of another one, it says.", raw).is_some());
/// assert!(shares_words("Rows of one customer reach another, since the tenant is not part of the key.", raw).is_none());
/// ```
pub fn shares_words(steelman: &str, raw: &str) -> Option<String> {
    RawWords::of(raw).shared_with(&SearchedText::of(steelman))
}

/// The letters and digits of a text, folded; `None` where something else parts them.
fn folded(text: &str) -> impl Iterator<Item = Option<char>> {
    text.nfkd()
        .filter(|character| {
            !is_combining_mark(*character) && !nexus_core::visible::is_invisible(*character)
                || matches!(character, '\u{2028}' | '\u{2029}')
        })
        .flat_map(char::to_lowercase)
        .filter(|character| !is_combining_mark(*character))
        .map(|character| character.is_alphanumeric().then_some(character))
}

/// Thai to Tibetan and Myanmar, Khmer, and what begins with the radicals of Chinese: kana, ideographs.
fn has_no_spaces(character: char) -> bool {
    matches!(u32::from(character), 0xe00..=0xfff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x2e80..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}
