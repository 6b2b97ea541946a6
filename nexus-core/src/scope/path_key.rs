//! Folds names for comparison, so that no difference counts that some file system ignores.
//!
//! Some file systems treat `Secret` and `secret` as one name. Some ignore the Unicode form of an accented letter, and some drop
//! invisible characters. The fold does not ask which file system is in use: a protected path is protected under every such name.

use std::{
    borrow::Cow,
    path::{Component, Path},
};

use unicode_normalization::UnicodeNormalization as _;

/// Returns the names of an absolute path, from the root of the file system down. Invalid Unicode becomes `\u{fffd}`, so that paths
/// below such a name are checked against the rules too.
pub(super) fn names(path: &Path) -> impl Iterator<Item = Cow<'_, str>> {
    let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    parts.map(|part| part.as_os_str().to_string_lossy())
}

/// Returns the folded names of a path.
pub(super) fn key_of(path: &Path) -> Vec<String> {
    names(path).map(|name| folded_name(&name)).collect()
}

/// Joins names into one text, for matching against globs.
pub(super) fn joined<N: AsRef<str>>(names: &[N]) -> String {
    names.iter().fold(String::new(), |text, name| text + "/" + name.as_ref())
}

/// Folds a name: removes every difference that some file system ignores. These are case, Unicode forms, invisible characters, and
/// dots and spaces at the end.
pub fn folded_name(name: &str) -> String {
    let folded = folded(name);
    match folded.trim_end_matches(['.', ' ']) {
        "" => folded,
        trimmed => trimmed.to_owned(),
    }
}

/// Returns true if some file system treats a name as `.git`: in any case, with invisible characters (HFS+),
/// with dots and spaces at its end, as a short name, with a stream, or behind a backslash (NTFS). Source:
/// `is_hfs_dotgit` and `is_ntfs_dotgit` in git.
///
/// ```
/// use nexus_core::scope::is_dot_git;
///
/// assert!(is_dot_git(b".GIT") && is_dot_git(b"git~1") && is_dot_git(".git\u{200c}".as_bytes()));
/// assert!(!is_dot_git(b".gitignore") && !is_dot_git(b"git"));
/// ```
pub fn is_dot_git(name: &[u8]) -> bool {
    // Use the valid parts of a name that is not Unicode.
    let text: String = name.utf8_chunks().map(|chunk| chunk.valid()).collect();
    // `git~1` is the short name that NTFS gives to `.git`.
    let is = |name: &str| matches!(folded_name(name).as_str(), ".git" | "git~1");
    // NTFS takes text after a colon as the name of a stream.
    let stem = |part: &str| is(part.split(':').next().unwrap_or_default());
    is(&text) || text.split('\\').any(stem)
}

/// Like [`folded_name`], but retains dots and spaces at the end.
pub(super) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let parts: Vec<String> = text.split('/').map(folded_part).collect();
    parts.join("/")
}

/// Folds a text without a slash. The result has no slash either.
fn folded_part(text: &str) -> String {
    let shown = text.nfkd().filter(|character| !is_ignorable(*character));
    // Map to upper case and back, which joins `ß` and `ss`, `ſ` and `s`, and the Greek sigmas. Map to lower case first, because `ẞ`
    // is its own upper case.
    let lower = shown.flat_map(char::to_lowercase).flat_map(char::to_uppercase).flat_map(char::to_lowercase);
    let folded = lower.nfkd().filter(|character| !is_ignorable(*character)).nfkc();
    // Decomposition can produce a slash, which must not separate names.
    folded.map(|character| if character == '/' { '\u{2215}' } else { character }).collect()
}

/// Returns true for an invisible character. Source: the property `Default_Ignorable_Code_Point` of Unicode 16.
fn is_ignorable(character: char) -> bool {
    matches!(u32::from(character),
        0xAD | 0x34F | 0x61C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
        | 0x202A..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFF8
        | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_some_file_system_takes_for_one_are_one() {
        let same = [
            ("SECRET", "secret"),
            ("caf\u{e9}", "CAFE\u{301}"),
            ("straße", "STRASSE"),
            ("straße", "STRAẞE"),
            ("\u{212a}ey", "key"),
            (".g\u{200c}it", ".git"),
            ("ﬁle", "FILE"),
            ("ΣΑΣ", "σας"),
            (".env. ", ".env"),
            ("．env", ".env"),
        ];
        for (one, other) in same {
            assert_eq!(folded_name(one), folded_name(other), "{one:?} and {other:?}");
        }
        for (one, other) in [("a", "b"), ("e", "é"), ("a b", "ab"), ("..", "."), ("a\u{2100}", "a")] {
            assert_ne!(folded_name(one), folded_name(other), "{one:?} and {other:?}");
        }
        assert!(!folded("a\u{2100}b").contains('/'));
        assert_eq!(folded("\u{c9}/X"), folded("e\u{301}/x"));
        assert_eq!(folded("\u{e9}/x").matches('/').count(), 1);
    }

    #[test]
    fn a_repository_is_known_by_every_name() {
        for name in [
            ".git",
            ".GIT",
            ".gIt",
            ".git.",
            ".git ",
            ".git. .",
            "git~1",
            "GIT~1",
            ".g\u{200c}it",
            ".git\u{feff}",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            ".git\\config",
            "git~1\\x",
            "a\\.GIT",
            ".git . ::$DATA",
        ] {
            assert!(is_dot_git(name.as_bytes()), "{name:?}");
        }
        for name in [".gitignore", ".github", "git", "x.git", "git~2", ".git-x", "...git", "a\\b.git"] {
            assert!(!is_dot_git(name.as_bytes()), "{name:?}");
        }
        assert!(is_dot_git(b".g\xffit"), "bytes that are not Unicode may be left out");
    }

    proptest! {
        #[test]
        fn folding_does_not_depend_on_the_form_nor_on_the_case(name in "[\\PC&&[^/]]{0,12}") {
            let key = folded(&name);
            prop_assert_eq!(&folded(&key), &key);
            for form in [name.nfc().collect::<String>(), name.nfd().collect(), name.nfkc().collect(), name.nfkd().collect()] {
                // A form with a slash is a path, and no name.
                if !form.contains('/') {
                    prop_assert_eq!(&folded(&form), &key);
                }
            }
            // Case is that of the decomposed form: a mark that is a letter in the other case does not change places.
            let apart: String = name.nfd().collect();
            for cased in [apart.to_uppercase(), apart.to_lowercase()] {
                prop_assert_eq!(&folded(&cased), &key);
            }
        }
    }
}
