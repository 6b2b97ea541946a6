//! Cleans text from an issuer for messages: one line, truncated, without control characters or secrets.

use nexus_core::redact::Redactor;

/// Longest foreign text that is shown, in characters.
const MAX_SHOWN: usize = 300;

/// Length of a piece of a secret that must not be shown, in bytes. Source: our own choice: 8 characters of a random
/// token never occur by chance.
const TELLING_BYTES: usize = 8;

/// Returns `text` on one line, truncated, without the characters that control a terminal or change the writing
/// direction, and without any of `secrets`.
pub(super) fn shown(text: &str, secrets: &[&str]) -> String {
    let visible: String = text
        .chars()
        // Cut a very long text before the work. The rest leaves room for characters that are removed.
        .take(MAX_SHOWN * 4)
        .map(|character| if character.is_whitespace() { ' ' } else { character })
        .filter(|character| !is_invisible(*character))
        .collect();
    // Redact after the removal of invisible characters, because these could split a secret.
    let redacted = Redactor::new(secrets).redact(visible.trim().as_bytes());
    String::from_utf8_lossy(&redacted).chars().take(MAX_SHOWN).collect()
}

/// Returns `text` if it is a code such as `invalid_grant`: a short word that contains none of `secrets`, nor an
/// identifying piece of one.
pub(super) fn code(text: &str, secrets: &[&str]) -> Option<String> {
    let is_word = (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte));
    let tells = |secret: &&str| shares_a_piece(text.as_bytes(), secret.as_bytes());
    (is_word && !secrets.iter().any(tells)).then(|| text.to_owned())
}

/// Returns a foreign text cleaned as by [`shown`]. `None` if it is empty or contains an identifying piece of one of
/// `secrets`.
pub(super) fn words(text: &str, secrets: &[&str]) -> Option<String> {
    let words = shown(text, &[]);
    let tells = |secret: &&str| shares_a_piece(words.as_bytes(), secret.as_bytes());
    (!words.is_empty() && !secrets.iter().any(tells)).then_some(words)
}

/// Returns true if `text` contains a piece of `secret`, ignoring case. A short secret must occur as a whole.
fn shares_a_piece(text: &[u8], secret: &[u8]) -> bool {
    let length = secret.len().min(TELLING_BYTES);
    length > 0
        && secret
            .windows(length)
            .any(|piece| text.windows(length).any(|window| window.eq_ignore_ascii_case(piece)))
}

/// Returns true for control characters, and for format characters that hide text or change its direction.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(shown("\u{1b}[31mred\u{7}\r\n\u{202e}tfel", &[]), "[31mred  tfel");
        assert_eq!(shown(&"x".repeat(9_000), &[]).len(), MAX_SHOWN);
        assert_eq!(shown("the code canary-code was used", &["canary-code"]), "the code [redacted] was used");
    }

    #[test]
    fn a_code_is_a_word_and_no_secret() {
        assert_eq!(code("invalid_grant", &["canary-token"]).as_deref(), Some("invalid_grant"));
        for text in ["", "two words", "<b>", "canary-token", "ary-token", "x\u{7}"] {
            assert_eq!(code(text, &["my-canary-token"]).as_deref(), None, "{text:?}");
        }
    }

    #[test]
    fn a_code_holds_no_piece_of_a_secret() {
        let secrets = ["another", "rt_canary-token-123"];
        for text in [
            "invalid_grant:rt_canary-token-123",
            "rt_canary-token-123:invalid_grant",
            "invalid.rt_canary-token-123.grant",
            "invalid_grant:rt_canary-token-12",
            "invalid_grant:t_canary-token-123",
            "invalid:RT_CANARY-TOKEN-123",
            "x:Canary-T",
            "canary-token",
            "rt_canar",
            "oken-123",
            "not:another:one",
        ] {
            assert_eq!(code(text, &secrets).as_deref(), None, "{text:?}");
        }
        for text in ["invalid_grant", "rt_cana", "ken-123", "anothe", "token"] {
            assert_eq!(code(text, &secrets).as_deref(), Some(text), "no more than chance would have");
        }
        assert_eq!(code("invalid_grant", &[""]).as_deref(), Some("invalid_grant"));
    }
}
