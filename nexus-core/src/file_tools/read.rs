//! The tool `read_file`.

use super::{
    ToolContext,
    answer::{BoundedAnswer, MAX_FILE_BYTES, name, read},
    arguments::ReadFile,
};
use crate::scope::{ContentHash, lines_of};

pub(super) const DESCRIPTION: &str = "Reads a text file by lines. The first line of the answer has the \
    number of lines and bytes and the hash, which edit_file and write_file need. Each following line begins \
    with its number and a tab, which are not part of the file. A long file is returned in parts: the last \
    line of the answer gives the offset to continue with. A long line is shortened and marked; call again \
    with limit 1 to see more of it. Fails if the file does not exist, is out of scope or is binary.";

/// Bytes of each line in an answer with several lines. Source: our own bound.
const LINE_BYTES: usize = 2_000;

/// Bytes of a file that are checked to recognise text. Source: the number that git uses.
const LOOKED_AT: usize = 8_000;

/// Runs `read_file` and returns its answer.
pub(super) fn read_file(shared: &ToolContext, asked: &ReadFile) -> Result<String, String> {
    let path = shared.path(&asked.path);
    let content = read(shared, &path)?;
    let (bytes, shown_path) = (&content.bytes, name(&path));
    if bytes.iter().take(LOOKED_AT).any(|byte| *byte == 0) {
        return Err(format!("{shown_path} is not a text file: it contains NUL bytes; continue without it"));
    }
    let count = lines_of(bytes).count();
    let first = asked.offset.unwrap_or(1).max(1);
    if first > count && first > 1 {
        return Err(format!("{shown_path} has {count} lines; offset {first} is greater than that"));
    }

    let mut answer = BoundedAnswer::new(shared);
    answer.push(&head(&shown_path, &content.bytes, content.is_cut, count));
    let limit = asked.limit.unwrap_or(usize::MAX).max(1);
    let mut last = first - 1;
    for line in lines_of(bytes).skip(first - 1).take(limit) {
        let number = last + 1;
        let alone = answer.room().saturating_sub(100);
        let most = if limit == 1 { alone } else { LINE_BYTES.min(shared.answer_bytes / 5) };
        if !answer.push(&format!("{number}\t{}", shown_line(line, most))) {
            break;
        }
        last = number;
    }
    let mut remarks = Vec::new();
    if last < count {
        remarks.push(format!("lines {first} to {last} of {count}; continue with offset {}", last + 1));
    }
    if content.is_cut {
        remarks.push(format!(
            "the file is larger than {MAX_FILE_BYTES} bytes: these tools cannot read or change the rest"
        ));
    }
    Ok(answer.end(&remarks))
}

/// Returns the first line of the answer, which describes the file.
fn head(path: &str, bytes: &[u8], is_cut: bool, lines: usize) -> String {
    if is_cut {
        return format!("{path}: more than {} bytes, {lines} lines in the first of them", bytes.len());
    }
    let mut text =
        format!("{path}: {lines} lines, {} bytes, hash {}", bytes.len(), ContentHash::of(bytes).short());
    let ends = memchr::memchr_iter(b'\n', bytes);
    let (mut all, mut with_return) = (0, 0);
    for end in ends {
        all += 1;
        with_return += usize::from(end > 0 && bytes.get(end - 1) == Some(&b'\r'));
    }
    match with_return {
        0 => {}
        _ if with_return == all => text.push_str("; its lines end with CR LF"),
        _ => text.push_str("; some of its lines end with CR LF, some with LF"),
    }
    if !bytes.is_empty() && bytes.last() != Some(&b'\n') {
        text.push_str("; no line break after the last line");
    }
    if std::str::from_utf8(bytes).is_err() {
        text.push_str("; not all of it is UTF-8: \u{fffd} stands for other bytes");
    }
    text
}

/// Returns a line. Of a longer line, returns the beginning and the number of omitted bytes.
fn shown_line(line: &[u8], most: usize) -> String {
    if line.len() <= most {
        return String::from_utf8_lossy(line).into_owned();
    }
    let is_inside = |place: usize| line.get(place).is_some_and(|byte| (0x80..0xC0).contains(byte));
    let end = (most.saturating_sub(3)..=most).rev().find(|place| !is_inside(*place)).unwrap_or(most);
    let part = String::from_utf8_lossy(line.get(..end).unwrap_or_default());
    format!("{part}… [and {} bytes more in this line]", line.len() - end)
}
