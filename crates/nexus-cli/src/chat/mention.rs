//! Files that a prompt names: `@path` for a text or a picture, and the bare path of a picture.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use nexus::PromptBlock;

/// Maximum size of a text file that a prompt includes, in bytes. Source: our own bound, some 64,000 tokens.
const MAX_TEXT_BYTES: u64 = 256 << 10;
/// Maximum size of a picture, in bytes. Source: our own bound, above every vendor's limit.
const MAX_PICTURE_BYTES: u64 = 20 << 20;

/// Extensions of pictures that a prompt may name without `@`, as terminals insert a dragged file.
const PICTURES: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// A prompt with the files that it names.
#[derive(Debug, Default, PartialEq)]
pub(super) struct MentionedFiles {
    pub(super) blocks: Vec<PromptBlock>,
    /// Lines for the person.
    pub(super) notes: Vec<String>,
}

/// Reads a prompt. `folder` is that of relative paths. The words of the prompt stay as they are, since they refer to the files.
///
/// # Errors
///
/// A named file that is too large, or that is neither a text nor a picture.
pub(super) fn read(prompt: &str, folder: &Path) -> Result<MentionedFiles, String> {
    let mut found = MentionedFiles::default();
    let (mut texts, mut pictures) = (String::new(), Vec::new());
    let mut seen: Vec<PathBuf> = Vec::new();
    for word in words(prompt) {
        let path = folder.join(expanded(&word.path));
        if seen.contains(&path) {
            continue;
        }
        let Some(about) = fs::metadata(&path).ok().filter(|about| about.is_file()) else {
            if word.is_marked && !path.is_dir() && looks_like_a_path(&word.path) {
                found.notes.push(format!("{:?} is no file, so it is sent as it is written", word.path));
            }
            continue;
        };
        let shown = &word.path;
        if is_picture(&path) && about.len() <= MAX_PICTURE_BYTES {
            let bytes = fs::read(&path).map_err(|error| format!("{shown}: {error}"))?;
            match PromptBlock::image(&bytes) {
                Some(picture) => {
                    found.notes.push(format!("the prompt includes the picture {shown}"));
                    pictures.push(picture);
                    seen.push(path);
                    continue;
                }
                None if word.is_marked => {
                    return Err(format!("{shown}: not a PNG, JPEG, GIF or WebP picture"));
                }
                // A word without `@` that only looks like a picture stays a word.
                None => continue,
            }
        }
        if !word.is_marked {
            continue;
        }
        if about.len() > MAX_TEXT_BYTES {
            let kib = MAX_TEXT_BYTES >> 10;
            return Err(format!(
                "{shown}: larger than {kib} KiB; write the path without @, and let the agent read it"
            ));
        }
        let mut bytes = Vec::new();
        // Read no more than the limit, because the file may have grown since its length was read.
        let read = File::open(&path).and_then(|file| file.take(MAX_TEXT_BYTES).read_to_end(&mut bytes));
        read.map_err(|error| format!("{shown}: {error}"))?;
        let text =
            String::from_utf8(bytes).map_err(|_| format!("{shown}: neither UTF-8 text nor a picture"))?;
        found.notes.push(format!("the prompt includes {shown}, {} lines", text.lines().count()));
        texts.push_str(&format!("\n\n<file path={shown:?}>\n{}\n</file>", text.trim_end_matches('\n')));
        seen.push(path);
    }
    found.blocks.push(PromptBlock::text(format!("{prompt}{texts}")));
    found.blocks.extend(pictures);
    Ok(found)
}

/// A word that may name a file.
struct NamedPath {
    path: String,
    /// True if the word begins with `@`.
    is_marked: bool,
}

/// Returns the words that may name files. Quotes and backslashes protect spaces, as in a shell.
fn words(prompt: &str) -> Vec<NamedPath> {
    let mut words = Vec::new();
    let mut rest = prompt.chars().peekable();
    while let Some(first) = rest.next() {
        if first.is_whitespace() {
            continue;
        }
        let (is_marked, mut next) = match first {
            '@' => (true, rest.next()),
            first => (false, Some(first)),
        };
        let (mut path, mut quote) = (String::new(), None);
        while let Some(character) = next {
            match (quote, character) {
                (Some(end), character) if character == end => quote = None,
                (None, '"' | '\'') if path.is_empty() => quote = Some(character),
                (None, '\\') if rest.peek().is_some_and(|after| after.is_whitespace()) => {
                    path.extend(rest.next());
                }
                (None, character) if character.is_whitespace() => break,
                (_, character) => path.push(character),
            }
            next = rest.next();
        }
        // Punctuation after a name belongs to the sentence.
        let name = path.trim_end_matches([',', '.', ';', ':', '?', '!', ')']);
        if !name.is_empty() {
            words.push(NamedPath { path: name.to_owned(), is_marked });
        }
    }
    words
}

/// Replaces `~/` by the home folder of the person.
pub(super) fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(below),
        _ => PathBuf::from(path),
    }
}

fn is_picture(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    PICTURES.contains(&extension.to_ascii_lowercase().as_str())
}

/// Returns true for a word after `@` that is more likely a path than the name of a person or an annotation.
fn looks_like_a_path(word: &str) -> bool {
    word.contains(['/', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    #[test]
    fn named_files_are_included_and_other_words_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.rs"), "fn a() {}\n").unwrap();
        fs::write(folder.path().join("two words.txt"), "text\n").unwrap();
        fs::write(folder.path().join("shot.PNG"), PNG).unwrap();
        fs::write(folder.path().join("no.png"), "text").unwrap();
        let prompt =
            "See @a.rs, @\"two words.txt\" and shot.PNG. Ask @ann or @Override; a.rs @a.rs no.png @gone.rs";
        let found = read(prompt, folder.path()).unwrap();
        let [PromptBlock::Text { text }, PromptBlock::Image { media_type, .. }] = &found.blocks[..] else {
            panic!("{found:?}")
        };
        let files =
            "\n\n<file path=\"a.rs\">\nfn a() {}\n</file>\n\n<file path=\"two words.txt\">\ntext\n</file>";
        assert_eq!((text.as_str(), media_type.as_str()), (format!("{prompt}{files}").as_str(), "image/png"));
        assert_eq!(
            found.notes,
            [
                "the prompt includes a.rs, 1 lines",
                "the prompt includes two words.txt, 1 lines",
                "the prompt includes the picture shot.PNG",
                "\"gone.rs\" is no file, so it is sent as it is written",
            ]
        );
        let dragged = format!("'{}'", folder.path().join("shot.PNG").display());
        assert_eq!(read(&dragged, folder.path()).unwrap().blocks.len(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_shown_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("binary"), [0xff, 0xfe, 0]).unwrap();
        fs::write(folder.path().join("fake.png"), "text").unwrap();
        File::create(folder.path().join("large")).unwrap().set_len(MAX_TEXT_BYTES + 1).unwrap();
        for (name, error) in
            [("binary", "neither UTF-8"), ("fake.png", "not a PNG"), ("large", "larger than")]
        {
            assert!(read(&format!("@{name}"), folder.path()).unwrap_err().contains(error), "{name}");
        }
    }
}
