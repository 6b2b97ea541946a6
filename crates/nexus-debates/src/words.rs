//! Finds words that one text copies from another one.

use std::{collections::HashSet, iter, sync::LazyLock};

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};
use unicode_security::confusable_detection::skeleton;

/// Number of consecutive words that count as a copy.
pub const COPIED_WORDS: usize = 12;

/// Maximum length of one word, in characters. A longer run of letters is split, so that leaving out the spaces hides no
/// copy.
const LONGEST_WORD: usize = 16;

/// The words of a text that must not be copied. They are normalised: compatibility forms, case, accents and letters that
/// look alike are folded. Punctuation, spaces and invisible characters are left out.
#[derive(Clone, Debug)]
pub(crate) struct RawWords {
    letters: String,
    /// Start of each word in `letters`, and the end of the last one.
    bounds: Vec<usize>,
    /// The words in the text, in lowercase letters.
    words: Vec<String>,
}

/// A text in which copies are searched. `pieces` contains each run of twelve bytes of its letters: most runs of words are in
/// no text, and a look-up excludes them fast.
#[derive(Clone, Debug)]
pub(crate) struct SearchedText {
    letters: String,
    pieces: HashSet<[u8; COPIED_WORDS]>,
}

impl RawWords {
    pub(crate) fn of(text: &str) -> Self {
        let mut raw = Self { letters: String::new(), bounds: vec![0], words: vec![String::new()] };
        let mut length = 0;
        shown(text, |character| {
            let Some(character) = character else {
                raw.end_word();
                length = 0;
                return;
            };
            // In scripts without spaces between words, each character is a word.
            let is_alone = has_no_spaces(character);
            // A longer run of letters counts as several words, as if its spaces were removed.
            if is_alone || length == LONGEST_WORD {
                raw.end_word();
                length = 0;
            }
            add_folded(&mut raw.letters, character);
            if let Some(word) = raw.words.last_mut() {
                word.extend(character.to_lowercase());
            }
            length += 1;
            if is_alone {
                raw.end_word();
                length = 0;
            }
        });
        raw.end_word();
        raw
    }

    /// Ends the current word, unless it is empty.
    fn end_word(&mut self) {
        let at = self.letters.len();
        if self.bounds.last() != Some(&at) {
            self.bounds.push(at);
            self.words.push(String::new());
        }
    }

    /// Returns the first run of [`COPIED_WORDS`] words that `text` contains too. Spaces and punctuation do not count.
    pub(crate) fn shared_with(&self, text: &SearchedText) -> Option<String> {
        let first = self.bounds.windows(COPIED_WORDS + 1).position(|run| {
            let letters = &self.letters[run[0]..run[COPIED_WORDS]];
            // Each word has at least one byte, so twelve words fill the piece.
            let piece = letters.as_bytes().first_chunk();
            // The set rejects most runs at once, so the whole text is rarely searched.
            piece.is_some_and(|piece| text.pieces.contains(piece)) && text.letters.contains(letters)
        })?;
        Some(self.words.get(first..first + COPIED_WORDS)?.join(" "))
    }
}

impl SearchedText {
    pub(crate) fn of(text: &str) -> Self {
        let mut letters = String::with_capacity(text.len());
        shown(text, |character| {
            if let Some(character) = character {
                add_folded(&mut letters, character);
            }
        });
        let pieces = letters.as_bytes().windows(COPIED_WORDS).filter_map(|piece| piece.try_into().ok());
        Self { pieces: pieces.collect(), letters }
    }
}

