//! `nexus logout`: ends a login, and says what became of it.

use std::process::ExitCode;

use nexus::{
    BuildContext,
    auth::{
        LogOut, LoginError, RefreshError, Revocation,
        logins::{self, LoginName},
    },
};
use serde_json::{Value, json};

use crate::{
    EXIT_FAILED,
    args::LogoutArgs,
    output::{printable, say, say_json},
};

pub(crate) async fn logout(args: &LogoutArgs) -> Result<ExitCode, String> {
    let context = BuildContext::from_process();
    let network = args.network.network();
    let mut is_failed = false;
    for name in args.logins() {
        let keeper = logins::keeper(name, &context, &network).map_err(|error| error.to_string())?;
        let outcome = keeper.log_out().await;
        is_failed |= outcome.is_err();
        if args.json {
            say_json(&as_json(name, &outcome));
        } else {
            match &outcome {
                Ok(done) => say(format_args!("{}: {}", name.as_str(), words(done))),
                Err(error) => eprintln!("nexus: {}: {}", name.as_str(), printable(&error.to_string())),
            }
        }
    }
    Ok(if is_failed { ExitCode::from(EXIT_FAILED) } else { ExitCode::SUCCESS })
}

fn words(done: &LogOut) -> String {
    if !done.was_logged_in {
        return "was not logged in; nothing was changed".to_owned();
    }
    match &done.revocation {
        Some(Ok(Revocation::Revoked)) => {
            "logged out. The issuer was told, and takes nothing of the login any more".to_owned()
        }
        Some(Ok(Revocation::NotOffered)) | None => {
            "logged out on this machine. The issuer has no way to be told: a copy of its tokens, if there were one, \
             would be good until they expire"
                .to_owned()
        }
        Some(Err(error)) => format!(
            "logged out on this machine, but the issuer was not told: {}. What it had handed out may be good until \
             it expires; your account's page at the vendor may list it as a session to end",
            reason(error)
        ),
    }
}

/// Why the issuer was not told.
fn reason(error: &RefreshError) -> String {
    match error {
        RefreshError::Refused { reason } => format!("it refused: {}", printable(reason)),
        RefreshError::Unreachable { reason } | RefreshError::Malformed { reason } => printable(reason),
        other => printable(&other.to_string()),
    }
}

fn as_json(name: LoginName, outcome: &Result<LogOut, LoginError>) -> Value {
    let login = name.as_str();
    match outcome {
        Ok(done) => {
            let (revocation, reason) = match &done.revocation {
                Some(Ok(Revocation::Revoked)) => ("revoked", None),
                Some(Ok(Revocation::NotOffered)) => ("not_offered", None),
                Some(Err(error)) => ("failed", Some(reason(error))),
                None => ("none", None),
            };
            json!({
                "login": login,
                "outcome": "logged_out",
                "was_logged_in": done.was_logged_in,
                "revocation": revocation,
                "reason": reason,
            })
        }
        Err(error) => json!({ "login": login, "outcome": "failed", "reason": printable(&error.to_string()) }),
    }
}
