//! Masks possible secrets in a line of the file, so that an error can be shown to anyone.
//!
//! No key of `nexus.yaml` accepts a secret. The mask protects users who write one there by mistake.

use nexus_core::{redact::Redactor, variable_name_fault};

/// Words after which a value may be a secret.
const SENSITIVE: [&str; 6] = ["token", "secret", "password", "credential", "key", "auth"];
/// Shortest run of characters that may be a secret.
const MIN_SECRET: usize = 16;

/// Length of the secret half of a NATS key, less a tolerance for characters that were cut off.
const SEED_LENGTH: usize = 48;

/// Keys whose value, to the end of the line, is secret even if short.
const SECRET_KEYS: [&str; 4] = ["authorization", "cookie", "passwd", "password"];

/// Keys whose value is only the name of a variable.
const VARIABLE_KEYS: [&str; 2] = ["env", "secret_environment"];

/// Returns a line of `lines` with each character of a possible secret replaced, so that columns stay correct. `index`
/// counts from zero.
pub(crate) fn masked_line(lines: &[&str], index: usize) -> String {
    let line = lines.get(index).copied().unwrap_or_default().trim_start_matches('\u{feff}');
    let line = without_user_info(line);
    // Users paste credentials into headers, and the server chooses the header's name.
    if is_under_headers(lines, index) {
        return hidden_after(&line, line.find(':').map_or(0, |colon| colon + 1));
    }
    let folded = line.to_ascii_lowercase();
    let secret = ["headers"].iter().chain(&SECRET_KEYS).filter_map(|key| end_of_key(&folded, key)).min();
    // A line may have several such keys. Mask everything from the first one on.
    let secret = VARIABLE_KEYS
        .iter()
        .filter_map(|key| end_of_key(&folded, key))
        .find(|from| !names_variable(&line[*from..]))
        .into_iter()
        .chain(secret)
        .min();
    match secret {
        Some(from) => hidden_after(&line, from),
        None => masked(&line),
    }
}

/// Returns true if the line is in a mapping or a list under the key `headers`.
fn is_under_headers(lines: &[&str], index: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let Some(mut inner) = lines.get(index).map(|line| indent(line)) else { return false };
    // In block style, the parents are the earlier lines with less indentation.
    for line in lines.iter().take(index).rev().filter(|line| !line.trim().is_empty()) {
        if indent(line) < inner {
            inner = indent(line);
            if end_of_key(&line.to_ascii_lowercase(), "headers").is_some() {
                return true;
            }
        }
    }
    false
}

/// Returns true if a value names a variable, or is empty.
fn names_variable(value: &str) -> bool {
    let value = value.trim_start().trim_start_matches(['"', '\'']);
    let end = value.find(['"', '\'', ',', '}', '#']).unwrap_or(value.len());
    let name = value[..end].trim_end();
    name.is_empty() || variable_name_fault(name).is_none()
}

/// Returns the offset at which the value of a key starts.
fn end_of_key(line: &str, key: &str) -> Option<usize> {
    line.match_indices(key).find_map(|(at, _)| {
        let end = at + key.len();
        let rest = line.get(end..)?;
        let colon =
            rest.find(':').filter(|colon| rest[..*colon].trim_matches(['"', '\'', ' ']).is_empty())?;
        Some(end + colon + 1)
    })
}

/// Masks the line from `from` on, except for punctuation that shows its structure.
fn hidden_after(line: &str, from: usize) -> String {
    let (shown, hidden) = line.split_at_checked(from).unwrap_or((line, ""));
    let hidden = hidden.chars().map(|c| if is_boundary(c) { c } else { '•' });
    shown.chars().chain(hidden).collect()
}

/// Masks user names and passwords before a host, as in URLs, with or without a scheme.
fn without_user_info(line: &str) -> String {
    let mut shown: Vec<char> = line.chars().collect();
    let mut from = 0;
    for index in 0..shown.len() {
        match shown[index] {
            '@' => shown[from..index].fill('•'),
            c if c.is_whitespace() || "/\"'".contains(c) => from = index + 1,
            _ => {}
        }
    }
    shown.into_iter().collect()
}

