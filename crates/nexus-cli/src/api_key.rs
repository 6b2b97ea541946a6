//! `nexus key`: API keys in the keyring of the system.

use std::{
    io::{self, IsTerminal as _, Read as _},
    process::ExitCode,
};

use nexus::{
    Secret,
    auth::store::{KeyringKey, StoreError},
    harness::run_blocking,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::KeyCommand,
    command_error::CommandError,
    output::{AnswerWriter, complain, printable, say},
};

/// Maximum size of a key, in bytes.
const MAX_KEY_BYTES: u64 = 16 << 10;

/// Key in the keyring.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StoredKey {
    /// The name that the configuration uses.
    key: String,
}

/// Key that was changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedKey {
    /// The name that the configuration uses.
    key: String,
    /// Action that was taken.
    outcome: KeyOutcome,
    /// Location of the key, present or former.
    place: String,
}

/// Outcome of a command on a key.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum KeyOutcome {
    Stored,
    Removed,
    WasAbsent,
}

pub(crate) async fn api_key(out: AnswerWriter, command: KeyCommand) -> Result<ExitCode, CommandError> {
    // The keyring may ask the person first, so a call can block for long.
    run_blocking(move || run(out, &command)).await.map_err(|_| "the keyring could not be read".to_owned())?
}

fn run(out: AnswerWriter, command: &KeyCommand) -> Result<ExitCode, CommandError> {
    let failed = |error: StoreError| CommandError::failed(printable(&error.to_string()));
    let (KeyCommand::Set { name } | KeyCommand::Remove { name }) = command else {
        let keys = KeyringKey::list().map_err(failed)?;
        if keys.is_empty() && !out.is_json() {
            complain("no key is stored; store one with `nexus key set NAME`");
        }
        for key in keys {
            out.show(&StoredKey { key: key.name().to_owned() }, |key| say(&key.key));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let entry = KeyringKey::named(name).map_err(|error| error.to_string())?;
    let outcome = match command {
        KeyCommand::Set { .. } => {
            let key = read_key(name).map_err(|error| match error.kind() {
                io::ErrorKind::Interrupted => CommandError::cancelled(),
                _ => CommandError::failed(format_args!("no key could be read: {error}")),
            })?;
            entry.set(&key).map_err(failed)?;
            KeyOutcome::Stored
        }
        _ if entry.remove().map_err(failed)? => KeyOutcome::Removed,
        _ => KeyOutcome::WasAbsent,
    };
    let place = entry.place();
    let text = match outcome {
        KeyOutcome::Stored => format!("stored in {place}; use it with `credential: {{ keyring: {name} }}`"),
        KeyOutcome::Removed => format!("removed from {place}"),
        KeyOutcome::WasAbsent => format!("no key was stored in {place}"),
    };
    let changed = ChangedKey { key: name.clone(), outcome, place };
    out.line(&changed, format_args!("{name}: {text}"));
    Ok(ExitCode::SUCCESS)
}

/// Prompts at a terminal without echo; else reads standard input to its end.
fn read_key(name: &str) -> io::Result<Secret> {
    if io::stdin().is_terminal() {
        return rpassword::prompt_password(format!("Key for {name} (not shown): ")).map(Secret::new);
    }
    // Reserves the final capacity from the start: a string that grows leaves copies of the key in freed memory.
    let mut text = String::with_capacity(2 * MAX_KEY_BYTES as usize);
    let outcome = io::stdin().take(MAX_KEY_BYTES + 1).read_to_string(&mut text);
    // Becomes a `Secret` first, so that it is overwritten on every path out of here.
    let is_too_long = text.len() as u64 > MAX_KEY_BYTES;
    let text = Secret::new(text);
    outcome?;
    if is_too_long {
        return Err(io::Error::other(format!("it is longer than {MAX_KEY_BYTES} bytes")));
    }
    Ok(text)
}
