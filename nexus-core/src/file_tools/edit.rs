//! The tool `edit_file`.

use memchr::memmem;

use super::{
    ToolContext,
    answer::{MAX_FILE_BYTES, fault, read_expected},
    arguments::EditFile,
    write::written_as,
};
use crate::scope::lines_of;

pub(super) const DESCRIPTION: &str = "Replaces text in a file. Read the file first, and give its hash as \
    expected_hash. old_text must occur in the file exactly once, with all its white space and without line \
    numbers; add neighbouring lines until it is unique, or set replace_all. Line breaks follow the file. \
    Example: old_text `let a = 1;` and new_text `let a = 2;`. Returns the new hash, which the next change of \
    the file needs. Fails and changes nothing if the file changed since you read it, or if old_text is \
    missing or not unique.";

/// Maximum number of line numbers that a message lists.
const MAX_LINES: usize = 5;

/// Longest text that is also searched with other white space, in lines. Source: our own bound.
const MAX_COMPARED: usize = 100;

/// Runs `edit_file` and returns its answer.
pub(super) fn edit_file(shared: &ToolContext, asked: &EditFile) -> Result<String, String> {
    let path = shared.path(&asked.path);
    let (content, hash) = read_expected(shared, &path, &asked.expected_hash)?;
    let (old, new) = (asked.old_text.as_str(), asked.new_text.as_str());
    let (edited, places) = edited(&content, old, new, asked.replace_all.unwrap_or_default())?;
    shared.files.replace(&path, &hash, &edited).map_err(|error| fault(&path, &error))?;
    let said = if places == 1 { "1 place".to_owned() } else { format!("{places} places") };
    Ok(format!("changed {said}; {}", written_as(&path, &edited)))
}

/// Returns the content with `old` replaced by `new`, and the number of replacements.
fn edited(content: &[u8], old: &str, new: &str, all: bool) -> Result<(Vec<u8>, usize), String> {
    if old.is_empty() {
        return Err("old_text is empty; give the text to replace, or use write_file to write the whole file"
            .to_owned());
    }
    // Models write `\n`, so convert their texts to the line ends of the file.
    let (old, new) = if ends_with_returns(content) {
        (with_returns(old), with_returns(new))
    } else {
        (old.to_owned(), new.to_owned())
    };
    if old == new {
        return Err("old_text and new_text are the same; give a different new_text".to_owned());
    }
    let (count, first) = places_of(content, old.as_bytes());
    match count {
        0 => return Err(not_found(content, &old)),
        2.. if !all => {
            let more = if count > first.len() { ", …" } else { "" };
            let first: Vec<_> = first.iter().map(|place| line_of(content, *place).to_string()).collect();
            return Err(format!(
                "old_text is in the file {} times, in lines {}{more}; add more neighbouring lines to make it \
                 unique, or set replace_all to true",
                count,
                first.join(", ")
            ));
        }
        _ => {}
    }
    let finder = memmem::Finder::new(&old);
    let count = finder.find_iter(content).count();
    // Compute the size before the text is built, because many replacements could exhaust the memory.
    let length =
        new.len().checked_mul(count).map(|added| added.saturating_add(content.len() - old.len() * count));
    if length.is_none_or(|length| length as u64 > MAX_FILE_BYTES) {
        return Err(format!("the file would become larger than {MAX_FILE_BYTES} bytes; nothing was changed"));
    }
    let (mut edited, mut from) = (Vec::new(), 0);
    for place in finder.find_iter(content) {
        edited.extend_from_slice(content.get(from..place).unwrap_or_default());
        edited.extend_from_slice(new.as_bytes());
        from = place + old.len();
    }
    edited.extend_from_slice(content.get(from..).unwrap_or_default());
    Ok((edited, count))
}

/// Returns the number of occurrences of a text, and the first positions. Overlapping occurrences count
/// separately.
fn places_of(content: &[u8], text: &[u8]) -> (usize, Vec<usize>) {
    let finder = memmem::Finder::new(text);
    let mut first: Vec<usize> = finder.find_iter(content).take(MAX_LINES).collect();
    // `find_iter` skips overlapping matches, but a second one also leaves open which place is meant.
    if let [one] = first[..]
        && let Some(next) = content.get(one + 1..).and_then(|rest| finder.find(rest))
    {
        first.push(one + 1 + next);
        return (2, first);
    }
    (finder.find_iter(content).count(), first)
}

/// Returns true if each line ends with CR LF.
fn ends_with_returns(content: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', content).peekable();
    ends.peek().is_some() && ends.all(|end| end > 0 && content.get(end - 1) == Some(&b'\r'))
}

