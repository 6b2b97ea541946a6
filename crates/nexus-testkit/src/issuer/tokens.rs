//! Tokens that the issuer grants.

use std::time::Duration;

use nexus_core::Secret;

/// Tokens of one successful request. `Debug` shows no token.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Token for the resource.
    pub access_token: Secret,
    /// Identity of the person.
    pub id_token: Option<Secret>,
    /// Token for the next tokens; good once.
    pub refresh_token: Option<Secret>,
    /// Granted scopes, separated by spaces.
    pub oauth_scope: String,
    /// Lifetime of the access token, if the answer names it.
    pub expires_in: Option<Duration>,
    /// Login of the tokens, counted from zero.
    pub family: u64,
    /// Generation of the refresh token: zero is the first.
    pub generation: u64,
}

/// Identifies a token, without the token itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPlace {
    /// Kind of the token.
    pub kind: TokenKind,
    /// The login that it belongs to, counted from zero.
    pub family: u64,
    /// Generation in which it was issued.
    pub generation: u64,
}

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Token for the resource.
    Access,
    /// Token that identifies the person.
    Id,
    /// Token for the next tokens.
    Refresh,
}
