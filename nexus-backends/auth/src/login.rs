//! Result of a sign-in, and the data needed to refresh it.

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
    /// Token that obtains the next access token. It is single-use, so a refresh must store the new one.
    pub refresh_token: Option<Secret>,
    /// Time at which the access token was issued, by our clock.
    pub obtained_at: SystemTime,
    /// Time at which the access token expires, by our clock; `None` if unknown.
    pub expires_at: Option<SystemTime>,
    /// Owner of the login, as the issuer names it. Shown and sent, but never the basis of a decision.
    pub identity: Identity,
    /// Data that the strategy needs for a refresh, such as its issuer. Not secret.
    pub origin: Map<String, Value>,
}

impl Login {
    /// Creates a login without a known expiry and without a refresh token.
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

    /// Sets the token that obtains the next access token.
    #[must_use]
    pub fn with_refresh_token(mut self, refresh_token: Option<Secret>) -> Self {
        self.refresh_token = refresh_token;
        self
    }

    /// Sets the lifetime of the access token, counted from `obtained_at`.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: Option<Duration>) -> Self {
        self.expires_at = lifetime.and_then(|lifetime| self.obtained_at.checked_add(lifetime));
        self
    }

    /// Sets the owner of the login.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Sets the data that the strategy needs for a refresh.
    #[must_use]
    pub fn with_origin(mut self, origin: Map<String, Value>) -> Self {
        self.origin = origin;
        self
    }

    /// Returns the remaining lifetime of the access token at `now`; `None` if the expiry is not known.
    pub fn life_left(&self, now: SystemTime) -> Option<Duration> {
        self.expires_at.map(|end| end.duration_since(now).unwrap_or_default())
    }
}

/// Owner of a login, as far as the issuer names it.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Account id that requests send with the token, if the vendor requires it.
    pub account: Option<String>,
    /// Email address of the person.
    pub email: Option<String>,
    /// Plan that the requests are billed to.
    pub plan: Option<String>,
}

impl Identity {
    /// Fills missing fields from `older`.
    #[must_use]
    pub fn or(self, older: &Self) -> Self {
        Self {
            account: self.account.or_else(|| older.account.clone()),
            email: self.email.or_else(|| older.email.clone()),
            plan: self.plan.or_else(|| older.plan.clone()),
        }
    }
}