/// Returns the first run of 12 consecutive words of `raw` that `steelman` contains too. The comparison ignores case,
/// accents, punctuation, spaces and invisible characters. Compatibility forms, such as full-width letters, count as the
/// letters that they represent. Letters that look alike are the same, in any script, if Unicode calls them confusable
/// (Technical Standard 39), and so are `i`, `l` and `1`.
///
/// ```
/// use nexus_debates::shares_words;
///
/// let raw = "The cache key misses the tenant, so one customer is served the rows of another one.";
/// assert!(shares_words("Its key MISSES the tenant; so one customer is served the rows-of another one, it says.", raw).is_some());
/// assert!(shares_words("Rows of one customer reach another, since the tenant is not part of the key.", raw).is_none());
/// ```
pub fn shares_words(steelman: &str, raw: &str) -> Option<String> {
    RawWords::of(raw).shared_with(&SearchedText::of(steelman))
}

/// Passes the letters and digits of a text to `give`, without invisible characters. Passes `None` for anything else, which
/// separates words.
fn shown(text: &str, mut give: impl FnMut(Option<char>)) {
    let letter = |character: char| character.is_alphanumeric().then_some(character);
    for character in text.chars() {
        // ASCII is the usual case and needs no normalisation.
        if character.is_ascii() {
            give(letter(character));
            continue;
        }
        let is_seen = |character: &char| {
            !is_combining_mark(*character) && !nexus_core::visible::is_invisible(*character)
                || matches!(character, '\u{2028}' | '\u{2029}')
        };
        let parts: Vec<char> = iter::once(character).nfkd().filter(is_seen).collect();
        // A compatibility form counts as its plain form. A letter whose plain form is not an ASCII letter, as
        // the lunate sigma's, counts as the letter that it looks like.
        let looks: Vec<char> = match parts.iter().any(|part| part.is_alphanumeric() && !part.is_ascii()) {
            true => prototype(character).collect(),
            false => Vec::new(),
        };
        let is_ours = !looks.is_empty() && looks.iter().all(char::is_ascii_alphanumeric);
        (if is_ours { looks } else { parts }).into_iter().for_each(|part| give(letter(part)));
    }
}

/// Adds a letter or digit in its folded form: the lowercase letter that it looks like. One may become two, as `m` looks like
/// `rn`.
fn add_folded(letters: &mut String, character: char) {
    /// Folded forms of the first 128 characters, which make up most texts.
    static ASCII: LazyLock<Vec<String>> = LazyLock::new(|| {
        (0..128).map(|byte| looks(char::from(byte).to_ascii_lowercase()).collect()).collect()
    });
    if let Some(folded) = ASCII.get(character as usize) {
        return letters.push_str(folded);
    }
    // Find the look-alike (the prototype of Unicode TS 39) before lowercasing: a capital may look like another letter than
    // its small form, as the Greek eta does.
    let own: Vec<char> = prototype(character).collect();
    match own.iter().all(char::is_ascii_alphanumeric) {
        true => own.into_iter().for_each(|letter| letters.extend(looks(letter.to_ascii_lowercase()))),
        false => {
            let small = character.to_lowercase().flat_map(prototype).flat_map(char::to_lowercase);
            letters.extend(small.flat_map(looks));
        }
    }
}

/// Returns Unicode's prototype of a character, without its marks.
fn prototype(character: char) -> impl Iterator<Item = char> {
    let prototype: Vec<char> = skeleton(character.encode_utf8(&mut [0; 4])).collect();
    prototype.into_iter().filter(|letter| !is_combining_mark(*letter))
}

/// Returns the prototype of a small letter or a digit. `i` and `l` become one letter, because their capitals look alike.
fn looks(letter: char) -> impl Iterator<Item = char> {
    prototype(letter).flat_map(char::to_lowercase).map(|letter| match letter {
        // These letters look alike in many fonts.
        'i' | '1' => 'l',
        letter => letter,
    })
}

/// Returns true for scripts without spaces: Thai to Tibetan and Myanmar, Khmer, and everything from the Chinese radicals on
/// (kana, ideographs).
fn has_no_spaces(character: char) -> bool {
    matches!(u32::from(character), 0xe00..=0xfff | 0x1000..=0x109f | 0x1780..=0x17ff | 0x2e80..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}
