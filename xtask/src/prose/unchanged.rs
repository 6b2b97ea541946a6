//! `cargo xtask prose --code-unchanged BASE`: proves that a rewrite of texts changed nothing else.
//!
//! Compares the tokens of every Rust file with those of the commit BASE. Comments do not count. A string
//! literal may differ if it is prose: it has six words, or it is an argument of a macro or attribute for
//! errors, logs or help. Its placeholders must stay the same.

use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{git, root, texts::SENTENCE_WORDS};

/// Macros and attributes whose texts people or models read.
const PROSE_MACROS: [&str; 27] = [
    "anyhow",
    "arg",
    "assert",
    "assert_eq",
    "assert_ne",
    "bail",
    "command",
    "concat",
    "debug",
    "eprint",
    "eprintln",
    "error",
    "expect",
    "format",
    "info",
    "panic",
    "print",
    "println",
    "reason",
    "schemars",
    "todo",
    "trace",
    "unreachable",
    "value",
    "warn",
    "write",
    "writeln",
];
/// Parts of the paths of files that define what other programs read: no literal of theirs may change.
const WIRE_FILES: [&str; 3] = ["/wire", "/protocol/", "/harnesses"];

/// One token that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Code(String),
    Literal { text: String, is_prose_argument: bool },
}

/// Prints where the code differs from the commit. Returns the number of differences.
pub(crate) fn run(base: &str) -> Result<usize, String> {
    let root = root()?;
    let base = git(&root, &["rev-parse", "--verify", &format!("{base}^{{commit}}")])?;
    // A rename would hide the removal of the old path, so show it as two changes.
    let changed = git(&root, &["diff", "--name-status", "--no-renames", base.trim(), "--", "*.rs"])?;
    let mut differences = 0;
    let mut files = 0;
    for line in changed.lines() {
        let Some((status, path)) = line.split_once('\t') else { continue };
        files += 1;
        if status != "M" {
            println!("{path}: the file was {}", if status == "A" { "added" } else { "removed" });
            differences += 1;
            continue;
        }
        let before = git(&root, &["show", &format!("{}:{path}", base.trim())])?;
        let after = std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
        for difference in compare(Path::new(path), &before, &after)? {
            println!("{path}: {difference}");
            differences += 1;
        }
    }
    println!("\n{files} changed Rust files, {differences} differences in their code");
    Ok(differences)
}

fn compare(path: &Path, before: &str, after: &str) -> Result<Vec<String>, String> {
    let read = |text: &str| -> Result<Vec<Token>, String> {
        let stream: TokenStream = text.parse().map_err(|error| format!("{}: {error}", path.display()))?;
        let mut tokens = Vec::new();
        flatten(stream, false, &mut tokens);
        Ok(tokens)
    };
    let (before, after) = (read(before)?, read(after)?);
    let path = format!("/{}", path.display());
    let is_wire = WIRE_FILES.iter().any(|part| path.contains(part));
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
    let mut found = Vec::new();
    for (index, pair) in before.iter().zip(&after).enumerate() {
        match pair {
            (one, other) if one == other => {}
            (Token::Literal { text: one, is_prose_argument, .. }, Token::Literal { text: other, .. }) => {
                if is_wire || !may_differ(one, other, *is_prose_argument, is_test) {
                    found.push(format!("the literal {one} became {other}"));
                }
            }
            _ => {
                found.push(format!(
                    "the code `{}` became `{}`",
                    excerpt(&before, index),
                    excerpt(&after, index)
                ));
                // All later tokens are out of step.
                return Ok(found);
            }
        }
    }
    if before.len() != after.len() {
        let shorter = before.len().min(after.len());
        found.push(format!("the end `{}` became `{}`", excerpt(&before, shorter), excerpt(&after, shorter)));
    }
    Ok(found)
}

/// Returns true if both literals are texts for people with the same placeholders. Tests quote parts of such texts.
fn may_differ(before: &str, after: &str, is_prose_argument: bool, is_test: bool) -> bool {
    let words = |text: &str| text.split_whitespace().count();
    let is_text = |text: &str| text.ends_with('"') || text.ends_with("\"#");
    let is_prose = words(before).max(words(after)) >= SENTENCE_WORDS
        || is_prose_argument
        || (is_test && words(before).min(words(after)) >= 2);
    is_text(before) && is_text(after) && is_prose && placeholders(before) == placeholders(after)
}

/// The placeholders of a format string, sorted.
fn placeholders(text: &str) -> Vec<&str> {
    let mut found: Vec<_> =
        text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(inner, _)| inner).collect();
    found.sort_unstable();
    found
}