/// Masks each long word after a sensitive key. Masks token-shaped words anywhere.
fn masked(line: &str) -> String {
    let folded = line.to_lowercase();
    let is_telling = SENSITIVE.iter().any(|word| folded.contains(word));
    let shapes = Redactor::default();
    let is_hidden =
        |word: &str| (is_telling && looks_secret(word)) || is_seed(word) || shapes.redact_text(word) != word;
    let mut shown = String::with_capacity(line.len());
    for run in line.split_inclusive(is_boundary) {
        let (word, end) = match run.char_indices().next_back() {
            Some((at, last)) if is_boundary(last) => run.split_at(at),
            _ => (run, ""),
        };
        if is_hidden(word) {
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

/// Returns true for the secret half of a NATS key: 58 characters that begin with `S`. Public halves begin with other
/// letters.
fn is_seed(word: &str) -> bool {
    word.len() >= SEED_LENGTH
        && word.starts_with('S')
        && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
}

/// Returns true if a word is long and is neither a variable name nor a plain word.
fn looks_secret(word: &str) -> bool {
    let is_variable = word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let is_word = word.chars().all(|c| c.is_lowercase() || "-_./".contains(c));
    word.chars().count() >= MIN_SECRET && !is_variable && !is_word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_place_of_a_variable_s_name_is_hidden_however_short() {
        for line in [
            "    env: ab-c",
            "credential: { env: \"p w\" }",
            "  secret_environment: whsec_aB3dEf6h9",
            "env: hunter-2 # x",
        ] {
            let shown = masked_line(&[line], 0);
            for piece in ["ab-c", "p w", "whsec_aB3d", "hunter"] {
                assert!(!shown.contains(piece), "{shown}");
            }
        }
        for line in ["    env: NEXUS_TOKEN", "credential: { env: my_token }"] {
            assert_eq!(masked_line(&[line], 0), line);
        }
    }

    #[test]
    fn what_looks_like_a_secret_is_not_shown() {
        let line = "  credential: { env: \"sk-Abcdef0123456789\", x: eyJhbGciOiJIUzI1NiJ9 }";
        let shown = masked(line);
        assert_eq!(shown, "  credential: { env: \"•••••••••••••••••••\", x: •••••••••••••••••••• }");
        assert_eq!(shown.chars().count(), line.chars().count());
    }

    #[test]
    fn the_secret_half_of_a_key_is_not_shown_and_the_public_one_is() {
        let seed = "SXAKIYZX2POLIHZ5W5YZEWVTH24NLEUETBW3TKIVYRSS3GNHFXO5D4JJZM";
        let public = "XBUJMZHVOPQ2SK5VD3TY4VNBPVU2YFGRLK6EFPEPSMVDUYEBSROWZCEA";
        let line = |key: &str| format!("  shared_with: [\"{key}\"]");
        assert_eq!(masked(&line(seed)), line(&"•".repeat(seed.len())));
        assert_eq!(masked(&line(public)), line(public));
    }

    #[test]
    fn headers_are_never_shown_however_they_are_written() {
        for text in [
            "headers:\n  x-team: hunter2",
            "headers:\n  x-team:\n    - hunter2",
            "  headers: { x-team: hunter2 }",
            "  headers: {\n    x-team: \"hunter2\" }",
            "  \"headers\" : { x-team: hunter2 }",
            "backends: { a: { headers: { x-team: hunter2 } } }",
            "authorization: hunter2",
            "password: hunter2",
            "proxy: \"http://me:hunter2@proxy.test:8080/\"",
            "base_url: https://hunter2@api.test/v1",
            "base_url: https://me:hun@hunter2@api.test",
            "proxy: me:hunter2@proxy.test:8080",
            "base_url: \"sk-0123456789abcdef-hunter2\"",
            "base_url: https://api.test/v1/sk-0123456789abcdef-hunter2",
        ] {
            let lines: Vec<&str> = text.lines().collect();
            let shown: Vec<String> = (0..lines.len()).map(|index| masked_line(&lines, index)).collect();
            assert!(!shown.concat().contains("hunter2"), "{shown:?}");
            let length = |line: &str| line.chars().count();
            assert!(shown.iter().zip(&lines).all(|(shown, line)| length(shown) == length(line)), "{shown:?}");
        }
    }

    #[test]
    fn what_follows_the_headers_is_shown() {
        let lines = ["a:", "  headers:", "    x: y", "  base_url: https://api.test/v1"];
        assert_eq!(masked_line(&lines, 3), lines[3]);
        assert_eq!(masked_line(&lines, 1), lines[1]);
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
