//! The login `grok-build`: a SuperGrok plan, through the client registration of the vendor's program.
//!
//! Source: requests of grok 1.0.41, and its public source at 1.0.6. Nothing here was tested against the vendor's own
//! server.
//!
//! Nexus has its own login through a device code, and neither reads nor writes the program's login. If two programs
//! shared a refresh token, the first refresh would invalidate it for the other, and the vendor's program then deletes
//! its login.
//!
//! The requests omit `referrer=grok-build` and the headers `x-grok-client-version` and `x-grok-client-surface`, with
//! which the vendor's program identifies itself. It is unknown if the issuer requires them. Sign-in through a browser
//! is not supported, because the vendor's program requests the page's address from the issuer. The issuer has no known
//! endpoint for revocation; the program's own logout only deletes its file.
//!
//! The program treats `invalid_grant` and `invalid_client` as the end of a login, which are final at every issuer. It
//! is not known to treat another code or a plain 401 so. No further codes are set here.

use std::collections::BTreeMap;

use nexus_auth::{DeviceFlow, IdentityClaims, Issuer, SignInMethod};

use crate::own_login::OwnLogin;

/// Login of a SuperGrok plan, for both backends of this vendor.
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

/// Returns the issuer of Grok logins.
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