/// Flattens a stream, without what `rustfmt` adds or takes away when a line gets longer: commas, and the braces around the body of
/// a match arm or a closure.
fn flatten(stream: TokenStream, is_prose_argument: bool, into: &mut Vec<Token>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut index = 0;
    while let Some(tree) = trees.get(index) {
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let group = match trees.get(index + 1) {
                    Some(TokenTree::Punct(inner)) if inner.as_char() == '!' => index + 2,
                    _ => index + 1,
                };
                if is_documentation(trees.get(group)) {
                    index = group + 1;
                    continue;
                }
                into.push(Token::Code("#".to_owned()));
            }
            TokenTree::Punct(punct) if punct.as_char() == ',' => {}
            TokenTree::Punct(punct) => into.push(Token::Code(punct.as_char().to_string())),
            TokenTree::Ident(name) => into.push(Token::Code(name.to_string())),
            TokenTree::Literal(literal) => {
                into.push(Token::Literal { text: literal.to_string(), is_prose_argument });
            }
            TokenTree::Group(group) => {
                let is_prose_argument =
                    is_prose_argument || names_prose(trees.get(..index).unwrap_or_default());
                let [open, close] = match group.delimiter() {
                    Delimiter::Brace if is_body(trees.get(..index).unwrap_or_default()) => ["", ""],
                    Delimiter::Brace => ["{", "}"],
                    Delimiter::Bracket => ["[", "]"],
                    Delimiter::Parenthesis => ["(", ")"],
                    Delimiter::None => ["", ""],
                };
                let code = |text: &str| (!text.is_empty()).then(|| Token::Code(text.to_owned()));
                into.extend(code(open));
                flatten(group.stream(), is_prose_argument, into);
                into.extend(code(close));
            }
        }
        index += 1;
    }
}

/// Returns true for `[doc = "…"]`.
fn is_documentation(tree: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = tree else { return false };
    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
    matches!(&inner[..], [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(_)] if name == "doc")
}

/// Returns true if a group that follows these tokens is an argument list of one of the [`PROSE_MACROS`].
fn names_prose(before: &[TokenTree]) -> bool {
    let name = match before {
        [.., TokenTree::Ident(name), TokenTree::Punct(mark)] if mark.as_char() == '!' => name,
        [.., TokenTree::Ident(name)] => name,
        _ => return false,
    };
    PROSE_MACROS.contains(&name.to_string().as_str())
}

/// Returns true if a group of braces that follows these tokens is the body of a match arm or a closure.
fn is_body(before: &[TokenTree]) -> bool {
    match before {
        [.., TokenTree::Punct(equals), TokenTree::Punct(arrow)] if equals.as_char() == '=' => {
            arrow.as_char() == '>'
        }
        [.., TokenTree::Punct(bar)] => bar.as_char() == '|',
        _ => false,
    }
}

fn excerpt(tokens: &[Token], index: usize) -> String {
    let around = tokens.get(index.saturating_sub(3)..(index + 4).min(tokens.len())).unwrap_or_default();
    let text = |token: &Token| match token {
        Token::Code(text) | Token::Literal { text, .. } => text.clone(),
    };
    around.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differences(path: &str, before: &str, after: &str) -> usize {
        compare(Path::new(path), before, after).unwrap().len()
    }

    #[test]
    fn texts_may_change_and_code_may_not() {
        let cases = [
            ("/// One.\nfn f() { g(1); } // two", "//! Three.\n\n/// Four.\nfn f() { g(1) ; }", 0),
            ("#[doc(hidden)] fn f() {}", "fn f() {}", 1),
            ("fn f() { g(1); }", "fn f() { g(2); }", 1),
            ("fn f() { g(1); }", "fn f() { h(1); }", 1),
            ("fn f() { g(1); }", "fn f() { g(1); h(); }", 1),
            (
                "match a { 1 => g(\"the file cannot be read at all\"), _ => {} }",
                "match a { 1 => { g(\"the file cannot be opened or read at all\") } _ => {} }",
                0,
            ),
            ("fn f() { g(\"kind\") }", "fn f() { g(\"sort\") }", 1),
            ("fn f() { format!(\"no {x}\") }", "fn f() { format!(\"not {x}\") }", 0),
            ("fn f() { format!(\"no {x}\") }", "fn f() { format!(\"not {y}\") }", 1),
            ("#[error(\"it is no id\")] struct A;", "#[error(\"not an id\")] struct A;", 0),
            ("#[serde(rename = \"a\")] struct A;", "#[serde(rename = \"b\")] struct A;", 1),
            ("const A: u8 = b'a';", "const A: u8 = b'b';", 1),
        ];
        for (before, after, expected) in cases {
            assert_eq!(differences("a/src/b.rs", before, after), expected, "{before} -> {after}");
        }
        let (before, after) = ("g(\"a text that has six words\")", "g(\"another text that has six words\")");
        assert_eq!(differences("a/src/wire.rs", before, after), 1);
        let (before, after) = ("g(\"is no\")", "g(\"is not\")");
        assert_eq!(
            (differences("a/src/b.rs", before, after), differences("a/tests/b.rs", before, after)),
            (1, 0)
        );
    }
}
