//! Builds answers that every client passes on uncut: shortens texts, and splits lists into pages.
//!
//! A service builds its answers within [`MOST_BYTES`]. An answer above [`MAX_ANSWER_BYTES`](crate::MAX_ANSWER_BYTES) becomes an error.

use serde::Serialize;

/// Largest answer as JSON, in bytes. Source: 10 kB is the largest result that every client passes on uncut. The difference is for the
/// protocol's envelope.
pub const MOST_BYTES: usize = 9_000;
/// Text lengths that are tried, the longest first.
const TEXT_LIMITS: [usize; 10] = [4_000, 2_000, 1_000, 500, 250, 120, 60, 30, 12, 0];

/// Returns the answer with the longest texts that fit. `build` gets the most bytes for each text. If that number is small, `build`
/// should also shorten its lists, with [`most_of`].
pub fn fitted<T: Serialize>(build: impl Fn(usize) -> T) -> T {
    fitted_within(MOST_BYTES, build)
}

/// Like [`fitted`], within `bytes` bytes of JSON.
pub fn fitted_within<T: Serialize>(bytes: usize, build: impl Fn(usize) -> T) -> T {
    for most in TEXT_LIMITS {
        let answer = build(most);
        if json_bytes(&answer) <= bytes {
            return answer;
        }
    }
    build(0)
}

/// Returns the number of list items to include if each text has at most `most` bytes. It is `all`, unless the texts are cut to almost
/// nothing and the list still does not fit.
pub fn most_of(all: usize, most: usize) -> usize {
    match most {
        0 => 4,
        1..=12 => 12,
        13..=30 => 24,
        _ => all,
    }
}

/// Returns the size of a value as JSON, in bytes.
pub fn json_bytes<T: Serialize>(value: &T) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len())
}

/// Returns at most `most` bytes of a text, with a note about the missing rest.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}… ({} more bytes)", &text[..end], text.len() - end)
}

/// Returns the texts of a list that fit: at most `most` of them, each cut.
pub fn cut_list<'t>(texts: impl IntoIterator<Item = &'t str>, most: usize) -> Vec<String> {
    let texts: Vec<&str> = texts.into_iter().collect();
    let count = match most {
        0 => 1,
        1..=60 => 4,
        61..=500 => 8,
        _ => 16,
    };
    let mut shown: Vec<String> = texts.iter().take(count).map(|text| cut(text, most)).collect();
    if texts.len() > count {
        shown.push(format!("… and {} more", texts.len() - count));
    }
    shown
}

/// Returns the items from `offset` on that fit, but at least one, and the offset of the next page.
pub fn page<T: Serialize>(
    items: impl IntoIterator<Item = T>,
    offset: u64,
    room: usize,
) -> (Vec<T>, Option<u64>) {
    let mut shown = Vec::new();
    let mut bytes = 0;
    let left = items.into_iter().skip(usize::try_from(offset).unwrap_or(usize::MAX));
    for (next, item) in (offset..).zip(left) {
        // One more byte for the comma between two items.
        bytes += json_bytes(&item) + 1;
        // At least one item per page, because a client could not get beyond an empty page.
        if bytes > room && !shown.is_empty() {
            return (shown, Some(next));
        }
        shown.push(item);
    }
    (shown, None)
}

/// Returns the part of a text from byte `offset` on that fits into `room` bytes of JSON, and the offset of the next page. Moves an
/// offset inside of a character back to the start of that character.
pub fn text_page(text: &str, offset: u64, room: usize) -> (&str, Option<u64>) {
    let start = text.floor_char_boundary(usize::try_from(offset).unwrap_or(usize::MAX).min(text.len()));
    let mut room = room;
    let mut end = start;
    for character in text[start..].chars() {
        let bytes = match character {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            // JSON writes other control characters as `\u00XX`.
            character if character.is_control() => 6,
            character => character.len_utf8(),
        };
        if bytes > room {
            return (&text[start..end], Some(end as u64));
        }
        room -= bytes;
        end += character.len_utf8();
    }
    (&text[start..end], None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_of_a_text_come_to_the_text_and_each_fits(text in "(?s)(.|\"|\\\\|\u{1}|\n){0,80}", room in 6_usize..40) {
            let mut read = String::new();
            let mut offset = 0;
            loop {
                let (part, next) = text_page(&text, offset, room);
                prop_assert!(json_bytes(&part) <= room + 2);
                read.push_str(part);
                match next {
                    Some(next) => {
                        prop_assert!(next > offset);
                        offset = next;
                    }
                    None => break,
                }
            }
            prop_assert_eq!(read, text);
        }

        #[test]
        fn pages_of_a_list_come_to_the_list(items in prop::collection::vec("[a-z\"]{0,30}", 0..30), room in 1_usize..90) {
            let mut read = Vec::new();
            let mut offset = 0;
            loop {
                let (part, next) = page(items.iter().cloned(), offset, room);
                read.extend(part);
                match next {
                    Some(next) => offset = next,
                    None => break,
                }
            }
            prop_assert_eq!(read, items);
        }
    }
}
