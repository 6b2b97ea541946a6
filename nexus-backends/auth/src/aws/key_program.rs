//! The program of a profile that prints keys: `credential_process`.
//!
//! Source: "Sourcing credentials with an external process" of the AWS CLI.

use std::time::SystemTime;

use nexus_core::{Credential, Secret, SigningKey};
use serde::{Deserialize, Deserializer};

use super::super::token_text::usable;

/// Output of the program.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KeyOutput {
    version: u64,
    access_key_id: String,
    #[serde(deserialize_with = "secret")]
    secret_access_key: Secret,
    #[serde(default, deserialize_with = "maybe_secret")]
    session_token: Option<Secret>,
    #[serde(default)]
    expiration: Option<String>,
}

fn secret<'de, Source: Deserializer<'de>>(source: Source) -> Result<Secret, Source::Error> {
    String::deserialize(source).map(Secret::new)
}

fn maybe_secret<'de, Source: Deserializer<'de>>(source: Source) -> Result<Option<Secret>, Source::Error> {
    Ok(Option::<String>::deserialize(source)?.map(Secret::new))
}

/// Returns the key that a program printed. The error is the reason, and shows nothing of the output.
pub(super) fn key_of(output: &[u8]) -> Result<Credential, String> {
    let printed: KeyOutput = serde_json::from_slice(output).map_err(|error| {
        // The words of the error may have a part of the output in them.
        let place = format!("line {}, column {}", error.line(), error.column());
        format!("its output is not the documented JSON with `Version`, `AccessKeyId` and `SecretAccessKey` ({place})")
    })?;
    if printed.version != 1 {
        return Err(format!("its output has the version {}, and only 1 is known", printed.version));
    }
    let session = printed.session_token.as_ref().map(Secret::expose).filter(|session| !session.is_empty());
    let mut key = key(&printed.access_key_id, printed.secret_access_key.expose(), session)
        .map_err(|(member, reason)| format!("its output has an unusable {member}: {reason}"))?;
    if let Some(expiration) = printed.expiration.as_deref().filter(|text| !text.is_empty()) {
        let end = moment(expiration)
            .ok_or("its output has an `Expiration` that is not a time such as 2026-01-31T12:00:00Z")?;
        key = key.with_expiry(end);
    }
    Ok(key)
}

/// Returns a key pair, or the name of its unusable part with the reason.
pub(super) fn key(
    id: &str,
    secret: &str,
    session: Option<&str>,
) -> Result<Credential, (&'static str, &'static str)> {
    let part = |name, text| usable(text).map_err(|reason| (name, reason));
    let id = part("access key id", id)?;
    if id.expose().is_empty() {
        return Err(("access key id", "it is empty"));
    }
    let secret = part("secret access key", secret)?;
    if secret.expose().is_empty() {
        return Err(("secret access key", "it is empty"));
    }
    let session: Option<Secret> = session.map(|session| part("session token", session)).transpose()?;
    Ok(Credential::new(secret).with_signing(SigningKey::new(id.expose(), session)))
}

/// Parses a time in UTC. The AWS CLI writes its offset as `+00:00`.
fn moment(text: &str) -> Option<SystemTime> {
    let text = text.strip_suffix("+00:00").map_or_else(|| text.to_owned(), |time| format!("{time}Z"));
    nexus_files::rfc3339::parse(&text)
}

/// Splits a command into words as the AWS CLI does: at white space, except within quotes. `None` if a quote is not closed.
pub(super) fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('"'), '\\') => {
                let next = letters.next()?;
                let word = word.get_or_insert_default();
                // In double quotes, a backslash escapes only a quotation mark or itself.
                if !matches!(next, '"' | '\\') {
                    word.push('\\');
                }
                word.push(next);
            }
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().push(letters.next()?),
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_printed_key_is_read_with_its_session_and_its_end() {
        let output =
            br#"{"Version":1,"AccessKeyId":"ASIA1","SecretAccessKey":"canary","SessionToken":"session",
            "Expiration":"1970-01-01T00:01:00+00:00","AccountId":"1"}"#;
        let key = key_of(output).unwrap();
        let public = key.signing.as_ref().unwrap();
        assert_eq!((public.id.as_str(), key.token.expose()), ("ASIA1", "canary"));
        assert_eq!(public.session.as_ref().map(Secret::expose), Some("session"));
        assert_eq!(key.expires_at, Some(UNIX_EPOCH + Duration::from_secs(60)));
        assert!(!format!("{key:?}").contains("canary") && !format!("{key:?}").contains("\"session\""));
    }

    #[test]
    fn an_output_that_is_no_key_is_not_shown() {
        for output in [
            &b"canary"[..],
            b"",
            br#"{"Version":2,"AccessKeyId":"a","SecretAccessKey":"canary"}"#,
            br#"{"Version":1,"AccessKeyId":"a"}"#,
            br#"{"Version":1,"AccessKeyId":"a","SecretAccessKey":["canary"]}"#,
            br#"{"Version":1,"AccessKeyId":"a","SecretAccessKey":"canary two"}"#,
            br#"{"Version":1,"AccessKeyId":"","SecretAccessKey":"canary"}"#,
            br#"{"Version":1,"AccessKeyId":"a","SecretAccessKey":"x","Expiration":"canary"}"#,
            br#"{"Version":"canary","AccessKeyId":"a","SecretAccessKey":"x"}"#,
        ] {
            let reason = key_of(output).unwrap_err();
            assert!(!reason.contains("canary"), "{reason}");
        }
    }

    #[test]
    fn a_command_is_split_as_a_shell_splits_it() {
        let split = |command: &str| words(command);
        let expected = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(split(" a  b\tc "), expected(&["a", "b", "c"]));
        assert_eq!(split(r#""/a b/c" --x='y z' """#), expected(&["/a b/c", "--x=y z", ""]));
        assert_eq!(split(r#"a\ b "c\"d\\e\f""#), expected(&["a b", r#"c"d\e\f"#]));
        assert_eq!(split(""), expected(&[]));
        for open in ["\"a", "'a", "a\\", "\"a\\"] {
            assert_eq!(split(open), None, "{open}");
        }
    }
}
