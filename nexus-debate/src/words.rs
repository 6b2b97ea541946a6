//! Whether one text has words of another.

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// How many consecutive words are a copy.
pub const COPIED_WORDS: usize = 12;

/// Longest run of letters that counts as one word, in characters: whoever leaves out the spaces gains nothing.
const LONGEST_WORD: usize = 16;

/// The words of a text that must not be copied: normalised (compatibility forms are one, case and accents are folded), without
/// punctuation, space, and characters that cannot be seen.
#[derive(Clone, Debug)]
pub(crate) struct RawWords {
    words: Vec<String>,
}

impl RawWords {
    pub(crate) fn of(text: &str) -> Self {
        let mut words = Vec::new();
        let mut word = String::new();
        for character in folded(text) {
            match character {
                // Scripts that put no space between words: each character is one.
                Some(character) if has_no_spaces(character) => {
                    words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                    words.push(character.to_string());
                }
                Some(character) => {
                    word.push(character);
                    if word.chars().count() == LONGEST_WORD {
                        words.push(std::mem::take(&mut word));
                    }
                }
                None => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            }
        }
        words.extend((!word.is_empty()).then_some(word));
        Self { words }
    }

    /// The first run of [`COPIED_WORDS`] words that `text` has as well, wherever it puts spaces and punctuation.
    pub(crate) fn shared_with(&self, text: &str) -> Option<String> {
        let letters: String = folded(text).flatten().collect();
        let run = self.words.windows(COPIED_WORDS).find(|run| letters.contains(&run.concat()));
        run.map(|run| run.join(" "))
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
    RawWords::of(raw).shared_with(steelman)
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
