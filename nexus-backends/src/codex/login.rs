//! The login `openai-codex`: a ChatGPT plan, by the registration of the vendor's program.
//!
//! Source: requests of codex 0.169.0, and its public source. Nothing here was tried against the vendor's own server.
//!
//! We go by our own name: `originator` is `nexus`, where the vendor's program says `codex_cli_rs`. Whether the page
//! where a person says yes takes another originator than its own is unknown.
//!
//! The two scopes of connectors (`api.connectors.read`, `api.connectors.invoke`) that 0.169.0 asks for as well are left
//! out: no backend of ours uses connectors, and earlier versions asked without them.
//!
//! The vendor's program takes every 401 of the token endpoint for the end of the login, and so do we where a JSON object
//! came with it, whatever its code: the issuer may have codes that nobody told us of, and a refresh token that it
//! calls unknown is not to be presented again and again. A 401 without one is not the issuer's, which answers in JSON:
//! a proxy or a firewall that breaks TLS open answers like that, and its word ends no login here.

use nexus_auth::{
    DeviceFlow, IdentityClaims, Issuer, PlainUnauthorized, Redirect, RevocationStyle, SignInMethod,
};

use crate::own_login::OwnLogin;

/// The claim under which OpenAI says what account and plan a token is for.
const AUTH: &str = "https://api.openai.com/auth";
/// The claim under which an access token says who the person is.
const PROFILE: &str = "https://api.openai.com/profile";

/// The login of a ChatGPT plan, for both backends of this vendor.
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

/// The issuer of ChatGPT logins.
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
        // Source: observed with codex 0.169.0, which takes these, beside `invalid_grant`, for the end.
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
