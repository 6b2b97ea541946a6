//! Checks of Nexus's own logins.

use std::time::SystemTime;

use nexus::BuildContext;

use super::check::Check;
use crate::{
    command_error::CommandError,
    login_report::{LoginReport, LoginState},
};

/// Checks every login of this build. Renews none.
pub(crate) async fn logins(context: &BuildContext, now: SystemTime) -> Result<Vec<Check>, CommandError> {
    Ok(LoginReport::all(context, now).await?.into_iter().map(login).collect())
}

fn login(report: LoginReport) -> Check {
    let subject = format!("login {}", report.name.as_str());
    let reason = report.reason.unwrap_or_default();
    let command = format!("nexus login {}", report.name.as_str());
    match report.state {
        LoginState::LoggedIn => Check::ok(subject, "logged in"),
        // A machine rarely needs all logins, so a missing one is not a problem.
        LoginState::LoggedOut => {
            let mut check = Check::missing(subject, format!("none; to use your plan: {command}"));
            check.severity = super::check::Severity::Fine;
            check.with_command(command)
        }
        LoginState::Over => Check::failed(subject, reason).fixed_by(command.clone()).with_command(command),
        LoginState::Unreadable => Check::failed(subject, format!("it cannot be read: {reason}"))
            .fixed_by(format!("move the file away, then {command}")),
    }
}
