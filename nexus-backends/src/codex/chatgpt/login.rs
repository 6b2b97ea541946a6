//! The login `openai-chatgpt`: a ChatGPT plan, as OpenAI offers it to open-source programs that run on the person's
//! machine.
//!
//! Source: developers.openai.com, "Sign in with ChatGPT", the pages on open-source apps (`token-sharing-open-source`):
//! registration and sign-in, accounts and sessions, token reference, errors and recovery. Nothing here was tested
//! against the vendor's own server.
//!
//! The first sign-in registers a client for the person under the name `nexus`, which they may change. They see the
//! client in the settings of ChatGPT, where they set how much of their plan it may use. A client is bound to an account
//! and a workspace. Logging out ends the session and retains the client, so the next sign-in uses the same client.
//!
//! Two optional features are omitted. `id_token_hint` and `login_hint` would spare a returning person the choice of an
//! account, but need a stored ID token. The token endpoint returns `earliest_refresh_at`, but its meaning is not
//! documented, so it is ignored.

use nexus_auth::{IdentityClaims, Issuer, Redirect, RevocationStyle, SignInMethod, SignInRegistration};

use crate::native::bearer::OUR_NAME;
use crate::own_login::OwnLogin;

/// Scope for spending the plan. A person may sign in without granting it.
const PLAN_SCOPE: &str = "chatgpt.tokens.use.direct";

/// The login of a ChatGPT plan at the public API.
pub const LOGIN: OwnLogin = OwnLogin {
    word: "chatgpt",
    file_name: "openai-chatgpt",
    plan: "A ChatGPT plan, as OpenAI offers it to open-source programs",
    host: "api.openai.com",
    remedy: "run `nexus login chatgpt`, or name a token as `credential`",
    used_by: "chatgpt-sub-token, and codex-cli with `login: chatgpt`",
    method: SignInMethod::Browser,
    issuer,
};

/// Returns the issuer, without a registered client.
fn issuer() -> Issuer {
    Issuer::new("https://auth.openai.com", "dynamic_agent_client")
        .with_registration(SignInRegistration::new(OUR_NAME, "agent_name_hint", "ext_agent_host_id"))
        .with_oauth_scopes(["openid", "profile", "email", "offline_access", "resource.invoke", PLAN_SCOPE])
        .with_required_scopes([PLAN_SCOPE])
        .with_resource("https://api.openai.com/v1")
        .with_authorize_endpoint("/api/accounts/authorize")
        .with_token_endpoint("/api/accounts/oauth/token")
        .with_discovery_endpoint("/.well-known/openid-configuration")
        // The registration fixes the path, but not the port.
        .with_redirect(Redirect::new([1455, 0], "/auth/callback"))
        .with_revocation(RevocationStyle::Discovered)
        .with_final_codes([
            "invalid_refresh_token",
            "token_expired",
            "refresh_token_expired",
            "refresh_token_invalidated",
            "refresh_token_reused",
        ])
        // Neither token contains an account id or a plan.
        .with_identity(IdentityClaims::default().with_email(["email"]))
}
