//! Logins for tests of the stores.

use std::time::{Duration, UNIX_EPOCH};

use nexus_core::Secret;
use serde_json::json;

use super::StoredLogin;
use crate::{Identity, Login};

/// Part of every token of [`login`].
pub(super) const CANARY: &str = "canary-7f3a";

/// Returns a login with all fields set, whose tokens contain its generation.
pub(super) fn login(generation: u64) -> StoredLogin {
    let origin =
        json!({ "url": "https://issuer.example", "endpoints": { "token": "https://issuer.example/token" } });
    let identity = Identity {
        account: Some("account-1".to_owned()),
        email: Some("person@example.org".to_owned()),
        plan: Some("plus".to_owned()),
    };
    let login = Login::new(
        Secret::new(format!("{CANARY}-access-{generation}")),
        UNIX_EPOCH + Duration::from_secs(1_795_253_000),
    )
    .with_refresh_token(Some(Secret::new(format!("{CANARY}-refresh-{generation}"))))
    .with_lifetime(Some(Duration::from_secs(3600)))
    .with_identity(identity)
    .with_origin(origin.as_object().cloned().unwrap_or_default());
    StoredLogin { generation, ..StoredLogin::new(login) }
}

/// Comparison that the credential manager uses: the higher generation is newer.
pub(super) fn is_newer(found: &Secret, current: Option<&Secret>) -> bool {
    let generation = |text: &Secret| StoredLogin::from_text(text).ok().map(|stored| stored.generation);
    let found = generation(found);
    found.is_some() && found > current.and_then(generation)
}
