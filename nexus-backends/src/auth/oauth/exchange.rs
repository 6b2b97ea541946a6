//! What was granted, made into a login.

use std::time::SystemTime;

use super::{claims::Claims, issuer::Issuer, tokens::Granted};
use crate::auth::Login;

/// The login that these tokens are. `asked_at` is when they were asked for, by our clock: they live at most as long
/// from then on, whatever the issuer's clock says.
pub(super) fn login(granted: Granted, issuer: &Issuer, asked_at: SystemTime) -> Login {
    let access = Claims::of(&granted.access_token);
    let id = granted.id_token.as_ref().map(Claims::of).unwrap_or_default();
    let lifetime = granted.lifetime.or_else(|| access.lifetime());
    Login::new(granted.access_token, asked_at)
        .with_refresh_token(granted.refresh_token)
        .with_lifetime(lifetime)
        .with_identity(issuer.identity.read(&[&id, &access]))
        .with_origin(issuer.to_origin())
}
