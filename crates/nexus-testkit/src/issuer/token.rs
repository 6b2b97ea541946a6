//! The token endpoint, and the revocation endpoint.

use serde_json::{Map, Value, json};

use super::device;
use super::fault::Fault;
use super::fields::Fields;
use super::log::{Outcome, RequestKind};
use super::reply::{Manner, Reply};
use super::state::{Bad, State, challenge_of};
use super::tokens::Tokens;

/// The grant type of RFC 8628.
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Returns the purpose of a request to the token endpoint.
pub(super) fn kind(asked: &Fields) -> RequestKind {
    match asked.value("grant_type") {
        Some("authorization_code") => RequestKind::CodeExchange,
        Some("refresh_token") => RequestKind::Refresh,
        Some(DEVICE_GRANT) => RequestKind::DevicePoll,
        _ => RequestKind::Unknown,
    }
}

/// Answers a request to the token endpoint.
pub(super) fn answer(
    state: &mut State,
    url: &str,
    manner: Manner,
    asked: &Fields,
    fault: Option<&Fault>,
) -> Reply {
    let client_id = asked.value("client_id").unwrap_or_default();
    if client_id.is_empty() || !state.knows_client(client_id) {
        return Reply::refusal(manner, "invalid_client", "no client of this name is known");
    }
    match kind(asked) {
        RequestKind::CodeExchange => redeem(state, url, manner, asked, fault),
        RequestKind::Refresh => refresh(state, url, manner, asked, fault),
        RequestKind::DevicePoll => match device::poll(state, manner, asked) {
            Ok(family) => granted(&state.mint(url, family, None, fault)),
            Err(refusal) => *refusal,
        },
        _ => Reply::refusal(manner, "unsupported_grant_type", "no such grant type"),
    }
}

fn redeem(state: &mut State, url: &str, manner: Manner, asked: &Fields, fault: Option<&Fault>) -> Reply {
    let refuse = |words: &str| Reply::refusal(manner, "invalid_grant", words);
    let life = state.rules.code_life;
    let Some(code) = asked.value("code").and_then(|code| state.codes.get_mut(code)) else {
        return refuse("the code is unknown");
    };
    if let Some(family) = code.redeemed {
        // A second use shows that the code was stolen: RFC 6749, 4.1.2.
        state.end(family);
        return refuse("the code was redeemed before").presenting(Some((family, 0))).reused();
    }
    if code.made_at.elapsed() >= life {
        return refuse("the code is too old");
    }
    if Some(code.client_id.as_str()) != asked.value("client_id") {
        return refuse("the code is another client's");
    }
    if Some(code.redirect_uri.as_str()) != asked.value("redirect_uri") {
        return refuse("the redirect URI differs from the one in the code's request");
    }
    if code.resource.as_deref() != asked.value("resource") {
        return refuse("the resource differs from the one in the code's request");
    }
    let verifier = asked.value("code_verifier").unwrap_or_default();
    if !(43..=128).contains(&verifier.len()) || challenge_of(verifier) != code.challenge {
        return refuse("the verifier does not belong to the challenge");
    }
    let (client_id, oauth_scope) = (code.client_id.clone(), code.oauth_scope.clone());
    let (nonce, resource) = (code.nonce.clone(), code.resource.clone());
    let family = state.begin(&client_id, &oauth_scope, nonce, resource);
    // Only now, because a request that fails one of the checks above does not use up the code.
    if let Some(code) = asked.value("code").and_then(|code| state.codes.get_mut(code)) {
        code.redeemed = Some(family);
    }
    granted(&state.mint(url, family, None, fault))
}

fn refresh(state: &mut State, url: &str, manner: Manner, asked: &Fields, fault: Option<&Fault>) -> Reply {
    let client_id = asked.value("client_id").unwrap_or_default();
    let token = asked.value("refresh_token").unwrap_or_default();
    let presented = state.place_of(token).map(|place| (place.family, place.generation));
    let kept = matches!(fault, Some(Fault::NoRotation | Fault::NoRefreshToken));
    let refuse = |openai: &str, words: &str| {
        let code = match manner {
            // RFC 6749 has one code for all of them.
            Manner::Standard => "invalid_grant",
            Manner::OpenAi => openai,
        };
        Reply::refusal(manner, code, words).presenting(presented)
    };
    match state.spend(token, client_id, asked.value("resource"), kept) {
        Err(Bad::Elsewhere) => refuse("invalid_target", "the refresh token is for another resource"),
        Err(Bad::Unknown) => refuse("invalid_grant", "the refresh token is unknown"),
        Err(Bad::Over) => refuse("refresh_token_invalidated", "the login is over"),
        Err(Bad::Reused) => {
            refuse("refresh_token_reused", "your refresh token was already used; log in again").reused()
        }
        Ok(family) => granted(&state.mint(url, family, kept.then_some(token), fault)).presenting(presented),
    }
}

fn granted(tokens: &Tokens) -> Reply {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.into(), value);
        }
    };
    put("token_type", Some(json!("Bearer")));
    put("access_token", Some(tokens.access_token.expose().into()));
    put("scope", Some(tokens.oauth_scope.as_str().into()));
    put("expires_in", tokens.expires_in.map(|life| life.as_secs().into()));
    put("id_token", tokens.id_token.as_ref().map(|token| token.expose().into()));
    put("refresh_token", tokens.refresh_token.as_ref().map(|token| token.expose().into()));
    let outcome = Outcome::Granted { family: tokens.family, generation: tokens.generation };
    Reply::json(200, &Value::Object(body)).with_outcome(outcome)
}

/// Ends a login by any of its tokens. An unknown token counts as success: RFC 7009, 2.2.
pub(super) fn revoke(state: &mut State, manner: Manner, asked: &Fields) -> Reply {
    let Some(token) = asked.value("token") else {
        return Reply::refusal(manner, "invalid_request", "no token was named");
    };
    let presented = state.place_of(token).map(|place| (place.family, place.generation));
    state.revoke(token);
    Reply::json(200, &json!({})).presenting(presented)
}
