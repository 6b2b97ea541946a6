//! The logins: Nexus's own, and what it leaves to others.

use std::time::SystemTime;

use nexus::BuildContext;
#[cfg(feature = "login")]
use nexus::{
    http::Network,
    logins::{self, LoginName},
};
use serde::Serialize;

use crate::args::StatusArgs;
#[cfg(feature = "login")]
use crate::login_report::{LoginReport, LoginState};

/// Nexus's own logins.
#[derive(Debug, Serialize)]
pub(super) struct Logins {
    #[cfg(feature = "login")]
    logins: Vec<LoginReport>,
}

/// A login that Nexus never opens.
#[derive(Debug, Serialize)]
pub(super) struct VendorLogin {
    pub(super) login: &'static str,
    pub(super) note: &'static str,
}

impl VendorLogin {
    /// Claude Code's.
    pub(super) fn claude() -> Self {
        Self {
            login: "claude",
            note: "the program's own login; Nexus does not look at it: `claude auth status` tells",
        }
    }
}

#[cfg(feature = "login")]
impl Logins {
    pub(super) async fn look(context: &BuildContext, now: SystemTime) -> Result<Self, String> {
        let mut logins = Vec::new();
        for name in LoginName::ALL {
            let keeper =
                logins::keeper(name, context, &Network::default()).map_err(|error| error.to_string())?;
            let found = keeper.look().await;
            logins.push(LoginReport::of(name, &found, keeper.place(), now));
        }
        Ok(Self { logins })
    }

    /// Whether one is broken, or one that the command line names is not there.
    pub(super) fn are_wanting(&self, args: &StatusArgs) -> bool {
        let named =
            |report: &LoginReport| args.logins.iter().any(|login| LoginName::from(*login) == report.name);
        self.logins.iter().any(|report| match report.state {
            LoginState::LoggedIn => false,
            LoginState::LoggedOut => named(report),
            LoginState::Over | LoginState::Unreadable => true,
        })
    }

    /// What can be done about those that are not there.
    pub(super) fn offers(&self) -> Vec<String> {
        let missing = self.logins.iter().filter(|report| report.state == LoginState::LoggedOut);
        missing.filter_map(|report| Some(format!("use a plan of yours: {}", report.next.as_ref()?))).collect()
    }

    pub(super) fn print(&self, now: SystemTime) {
        for report in &self.logins {
            report.print(now);
        }
    }
}

#[cfg(not(feature = "login"))]
impl Logins {
    pub(super) async fn look(_context: &BuildContext, _now: SystemTime) -> Result<Self, String> {
        Ok(Self {})
    }

    pub(super) fn are_wanting(&self, _args: &StatusArgs) -> bool {
        false
    }

    pub(super) fn offers(&self) -> Vec<String> {
        Vec::new()
    }

    pub(super) fn print(&self, _now: SystemTime) {
        crate::output::say("logins: this build of nexus has none of its own (feature `login`)");
    }
}
