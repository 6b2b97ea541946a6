//! Allowed names of panelists, claims, findings and sources.

use nexus_work::Faults;

use std::collections::BTreeSet;

/// Maximum length of a name, in bytes. Source: our own bound.
const MOST_NAME_BYTES: usize = 40;

/// Returns true if `text` is a name: an ASCII letter, and up to 39 ASCII letters, digits, `-` and `_`. So a name is never a
/// path and has only visible characters. Letters of other scripts, which look alike, are excluded.
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    text.len() <= MOST_NAME_BYTES
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
        && text.bytes().all(fits)
}

/// Checks that names satisfy [`is_name`], and differ in more than the case of their letters.
pub(crate) fn check_names<'n>(
    faults: &mut Faults,
    names: impl IntoIterator<Item = (String, &'n str)>,
    what: &str,
) {
    let mut seen = BTreeSet::new();
    for (place, name) in names {
        if !is_name(name) {
            let problem = format!(
                "is not a name: write a letter, then letters, digits, `-` and `_`, at most {MOST_NAME_BYTES} \
                in total"
            );
            faults.add(place, problem);
        } else if !seen.insert(name.to_ascii_lowercase()) {
            faults.add(place, format!("another {what} also has the name {name}; give each its own name"));
        }
    }
}

/// Checks that a text of an agent has `1..=most` bytes without NUL. Any other content is stored unchanged.
pub(crate) fn check_text(faults: &mut Faults, place: &str, text: &str, most: usize) {
    if text.trim().is_empty() {
        faults.add(place, "is empty");
    } else if text.len() > most {
        faults.add(place, format!("has {} bytes, more than {most}", text.len()));
    } else if text.contains('\0') {
        faults.add(place, "has a NUL character; leave it out");
    }
}
