//! Result of a sign-in, and the data that keeps it alive.

use std::time::{Duration, SystemTime};

use nexus_core::Secret;
use serde_json::{Map, Value};

/// A login: its tokens, its owner, and its origin.
///
/// `Debug` shows no token. The type cannot be serialised: only the token store writes a login.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Token that the vendor's endpoint accepts.
    pub access_token: Secret,
    /// Token that gets the next access token. Single-use: a refresh has to store the new one.
    pub refresh_token: Option<Secret>,
    /// Time at which the access token was issued, by our clock.
    pub obtained_at: SystemTime,
    /// Time at which the access token expires, by our clock.
    pub expires_at: Option<SystemTime>,
    /// Its owner, in the issuer's words. Shown and sent, never trusted for a decision.
    pub identity: Identity,
    /// Data that its strategy needs for a refresh, such as its issuer: not secret.
    pub origin: Map<String, Value>,
}

impl Login {
    /// A login that is not known to expire and cannot be refreshed.
    pub fn new(access_token: Secret, obtained_at: SystemTime) -> Self {
        Self {
            access_token,
            refresh_token: None,
            obtained_at,
            expires_at: None,
            identity: Identity::default(),
            origin: Map::new(),
        }
    }

    /// States how to get the next access token.
    #[must_use]
    pub fn with_refresh_token(mut self, refresh_token: Option<Secret>) -> Self {
        self.refresh_token = refresh_token;
        self
    }

    /// States how long the access token lives from when it was obtained.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Option<Duration>) -> Self {
        self.expires_at = lifetime.and_then(|lifetime| self.obtained_at.checked_add(lifetime));
        self
    }

    /// States whose it is.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Keeps what the strategy needs to refresh it.
    #[must_use]
    pub fn with_origin(mut self, origin: Map<String, Value>) -> Self {
        self.origin = origin;
        self
    }

    /// Returns the remaining life of the access token at `now`; `None` if it is not known.
    pub fn life_left(&self, now: SystemTime) -> Option<Duration> {
        self.expires_at.map(|end| end.duration_since(now).unwrap_or_default())
    }
}

/// Owner of a login, as far as the issuer names it.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The account that requests name beside the token, where the vendor wants that.
    pub account: Option<String>,
    /// The person's address.
    pub email: Option<String>,
    /// The plan that pays.
    pub plan: Option<String>,
}

impl Identity {
    /// Fills what is unknown here from `older`.
    #[must_use]
    pub fn or(self, older: &Self) -> Self {
        Self {
            account: self.account.or_else(|| older.account.clone()),
            email: self.email.or_else(|| older.email.clone()),
            plan: self.plan.or_else(|| older.plan.clone()),
        }
    }
}
