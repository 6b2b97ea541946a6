//! A line of the file without what looks like a secret, so that an error can be shown to anyone.
//!
//! No key of `nexus.yaml` holds a secret; this is for the slip of writing one there.

/// Words after which a value may be a secret.
const SENSITIVE: [&str; 5] = ["token", "secret", "password", "credential", "key"];
/// Shortest run of characters that is taken for a secret.
const MIN_SECRET: usize = 16;

/// The line with each character of what looks like a secret replaced, so that columns stay true.
pub(crate) fn masked(line: &str) -> String {
    let folded = line.to_lowercase();
    if !SENSITIVE.iter().any(|word| folded.contains(word)) {
        return line.to_owned();
    }
    let mut shown = String::with_capacity(line.len());
    for run in line.split_inclusive(is_boundary) {
        let (word, end) = match run.char_indices().next_back() {
            Some((at, last)) if is_boundary(last) => run.split_at(at),
            _ => (run, ""),
        };
        if looks_secret(word) {
            shown.extend(word.chars().map(|_| '•'));
        } else {
            shown.push_str(word);
        }
        shown.push_str(end);
    }
    shown
}

fn is_boundary(c: char) -> bool {
    c.is_whitespace() || "{}[],\"':#".contains(c)
}

/// Long, and neither the name of a variable nor a plain word.
fn looks_secret(word: &str) -> bool {
    let is_variable = word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let is_word = word.chars().all(|c| c.is_lowercase() || "-_./".contains(c));
    word.chars().count() >= MIN_SECRET && !is_variable && !is_word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_not_shown() {
        let line = "  credential: { env: \"sk-Abcdef0123456789\", x: eyJhbGciOiJIUzI1NiJ9 }";
        let shown = masked(line);
        assert_eq!(shown, "  credential: { env: \"•••••••••••••••••••\", x: •••••••••••••••••••• }");
        assert_eq!(shown.chars().count(), line.chars().count());
    }

    #[test]
    fn what_does_not_is_shown() {
        for line in [
            "  credential: { env: NEXUS_VENDOR_TOKEN_2 }",
            "  credential: { file: secrets/somebodys-token }",
            "  strong: { one: Some-Model-Name-2026-01-01 }",
            "tokens: short1",
        ] {
            assert_eq!(masked(line), line);
        }
    }
}
