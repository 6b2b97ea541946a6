//! `nexus logout`: ends a login, and reports the outcome.

use std::{fs, io, path::Path, process::ExitCode};

use nexus::{
    BuildContext, OwnLogin,
    auth::{CredentialManager, LogOut, LoginError, RefreshError, Revocation},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    EXIT_FAILED,
    args::LogoutArgs,
    command_error::CommandError,
    output::{AnswerWriter, complain, printable, say},
};

/// Outcome of a logout.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EndedLogin {
    /// The login.
    login: String,
    /// Outcome in one word.
    outcome: LogoutOutcome,
    /// True if there was a login. `None` if it could not be ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    was_logged_in: Option<bool>,
    /// Outcome of the report to the issuer. `None` if the login could not be ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    revocation: Option<RevocationOutcome>,
    /// Reason why the login could not be ended, or why the issuer was not notified.
    reason: Option<String>,
}

/// Outcome for a login, in one word.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LogoutOutcome {
    LoggedOut,
    Failed,
}

/// Report to the issuer at the end of a login.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RevocationOutcome {
    Revoked,
    NotOffered,
    Failed,
    None,
}

pub(crate) async fn logout(out: AnswerWriter, args: &LogoutArgs) -> Result<ExitCode, CommandError> {
    let context = BuildContext::from_process();
    let network = args.network.network();
    let mut is_failed = false;
    for name in args.logins() {
        let manager = name.manager(&context, &network).map_err(|error| error.to_string())?;
        let outcome = match is_nothing_there(name, &manager, &context.home).await {
            true => Ok(None),
            false => manager.log_out().await.map(|done| done.was_logged_in.then_some(done)),
        };
        is_failed |= outcome.is_err();
        out.show(&EndedLogin::of(name, &outcome), |_| match &outcome {
            Ok(None) => say(format_args!("{}: not logged in; nothing was changed", name.as_str())),
            Ok(Some(done)) => say(format_args!("{}: {}", name.as_str(), words(done))),
            Err(error) => complain(format_args!("{}: {}", name.as_str(), printable(&error.to_string()))),
        });
    }
    Ok(if is_failed { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

/// Returns true if neither a login nor a remnant of one exists. Then no process has to be locked out and nothing removed.
/// A file that cannot be read counts as a remnant.
async fn is_nothing_there(name: OwnLogin, manager: &CredentialManager, home: &Path) -> bool {
    matches!(manager.look().await, Ok(None)) && !has_remains(name, &home.join("auth"))
}

/// Returns true if a folder contains more of a login than its lock, for example an interrupted write.
fn has_remains(name: OwnLogin, folder: &Path) -> bool {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        // A folder that cannot be read may have remains, so the logout has to run.
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    entries.flatten().any(|entry| {
        let entry = entry.file_name();
        let entry = entry.to_string_lossy();
        // Locks contain no login. The registration of the client stays after a logout.
        let is_beside_it =
            [".lock", ".guard", ".registration.json"].iter().any(|ending| entry.ends_with(ending));
        entry.trim_start_matches('.').starts_with(name.file_name()) && !is_beside_it
    })
}

fn words(done: &LogOut) -> String {
    match &done.revocation {
        Some(Ok(Revocation::Revoked)) => "logged out. The issuer has revoked the login".to_owned(),
        Some(Ok(Revocation::NotOffered)) | None => {
            "logged out on this machine. The issuer does not support revocation: a copy of the tokens would \
             be valid until they expire"
                .to_owned()
        }
        Some(Err(error)) => format!(
            "logged out on this machine, but the issuer did not revoke the login: {}. Its tokens may be \
             valid until they expire; your account's page at the vendor may list the session to end",
            reason(error)
        ),
    }
}

/// Returns the reason why the issuer was not notified.
fn reason(error: &RefreshError) -> String {
    match error {
        RefreshError::Refused { reason } => format!("it refused: {}", printable(reason)),
        RefreshError::Unreachable { reason } | RefreshError::Malformed { reason } => printable(reason),
        other => printable(&other.to_string()),
    }
}

impl EndedLogin {
    fn of(name: OwnLogin, outcome: &Result<Option<LogOut>, LoginError>) -> Self {
        let login = name.as_str().to_owned();
        let done = match outcome {
            Ok(done) => done.as_ref(),
            Err(error) => {
                let reason = Some(printable(&error.to_string()));
                let outcome = LogoutOutcome::Failed;
                return Self { login, outcome, was_logged_in: None, revocation: None, reason };
            }
        };
        let (revocation, reason) = match done.and_then(|done| done.revocation.as_ref()) {
            Some(Ok(Revocation::Revoked)) => (RevocationOutcome::Revoked, None),
            Some(Ok(Revocation::NotOffered)) => (RevocationOutcome::NotOffered, None),
            Some(Err(error)) => (RevocationOutcome::Failed, Some(reason(error))),
            None => (RevocationOutcome::None, None),
        };
        let (outcome, was_logged_in) = (LogoutOutcome::LoggedOut, Some(done.is_some()));
        Self { login, outcome, was_logged_in, revocation: Some(revocation), reason }
    }
}
