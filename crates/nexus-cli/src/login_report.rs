//! Report on one login: account, expiry and storage. It never contains the tokens.

use std::time::SystemTime;

use nexus::{
    BuildContext, OwnLogin,
    auth::{CredentialError, Login, store::StoredLogin},
    http::Network,
};
use schemars::JsonSchema;
use serde::Serialize;

use nexus_files::rfc3339;

use crate::{
    command_error::CommandError,
    output::{printable, say},
    spoken_time::spoken_instant,
    terminal::wrapped,
};

/// One login of Nexus's own, as `--json` prints it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LoginReport {
    #[serde(skip)]
    pub(crate) name: OwnLogin,
    login: &'static str,
    pub(crate) state: LoginState,
    /// Storage of the login, present or future.
    place: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// Issuer that created the login and renews it, if it is not the vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// Expiry of the current token, not of the login.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_expires_at: Option<String>,
    /// True if the login is renewed without a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    renews_itself: Option<bool>,
    /// Reason why the login cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Command that fixes or undoes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
    #[serde(skip)]
    expires_at: Option<SystemTime>,
}

/// State of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginState {
    /// It can be used.
    LoggedIn,
    /// No login is stored.
    LoggedOut,
    /// The issuer no longer renews it, or its token has expired and cannot be renewed.
    Over,
    /// The stored login cannot be read.
    Unreadable,
}

impl LoginReport {
    /// Reports on every login of this build. No login is renewed.
    pub(crate) async fn all(context: &BuildContext, now: SystemTime) -> Result<Vec<Self>, CommandError> {
        let mut reports = Vec::new();
        for name in nexus::logins() {
            let manager = name.manager(context, &Network::default()).map_err(CommandError::failed)?;
            reports.push(Self::of(name, &manager.look().await, manager.place(), now));
        }
        Ok(reports)
    }

    /// Builds the report from the result of a login's credential manager at `now`.
    pub(crate) fn of(
        name: OwnLogin,
        found: &Result<Option<StoredLogin>, CredentialError>,
        place: String,
        now: SystemTime,
    ) -> Self {
        let command = format!("nexus login {}", name.as_str());
        match found {
            Ok(Some(stored)) => {
                let mut report = Self::logged_in(name, &stored.login, place);
                let is_dead = stored.login.life_left(now).is_some_and(|left| left.is_zero());
                report.reason = match &stored.refused {
                    Some(reason) => Some(format!("the issuer rejected its renewal: {}", printable(reason))),
                    // With a refresh token the login is not over: the next turn renews it.
                    None if is_dead && stored.login.refresh_token.is_none() => {
                        Some("its token has expired, and it cannot be renewed".to_owned())
                    }
                    None => None,
                };
                if report.reason.is_some() {
                    report.state = LoginState::Over;
                    report.renews_itself = Some(false);
                    report.next = Some(command);
                }
                report
            }
            Ok(None) => Self { next: Some(command), ..Self::new(name, LoginState::LoggedOut, place) },
            Err(error) => {
                let reason = match error {
                    CredentialError::Unreadable { reason, .. } => reason.clone(),
                    other => other.to_string(),
                };
                Self { reason: Some(printable(&reason)), ..Self::new(name, LoginState::Unreadable, place) }
            }
        }
    }

    /// Builds the report of a usable login.
    pub(crate) fn logged_in(name: OwnLogin, login: &Login, place: String) -> Self {
        let shown = |text: &Option<String>| text.as_deref().map(printable).filter(|text| !text.is_empty());
        Self {
            email: shown(&login.identity.email),
            account: shown(&login.identity.account),
            plan: shown(&login.identity.plan),
            issuer: foreign_issuer(name, login),
            token_expires_at: login.expires_at.map(rfc3339::seconds),
            renews_itself: Some(login.refresh_token.is_some()),
            next: Some(format!("nexus logout {}", name.as_str())),
            expires_at: login.expires_at,
            ..Self::new(name, LoginState::LoggedIn, place)
        }
    }

    fn new(name: OwnLogin, state: LoginState, place: String) -> Self {
        Self {
            name,
            login: name.as_str(),
            state,
            place,
            email: None,
            account: None,
            plan: None,
            issuer: None,
            token_expires_at: None,
            renews_itself: None,
            reason: None,
            next: None,
            expires_at: None,
        }
    }

    /// Prints the report for people.
    pub(crate) fn print(&self, now: SystemTime) {
        let name = self.login;
        let detail = |label: &str, text: &str| say(wrapped(&format!("  {label:<11} {text}"), 14));
        match self.state {
            LoginState::LoggedIn => say(format_args!("{name}: logged in")),
            LoginState::LoggedOut => say(format_args!("{name}: not logged in")),
            LoginState::Over => say(format_args!("{name}: the login is over")),
            LoginState::Unreadable => say(format_args!("{name}: the login cannot be read")),
        }
        if let Some(reason) = &self.reason {
            detail("why", reason);
        }
        if let Some(whose) = self.whose() {
            detail("as", &whose);
        }
        if self.renews_itself.is_some() {
            detail("plan", self.plan.as_deref().unwrap_or("not reported"));
        }
        if let Some(issuer) = &self.issuer {
            detail("issuer", &format!("{issuer}, not the vendor"));
        }
        if let Some(renews) = self.renews_itself {
            detail("token", &self.token_words(renews, now));
        }
        match (self.state, &self.next) {
            (LoginState::LoggedIn, Some(next)) => {
                detail("stored in", &self.place);
                detail("undo", next);
            }
            (LoginState::LoggedOut, Some(next)) => detail("to log in", next),
            (_, next) => {
                detail("stored in", &self.place);
                if let Some(next) = next {
                    detail("to mend it", next);
                }
            }
        }
    }

    fn whose(&self) -> Option<String> {
        match (&self.email, &self.account) {
            (Some(email), Some(account)) => Some(format!("{email} (account {account})")),
            (Some(email), None) => Some(email.clone()),
            (None, Some(account)) => Some(format!("account {account}")),
            (None, None) => {
                // Only a stored login has this field, and only then is an account missing.
                self.renews_itself.map(|_| "unknown account: the issuer does not name it".to_owned())
            }
        }
    }

    fn token_words(&self, renews: bool, now: SystemTime) -> String {
        let until = self.expires_at.map(|instant| spoken_instant(instant, now));
        let is_alive = self.expires_at.is_none_or(|instant| instant > now);
        match (until, is_alive, renews) {
            (Some(until), true, true) => format!("valid until {until}, and renewed automatically"),
            (Some(until), true, false) => format!("valid until {until}, and not renewed"),
            (Some(until), false, true) => format!("expired {until}; the next turn renews it"),
            (Some(until), false, false) => format!("expired {until}"),
            (None, _, true) => "its end is unknown; it is renewed automatically".to_owned(),
            (None, _, false) => "its end is unknown; it is not renewed".to_owned(),
        }
    }
}

/// Returns the address of the login's issuer, if it is not the vendor's own.
fn foreign_issuer(name: OwnLogin, login: &Login) -> Option<String> {
    let vendor = name.issuer().url;
    let url = login.origin.get("url")?.as_str()?;
    let is_the_vendor = vendor.trim_end_matches('/') == url.trim_end_matches('/');
    (!is_the_vendor).then(|| printable(url))
}
