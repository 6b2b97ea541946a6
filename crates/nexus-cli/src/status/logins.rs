//! Nexus's own logins, and those of the vendors' programs.

use std::time::SystemTime;

use nexus::{BuildContext, Vendor, vendors};
use schemars::JsonSchema;
use serde::Serialize;

#[cfg(feature = "login")]
use crate::login_report::{LoginReport, LoginState};
use crate::{args::StatusArgs, command_error::CommandError};

/// Nexus's own logins.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Logins {
    #[cfg(feature = "login")]
    logins: Vec<LoginReport>,
}

/// A login that Nexus never opens.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct VendorLogin {
    pub(super) login: &'static str,
    pub(super) note: String,
}

impl VendorLogin {
    /// Returns the logins of vendors whose programs store their own.
    pub(super) fn all() -> Vec<Self> {
        let of = |vendor: &Vendor| {
            let program = vendor.program_login()?;
            let note = format!("the program's own login, which Nexus does not read: run `{program} status`");
            Some(Self { login: vendor.name(), note })
        };
        vendors().iter().filter_map(of).collect()
    }
}

#[cfg(feature = "login")]
impl Logins {
    pub(super) async fn look(context: &BuildContext, now: SystemTime) -> Result<Self, CommandError> {
        Ok(Self { logins: LoginReport::all(context, now).await? })
    }

    /// Returns true if a login is broken, or if a login that the command line names does not exist.
    pub(super) fn are_wanting(&self, args: &StatusArgs) -> bool {
        let named = |report: &LoginReport| args.logins.contains(&report.name);
        self.logins.iter().any(|report| match report.state {
            LoginState::LoggedIn => false,
            // A machine rarely needs every login, so only a named one counts as missing.
            LoginState::LoggedOut => named(report),
            LoginState::Over | LoginState::Unreadable => true,
        })
    }

    /// Returns advice for the logins that do not exist.
    pub(super) fn offers(&self) -> Vec<String> {
        let missing = self.logins.iter().filter(|report| report.state == LoginState::LoggedOut);
        missing.filter_map(|report| Some(format!("to use your plan: {}", report.next.as_ref()?))).collect()
    }

    pub(super) fn print(&self, now: SystemTime) {
        for report in &self.logins {
            report.print(now);
        }
    }
}

#[cfg(not(feature = "login"))]
impl Logins {
    pub(super) async fn look(_context: &BuildContext, _now: SystemTime) -> Result<Self, CommandError> {
        Ok(Self {})
    }

    pub(super) fn are_wanting(&self, _args: &StatusArgs) -> bool {
        false
    }

    pub(super) fn offers(&self) -> Vec<String> {
        Vec::new()
    }

    pub(super) fn print(&self, _now: SystemTime) {
        crate::output::say("logins: this build of nexus has no own logins (feature `login`)");
    }
}
