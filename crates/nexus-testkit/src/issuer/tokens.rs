//! What the issuer hands out.

use std::time::Duration;

use nexus_core::Secret;

/// What one successful request gives. `Debug` shows no token.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Tokens {
    /// For the resource.
    pub access_token: Secret,
    /// Who it is.
    pub id_token: Option<Secret>,
    /// For the next ones; good once.
    pub refresh_token: Option<Secret>,
    /// What was granted, apart by spaces.
    pub oauth_scope: String,
    /// How long the access token lives, where that is said.
    pub expires_in: Option<Duration>,
    /// The login that they belong to, counted from zero.
    pub family: u64,
    /// The generation of the refresh token that is good now: zero is the first.
    pub generation: u64,
}

/// Which token it is, without the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPlace {
    /// What it is for.
    pub kind: TokenKind,
    /// The login that it belongs to, counted from zero.
    pub family: u64,
    /// The generation that it was handed out with.
    pub generation: u64,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// For the resource.
    Access,
    /// Says who it is.
    Id,
    /// For the next tokens.
    Refresh,
}
