//! The texts that people read in a source file or a page.

use std::sync::LazyLock;

use regex::Regex;

use super::rules::TextKind;

/// One text, and the line that it begins in, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) kind: TextKind,
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// Fewest words of a string literal that counts as a sentence.
pub(crate) const SENTENCE_WORDS: usize = 6;

/// Returns the comment blocks of a source file: neighbouring lines of one kind, without code, tables and licence headers.
pub(crate) fn comments(source: &str) -> Vec<Text> {
    let mut found = Vec::new();
    let mut lines = source.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        let Some((kind, marker)) = comment_kind(line) else { continue };
        let (mut words, mut is_code) = (Vec::new(), false);
        let mut add = |line: &str| {
            let body = line.trim().get(marker.len()..).unwrap_or_default().trim().to_owned();
            if body.starts_with("```") {
                is_code = !is_code;
            } else if !is_code
                && !body.starts_with(['|', '<'])
                && !["Copyright", "SPDX", "!["].iter().any(|start| body.starts_with(start))
            {
                words.push(body);
            }
        };
        add(line);
        while let Some((_, next)) =
            lines.next_if(|(_, next)| comment_kind(next).is_some_and(|(_, other)| other == marker))
        {
            add(next);
        }
        let text = words.join(" ").trim().to_owned();
        if !text.is_empty() {
            found.push(Text { kind, line: index + 1, text });
        }
    }
    found
}

fn comment_kind(line: &str) -> Option<(TextKind, &'static str)> {
    let line = line.trim();
    match line {
        _ if line.starts_with("////") => Some((TextKind::InlineComment, "//")),
        _ if line.starts_with("///") => Some((TextKind::DocComment, "///")),
        _ if line.starts_with("//!") => Some((TextKind::DocComment, "//!")),
        _ if line.starts_with("//") => Some((TextKind::InlineComment, "//")),
        _ => None,
    }
}

static STRING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""((?:[^"\\\n]|\\.|\\\n\s*)*)""#).expect("a pattern"));
static CONTINUATION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n\s*").expect("a pattern"));

/// Returns the string literals of a source file that are sentences.
pub(crate) fn strings(source: &str) -> Vec<Text> {
    STRING
        .captures_iter(source)
        .filter_map(|captures| {
            let (whole, text) = (captures.get(0)?, captures.get(1)?);
            let text = CONTINUATION.replace_all(text.as_str(), "").into_owned();
            let line = source.get(..whole.start())?.matches('\n').count() + 1;
            let is_sentence = text.split_whitespace().count() >= SENTENCE_WORDS && !text.starts_with("{{");
            // Patterns and format strings without words are not prose.
            let has_word = text.as_bytes().windows(3).any(|three| three.iter().all(u8::is_ascii_lowercase));
            (is_sentence && has_word).then_some(Text { kind: TextKind::StringLiteral, line, text })
        })
        .collect()
}

static BREAK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?P<stop>[.!?:])\s+|\n\s*\n|\n\s*[-*] ").expect("a pattern"));

/// Returns the sentences of a Markdown page, without code, tables, headings and pictures.
pub(crate) fn sentences(page: &str) -> Vec<Text> {
    let mut is_code = false;
    let mut prose = String::new();
    for line in page.lines() {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        let is_left_out = is_code
            || fence
            || line.starts_with(['|', '#', '<'])
            || line.starts_with("    ")
            || line.starts_with("![");
        prose.push_str(if is_left_out { "" } else { line });
        prose.push('\n');
    }
    let (mut found, mut start) = (Vec::new(), 0);
    let ends = BREAK.captures_iter(&prose).filter_map(|captures| {
        let whole = captures.get(0)?;
        Some((captures.name("stop").map_or(whole.start(), |stop| stop.end()), whole.end()))
    });
    for (end, next) in ends.chain([(prose.len(), prose.len())]) {
        let sentence = prose.get(start..end).unwrap_or_default();
        if sentence.split_whitespace().count() > 3 {
            // Count from the first word, because the sentence may begin with empty lines.
            let leading = sentence.len() - sentence.trim_start().len();
            let line = prose.get(..start + leading).unwrap_or_default().matches('\n').count() + 1;
            let text = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
            found.push(Text { kind: TextKind::Sentence, line, text });
        }
        start = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(texts: Vec<Text>) -> Vec<(usize, String)> {
        texts.into_iter().map(|text| (text.line, text.text)).collect()
    }

    #[test]
    fn comments_are_blocks_of_one_kind() {
        let source = "//! Module.\n\n/// One\n/// two.\n/// ```\n/// code();\n/// ```\n/// | a | table |\n// Beside.\nfn f() {} // not counted\n    // Inside\n    // it.\n";
        let expected = [(1, "Module."), (3, "One two."), (9, "Beside."), (11, "Inside it.")];
        assert_eq!(shown(comments(source)), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn strings_are_sentences_across_lines() {
        let source =
            "let a = \"short one\";\nlet b = \"the file of the task \\\n    cannot be \\\"read\\\"\";\n";
        assert_eq!(shown(strings(source)), [(2, "the file of the task cannot be \\\"read\\\"".to_owned())]);
    }

    #[test]
    fn pages_are_split_into_sentences() {
        let page = "# Title of the page\n\nOne sentence is here. Another one\nis there.\n\n```sh\nno prose at all here\n```\n- a point of a list\n- too short\n| a | table | of | words |\n";
        let expected =
            [(3, "One sentence is here."), (3, "Another one is there."), (9, "- a point of a list")];
        assert_eq!(shown(sentences(page)), expected.map(|(line, text)| (line, text.to_owned())));
    }
}
