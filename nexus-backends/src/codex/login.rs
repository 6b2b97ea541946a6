//! The login `openai-codex`: a ChatGPT plan, through the client registration of the vendor's program.
//!
//! Source: requests of codex 0.169.0, and its public source. Nothing here was tested against the vendor's own server.
//!
//! Requests identify themselves as Nexus: `originator` is `nexus`, where the vendor's program sends `codex_cli_rs`. It
//! is unknown if the consent page accepts an originator other than the vendor's.
//!
//! Version 0.169.0 also requests two scopes of connectors (`api.connectors.read`, `api.connectors.invoke`). They are
//! omitted: no Nexus backend uses connectors, and earlier versions did not request them.
//!
//! The vendor's program treats every 401 of the token endpoint as the end of the login. Nexus does the same if the
//! response has a JSON object, with any code. The issuer may have undocumented codes, and a refresh token that it
//! rejects must not be presented again and again. A 401 without a JSON object does not come from the issuer, which
//! answers in JSON. A proxy or a firewall that intercepts TLS may send it, so it does not end the login.

use nexus_auth::{
    DeviceFlow, IdentityClaims, Issuer, PlainUnauthorized, Redirect, RevocationStyle, SignInMethod,
};

use crate::own_login::OwnLogin;

/// Claim that contains the account and the plan of a token.
const AUTH: &str = "https://api.openai.com/auth";
/// Claim of an access token that identifies the person.
const PROFILE: &str = "https://api.openai.com/profile";

/// Login of a ChatGPT plan, for both backends that use the Codex endpoint.
pub const LOGIN: OwnLogin = OwnLogin {
    word: "codex",
    file_name: "openai-codex",
    plan: "A ChatGPT plan, as the Codex program uses it",
    host: "chatgpt.com",
    remedy: "run `nexus login codex`, or name a token and its account as `credential`",
    used_by: "codex-cli and codex-sub-token",
    method: SignInMethod::Browser,
    issuer,
};

/// Returns the issuer of ChatGPT logins.
fn issuer() -> Issuer {
    Issuer::new("https://auth.openai.com", "app_EMoamEEZ73f0CkXaXp7hrann")
        .with_oauth_scopes(["openid", "profile", "email", "offline_access"])
        .with_authorize_endpoint("/oauth/authorize")
        .with_token_endpoint("/oauth/token")
        .with_redirect(Redirect::new([1455, 1457], "/auth/callback"))
        .with_authorize_parameter("id_token_add_organizations", "true")
        .with_authorize_parameter("codex_cli_simplified_flow", "true")
        .with_authorize_parameter("originator", "nexus")
        .with_device_flow(DeviceFlow::CodeWithVerifier {
            endpoint: "/api/accounts/deviceauth/usercode".into(),
            poll_endpoint: "/api/accounts/deviceauth/token".into(),
            page: "/codex/device".into(),
            redirect: "/deviceauth/callback".into(),
        })
        // Source: observed with codex 0.169.0, which treats these codes and `invalid_grant` as the end of the login.
        .with_final_codes(["refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated"])
        .with_plain_unauthorized(PlainUnauthorized::Final)
        .with_revocation(RevocationStyle::Json { endpoint: "/oauth/revoke".into() })
        .with_identity(
            IdentityClaims::default()
                .with_account([AUTH, "chatgpt_account_id"])
                .with_plan([AUTH, "chatgpt_plan_type"])
                .with_email(["email"])
                .with_email([PROFILE, "email"]),
        )
}
