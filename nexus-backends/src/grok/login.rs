//! The login `grok-build`: a SuperGrok plan, by the registration of the vendor's program.
//!
//! Source: requests of grok 1.0.41, and its public source at 1.0.6. Nothing here was tried against the vendor's
//! own server.
//!
//! It is a login of our own, by a device code: Nexus neither reads nor writes the program's login. If two
//! parties hold a refresh token, it is invalid for one of them after the first refresh, and the program deletes
//! its login then.
//!
//! Left out are `referrer=grok-build` and the headers `x-grok-client-version` and `x-grok-client-surface`, by
//! which the vendor's program identifies itself; it is unknown if the issuer wants them. Sign-in by a browser
//! is left out as well: the vendor's program asks the issuer for the page. The issuer has no known endpoint to
//! revoke a login: the program's own logout only deletes its file.
//!
//! The program takes `invalid_grant` and `invalid_client` for the end of a login, which are final at every
//! issuer. It is not known to take another code or a plain 401 for it. So nothing of the kind is set here.

use std::collections::BTreeMap;

use nexus_auth::{DeviceFlow, IdentityClaims, Issuer, SignInMethod};

use crate::own_login::OwnLogin;

/// The login of a SuperGrok plan, for both backends of this vendor.
pub const LOGIN: OwnLogin = OwnLogin {
    word: "grok",
    file_name: "grok-build",
    plan: "A subscription of xAI's",
    host: "cli-chat-proxy.grok.com",
    remedy: "run `nexus login grok`, or name a token as `credential`",
    used_by: "grok-cli and grok-sub-token",
    method: SignInMethod::DeviceCode,
    issuer,
};

/// The issuer of Grok logins.
fn issuer() -> Issuer {
    Issuer::new("https://auth.x.ai", "b1a00492-073a-47ea-816f-4c329264a828")
        .with_oauth_scopes([
            "openid",
            "profile",
            "email",
            "offline_access",
            "grok-cli:access",
            "api:access",
            "conversations:read",
            "conversations:write",
            "workspaces:read",
            "workspaces:write",
        ])
        .with_token_endpoint("/oauth2/token")
        .with_device_flow(DeviceFlow::Standard {
            endpoint: "/oauth2/device/code".into(),
            parameters: BTreeMap::new(),
        })
        .with_refresh_claims(["principal_type", "principal_id"])
        .with_identity(IdentityClaims::default().with_account(["sub"]).with_email(["email"]))
}
