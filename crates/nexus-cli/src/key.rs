//! `nexus key`: API keys in the keyring of the system.

use std::{
    io::{self, IsTerminal as _, Read as _},
    process::ExitCode,
};

use nexus::{Secret, auth::store::KeyringKey, harness::run_blocking};
use serde_json::json;

use crate::{
    EXIT_CANCELLED, EXIT_FAILED,
    args::KeyCommand,
    command_error::CommandError,
    output::{complain, printable, say, say_json},
};

/// Longest input that is taken for a key, in bytes.
const MAX_KEY_BYTES: u64 = 16 << 10;

pub(crate) async fn key(command: KeyCommand) -> Result<ExitCode, CommandError> {
    // The keyring answers when it likes: it may ask the person first.
    run_blocking(move || run(&command)).await.map_err(|_| "the keyring could not be asked".to_owned())?
}

fn run(command: &KeyCommand) -> Result<ExitCode, CommandError> {
    let (KeyCommand::Set { name } | KeyCommand::Remove { name }) = command else { return Ok(list(command)) };
    let entry = KeyringKey::named(name).map_err(|error| error.to_string())?;
    let outcome = match command {
        KeyCommand::Set { .. } => {
            let key = match read_key(name) {
                Ok(key) => key,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    return Ok(ExitCode::from(EXIT_CANCELLED));
                }
                Err(error) => {
                    return Err(CommandError::failed(format_args!("no key could be read: {error}")));
                }
            };
            entry
                .set(&key)
                .map(|()| format!("kept in {}; use it by `credential: {{ keyring: {name} }}`", entry.place()))
        }
        _ => entry.remove().map(|was_there| match was_there {
            true => format!("removed from {}", entry.place()),
            false => format!("there was none in {}", entry.place()),
        }),
    };
    Ok(match outcome {
        Ok(done) => {
            say(format_args!("{name}: {done}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(printable(&error.to_string()));
            ExitCode::from(EXIT_FAILED)
        }
    })
}

/// Prints the names of the keys.
fn list(command: &KeyCommand) -> ExitCode {
    let as_json = matches!(command, KeyCommand::List { json: true });
    match KeyringKey::list() {
        Ok(keys) if as_json => {
            say_json(&json!({ "keys": keys.iter().map(KeyringKey::name).collect::<Vec<_>>() }));
        }
        Ok(keys) if keys.is_empty() => complain("no key is kept; `nexus key set NAME` keeps one"),
        Ok(keys) => keys.iter().for_each(|key| say(key.name())),
        Err(error) => {
            let reason = printable(&error.to_string());
            if as_json {
                say_json(&json!({ "error": { "kind": "failed", "message": reason } }));
            } else {
                complain(reason);
            }
            return ExitCode::from(EXIT_FAILED);
        }
    }
    ExitCode::SUCCESS
}

/// Asks a person at a terminal, without showing what they type; else reads standard input to its end.
fn read_key(name: &str) -> io::Result<Secret> {
    if io::stdin().is_terminal() {
        return rpassword::prompt_password(format!("Key for {name} (not shown): ")).map(Secret::new);
    }
    // As long as it may be from the start: a text that grows leaves copies behind.
    let mut text = String::with_capacity(2 * MAX_KEY_BYTES as usize);
    let outcome = io::stdin().take(MAX_KEY_BYTES + 1).read_to_string(&mut text);
    // Taken over before anything else, so that it is overwritten however this ends.
    let is_too_long = text.len() as u64 > MAX_KEY_BYTES;
    let text = Secret::new(text);
    outcome?;
    if is_too_long {
        return Err(io::Error::other(format!("it is longer than {MAX_KEY_BYTES} bytes")));
    }
    Ok(text)
}