fn with_returns(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Returns the number of the line at a position.
fn line_of(content: &[u8], place: usize) -> usize {
    memchr::memchr_iter(b'\n', content.get(..place).unwrap_or_default()).count() + 1
}

/// Returns the likely reason why a text was not found.
fn not_found(content: &[u8], old: &str) -> String {
    let is_numbered = |line: &&[u8]| {
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && line.get(digits) == Some(&b'\t')
    };
    // Models sometimes copy the line numbers that `read_file` shows.
    if lines_of(old.as_bytes()).all(|line| is_numbered(&line)) {
        return "old_text is not in the file; leave out the numbers and tabs that read_file shows before the lines".to_owned();
    }
    match near_miss(content, old) {
        Some(line) => format!(
            "old_text is not in the file, but line {} has it with different white space; read the lines \
             again and copy them exactly",
            line + 1
        ),
        None => "old_text is not in the file; read the file again and copy the text exactly, with all its white space".to_owned(),
    }
}

/// Returns the position of a text's lines, ignoring white space at their ends.
fn near_miss(content: &[u8], text: &str) -> Option<usize> {
    let wanted: Vec<&[u8]> =
        lines_of(text.as_bytes()).map(<[u8]>::trim_ascii).take(MAX_COMPARED + 1).collect();
    if wanted.len() > MAX_COMPARED || wanted.iter().all(|line| line.is_empty()) {
        return None;
    }
    let lines: Vec<&[u8]> = lines_of(content).map(<[u8]>::trim_ascii).collect();
    lines.windows(wanted.len()).position(|lines| lines == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(content: &str, old: &str, new: &str) -> Result<String, String> {
        edited(content.as_bytes(), old, new, false).map(|(edited, _)| String::from_utf8(edited).unwrap())
    }

    #[test]
    fn one_place_is_changed_and_the_rest_stays() {
        assert_eq!(edit("a b c", "b", "x").unwrap(), "a x c");
        assert_eq!(edit("a\nb\n", "a\n", "").unwrap(), "b\n");
        assert_eq!(edited(b"\xff a \0 b", "a", "x", false).unwrap().0, b"\xff x \0 b");
        assert_eq!(edited(b"a b a", "a", "aa", true).unwrap(), (b"aa b aa".to_vec(), 2));
        assert_eq!(edited(b"aaa", "aa", "b", true).unwrap(), (b"ba".to_vec(), 1));
    }

    #[test]
    fn line_breaks_are_those_of_the_file() {
        assert_eq!(edit("a\r\nb\r\n", "a\nb", "x\ny").unwrap(), "x\r\ny\r\n");
        assert_eq!(edit("a\r\nb\r\n", "a\r\nb", "x\r\ny\nz").unwrap(), "x\r\ny\r\nz\r\n");
        assert_eq!(edit("a\r\nb\n", "b", "x\ny").unwrap(), "a\r\nx\ny\n");
    }

    #[test]
    fn what_cannot_be_changed_is_told_with_what_to_do() {
        for (content, old, new, said) in [
            ("a", "", "b", "write_file"),
            ("a", "a", "a", "the same"),
            ("a\nb\na\n", "a", "b", "2 times, in lines 1, 3; add more"),
            ("aaa", "aa", "b", "2 times, in lines 1, 1"),
            ("x\n  if a {\n    b\n  }\n", "if a {\n  b\n}", "c", "line 2 has it with different white space"),
            ("a\nb\n", "1\ta\n2\tb", "c", "leave out the numbers"),
            ("a", "b", "c", "read the file again"),
            ("", "b", "c", "read the file again"),
            ("\n\n", " ", "c", "read the file again"),
        ] {
            let problem = edit(content, old, new).unwrap_err();
            assert!(problem.contains(said), "{old:?}: {problem}");
        }
        assert!(
            edit(&"a".repeat(100_000), "a", "b")
                .unwrap_err()
                .contains("100000 times, in lines 1, 1, 1, 1, 1, …")
        );
    }

    #[test]
    fn nothing_takes_more_than_a_moment_or_more_memory_than_a_file() {
        let (many, half) = ("a".repeat(4 << 20), "a".repeat(2 << 20));
        let began = std::time::Instant::now();
        assert!(edit(&many, &half, "b").unwrap_err().contains("2 times"));
        assert!(edit(&many, &(half.clone() + "b"), "b").unwrap_err().contains("not in the file"));
        assert!(edit(&"\n".repeat(1 << 20), &("\n".repeat(1 << 19) + "x"), "b").is_err());
        let grown = edited(many.as_bytes(), "a", &half, true).unwrap_err();
        assert!(grown.contains("larger than"), "{grown}");
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
    }
}
